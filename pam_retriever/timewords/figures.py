"""Tokens of figures and marks: dates, times of day, decades, ordinals, numbers."""

from __future__ import annotations

import re

from pam_retriever.timewords.lexicon import Token, words
from pam_retriever.timewords.things import is_beside_thing

_NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
HOURS = "|".join(_NUMBERS)
_AFTER = "|".join(rf"(?<=\b{word} )" for word in ("à", "vers", "entre", "de", "et", "dès", "après", "avant", "depuis"))
_DATIVE = [rf"(?<=\b{word} )" for word in ("am", "vom", "zum", "dem", "den")]
_GOVERNED = "|".join([*_DATIVE, r"(?<=\d\. und )"])
_SHORT_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
# a date of an interval: "10/1/2018-10/7/2018", "2023-05-01/2023-05-07"
_END = r"(?:\d{4}[/.-]\d\d?[/.-]\d\d?|\d\d?[/.]\d\d?[/.](?:\d{4}|\d\d))(?!\w)"
_DATES = (
    r"\d{4}-\d\d?-\d\d?(?:[T ]\d\d?:\d\d(?::\d\d)?(?:\.\d{1,9})?(?: ?Z\b|[+-]\d\d:?\d\d| [A-Z]{3,4}\b)?)?",
    rf"\d{{1,2}}[/-]?(?:{_SHORT_MONTHS})[a-z]*[/-]?(?:\d{{4}}|(?<=[/-])\d\d)",
    r"\d{1,2}/\d{1,2}/(?:\d{4}|\d\d)",
    r"\d{1,2}-\d{1,2}-(?:19|20)\d\d",
    r"\d{1,2}\.\d{1,2}\.(?:\d{4}|\d\d)",
    r"\d{4}[/.]\d\d?[/.]\d\d?",
    r"(?!1/2000)(?:0?[1-9]|1[0-2])/(?:19|20)\d\d",
    r"(?:19|20)\d\d-?W[0-5]\d",
    r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])",
    r"(?:0[1-9]|1[0-2])-(?:19|20)\d\d",
    r"(?:19|20)\d\d[/-][1-9]",
    r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])",
)
_CLOCKS = (
    r"\d{1,2}:\d\d(?::\d\d)?(?: ?(?:[ap]\.?m\b\.?|Uhr\b|Z\b))?",
    r"(?:[01]?\d|2[0-3])[0-5]\d ?(?:hrs|Uhr)\b",
    r"\d{1,2}(?:\.\d\d)? ?[ap]\.?m\b\.?",
    r"\d{1,2}(?::\d\d)?ish",
    r"\d{1,2}h\d\d",
    r"\d{1,2}(?: ?Uhr|-Uhr(?=-))",
    r"\d{1,2} o['’]clock",
)
_FORMS = {  # each form by its name; the first that matches is taken
    "date": rf"(?:(?<![\w,/#$€£-])(?<!(?<!\.)\.)|(?<=\d[/-])(?={_END})|(?<=\d\.[–/-]))(?:{'|'.join(_DATES)})"
    rf"(?![\w:]|[.,]\d|/(?!\d)|[/-](?!{_END})\d)",
    "day_month": r"(?<![\w.])\d{1,2}\.\d{1,2}\.(?=[\s?!,;)–-]|$)"
    rf"|(?:{'|'.join(_DATIVE)})\d{{1,2}}\.(?:0[1-9]|1[0-2])(?![\w.,%€]| (?:Uhr|Euro|€))",
    "month_day": r"(?<![\w./])\d{1,2}/\d{1,2}(?![\w/%]|\.\w| of\b| de\b)",
    "years": r"(?<![\w./])(?:19|20)\d\d/(?:\d\d|(?:19|20)\d\d)(?![\w/]|\.\w)",
    "clock": rf"(?<![\w.:])(?:{'|'.join(_CLOCKS)})(?![\w:])|(?:{_AFTER})\d\d? ?h(?:eures?)?(?: ?\d\d)?\b",
    "decade": r"(?<!\w)(?:(?:1[0-9]|20)\d0['’]?s|['’]\d0s|(?<![\w'’])[2-9]0['’]?s)(?!\w)"
    r"|(?<!\w)(?:19|20)?[2-9]0er(?:n\b|[- ]Jahren?\b)",
    "short": r"(?<!\w)['’]\d\d(?!\w)",
    "ordinal": r"(?<![\w.])(?:\d{1,2}(?:st|nd|rd|th|e|s?te[nrs]?|è?me|ère|er|[ºª])|\d\.[ºª])(?!\w)"
    r"|(?<![\w.,])\d{1,2}\.(?= (?:[A-ZÄ]|und |bis )|[A-ZÄ][a-zä]{2}| ?[–-] ?\d|/\d)"
    rf"|(?:{_GOVERNED})\d\d?\.(?!\d)",
    "number": r"(?<![\w.,:/$€£#+])(?:(?:19|20)\d\d(?=[QH][1-4]\b)|\d{1,4}(?![\w%€]|[:.,]\d|/(?![^\W\d_]{3}))"
    r"|\d{1,2}(?=,(?:19|20)\d\d\b))|(?<=\d,)(?:19|20)\d\d(?![\w.,])",
}
FIGURES = "|".join(f"(?P<{name}>{form})" for name, form in _FORMS.items())  # they begin with a figure or an apostrophe
_DOTTED = re.compile(r"\d\d?\.\d\d?\.\d\d")
_SHORT_DOTTED = re.compile(r"\d\d\.\d\d\.\d\d")
_UNITS = {"h": "hour", "hrs": "hour", "d": "day", "w": "week", "wk": "week", "wks": "week", "mo": "month", "y": "year"}
_TO = r"\s*(?:-|–|\.\.|to|thru|through|till?|until|and)\s*"
_TO_DOTTED, _TO_FIGURES = re.compile(_TO + r"\d\d\.\d\d\.\d\d\b"), re.compile(_TO + r"(\d\d?/\d\d?)(?![\d/])")
_TO_DAY = re.compile(r"\s*(?:bis(?: zum)?|zum|[–-])\s*\d\d?\.\d\d?\.")
_DAY_OF_NAME, _NAME = re.compile(r"(\d{1,2})([^\W\d_]{3,})"), re.compile(r"[^\W\d_]{3,}")
_CHAIN_BEFORE = re.compile(r"(?:\b([A-Z]+|cve)-)?(?:\d{1,6}-){0,2}$")
_CHAIN_BEHIND = re.compile(r"(?:-\d{1,6}){1,2}")
_JOINED_DAY = re.compile(r"\d{1,2}(?![\w:%]|[.,]\d)")
_NUMBERED = re.compile(r"\b(?:order|invoice|ticket|po|id|ref|number|no|nr|case|serial|sku|#) ?$", re.IGNORECASE)
_NUMBER_FIRST = re.compile(r"([1-4])([QH])((?:20)?\d\d)", re.IGNORECASE)
_SURE = re.compile(r"(?:0?[1-9]|1[0-2])/(?:1[3-57-9]|2\d|3[01])")  # "5/13", unlike "5/16" of an inch, "24/7"
_EXACT = re.compile(  # one order only: "5/13", "28/2", unlike "24/7" and "18/10 steel"
    r"(?:0?[1-9]|1[0-2])/(?:1[3-9]|2\d|3[01])|(?!24/7|18/10|18/8|16/9)(?:1[3-9]|2\d|3[01])/(?:0?[1-9]|1[0-2])"
)
_SHORT_UNIT = re.compile(rf"(\d{{1,3}})({'|'.join(_UNITS)})")
_MARKS = {",": ",", "..": "u", "-": "u", "–": "u", "—": "u", "@": "h", "&": "&", "~": "g"}
_JOINED_YEAR = re.compile(r"(?:19|20)\d\d\b")
_KINDS = {"spoken": "clock", "tens": "decade"}
SPANISH_HOURS = ["una", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez", "once", "doce"]
DECADES = ["twenties", "thirties", "forties", "fifties", "sixties", "seventies", "eighties", "nineties"]
DECADES += ["zwanziger", "dreißiger", "vierziger", "fünfziger", "sechziger", "siebziger", "achtziger", "neunziger"]


def _decade(match: re.Match[str]) -> Token:
    """Returns the token of "1990s", "the '80s", "eighties", or German "80er Jahre"."""
    found, start, end = match[0], match.start(), match.end()
    lowered = found.lower()
    if lowered.rstrip("n") in DECADES:
        return Token("K", 1920 + 10 * (DECADES.index(lowered.rstrip("n")) % 8), start, end, found, weak=True)
    figures = re.sub(r"\D", "", lowered)
    if not figures:
        return Token("x", 0, start, end, found)  # with a long s, which a pattern without case takes for an "s"
    figure = int(figures)
    short = figure < 100
    return Token("K", 1900 + figure if short else figure, start, end, found, weak=short)


def _clock(text: str) -> str:
    """Returns "half past nine" and "ten o'clock" in figures; other times of day as they are."""
    text = re.sub("^(?:sobre|hacia) la", "a la", text)
    if text.startswith("a la") and text.split()[-1] in SPANISH_HOURS:
        return f"{SPANISH_HOURS.index(text.split()[-1]) + 1}h"  # "a las tres"
    if (french := re.fullmatch(r"(\d+) ?h(?:eures?)?(?: ?(\d\d))?", text)) is not None:
        return f"{french[1]}:{french[2]}" if french[2] else f"{french[1]}h"
    if text.startswith(("a la", "de la")):
        return f"{re.sub(r'[^0-9]', '', text)}h"  # "a las 8"
    text = text.removesuffix("z")  # "02:00Z"
    if (joined := re.fullmatch(r"(\d{1,2})(\d\d) ?(?:hrs|uhr)", text)) is not None:
        return f"{joined[1]}:{joined[2]}"  # "0430 hrs", "1430 Uhr"
    if text.endswith("ish"):
        return text[:-3] if ":" in text else f"{text[:-3]}h"
    parts = text.replace("’", "'").removeprefix("a ").split()
    hour = parts[-2] if parts[-1] == "o'clock" else parts[-1]
    figure = _NUMBERS.index(hour) + 1 if hour in _NUMBERS else int(hour) if hour.isdigit() else 0
    if parts[-1] == "o'clock":
        return f"{figure}h"
    if len(parts) < 3:
        return text.replace("-", " ")
    minutes = {"half": 30, "quarter": 15, "ten": 10, "twenty": 20}[parts[0]]
    return f"{figure}:{minutes}" if parts[1] == "past" else f"{(figure - 1) or 12}:{60 - minutes}"


def _is_month(word: str, language: str) -> bool:
    entry = words(language)[0].get(word.lower())
    return entry is not None and entry[0][0] == "M"


def _day_and_month(match: re.Match[str], before: str, language: str) -> list[Token]:
    """Returns the tokens of German "24.12." and of "3/14" (in English the month first) after a preposition."""
    start, end = match.span()
    dotted = match.lastgroup == "day_month"
    day, month = (int(part) for part in re.findall(r"\d+", match[0]))
    if not dotted and (not day > 12 >= month if language == "en" else month > 12 >= day):
        day, month = month, day
    chained = before == "#&"  # "Kapitel 2.1. und 2.2."
    week = before == "Uo" or before[-1:] == "W"  # "the week of 9/2", "Saturday 9/7"
    before = before[-1:]
    governors = "nsBaqfuh&r" if dotted else "nsBaq" if language in ("en", "de") else "tsBaq"
    if not dotted and day > 12:
        governors += "f"  # "from 10/31", unlike "from 3/4 to 5/8"
    if not dotted and language in ("fr", "es") and day > month:
        governors += "fo"  # "du 12/3", unlike "du 3/4"
    sure = _SURE.fullmatch(match[0]) is not None and language == "en"
    padded = not dotted and language == "en" and "0" in (match[0][0], match[0][-2])  # "18/06"
    until = (_TO_DAY if dotted else _TO_FIGURES).match(match.string, end)
    ranged = until is not None or before in ("u", "&")
    if dotted:
        sure = ranged or match.string[max(0, start - 4) : start].lower() in ("den ", "dem ")
    elif until is not None and language == "en":
        sure = sure or _SURE.fullmatch(until[1]) is not None  # "8/5 to 8/16"
    governed = week or padded or (bool(before) and before in governors) or (sure and (ranged or before == "t"))
    of_thing = False
    if (not governed or dotted) and (dotted or _EXACT.fullmatch(match[0]) is not None) and language in ("en", "de"):
        of_thing = is_beside_thing(match.string, start, end)
        governed = governed or of_thing
    known = 1 <= day <= 31 and 1 <= month <= 12 and (not dotted or language == "de" or of_thing)
    if not governed or not known or chained or match[0] == "9/11":
        return [Token("#", 0, start, end, match[0])]
    return [Token("O", day, start, end, match[0]), Token("M", month, start, end, match[0])]


def _short(match: re.Match[str], before: str) -> list[Token]:
    """Returns the tokens of "'22" after a time or a preposition, "FY2023", "Q3", "H1"."""
    kind, found, start, end = match.lastgroup, match[0], match.start(), match.end()
    if kind == "fiscal":
        return [Token("U", "year", start, end, found), Token("Y", 2000 + int(found[-2:]), start, end, found)]
    if kind == "short":
        figure = int(found[1:])
        named = before and (
            before[-1] in "MSHQioaBfs" or before in ("MN", "MO")
        )  # "July '22", "in '08", unlike "the '22 engine"
        return [Token("Y", 2000 + figure if figure < 69 else 1900 + figure, start, end, found)] if named else []
    half = found[0] in "Hh"
    if half and found[1] in "34":
        return [Token("#", 0, start, end, found)]
    return [Token("G" if half else "Q", int(found[1]), start, end, found)]


def _part_of_date(match: re.Match[str], before: str, language: str) -> list[Token]:
    """Returns the tokens of "15Sep", of the 10 in "Aug/10" and of the 2025 in "2025/Apr/10"; none for others."""
    found, (start, end) = match[0], match.span()
    if (day := _DAY_OF_NAME.fullmatch(found)) is not None and _is_month(day[2], language):
        middle = start + len(day[1])
        month = words(language)[0][day[2].lower()][0][1]
        return [Token("O", int(day[1]), start, middle, day[1]), Token("M", month, middle, end, day[2])]
    if _JOINED_YEAR.fullmatch(found) and match.string[end : end + 1] == "/":
        code = "Y" if _joins(match.string, end + 1, "Y", language) else "#"  # "2025/Apr/10"
        return [Token(code, int(found), start, end, found)]
    if found.isdecimal() and match.string[start - 1 : start] == "/" and before[-1:] in ("M", "N"):
        code = "N" if before[-1] == "M" and len(found) < 3 else "Y" if before == "MN" and len(found) == 4 else "#"
        return [Token(code, int(found), start, end, found)]
    return []


def _short_unit(match: re.Match[str], before: str) -> list[Token]:
    """Returns the tokens of "24h" in "last 24h", of "2d" in "2d ago", and of "KW36"."""
    found, (start, end) = match[0], match.span()
    if len(found) < 3 and found.isdecimal() and match.string[start - 2 : start].lower() == "kw":
        return [Token("N", int(found), start, end, found)]
    if (quarter := _NUMBER_FIRST.fullmatch(found)) is not None:  # "4Q25"
        code, year = "G" if quarter[2] in "Hh" else "Q", 2000 + int(quarter[3][-2:])
        return [Token(code, int(quarter[1]), start, end, found), Token("Y", year, start, end, found)]
    short = _SHORT_UNIT.fullmatch(found)
    if short is None or not (before[-1:] in ("L", "V") or match.string[end : end + 4].lower() == " ago"):
        return [Token("#", 0, start, end, found)]
    return [Token("N", int(short[1]), start, end, found), Token("U", _UNITS[short[2]], start, end, found)]


def _is_version(match: re.Match[str], before: str, language: str) -> bool:
    """Whether "10.12.20" is a version, without a preposition and not in a range, and "order 20240311" a number."""
    if match[0].isdigit() and _NUMBERED.search(match.string, max(0, match.start() - 12), match.start()) is not None:
        return True
    if language != "en" or _DOTTED.fullmatch(match[0]) is None:
        return False
    if _SHORT_DOTTED.fullmatch(match[0]) is None:
        return True
    return not (before and before in "nsBafqub&") and _TO_DOTTED.match(match.string, match.end()) is None


def _joins(text: str, end: int, before: str, language: str) -> bool:
    """Whether the mark that ends here is between the parts of one date."""
    if before[-1] in "MQG" or before == "MN":
        day = before[-1] == "M" and _JOINED_DAY.match(text, end) is not None
        return day or _JOINED_YEAR.match(text, end) is not None
    name = _NAME.match(text, end) if before[-1] in "NY" else None
    return name is not None and _is_month(name[0], language)


def _mark(match: re.Match[str], before: str, language: str) -> list[Token]:
    """Returns the token of a mark; none for that of "jul-2023", "Aug/10", "28-Nov"."""
    found, text, (start, end) = match[0], match.string, match.span()
    if found in "-/" and before and text[start - 1].isalnum() and _joins(text, end, before, language):
        return []
    if found == "/" and before[-1:] in ("D", "O") and text[end : end + 1].isdigit():
        return [Token("u", 1, start, end, found)]  # "2023-05-01/2023-05-07", "14./15.10."
    if found == "/" and before[-1:] in ("M", "W") and text[end : end + 3].isalpha():
        return [Token("&", 1, start, end, found)]  # "Nov/Dec"
    return [Token("." if found in '.?!;:¿¡"”)' else _MARKS.get(found, "#"), 0, match.start(), match.end(), found)]


def _dated(match: re.Match[str], kind: str, before: str, language: str) -> list[Token]:
    """Returns the token of a date, of two years or of a time of day; three for the end of "16. bis 21.02.2018"."""
    found, (start, end) = match[0], match.span()
    if kind == "date" and _is_version(match, before[-1:], language):
        return [Token("#", 0, start, end, found)]
    if kind == "date" and language == "de" and before in ("Ou", "uh") and found.count(".") == 2:
        day, month, year = (int(part) for part in found.split("."))
        year += 2000 if year < 100 else 0
        return [Token(code, value, start, end, found) for code, value in (("O", day), ("M", month), ("Y", year))]
    code = "D" if kind == "date" else "J" if kind == "years" else "C"
    return [Token(code, _clock(found.lower()) if code == "C" else found, start, end, found)]


def _is_of_chain(text: str, start: int, end: int, language: str) -> bool:
    """Whether a figure is one of at least three parts that hyphens join: "138-2010-2015", "CVE-2022-2309".

    Of two figures, which may be a range of years, a word before them may say the same: "ticket 2023-2040".
    """
    if "-" not in (text[start - 1 : start], text[end : end + 1]):
        return False
    before, behind = _CHAIN_BEFORE.search(text, max(0, start - 16), start), _CHAIN_BEHIND.match(text, end)
    if before is not None and before[1] and (before[1] == "FY" or before[1].lower() in words(language)[0]):
        return False  # "MAY-2023"
    first = start - (0 if before is None else len(before[0]))
    joined = (0 if before is None else before[0].count("-")) + (0 if behind is None else behind[0].count("-"))
    return joined > 1 or _NUMBERED.search(text, max(0, first - 12), first) is not None


def _counted(match: re.Match[str], kind: str, language: str) -> list[Token]:
    """Returns the token of an ordinal, of a year or of another number."""
    found, (start, end) = match[0], match.span()
    if kind == "ordinal":
        if found.endswith("e") and language != "fr" and (language, found[-2]) != ("de", "t"):
            return [Token("#", 0, start, end, found)]
        return [Token("O", int(re.sub(r"\D", "", found)), start, end, found)]
    figure = int(found)
    if _is_of_chain(match.string, start, end, language):
        return [Token("#", 0, start, end, found)]
    return [Token("Y" if len(found) == 4 and 1000 <= figure < 3000 else "N", figure, start, end, found)]


def figure(match: re.Match[str], before: str, language: str) -> list[Token]:
    """Returns the tokens of a figure or a mark after two tokens with the codes ``before``."""
    kind = _KINDS.get(match.lastgroup or "", match.lastgroup)
    if kind == "mark":
        return _mark(match, before, language)
    if kind in ("date", "years", "clock"):
        return _dated(match, kind, before, language)
    if kind in ("day_month", "month_day"):
        return _day_and_month(match, before, language)
    if kind == "decade":
        return [_decade(match)]
    if kind in ("short", "fiscal", "quarter"):
        return _short(match, before)
    if kind in ("ordinal", "number"):
        return _counted(match, kind, language)
    return _part_of_date(match, before, language) or _short_unit(match, before)
