"""Rules for calendar times: dates, months, seasons, quarters, holidays, years, decades."""

from __future__ import annotations

import re
from datetime import datetime

from pam_retriever.timewords import dates
from pam_retriever.timewords.feasts import HOLIDAYS
from pam_retriever.timewords.hours import timed
from pam_retriever.timewords.lexicon import NAMES, listed
from pam_retriever.timewords.match import Atom, Match, counted, daily, day_in, in_year, leads, year_of
from pam_retriever.timewords.names import NOUNS_IN_S, is_attribute, is_name, is_person
from pam_retriever.timewords.periods import Span, moved, season_of, unit_at, weekend
from pam_retriever.timewords.standing import begins_phrase, is_adverb, is_of_noun
from pam_retriever.timewords.things import has_a_year, has_years, is_of_thing


def day_and_month(match: Match) -> Atom | None:
    """Reads "13 October 2023", "October 13th", "Friday, 13 October, at 3 pm"."""
    month = match.token("M")
    if month.weak and month.text in ("may", "march", "mar") and not (match.has("O") or match.has("W")):
        return None
    day = match.number("O") if match.has("O") else match.number("N")
    following = match.next()
    if match.has("N") and match.token("N").text.lower() == "one":
        return None  # "the next one May 2026"
    if match.has("N") and match.tokens[match.last].code == "N" and following is not None and following.code == "U":
        return None  # "in March 3 weeks ..."
    ends = following is None or following.code in ".,"
    if match.codes() == "MtO" and match.first == 0 and month.text == "may" and not ends:
        return None  # "may the fourth option win"
    number = match.number("M")
    return daily(match, lambda year: day_in(year, number, day))


def days_and_month(match: Match) -> Atom | None:
    """Reads "3-5 May 2023", "May 3rd to 5th"."""
    if match.token("M").weak or (match.has("h") and match.context.language == "en"):
        return None
    first, last = (token for token in match.tokens[match.first : match.last + 1] if token.code in "NO")
    month = match.number("M")

    def of(year: int) -> Span | None:
        start, end = day_in(year, month, int(first.value)), day_in(year, month, int(last.value))
        return (start[0], end[1]) if start and end and start[0] < end[0] else None

    return in_year(match, of, "range")


def month(match: Match) -> Atom | None:
    """Reads "July 2023", "in July", "July of last year"."""
    named, number = match.token("M"), match.number("M")
    year = year_of(match)
    previous = match.tokens[match.first - 1] if match.first else None
    if leads(match) or (match.tokens[match.first].code in "LXT" and year is None):
        return None
    if previous is not None and previous.code == "N":
        return None  # "31 February": an invalid day
    following = match.next()
    beside = "".join(token.code for token in (previous, following) if token is not None)
    if (beside == "tZ" and named.text.lower() in NAMES) or (year is None and is_name(match, named, beside)):
        return None  # "the April O'Neil costume"
    of = lambda y: unit_at("month", datetime(y, number, 1))  # noqa: E731
    if year is None:
        if is_person(match, named) or (previous is not None and previous.text.lower() in _WITH):
            return None  # "pan con mayo"
        if is_of_noun(match, named.text) or is_adverb(match, named.text) or is_of_thing(match, named.text, 2):
            return in_year(match, of, "month")
        if beside[:1] == "t" and previous is not None and match.context.language == "en":
            return None  # "on the march"
        if named.weak and not (match.has("i") or (previous is not None and previous.code in "ivsBq")):
            return None
    elif named.weak and not named.text[0].isupper() and match.has("U") and match.first == 0:
        return None
    return in_year(match, of, "month", weak=match.context.language != "zh")


_WITH = listed("with without mit ohne avec sans con sin")  # before a name, or a thing


