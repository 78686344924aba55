"""Periods of time, and calendar arithmetic: days, weeks, seasons, quarters.

All datetimes here are naive, in the local time of the speaker; ``reader`` converts them to UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone

Moment = str | date  # words, a date, or a datetime
When = Moment | tuple[Moment | None, Moment | None]  # a query or a filter; None is an open end
Span = tuple[datetime, datetime]  # local and naive, half-open

OPEN_START = datetime.min.replace(tzinfo=timezone.utc)
OPEN_END = datetime.max.replace(tzinfo=timezone.utc)
MONTHS_IN = {"month": 1, "quarter": 3, "half": 6, "year": 12, "decade": 120, "century": 1200}
DAY = timedelta(days=1)
WEEKDAY_UNITS = {"week": (0, 7), "weekend": (5, 2)}  # first day after Monday, length in days


@dataclass(frozen=True)
class Period:
    """A period that a text names.

    Attributes:
        start: the first instant, UTC. ``OPEN_START`` without a start ("before June").
        end: the first instant after the period, UTC. ``OPEN_END`` without an end ("after June").
        expression: the words in the text.
        span: their position: ``text[span[0]:span[1]] == expression``.
        kind: the finest unit named ("day", "week", "month", ...), or "range", "since", "before", "after", "until".
        relative: whether it depends on now ("last week", "on Monday"), unlike a time of the calendar ("in July").
    """

    start: datetime
    end: datetime
    expression: str
    span: tuple[int, int]
    kind: str
    relative: bool = False

    @property
    def open(self) -> bool:
        """Whether it has no start, or no end."""
        return self.start <= OPEN_START or self.end >= OPEN_END

    @property
    def meaning(self) -> str:
        """The first and last day or minute in UTC, for example ``2023-07-01 to 2023-07-31``."""
        days = all(at == midnight(at) for at in (self.start, self.end) if at not in (OPEN_START, OPEN_END))
        form = "%Y-%m-%d" if days else "%Y-%m-%d %H:%M"
        first = None if self.start <= OPEN_START else format(self.start, form)
        last = None if self.end >= OPEN_END else format(self.end - DAY if days else self.end, form)
        if first is None or last is None:
            return f"until {last}" if first is None else f"from {first}"
        return first if first == last else f"{first} to {last}"

    def __str__(self) -> str:
        """The form that is shown as evidence: ``"July 2023" -> 2023-07-01 to 2023-07-31``."""
        return f'"{self.expression}" -> {self.meaning}'


def midnight(at: datetime) -> datetime:
    """Returns the start of the day."""
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def months_later(at: datetime, count: int) -> datetime:
    """Returns the day this many months later, or the last of that month; raises ValueError outside years 1 to 9999."""
    total = at.year * 12 + at.month - 1 + count
    year, month = divmod(total, 12)
    first = datetime(year, month + 1, 1, at.hour, at.minute, at.second)
    following = datetime(year + (month == 11), (month + 1) % 12 + 1, 1)
    return first + timedelta(days=min(at.day, (following - midnight(first)).days) - 1)


def unit_at(unit: str, at: datetime) -> Span:
    """Returns the calendar unit of an instant. Weeks begin on Monday, centuries in the year 1."""
    if unit == "hour":
        start = at.replace(minute=0, second=0, microsecond=0)
        return start, start + timedelta(hours=1)
    if unit == "minute":
        start = at.replace(second=0, microsecond=0)
        return start, start + timedelta(minutes=1)
    day = midnight(at)
    if unit == "day":
        return day, day + DAY
    if unit in WEEKDAY_UNITS:
        first, length = WEEKDAY_UNITS[unit]
        start = day + timedelta(days=first - day.weekday())
        return start, start + timedelta(days=length)
    if unit == "century":
        start = datetime((day.year - 1) // 100 * 100 + 1, 1, 1)
    elif unit == "decade":
        start = datetime(max(1, day.year // 10 * 10), 1, 1)
    elif unit == "year":
        start = datetime(day.year, 1, 1)
    else:
        length = MONTHS_IN[unit]
        start = datetime(day.year, (day.month - 1) // length * length + 1, 1)
    return start, months_later(start, MONTHS_IN[unit])


def moved(at: datetime, unit: str, count: float) -> datetime:
    """Returns an instant this many units later (earlier for a negative count)."""
    if unit in MONTHS_IN:
        return months_later(at, round(MONTHS_IN[unit] * count))
    length = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": DAY}.get(unit, 7 * DAY)
    return at + length * count


def weekend(now: datetime, which: int) -> Span:
    """Returns the weekend of this week (0), the last week (-1), or the next week (1)."""
    start, end = unit_at("weekend", now)
    return start + which * 7 * DAY, end + which * 7 * DAY


def third(span: Span, phase: str) -> Span:
    """Returns the part of a month, a quarter or a year for "early", "mid", "late", "beginning" or "end".

    Early, middle and late are thirds (of a month: days 1 to 10, 11 to 20, the rest); the beginning and the end of
    a month are its first and last seven days, of a year its first and last two months.
    """
    start, end = span
    days = (end - start).days
    if phase in ("begin", "end"):
        if days <= 7:
            return (start, start + 2 * DAY) if phase == "begin" else (end - 2 * DAY, end)
        if days <= 31:
            return (start, start + 7 * DAY) if phase == "begin" else (end - 7 * DAY, end)
        months = 2 if days > 300 else 1
        return (start, months_later(start, months)) if phase == "begin" else (months_later(end, -months), end)
    if days <= 31:
        step = 10 if days > 7 else 2
        first, second = start + step * DAY, start + 2 * step * DAY
    else:
        length = round(days / 30.4 / 3)
        first, second = months_later(start, length), months_later(start, 2 * length)
    return {"early": (start, first), "mid": (first, second), "late": (second, end)}[phase]


def nth_weekday(year: int, month: int, weekday: int, nth: int) -> Span | None:
    """Returns the nth given weekday (Monday is 0) of a month; -1 is the last."""
    start, end = unit_at("month", datetime(year, month, 1))
    if nth > 0:
        day = start + timedelta(days=(weekday - start.weekday()) % 7 + 7 * (nth - 1))
    else:
        day = end - DAY - timedelta(days=(end.weekday() - 1 - weekday) % 7)
    return (day, day + DAY) if start <= day < end else None


def season_of(year: int, season: int) -> Span:
    """Returns the meteorological season of the northern hemisphere: 0 is spring (March to May), 3 winter."""
    start = datetime(year, 3 * season + 3, 1)
    return start, months_later(start, 3)


def occurrence(of: Callable[[int], Span | None], anchor: datetime, future: bool, over: bool = False) -> Span | None:
    """Chooses an annual occurrence: the latest that begins by ``anchor``, or the first that ends after it.

    Args:
        of: returns the span in a year; None if the year has no such span (29 February).
        anchor: the reference instant.
        future: choose the first span that ends after the anchor.
        over: choose the latest span that has ended by the anchor ("last summer").
    """
    years = range(anchor.year - 1, anchor.year + 9) if future else range(anchor.year + 1, anchor.year - 9, -1)
    for year in years:
        if not 1 < year < 9998:
            continue
        span = of(year)
        if span is None:
            continue
        if (span[1] > anchor) if future else (span[1] <= anchor if over else span[0] <= anchor):
            return span
    return None
