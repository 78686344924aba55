"""Times beside other times: "two days before Christmas", "the Sunday before 25 May", "the 9:30 call last Monday"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pam_retriever.timewords.hours import AT, PART, part_of, timed
from pam_retriever.timewords.lexicon import Token
from pam_retriever.timewords.match import Atom, Match
from pam_retriever.timewords.periods import DAY, Span, midnight, moved, unit_at

if TYPE_CHECKING:
    from pam_retriever.timewords.joining import Joiner

_SHIFT = re.compile(r"(?:(?P<count>[NtwL])?(?P<unit>U)|L?t?(?P<weekday>W)|(?P<part>P))(?P<side>[Baof])t?$")
_DAYS = frozenset(["day", "range", "minute", "hour"])
_CALENDAR = frozenset(["week", "weekend", "month", "quarter", "season", "year", "part of month"])


def shifted(joiner: Joiner, atom: Atom) -> tuple[int, Span, str] | None:
    """Reads "two days before Christmas", "the Sunday before 25 May", "the week of 10 May"."""
    tokens = joiner.tokens
    if atom.kind not in _DAYS | _CALENDAR:
        return None
    matched = _SHIFT.search(joiner.codes, max(0, atom.first - 5), atom.first)
    span = joiner.resolve(atom)
    if matched is None or span is None or matched.end() != atom.first:
        return None
    side = matched["side"]
    if side == "f" and joiner.context.language in ("de", "fr"):
        side = "o"  # "die Woche vom 12. Juli"
    if side == "f":
        return _from_day(joiner, matched, span)
    if side == "o" and atom.kind not in _DAYS:
        return None
    try:
        if matched["weekday"]:
            number = int(tokens[matched.start("weekday")].value)
            return None if side == "o" else (matched.start(), _weekday_beside(span, number, side), "day")
        if matched["part"]:  # "the night before Christmas"
            day = span[0] - DAY if side == "B" else span[1]
            part = str(tokens[matched.start("part")].value)
            return None if side == "o" else (matched.start(), part_of(midnight(day), part), "part of day")
        return _unit_beside(joiner, matched, span, side)
    except (ValueError, OverflowError):  # outside the years 1 to 9999
        return None


def _from_day(joiner: Joiner, matched: re.Match[str], span: Span) -> tuple[int, Span, str] | None:
    """Reads "for ten days from 18 December"."""
    first = matched.start()
    if not joiner.codes[:first].endswith("r") or matched["count"] not in ("N", "t") or not matched["unit"]:
        return None
    counted, unit = joiner.tokens[first], str(joiner.tokens[matched.start("unit")].value)
    count = int(counted.value) if counted.code == "N" else 1
    return first, (span[0], moved(span[0], unit, count)), "range"


def _unit_beside(joiner: Joiner, matched: re.Match[str], span: Span, side: str) -> tuple[int, Span, str] | None:
    """Reads "two days before Christmas" as that day, "the two days before Christmas", "the week of 10 May"."""
    first, token = matched.start(), joiner.tokens[matched.start("unit")]
    unit = str(token.value)
    if unit in ("hour", "minute") and matched["count"] is None:
        return None  # "emails to hr before 10 May"
    counted = joiner.tokens[matched.start("count")] if matched["count"] else None
    if side == "o" and counted is not None and counted.code == "N":  # "the 18 months ending 30 June"
        ending = joiner.tokens[matched.start("side")].text.lower() in ("ending", "ended")
        return (first, (moved(span[1], unit, -int(counted.value)), span[1]), "range") if ending else None
    if side == "o":
        if unit == "day" and counted is None:
            return first, span, "day"  # "le jour de Noël"
        return (first, unit_at(unit, span[0]), unit) if unit in ("week", "weekend", "month") else None
    if counted is not None and counted.code == "N" and joiner.codes[:first].endswith("t"):
        count = int(counted.value)
        whole = (moved(span[0], unit, -count), span[0]) if side == "B" else (span[1], moved(span[1], unit, count))
        return first, whole, "range"
    several = joiner.context.language == "en" and token.text.lower().endswith("s")
    return first, _units_beside(span, unit, side == "B", counted, several), unit


_BEFORE = re.compile(
    r"(?:(?<=t)|(?<![hgaBuqbfsR&t]))Cu?[xZ]{1,4}[nhio]?t?$|(?<![&ufBabqsR])[hgaBq]C,?[nio]?t?$|n?t?P[on]n?t?$"
)
_BEHIND = re.compile(f"{PART}?,?{AT}|{PART}")


def at_clock(joiner: Joiner, atom: Atom) -> tuple[int, int, Span, str] | None:
    """Reads a day with a time of day: "the 9:30 meeting last Monday", "the evening of the day after Christmas".

    Returns:
        The first and the last token, the span and its kind.
    """
    if atom.kind != "day":
        return None
    before = _BEFORE.search(joiner.codes, max(0, atom.first - 8), atom.first)
    behind = _BEHIND.match(joiner.codes, atom.last + 1)
    first = atom.first if before is None else before.start()
    last = atom.last if behind is None else behind.end() - 1
    clock = [token for token in joiner.tokens[first : atom.first] if token.code in "CPaBq"]
    clock += joiner.tokens[atom.last + 1 : last + 1]
    day = joiner.resolve(atom) if clock else None
    if day is None or day[1] - day[0] != DAY:
        return None
    span, kind = timed(Match(clock, 0, len(clock) - 1, joiner.context), day, "day")
    return None if span is None or kind == "day" else (first, last, span, kind)


def _weekday_beside(span: Span, number: int, side: str) -> Span:
    """Returns the last given weekday (Monday is 0) before a span, or the first after its first day."""
    ahead = (number - span[0].weekday()) % 7
    day = midnight(span[0]) + (((-ahead % 7) or 7) * -1 if side == "B" else (ahead or 7)) * DAY
    return day, day + DAY


def _units_beside(span: Span, unit: str, before: bool, counted: Token | None, several: bool) -> Span:
    """Returns the weekend, day, seven days or month before or after a span, or a span this many units away.

    "A few days" are two to five, and "the days" one to five.
    """
    start, end = span
    if unit == "weekend":
        first, last = unit_at("weekend", start)
        while before and last > start:
            first, last = first - 7 * DAY, last - 7 * DAY
        while not before and first < end:
            first, last = first + 7 * DAY, last + 7 * DAY
        return first, last
    few = counted is not None and counted.code == "w" and counted.value == 1
    if few or (several and (counted is None or counted.code == "t")):
        if before:
            return moved(start, unit, -5), moved(start, unit, -int(few))
        return moved(end, unit, int(few)), moved(end, unit, 5)
    if counted is not None and counted.code in "Nw":
        count = int(counted.value) if counted.code == "N" else 2
        return unit_at(unit, moved(start, unit, -count if before else count))
    return (moved(start, unit, -1), start) if before else (end, moved(end, unit, 1))