def of_short_year(match: Match) -> Atom | None:
    """Reads "march of 24", "summer 24", "h2 24"."""
    found = match.token("N").text
    stands = begins_phrase(match) or (match.tokens[match.first].code in "QG" and is_of_thing(match, ""))
    if len(found) != 2 or not stands or match.context.language != "en":
        return None
    year = 2000 + int(found)
    if year > match.context.now.year + _NEAR_YEARS:
        return None  # the song "Summer of 69"
    if match.has("S"):
        return match.fixed(season_of(year, match.number("S")), "season")
    if match.has("M"):
        return match.fixed(unit_at("month", datetime(year, match.number("M"), 1)), "month")
    if year < match.context.now.year - _NEAR_YEARS:
        return None
    unit, months, code = ("quarter", 3, "Q") if match.has("Q") else ("half", 6, "G")
    return match.fixed(unit_at(unit, datetime(year, months * match.number(code) - months + 1, 1)), unit)


def counted_month(match: Match) -> Atom | None:
    """Reads "last May", "next January", "this March"."""
    named, front = match.token("M"), match.tokens[match.first - 1].code if match.first else ""
    if match.tokens[match.last].code == "X" and match.number("X") == 1 and match.context.language == "en":
        return None  # "Is April coming?"
    coming = match.has("X") and front != "t"  # unlike "the next march"
    if named.weak and not (match.has("L") or coming or (match.has("T") and named.text not in ("may", "march", "mar"))):
        return None
    return counted(match, lambda y: unit_at("month", datetime(y, match.number("M"), 1)), "month")


_MEASURES = listed("km m kg g mg hz mhz rpm mm cm percent people euro euros dollar dollars pounds metres meters")


def year(match: Match) -> Atom | None:
    """Reads a year: "2022" after a preposition, or "the 2022 budget"."""
    number = match.number("Y")
    following = match.next()
    if following is not None and following.text == ":":
        return None  # "2001: A Space Odyssey"
    before = match.tokens[match.first - 1] if match.first else None
    if following is not None and following.code == "x" and not (before and before.text.endswith("-")):  # "pre-2022"
        noun = following.text.lower()
        if noun in _MEASURES or (noun.endswith("s") and noun not in NOUNS_IN_S and not has_years(noun)):
            return None
    if following is not None and (
        (following.code in "NYU#" and following.text != "-") or (following.code == "Z" and match.has("t"))
    ):
        return None
    unit = match.word("U") if match.has("U") else "year"
    if match.has("o") and unit not in ("year", "decade"):
        return None
    span = unit_at("decade" if unit == "decade" else "year", datetime(number, 1, 1))
    if match.has("t") and not match.has("U"):
        if following is None or following.code != "x":
            return None
        return match.fixed(span, "year")
    stands = _is_german_adverb(match, number) or (match.codes() == "Y" and has_a_year(match))
    weak = not (match.has("U") or match.context.language == "zh" or stands)
    return match.atom(lambda _anchor, _future: span, "year", weak=weak)


def _is_german_adverb(match: Match, number: int) -> bool:
    """Whether a year stands alone, as German has it: "Was ist 2024 passiert?", unlike "mit 2024 Leuten"."""
    front, following = match.tokens[match.first - 1] if match.first else None, match.next()
    if match.context.language != "de" or abs(number - match.context.now.year) > _NEAR_YEARS:
        return False
    ends = following is None or following.code in ".,&" or following.text.islower()
    if front is not None and front.text.lower() in _NUMBERED:
        return False
    if front is not None and front.text[0].isupper():  # "was hat Anna 2024 gesagt", unlike "Windows 2019 läuft nicht"
        behind = match.next(2)
        return following is not None and following.text.islower() and (behind is None or behind.code in ".,&")
    return ends and (front is None or front.code in "." or (front.code == "x" and front.text.islower()))


_NUMBERED = listed(  # before a number
    "fehler fehlercode code port raum zimmer halle nr nummer modell version office windows server pin linie bus"
)
_NEAR_YEARS = 20  # "Es kamen 2500"


def two_years(match: Match) -> Atom | None:
    """Reads "the school year 2021/22", "the 2021-22 season": from July to June."""
    first, last = (
        match.word("J").split("/") if match.has("J") else (match.token("Y").text, match.tokens[match.last].text)
    )
    if len(last) not in (2, 4) or int(last) not in (int(first) + 1, (int(first) + 1) % 100):
        return None
    return match.fixed((datetime(int(first), 7, 1), datetime(int(first) + 1, 7, 1)), "year")


