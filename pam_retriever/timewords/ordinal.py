"""Rules for counted parts of the calendar: weeks of the year, quarters, halves, and days or weeks of a month."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from pam_retriever.timewords.hours import timed
from pam_retriever.timewords.match import Atom, Match, day_in, in_year, year_of
from pam_retriever.timewords.periods import (
    DAY,
    Span,
    midnight,
    months_later,
    moved,
    nth_weekday,
    occurrence,
    third,
    unit_at,
)
from pam_retriever.timewords.standing import begins_phrase, is_adverb

_FIRST_WEEK = 10  # without a year; "week 3" is one of a course


def numbered_week(match: Match) -> Atom | None:
    """Reads "week 7 of 2024", "in week 38" and German "KW 7": weeks by ISO 8601."""
    number, following = match.number("N" if match.has("N") else "O"), match.next()
    if match.word("U") != "week" or not 1 <= number <= 53:
        return None
    named, alone = match.token("U").text.lower(), not match.has("Y")
    certain = False
    german = named in ("kw", "kalenderwoche", "cw")
    chinese = match.context.language == "zh"  # "第42周"
    if match.has("O") and alone and not german and not chinese:
        return None  # "the third week", unlike "the third week of 2027"
    if alone and not german:
        of_course = following is not None and following.code in "oi"
        before = match.tokens[match.first - 1] if match.first else None
        certain = (
            chinese
            or is_adverb(match, named)
            or len(match.tokens) == 2
            or (before is not None and before.code == "t" and named != "week")
        )  # "la semaine 36"
        if number < _FIRST_WEEK or of_course or named not in ("week", "wk", "semaine", "semana", "周"):
            return None

    def of(year: int) -> Span | None:
        try:
            start = datetime.fromisocalendar(year, number, 1)
        except ValueError:  # a year without a 53rd week
            return None
        return start, start + 7 * DAY

    found = in_year(match, of, "week", weak=alone and not german and not certain)
    if found is None or not alone:
        return found
    return replace(found, resolve=lambda anchor, future: _just_over(of, anchor, future and match.context.ahead))


def _just_over(of: Callable[[int], Span | None], anchor: datetime, ahead: str | bool) -> Span | None:
    """Returns the week of the year: for a list of what to do, also one that ended in the last month."""
    last = occurrence(of, anchor, False) if ahead == "asked" else None
    return last if last and anchor - last[1] < 31 * DAY else occurrence(of, anchor, bool(ahead))


def numbered_weeks(match: Match) -> Atom | None:
    """Reads "weeks 48 to 50"."""
    first, last = match.number("N"), match.number("N", 1)
    if match.word("U") != "week" or not 1 <= first < last <= 53 or match.has("&"):
        return None

    def of(year: int) -> Span | None:
        try:
            return datetime.fromisocalendar(year, first, 1), datetime.fromisocalendar(year, last, 1) + 7 * DAY
        except ValueError:  # a year without a 53rd week
            return None

    return in_year(match, of, "range")


def numbered_century(match: Match) -> Atom | None:
    """Reads "the 19th century", "the late 19th century"."""
    number, following = match.number("O"), match.next()
    if match.word("U") != "century" or not 1 <= number <= 30:
        return None
    if match.token("U").text[0].isupper() and following is not None and following.code == "Z":
        return None  # "20th Century Fox"
    span = unit_at("century", datetime(100 * (number - 1) + 1, 1, 1))
    if match.has("v"):
        return match.fixed(third(span, match.word("v")), "part of century") if match.word("v") in _THIRDS else None
    return match.fixed(span, "century")


_THIRDS = ("early", "mid", "late")


def units_of_period(match: Match) -> Atom | None:
    """Reads Chinese "今年前三个月" and "上个月最后两天"."""
    whole, count, unit = match.word("U") if match.tokens[match.first].code != "Y" else "year", 0, match.word("U", -1)
    if match.context.language != "zh" or whole not in ("year", "month") or unit not in ("day", "week", "month"):
        return None
    count = match.number("N")
    now = match.context.now
    step = -match.number("L") if match.has("L") else match.number("X") if match.has("X") else 0
    at = datetime(match.number("Y"), 1, 1) if match.has("Y") else moved(unit_at(whole, now)[0], whole, step)
    start, end = unit_at(whole, at)
    if match.has("A"):
        return match.fixed((start, moved(start, unit, count)), "range")
    return match.fixed((moved(end, unit, -count), end), "range") if match.has("O") and match.number("O") < 0 else None


def half_of_decade(match: Match) -> Atom | None:
    """Reads "the first half of the 90s"."""
    if match.word("U") != "half" or match.number("O") not in (1, 2):
        return None
    start = datetime(match.number("K") + 5 * (match.number("O") - 1), 1, 1)
    return match.fixed((start, moved(start, "year", 5)), "part of decade")


# "the last days of June"
_SEVERAL = ("days", "weeks", "tage", "tagen", "wochen", "jours", "semaines", "días", "semanas")


def nth_in_month(match: Match) -> Atom | None:
    """Reads "the first week of May", "the last Friday of June", "the second week of last month"."""
    nth = -1 if match.has("L") and not match.has("O") else match.number("O")
    count = match.number("N") if match.has("N") else 1 if not match.has("w") else 5 if match.number("w") == 1 else 2
    if count == 1 and match.has("U") and match.token("U").text.lower() in _SEVERAL:
        count = 5 if match.word("U") == "day" else 2
    most = 31 if match.has("U") and match.word("U") == "day" else 5
    if not 1 <= count <= most or (match.has("M") and match.token("M").weak):
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
    english, chinese = (match.context.language == language for language in ("en", "zh"))
    if (match.has("N") and english) or (match.codes()[-1] == "O" and not chinese):
        return None  # "5 of last month", "this month first"
    if match.context.language != "de" and re.search("O[LXT]U", match.codes()):
        return None  # "am 15. letzten Monats"
    number, month = match.number("O" if match.has("O") else "N"), _month_named(match)
    if month is None:
        return None
    return match.fixed(_begun(match, lambda first: day_in(first.year, first.month, number), month), "day")


def days_of_that_month(match: Match) -> Atom | None:
    """Reads "from 4 to 22 this month", "between the 3rd and the 7th of last month", and "上个月3号到5号"."""
    first, last = (int(token.value) for token in match.tokens[match.first : match.last + 1] if token.code in "NO")
    month = _month_named(match)
    start = month and day_in(month.year, month.month, first)
    end = month and day_in(month.year, month.month, last)
    return match.fixed((start[0], end[1]), "range") if start and end and start[0] < end[0] else None


def nth_in_year(match: Match) -> Atom | None:
    """Reads "the third quarter of 2023", "the first half of last year", "in the second quarter"."""
    units = [at for at in range(match.first, match.last + 1) if match.tokens[at].code == "U"]
    unit, whole = match.word("U"), str(match.tokens[units[-1]].value)
    year_first = match.codes() in ("LUOU", "XUOU", "TUOU")  # "last year's first quarter"
    if year_first:
        unit, whole = whole, unit
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
    beside = {token.code for token in match.tokens[match.first if year_first else units[0] + 1 : match.last + 1]}
    if beside & set("LXT"):
        return match.fixed(of(match.context.now.year + (1 if "X" in beside else 0 if "T" in beside else -1)), unit)
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
    """Reads "on the 5th", "since the 5th", "the week of the 5th", "from the 3rd to the 7th", at the end of a clause.

    German ("am 3. gesagt") and Chinese ("5号的会议") days may stand anywhere. In "on the 3rd and the 4th" the second is
    a time if the first is.
    """
    token, following = match.token("O"), match.next()
    previous = match.tokens[match.first - 1] if match.first else None
    before = previous.code if previous is not None else ""
    german = token.text.endswith((".", "te", "ten")) and match.context.language == "de"
    chinese = token.text.endswith(("号", "日"))
    if following is None or following.code in ".,&" or (match.context.language == "en" and begins_phrase(match)):
        ends = True
    else:
        ends = following.text.islower() if german else chinese and following.text not in _NUMBERED
    if not ends:
        return None
    plain, listed = match.codes() in ("O", "tO"), bool(before) and before in "&,"
    of_week = "".join(one.code for one in match.tokens[max(0, match.first - 2) : match.first]) == "Uo"
    certain = (
        before in tuple("nfuhsaBq")
        if german
        else before in tuple("saqBu")
        or of_week
        or (before == "r" and match.context.future)
        or (before == "f" and token.text[0].isdigit() and (following is None or following.code in ".,"))
        or (before == "o" and match.context.language == "en" and (following is None or following.code != "u"))
    )
    governed = certain and (german or match.has("t"))
    if plain and not (chinese or listed or governed):
        return None
    in_words = not (token.text[0].isdigit() or chinese)
    doubtful = in_words and match.number("O") <= 20
    if match.codes() == "nO" and (doubtful or match.context.language != "en"):
        return None  # "on second thought"
    if doubtful and (not match.has("n") or match.number("O") > 5):
        return None  # "before the first", "on the ninth" of a hymn
    last = match.number("O", 1) if match.has("f") or match.has("b") else None
    span = _latest_day(match, match.number("O"), last)
    if span is None:
        return None
    span, kind = timed(match, span, "day") if last is None else (span, "range")  # "the morning of the 10th"
    if plain and listed:
        return match.atom(lambda _anchor, _future: span, kind, fixed=False, weak=True)
    return match.fixed(span, kind)


_NUMBERED = frozenset("线楼房室门馆店电位球桌机文人车")  # "5号线" is a line of the underground


def _latest_day(match: Match, number: int, last: int | None = None) -> Span | None:
    """Returns the latest such day of a month that has begun, or the days up to ``last``; the next if ahead."""
    now, future = match.context.now, match.context.future
    for back in range(12):
        first = months_later(midnight(now).replace(day=1), back if future else -back)
        span = day_in(first.year, first.month, number)
        if span is not None and ((span[1] > now) if future else (span[0] <= now)):
            then = first if last is None or last > number else months_later(first, 1)  # "from the 22nd to the 4th"
            end = span if last is None else day_in(then.year, then.month, last)
            return (span[0], end[1]) if end and span[0] <= end[0] else None
    return None


def day_without_ordinal(match: Match) -> Atom | None:
    """Reads French and Spanish days at the end of a clause: "le 12", "desde el 5", "el día 10", "du 3 au 7"."""
    numbers = [int(token.value) for token in match.tokens[match.first : match.last + 1] if token.code == "N"]
    if match.has("t") and match.token("t").text.lower() == "los" and numbers[0] in range(20, 100, 10):
        return match.fixed(unit_at("decade", datetime(1900 + numbers[0], 1, 1)), "decade")  # "en los 90"
    if match.context.language not in ("fr", "es") or max(numbers) > 31 or min(numbers) < 1:
        return None
    if match.has("t") and match.token("t").text.lower() not in ("le", "el"):
        return None
    if match.has("U") and match.word("U") != "day":
        return None
    if len(numbers) == 2:
        span = _latest_day(match, *numbers)
        return match.fixed(span, "range")
    span, kind = timed(match, _latest_day(match, numbers[0]), "day")
    return match.fixed(span, kind)


def day_of_list(match: Match) -> Atom | None:
    """Reads "3" of "on 3 and 4 May", and "4" of "on May 3 and 4": a time if the rest of the list is one."""
    tokens, token = match.tokens, match.tokens[match.first]
    before = "".join(one.code for one in tokens[max(0, match.first - 4) : match.first]).rstrip("t")
    following = match.next()
    if before.endswith(("MN&", "MO&")):
        at = match.first - len(before) + before.rindex("M") - (tokens[match.first - 1].code == "t")
        if following is not None and following.code not in ".,&" and match.context.language != "zh":
            return None
    else:
        at = next(at for at in range(match.last + 1, len(tokens)) if tokens[at].code == "M")
    if tokens[at].weak:
        return None
    behind = max(at, match.last)
    years = [int(one.value) for one in tokens[behind + 1 : behind + 3] if one.code == "Y"]
    month, number = int(tokens[at].value), int(token.value)
    if years:
        return match.fixed(day_in(years[0], month, number), "day")
    return match.yearly(lambda year: day_in(year, month, number), "day", weak=True)
