"""Parses ``when=`` of a recall: words, a datetime, a date, or a pair of them."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone, tzinfo

from pam_retriever.errors import InvalidInput, counted
from pam_retriever.timewords.periods import OPEN_END, OPEN_START, Moment, Period, When
from pam_retriever.timewords.reader import local_time, read_question, to_utc

_EXPECTED = 'words ("last week", "July 2023"), a datetime, a date, or a pair (start, end) of them'
_FRONTS = {"en": ("in ", "on "), "de": ("im ", "am "), "fr": ("en ", "à ", "le "), "es": ("en ", "el "), "zh": ("",)}


_STOP = re.compile(r"(?<=[^\W\d])\.$")  # of "Fri."
_ARTICLE = re.compile("(?:the|der|die|das|den|le|la|el|los|las) ", re.IGNORECASE)


def read_when(value: When, now: datetime | None = None) -> tuple[datetime, datetime]:
    """Returns the half-open interval in UTC that ``when=`` means.

    Args:
        value: words that name one period; a date for its day; a datetime for its second; or a pair of start and end,
            None for an open end. If the end is a date or words, the whole day or period is included; a datetime is not
            included.
        now: the time to which the words refer; the clock by default. Naive datetimes and dates are in its zone. A naive
            ``now`` is UTC.

    Returns:
        Start and end, UTC; ``OPEN_START`` and ``OPEN_END`` for open ends.

    Raises:
        InvalidInput: the words name no period or several, the end is before the start, or the type is wrong.
    """
    if isinstance(value, tuple):
        return _pair(value, now)
    return _moment(value, now)


def _pair(value: tuple[Moment | None, Moment | None], now: datetime | None) -> tuple[datetime, datetime]:
    if len(value) != 2:
        raise InvalidInput(
            f"Got when= of {counted(len(value), 'value')}.", "a pair (start, end)", "Give None for an open end."
        )
    first, last = value
    if first is None and last is None:
        raise InvalidInput("Got when=(None, None).", "a start or an end", "Leave when= out for all times.")
    start = OPEN_START if first is None else _moment(first, now)[0]
    if last is None:
        end = OPEN_END
    elif isinstance(last, datetime):
        end = _utc(last, local_time(now)[1])
    else:
        end = _moment(last, now)[1]
    if start >= end and isinstance(first, str) and isinstance(last, str):
        found = _bare(f"{first} – {last}", now)  # ("May", "June"), asked in May
        start, end = (found[0].start, found[0].end) if len(found) == 1 else (start, end)
    if start >= end:
        raise InvalidInput(f"Got when= from {start} to {end}.", "a start before the end", "Exchange them, or widen it.")
    return start, end


def _moment(value: Moment, now: datetime | None) -> tuple[datetime, datetime]:
    zone = local_time(now)[1]
    if isinstance(value, str):
        return _words(value, now)
    if isinstance(value, datetime):
        start = _utc(value, zone).replace(microsecond=0)
        return start, _later(start, timedelta(seconds=1))
    if isinstance(value, date):
        day = datetime(value.year, value.month, value.day)
        return to_utc(day, zone), to_utc(_later(day, timedelta(days=1)), zone)
    raise InvalidInput(
        f"Got when={value!r}, a {type(value).__name__}.",
        _EXPECTED,
        "Numbers are for an index whose timestamps are numbers.",
    )


def _later(at: datetime, by: timedelta) -> datetime:
    try:
        return at + by
    except OverflowError:
        return datetime.max.replace(tzinfo=at.tzinfo)


def _utc(at: datetime, zone: tzinfo) -> datetime:
    return to_utc(at, zone) if at.tzinfo is None else to_utc(at.replace(tzinfo=None), at.tzinfo)


def _words(value: str, now: datetime | None) -> tuple[datetime, datetime]:
    found = read_question(value, now) or _bare(value, now)
    if not found:
        raise InvalidInput(f"Got when={value[:80]!r}, which names no time.", _EXPECTED, "Say it in other words.")
    if len(found) > 1:
        times = ", ".join(repr(period.expression) for period in found[:4])
        got = f"Got when={value[:80]!r}, which names several times: {times}."
        raise InvalidInput(got, "one", "Ask for each of them.")
    return found[0].start.astimezone(timezone.utc), found[0].end.astimezone(timezone.utc)


def _bare(value: str, now: datetime | None) -> list[Period]:
    """Reads words alone that would need a preposition in a question ("2022", "July", "Christmas")."""
    value = _STOP.sub("", value.strip())
    bare = _ARTICLE.sub("", value)
    for language, fronts in _FRONTS.items():
        for front in fronts:
            found = read_question(front + value, now, language=language)
            if found and sum(len(period.expression) for period in found) >= len(bare):
                return found
    return []