def decade(match: Match) -> Atom | None:
    """Reads "the 1990s", "the eighties"."""
    token = match.token("K")
    previous = match.tokens[match.first - 1] if match.first else None
    if token.weak and not match.has("t") and not token.text.startswith(("'", "’")):
        return None
    if token.weak and previous is not None and previous.code == "Z":
        return None
    following = match.next()
    if match.context.language == "es" and following is not None and following.code == "U":
        return None  # "en los noventa minutos"
    return match.fixed(unit_at("decade", datetime(match.number("K"), 1, 1)), "decade")


def decade_of_years(match: Match) -> Atom | None:
    """Reads French "les années 80" and Spanish "los años 80"."""
    number, plural = match.number("N"), match.token("U").text.lower() in ("années", "años")
    if not plural or number % 10 or not 10 <= number <= 90:
        return None
    span = unit_at("decade", datetime(1900 + number, 1, 1))
    return match.atom(lambda _anchor, _future: span, "decade", weak=not match.has("t"))


_NEAR_TOKENS = 40
_DAY_FIRST = re.compile(r"(?:1[3-9]|[23]\d)[/-]\d\d?[/-]\d")


def figures(match: Match) -> Atom | None:
    """Reads a date in figures, with or without a time of day."""
    near = match.tokens[max(0, match.first - _NEAR_TOKENS) : match.last + _NEAR_TOKENS]
    day_first = any(token.code == "D" and _DAY_FIRST.match(token.text) for token in near)  # of another date
    read = dates.figures(match.token("D").text, match.context.language, day_first)
    if read is None:
        return None
    at, unit = read
    if at.tzinfo is not None:
        at = at.astimezone(match.context.zone).replace(tzinfo=None)
    if unit in ("minute", "hour"):
        return match.fixed(unit_at(unit, at), unit)
    span, kind = timed(match, unit_at(unit, at), unit) if unit == "day" else (unit_at(unit, at), unit)
    return match.fixed(span, kind)


_AFTER_SEASON = NOUNS_IN_S | listed("i we you he she they it when that with who and but semester term break quarter")


def season(match: Match) -> Atom | None:
    """Reads "summer 2022", "last winter", "in the spring", "winter 2022/23"."""
    number = match.number("S")
    if match.has("J") or match.has("u"):
        years = two_years(match)
        begin = years and years.resolve(match.context.now, False)
        return begin and match.fixed(season_of(begin[0].year, number), "season")
    following = match.next()
    units = {token.value for token in match.tokens[match.first : match.last + 1] if token.code == "U"}
    if not units <= {"month", "year"}:
        return None  # "last week in the spring"
    if any(match.has(code) for code in "LXTV") and "year" not in units:
        return counted(match, lambda y: season_of(y, number), "season")
    previous = match.tokens[match.first - 1] if match.first else None
    if previous is not None and previous.code == "q" and not match.has("t") and year_of(match) is None:
        return None  # "inspired by autumn"
    if year_of(match) is None and is_attribute(match):
        return None
    doubtful = number == 0 or match.token("S").text.lower() == "fall"
    if year_of(match) is None:
        named = match.token("S").text  # "in spring", unlike "in Spring"
        within = previous is not None and previous.code == "i" and (named.islower() or match.context.language == "de")
        if following is not None and (following.code == "o" or (following.code == "Z" and not within)):
            return None  # "after the fall of Rome"
        english = doubtful and match.context.language == "en"
        if english and not match.has("t") and not within:
            return None
        thing = following is not None and following.code == "x" and following.text.lower() not in _AFTER_SEASON
        if english and thing and previous is not None and previous.code in "rouxhg" and match.has("t"):
            return None  # "the manual for the fall protection harness"
    bare = match.codes() == "S" and not (doubtful or match.context.said)
    weak = not (bare and is_of_thing(match, match.token("S").text))
    return in_year(match, lambda y: season_of(y, number), "season", weak=weak)


_REPORTS = listed(
    "report numbers review results sales revenue budget figures targets goals earnings forecast deck okrs"
)


