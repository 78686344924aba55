"""Rules for counted parts of the calendar: weeks of the year, quarters, halves, and days or weeks of a month."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pam_retriever.timewords.match import Atom, Match, day_in, in_year, timed, year_of
from pam_retriever.timewords.periods import DAY, Span, midnight, months_later, moved, nth_weekday, unit_at

_FIRST_WEEK = 10  # without a year; "week 3" is one of a course


def numbered_week(match: Match) -> Atom | None:
    """Reads "week 7 of 2024", "in week 38" and German "KW 7": weeks by ISO 8601."""
    number, following = match.number("N"), match.next()
    if match.word("U") != "week" or not 1 <= number <= 53:
        return None
    named, alone = match.token("U").text.lower(), not match.has("Y")
    german = named in ("kw", "kalenderwoche")
    if alone and not german:
        of_course = following is not None and following.code in "oi"
        if number < _FIRST_WEEK or of_course or named not in ("week", "semaine", "semana"):
            return None

    def of(year: int) -> Span | None:
        try:
            start = datetime.fromisocalendar(year, number, 1)
        except ValueError:  # a year without a 53rd week
            return None
        return start, start + 7 * DAY

    return in_year(match, of, "week", weak=alone and not german)


def numbered_century(match: Match) -> Atom | None:
    """Reads "the 19th century"."""
    number = match.number("O")
    if match.word("U") != "century" or not 1 <= number <= 30:
        return None
    return match.fixed(unit_at("century", datetime(100 * (number - 1) + 1, 1, 1)), "century")


def nth_in_month(match: Match) -> Atom | None:
    """Reads "the first week of May", "the last Friday of June", "the second week of last month"."""
    nth = -1 if match.has("L") and not match.has("O") else match.number("O")
    count = match.number("N") if match.has("N") else 1 if not match.has("w") else 5 if match.number("w") == 1 else 2
    if not 1 <= count <= 5 or (match.has("M") and match.token("M").weak):
        return None
    unit = "weekday" if match.has("W") else match.word("U", -1 if match.context.language == "zh" else 0)

    def of(start: datetime) -> Span | None:
        end = months_later(start, 1)
        if unit == "weekday":
            return nth_weekday(start.year, start.month, match.number("W"), nth)
        if unit == "weekend":
            saturday = nth_weekday(start.year, start.month, 5, nth)
            return saturday and (saturday[0], saturday[0] + 2 * DAY)
        if unit == "half":
            return (start, start + 15 * DAY) if nth == 1 else (start + 15 * DAY, end) if nth in (2, -1) else None
        one = DAY if unit == "day" else 7 * DAY
        first = start + (nth - 1) * one if nth > 0 else end - count * one
        return (max(first, start), first + count * one) if first < end else None

    kind = "day" if unit == "weekday" else unit
    if unit not in ("week", "weekend", "weekday", "day", "half"):
        return None
    if match.has("M"):
        number = match.number("M")
        return in_year(match, lambda y: of(datetime(y, number, 1)), kind)
    month = _month_named(match)
    return None if month is None else match.fixed(_begun(match, of, month), kind)


def _month_named(match: Match) -> datetime | None:
    """Returns the first day of the month that a match ends (in Chinese begins) with: "last month", "the month"."""
    leads = match.tokens[match.first].code in "LXT" and match.tokens[match.first + 1].code == "U"
    at = match.first + 1 if leads and match.context.language == "zh" else match.last
    unit, beside = match.tokens[at], match.tokens[at - 1]
    if unit.code != "U":
        unit, beside = beside, unit
    if unit.value != "month" or unit.text.lower() in ("months", "monate", "meses"):
        return None
    step = {"L": -1, "X": 1}.get(beside.code, 0)
    return months_later(midnight(match.context.now).replace(day=1), step)


def _begun(match: Match, of: Callable[[datetime], Span | None], month: datetime) -> Span | None:
    """Returns the part of a month; that of the month before if it is "of the month" and has not begun."""
    span = of(month)
    plain = match.tokens[match.last].code == "U" and match.tokens[match.last - 1].code in "to"
    if plain and not match.context.future and (span is None or span[0] > match.context.now):
        return of(months_later(month, -1))
    return span


def day_of_that_month(match: Match) -> Atom | None:
    """Reads "the 9th of last month", "le 5 du mois dernier"."""
    if match.has("N") and match.context.language == "en":
        return None  # "5 of last month"
    number, month = match.number("O" if match.has("O") else "N"), _month_named(match)
    if month is None:
        return None
    return match.fixed(_begun(match, lambda first: day_in(first.year, first.month, number), month), "day")


def nth_in_year(match: Match) -> Atom | None:
    """Reads "the third quarter of 2023", "the first half of last year", "in the second quarter"."""
    units = [at for at in range(match.first, match.last + 1) if match.tokens[at].code == "U"]
    unit, whole = match.word("U"), str(match.tokens[units[-1]].value)
    if match.has("N") or match.has("w"):
        return _first_units(match, unit, whole)
    months = {"quarter": 3, "half": 6}.get(unit, 0)
    if not months or (len(units) > 1 and whole != "year"):
        return None
    nth = 12 // months if match.has("L") and not match.has("O") else match.number("O")
    if not 1 <= nth <= 12 // months:
        return None

    def of(y: int) -> Span:
        return unit_at(unit, datetime(y, months * (nth - 1) + 1, 1))

    if match.has("Y"):
        return match.fixed(of(match.number("Y")), unit)
    behind = {token.code for token in match.tokens[units[0] + 1 : match.last + 1]}
    if behind & set("LXT"):
        return match.fixed(of(match.context.now.year + (1 if "X" in behind else 0 if "T" in behind else -1)), unit)
    following = match.next()
    if len(units) == 1 and (
        match.token("U").text.lower() in ("half", "hälfte", "moitié", "mitad", "quincena", "quinzaine")
        or not match.has("O")
        or (following is not None and following.code == "o")
    ):
        return None  # "the first half" of a match, "the first quarter of the race"
    return match.yearly(of, unit, weak=len(units) == 1 and match.context.language == "en")


def _first_units(match: Match, unit: str, whole: str) -> Atom | None:
    """Reads "the first three months of this year", "the last two weeks of 2022"."""
    if unit not in ("day", "week", "month") or not (match.has("Y") or whole == "year"):
        return None
    count = match.number("N") if match.has("N") else 5 if match.number("w") == 1 else 2
    year = year_of(match) if match.has("Y") or match.tokens[match.last - 1].code in "LXT" else match.context.now.year
    if year is None or (match.has("O") and match.number("O") != 1):
        return None
    start, end = unit_at("year", datetime(year, 1, 1))
    span = (start, moved(start, unit, count)) if match.has("O") else (moved(end, unit, -count), end)
    return match.fixed(span, "range")


def day_of_month(match: Match) -> Atom | None:
    """Reads "on the 5th", "since the 5th", "the week of the 5th", "from the 3rd to the 7th", at the end of a clause."""
    number, following = match.number("O"), match.next()
    if following is not None and following.code not in ".,&":
        return None
    if not match.has("n") and not match.token("O").text[0].isdigit():
        return None  # "before the first"
    now, count = match.context.now, range(12)
    for back in count:
        first = months_later(midnight(now).replace(day=1), back if match.context.future else -back)
        span = day_in(first.year, first.month, number)
        if span is not None and ((span[1] > now) if match.context.future else (span[0] <= now)):
            if not match.has("f") and not match.has("b"):
                return match.fixed(*timed(match, span, "day"))  # "the morning of the 10th"
            end = day_in(first.year, first.month, match.number("O", 1))
            return match.fixed((span[0], end[1]), "range") if end and span[0] < end[0] else None
    return None