def _is_reported(match: Match) -> bool:
    """Whether a quarter is of a report: "the Q1 numbers", "Q1 harvest report", unlike "the Q1 button"."""
    behind = match.tokens[match.last + 1 : match.last + 3]
    return any(token.text.lower() in _REPORTS for token in behind) and behind[0].code == "x"


def quarter(match: Match) -> Atom | None:
    """Reads "Q3", "Q3 2022"."""
    number = match.number("Q")
    if leads(match):
        return None
    weak = match.context.language != "zh" and not _is_reported(match) and (match.has("t") or not is_adverb(match, "Q"))
    return in_year(match, lambda y: unit_at("quarter", datetime(y, 3 * number - 2, 1)), "quarter", weak=weak)


def half_year(match: Match) -> Atom | None:
    """Reads "H1 2023"."""
    number = match.number("G") if match.has("G") else match.number("O")
    wanted = year_of(match)
    if not 1 <= number <= 2:
        return None
    weak = wanted is None and match.context.language != "zh" and not (match.has("G") and is_adverb(match, "H"))
    return in_year(match, lambda y: unit_at("half", datetime(y, 6 * number - 5, 1)), "half", weak=weak)


def holiday(match: Match) -> Atom | None:
    """Reads "Christmas 2022", "last Easter", "on New Year's Eve"."""
    name = match.word("H")
    kind = timed(match, (datetime(2000, 1, 1), datetime(2000, 1, 2)), "day")[1]

    def of(year: int) -> Span | None:
        return timed(match, HOLIDAYS[name](year), "day")[0]

    if leads(match) or (year_of(match) is None and is_attribute(match)):
        return None
    if any(match.has(code) for code in "LXT") and not match.has("U"):
        return counted(match, of, kind)
    previous, following = match.tokens[match.first - 1] if match.first else None, match.next()
    named = match.context.language != "zh" and not match.has("U") and not match.has("Y")
    if named and following is not None and following.code in "oZ":
        return None  # "l'ascension du Mont Blanc", "Easter Island"
    kept = previous is not None and previous.text.lower().startswith(("spen", "celebrat"))  # "spend New Year"
    article = match.token("t").text.lower() if match.has("t") else ""
    on = (match.context.language, article) == ("es", "el") or (article == "le" and " " in match.token("H").text)
    text = match.token("H").text
    stands = (
        is_adverb(match, text)
        or (" " in text and is_of_noun(match, text))
        or (not match.context.said and is_of_thing(match, text))
    )
    certain = kept or on or stands or match.context.language == "zh" or name.endswith(" eve")
    return in_year(match, of, kind, weak=not certain)


def week_of_holiday(match: Match) -> Atom | None:
    """Reads "Labor Day weekend", the weekend beside the holiday together with it, and "Thanksgiving week"."""
    name, unit = match.word("H"), match.word("U")
    if unit not in ("week", "weekend"):
        return None

    def of(year: int) -> Span | None:
        span = HOLIDAYS[name](year)
        if span is None or unit == "week":
            return span and unit_at("week", span[0])
        start, end = weekend(span[0], -1 if span[0].weekday() < 2 else 0)
        return min(start, span[0]), max(end, span[1])

    if any(match.has(code) for code in "LXT") and len(re.findall("U", match.codes())) == 1:
        return counted(match, of, unit)
    return in_year(match, of, unit) if match.has("Y") or match.codes().count("U") == 2 else match.yearly(of, unit)


def beside_holiday(match: Match) -> Atom | None:
    """Reads Chinese "圣诞节前两天" and "春节后一周"."""
    name, unit, count = match.word("H"), match.word("U"), match.number("N")
    if match.context.language != "zh" or unit not in ("day", "week", "month"):
        return None

    def of(year: int) -> Span | None:
        span = HOLIDAYS[name](year)
        if span is None:
            return None
        if unit == "day":
            return unit_at("day", moved(span[0], "day", -count) if match.has("A") else moved(span[1], "day", count - 1))
        return (moved(span[0], unit, -count), span[0]) if match.has("A") else (span[1], moved(span[1], unit, count))

    return match.yearly(of, unit)
