"""Tokens of a text: words with the codes of ``lexicon``, dates and times of day in figures, and other text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from pam_retriever.timewords.lexicon import DEPENDING, HOMONYMS, LANGUAGES, NAMES, TELLING, Entry, Value, words

_NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_HOURS = "|".join(_NUMBERS)
_FIGURES = (  # these begin with a figure or with its apostrophe
    r"(?P<date>(?<![\w.,/#$€£-])(?:"
    r"\d{4}-\d\d?-\d\d?(?:[T ]\d\d?:\d\d(?::\d\d)?(?:\.\d{1,9})?(?: ?Z\b|[+-]\d\d:?\d\d| [A-Z]{3,4}\b)?)?"
    r"|\d{1,2}-(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*-(?:\d{4}|\d\d)"
    r"|\d{1,2}/\d{1,2}/(?:\d{4}|\d\d)|\d{1,2}-\d{1,2}-(?:19|20)\d\d|\d{1,2}\.\d{1,2}\.\d{4}|\d{4}[/.]\d\d?[/.]\d\d?|(?:0[1-9]|1[0-2])/(?:19|20)\d\d"
    r"|(?:19|20)\d\d-(?:0[1-9]|1[0-2])|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))(?![\w/:]|[.,-]\d))"
    r"|(?P<day_month>(?<![\w.])\d{1,2}\.\d{1,2}\.(?=[\s?!,;)]|$))"
    r"|(?P<month_day>(?<![\w./])\d{1,2}/\d{1,2}(?![\w/.%]| of\b| de\b))"
    r"|(?P<years>(?<![\w./])(?:19|20)\d\d/(?:\d\d|(?:19|20)\d\d)(?![\w/.]))"
    r"|(?P<clock>(?<![\w.:])(?:\d{1,2}:\d\d(?::\d\d)?(?: ?(?:[ap]\.?m\b\.?|Uhr\b))?"
    r"|\d{1,2} ?[ap]\.?m\b\.?|\d{1,2}h\d\d|\d{1,2} Uhr|\d{1,2} o['’]clock)(?![\w:])|(?<=à )\d{1,2} ?h(?:eures?)?\b)"
    r"|(?P<decade>(?<!\w)(?:(?:1[0-9]|20)\d0s|['’]\d0s|(?<![\w'’])[2-9]0s)(?!\w)"
    r"|(?<!\w)(?:19|20)?[2-9]0er(?:n\b|[- ]Jahren?\b))"
    r"|(?P<short>(?<!\w)['’]\d\d(?!\w))"
    r"|(?P<ordinal>(?<![\w.])(?:\d{1,2}(?:st|nd|rd|th)|1er|1º)\b|(?<![\w.,])\d{1,2}\.(?= (?:[A-ZÄ]|und |bis )))"
    r"|(?P<number>(?<![\w.,:/$€£#+])(?:(?:19|20)\d\d(?=[QH][1-4]\b)|\d{1,4}(?![\w:/%€]|[.,]\d)|\d{1,2}(?=,(?:19|20)\d\d\b))|(?<=\d,)(?:19|20)\d\d(?![\w.,]))"
)
_ONE = (
    rf"(?=[\d'’])(?:{_FIGURES})"
    r"|(?P<fiscal>\bFY ?['’]?(?:20)?\d\d\b)"
    r"|(?P<spoken>\ba las? \d{1,2}(?![\w:.,/]|\d)"
    rf"|\b(?:a )?(?:(?:half|quarter|ten|twenty) past|quarter to) (?:{_HOURS}|\d{{1,2}})\b|\b(?:{_HOURS}) o['’]clock\b)"
    r"|(?P<tens>\b(?:twen|thir|for|fif|six|seven|eigh|nine)ties\b)"
    r"|(?P<quarter>(?:\b|(?<=\b(?:19|20)\d\d))[QH][1-4]\b)"
    r"|(?P<elided>\b[ldLD]['’](?=\w))"
    r"|(?P<word>[^\W\d_]+(?:['’][^\W\d_]+|-[^\W\d_]+)*)"
    r"|(?P<junk>[\w$€£#]+)|(?P<mark>[.?!;:,–—-]|[^\w\s])"
)
_KINDS = {"spoken": "clock", "tens": "decade"}
_WORD = re.compile(r"[^\W\d_]+")
_FIGURE = re.compile(r"[\d\u4e00-\u9fff]")
_CHINESE_CHARACTER = re.compile(r"[\u4e00-\u9fff]")
MAX_TEXT = 2**31
_DIGITS = {"一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_DECADES = ["twenties", "thirties", "forties", "fifties", "sixties", "seventies", "eighties", "nineties"]


class Token(NamedTuple):
    """A word or a figure with its code (see ``lexicon``), its value, and its position."""

    code: str
    value: Value
    start: int
    end: int
    text: str
    weak: bool = False  # in this spelling it may be a common word ("may", "march", "sun")


class _Needed(NamedTuple):
    """The words that indicate a time: every time without figures contains at least one of them."""

    alone: frozenset[str]
    units: frozenset[str]  # these need one of ``beside``: "week" is no time, "last week" is
    beside: frozenset[str]


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    return re.compile(_ONE, re.IGNORECASE)  # compiled on demand: it takes as long as importing ten modules


@lru_cache(maxsize=1)
def _needed() -> _Needed:
    alone: set[str] = set(_DECADES)
    units: set[str] = set()
    beside: set[str] = set()
    for language in LANGUAGES:
        single, phrases = words(language)
        entries = [(word, entry) for word, entry in single.items()]
        for parts, entry in (phrase for found in phrases.values() for phrase in found):
            if len(entry) == 1:
                entries.append((max(parts, key=len), entry))
            else:  # "the other day"
                *_, second, longest = sorted(parts, key=len)
                units.add(longest)
                beside.add(second)
        for word, entry in entries:
            code = entry[0][0]
            named = (
                alone
                if code in "MWSHR" or len(entry) > 1 or entry[0][1] == "weekend"
                else units
                if code in "UPd"
                else None
            )
            if named is None and code in "LVXTAFNOBewvc":
                named = beside
            if named is not None:
                named.update(part for part in _WORD.findall(word) if len(part) > 1)  # not the "s" of "valentine's"
    return _Needed(frozenset(alone), frozenset(units), frozenset(beside))


def names_a_time(text: str, start: int, end: int) -> bool:
    """Whether a text has a word or a figure that may belong to a time: a fast test that excludes most sentences."""
    if _FIGURE.search(text, start, end) is not None:
        return True
    found = _WORD.findall(text[start:end].lower())
    needed = _needed()
    if not needed.alone.isdisjoint(found):
        return True
    return not (needed.units.isdisjoint(found) or needed.beside.isdisjoint(found))


def language_of(text: str) -> str:
    """Detects the language of a text among the five; English by default."""
    if _CHINESE_CHARACTER.search(text):
        return "zh"
    counts = dict.fromkeys(TELLING, 0.0)
    weights = _telling()
    for word in set(_WORD.findall(text[:400].lower())):
        for language, weight in weights.get(word, ()):
            counts[language] += weight
    best = max(counts.values())
    if counts["en"] == best or not best:
        return "en"
    return max(counts, key=lambda language: counts[language])


@lru_cache(maxsize=1)
def _telling() -> dict[str, list[tuple[str, float]]]:
    """Returns the languages that each word tells of: 1 for a common word, and half for a word of time."""
    weights: dict[str, list[tuple[str, float]]] = {}
    for language, telling in TELLING.items():
        for word in telling:
            weights.setdefault(word, []).append((language, 1.0))
        for word in words(language)[0]:
            weights.setdefault(word, []).append((language, 0.5))
    return weights


def tokenize(text: str, language: str, start: int = 0, end: int = MAX_TEXT) -> list[Token]:
    """Returns the tokens of a text from ``start`` to ``end``, in order."""
    return _chinese(text, start, end) if language == "zh" else _spaced(text, language, start, end)


def _spaced(text: str, language: str, begin: int, finish: int) -> list[Token]:
    single, phrases = words(language)
    matches = list(_pattern().finditer(text, begin, finish))
    plain = text in (text.lower(), text.upper())  # a text without capitals cannot distinguish names
    tokens: list[Token] = []
    at = 0
    while at < len(matches):
        match = matches[at]
        if match.lastgroup not in ("word", "elided"):
            if not _ends_abbreviation(tokens, matches, at):
                tokens.extend(_figure(match, tokens[-1].code if tokens else "", language))
            at += 1
            continue
        lowered, whole = _bare(match[0]), match[0].lower().replace("’", "'")
        if lowered not in single and whole not in single and whole not in phrases and "-" not in lowered:
            name = _in_name(text, match) or (
                match[0][0].isupper() and not plain and bool(tokens) and tokens[-1].code != "."
            )
            tokens.append(Token("Z" if name else "x", 0, match.start(), match.end(), match[0]))
            at += 1
            continue  # most words
        count, entry = _phrase(matches, at, phrases.get(whole, []))
        if _in_name(text, match):
            count, entry = 1, (("Z", 0),)
        elif entry == (("L", 2),) and count == 2 and not _ends_phrase(tokens, matches, at + 2, single):
            count, entry = 1, None  # "before last Christmas", unlike "the week before last"
        if entry is None:
            entry = _depending(lowered, tokens, single.get(whole) or single.get(lowered))
            if entry is None and "-" in lowered:
                tokens.extend(_hyphenated(match, single, plain))
                at += 1
                continue
        tokens.extend(_coded(text, matches[at : at + count], entry, tokens[-1:], plain, language == "en"))
        at += count
    return tokens


def _coded(
    text: str, matches: list[re.Match[str]], entry: Entry | None, before: list[Token], plain: bool, english: bool
) -> list[Token]:
    """Returns the tokens of a word or phrase after the token ``before``; ``plain`` is a text without capitals."""
    match, start, end = matches[0], matches[0].start(), matches[-1].end()
    capital = match[0][0].isupper() and not plain
    named = capital and bool(before) and before[0].code != "."
    if entry is None:
        return [Token("Z" if named else "x", 0, start, end, match[0])]
    weak = english and _bare(match[0]) in HOMONYMS and not (plain or capital)
    last = _without_s(match, end, len(matches))
    song = english and named and len(matches) == 1  # "Yesterday"
    if english and last < end and entry[0][0] in "WM" and _bare(match[0]) not in NAMES and _plain_before(before):
        entry = (("n" if entry[0][0] == "W" else "i", 1), *entry)  # "Thursday's lunch", "July's sales"
    return [
        Token("Z" if song and code == "R" else code, value, start, last, text[start:end], weak) for code, value in entry
    ]


def _plain_before(before: list[Token]) -> bool:
    """Whether no name and no other time is before a word: "Man Friday's", "last Thursday's"."""
    return not before or before[0].code == "." or (before[0].code == "x" and before[0].text.islower())


def _ends_phrase(tokens: list[Token], matches: list[re.Match[str]], at: int, single: dict[str, Entry]) -> bool:
    """Whether "before last" belongs to the word before it, and not to the time after it."""
    following = single.get(matches[at][0].lower()) if at < len(matches) else None
    return bool(tokens) and tokens[-1].code in "USWMH" and (following is None or following[0][0] not in "USWMHP")


def _in_name(text: str, match: re.Match[str]) -> bool:
    """Whether a word is part of the name of a site or a file: "Monday.com", "march.csv"."""
    start, end = match.span()
    return (text[end : end + 1] == "." and text[end + 1 : end + 2].islower()) or (start > 1 and text[start - 1] in "@_")


def _depending(word: str, tokens: list[Token], entry: Entry | None) -> Entry | None:
    """Returns the meaning of a word after these tokens: "morgen" is tomorrow, but after "heute" the morning."""
    if word not in DEPENDING or entry is None:
        return entry
    codes, behind, other = DEPENDING[word]
    return other if (bool(tokens) and tokens[-1].code in codes) == behind else entry


def _ends_abbreviation(tokens: list[Token], matches: list[re.Match[str]], at: int) -> bool:
    """Whether a mark is the full stop of an abbreviation: "Sept. 2021", "Mon. 5 March"."""
    short = bool(tokens) and tokens[-1].code in "MW" and len(tokens[-1].text) <= 4 and tokens[-1].text.lower() != "may"
    follows = at + 1 < len(matches) and matches[at + 1].lastgroup in ("number", "ordinal")
    return short and follows and matches[at][0] == "." and tokens[-1].end == matches[at].start()


def _bare(word: str) -> str:
    """Returns a word in lower case, without a genitive ("yesterday's")."""
    lowered = word.lower().replace("’", "'")
    return lowered[:-2] if lowered.endswith("'s") else lowered


def _without_s(match: re.Match[str], end: int, count: int) -> int:
    return end - 2 if count == 1 and match[0].lower().replace("’", "'").endswith("'s") else end


def _phrase(
    matches: list[re.Match[str]], at: int, found: list[tuple[tuple[str, ...], Entry]]
) -> tuple[int, Entry | None]:
    for parts, entry in found:
        if at + len(parts) <= len(matches) and all(
            matches[at + n][0].lower().replace("’", "'") == part for n, part in enumerate(parts)
        ):
            return len(parts), entry
    return 1, None


def _hyphenated(match: re.Match[str], single: dict[str, Entry], plain: bool) -> list[Token]:
    """Splits "mid-May", "mi-mai", "June-August" into parts; returns one token if a part is no word of time."""
    tokens: list[Token] = []
    start = match.start()
    for part in match[0].split("-"):
        entry = single.get(part.lower())
        if entry is None:
            return [Token("x", 0, match.start(), match.end(), match[0])]
        if tokens and tokens[-1].code != "v":
            tokens.append(Token("u", 1, start - 1, start, "-"))
        weak = part.lower() in HOMONYMS and not (plain or part[0].isupper()) and not (tokens and tokens[-1].code == "v")
        tokens.extend(Token(code, value, start, start + len(part), part, weak) for code, value in entry)
        start += len(part) + 1
    if all(token.code not in "MWSHRU" or token.code == "U" for token in tokens):
        return [Token("x", 0, match.start(), match.end(), match[0])]  # "two-year-old"
    return tokens


def _decade(match: re.Match[str]) -> Token:
    """Returns the token of "1990s", "the '80s", "eighties", or German "80er Jahre"."""
    found, start, end = match[0], match.start(), match.end()
    lowered = found.lower()
    if lowered in _DECADES:
        return Token("K", 1920 + 10 * _DECADES.index(lowered), start, end, found, weak=True)
    figure = int(re.sub(r"\D", "", lowered))
    short = figure < 100
    return Token("K", 1900 + figure if short else figure, start, end, found, weak=short)


def _clock(text: str) -> str:
    """Returns "half past nine" and "ten o'clock" in figures; other times of day as they are."""
    if text.startswith("a la") or "heure" in text:
        return f"{re.sub(r'[^0-9]', '', text)}h"  # "a las 8", "à 8 heures"
    parts = text.replace("’", "'").removeprefix("a ").split()
    hour = parts[-2] if parts[-1] == "o'clock" else parts[-1]
    figure = _NUMBERS.index(hour) + 1 if hour in _NUMBERS else int(hour) if hour.isdigit() else 0
    if parts[-1] == "o'clock":
        return f"{figure}h"
    if len(parts) < 3:
        return text
    minutes = {"half": 30, "quarter": 15, "ten": 10, "twenty": 20}[parts[0]]
    return f"{figure}:{minutes}" if parts[1] == "past" else f"{(figure - 1) or 12}:{60 - minutes}"


def _day_and_month(match: re.Match[str], before: str, language: str) -> list[Token]:
    """Returns the tokens of German "24.12." and of "3/14" (in English the month first) after a preposition."""
    start, end = match.span()
    dotted = match.lastgroup == "day_month"
    day, month = (int(part) for part in re.findall(r"\d+", match[0]))
    if not dotted and (not day > 12 >= month if language == "en" else month > 12 >= day):
        day, month = month, day
    governed = bool(before) and before in ("nsBaqfuh&r" if dotted else "nsBaq" if language == "en" else "tsBaq")
    known = 1 <= day <= 31 and 1 <= month <= 12 and (dotted == (language == "de") or not dotted)
    if not governed or not known or match[0] == "9/11":
        return [Token("#", 0, start, end, match[0])]
    return [Token("O", day, start, end, match[0]), Token("M", month, start, end, match[0])]


def _short(match: re.Match[str], before: str) -> list[Token]:
    """Returns the tokens of "'22" after a time or a preposition, "FY2023", "Q3", "H1"."""
    kind, found, start, end = match.lastgroup, match[0], match.start(), match.end()
    if kind == "fiscal":
        return [Token("U", "year", start, end, found), Token("Y", 2000 + int(found[-2:]), start, end, found)]
    if kind == "short":
        figure = int(found[1:])
        named = before and before in "MSHQioaBfs"  # "July '22", "in '08", unlike "the '22 engine"
        return [Token("Y", 2000 + figure if figure < 69 else 1900 + figure, start, end, found)] if named else []
    half = found[0] in "Hh"
    if half and found[1] in "34":
        return [Token("#", 0, start, end, found)]
    return [Token("G" if half else "Q", int(found[1]), start, end, found)]


def _figure(match: re.Match[str], before: str, language: str) -> list[Token]:
    """Returns the token of a figure or a mark after a token with the code ``before``."""
    found, start, end = match[0], match.start(), match.end()
    kind = _KINDS.get(match.lastgroup or "", match.lastgroup)
    if kind in ("date", "years", "clock"):
        code = "D" if kind == "date" else "J" if kind == "years" else "C"
        return [Token(code, _clock(found.lower()) if code == "C" else found, start, end, found)]
    if kind in ("day_month", "month_day"):
        return _day_and_month(match, before, language)
    if kind == "decade":
        return [_decade(match)]
    if kind in ("short", "fiscal", "quarter"):
        return _short(match, before)
    if kind == "ordinal":
        return [Token("O", int(re.sub(r"\D", "", found)), start, end, found)]
    if kind == "number":
        figure = int(found)
        return [Token("Y" if len(found) == 4 and 1000 <= figure < 3000 else "N", figure, start, end, found)]
    if kind == "mark":
        code = "." if found in '.?!;:¿¡"”)' else "," if found == "," else "u" if found in "-–—" else "#"
        return [Token(code, 0, start, end, found)]
    return [Token("#", 0, start, end, found)]


@lru_cache(maxsize=1)
def _chinese_pattern() -> re.Pattern[str]:
    single, _ = words("zh")
    phrases = "|".join(sorted(map(re.escape, single), key=lambda word: -len(word)))
    number = r"\d{1,4}|[一二两三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九]"
    return re.compile(
        r"(?P<date>\d{4}-\d\d?-\d\d?)"
        r"|(?P<decade>\d{4}|\d0|[二三四五六七八九]十)年代"
        r"|(?P<clock>(?:\d{1,2}|十[一二]?|[二两三四五六七八九]|(?<=午)一)点(?:半|(?:\d{1,2}|[一二三四五]?十[一二三四五六七八九]?)分)?)"
        r"|(?P<year>\d{4})年|(?P<month>\d{1,2}|十[一二]?|[一二三四五六七八九])月(?:份)?|(?P<day>\d{1,2}|(?<=月)[一二三]?十?[一二三四五六七八九]?)[日号]"
        rf"|(?P<phrase>{phrases})|第(?P<ordinal>\d{{1,2}}|[一二三四五六七八九十])|(?P<number>{number})|(?P<mark>[,，。.?？!！;；])|(?P<other>\w+?|[^\w\s])"
    )


def _numeral(text: str) -> int:
    if text.isdigit():
        return int(text)
    if "十" in text:
        tens, _, ones = text.partition("十")
        return 10 * _DIGITS.get(tens, 1) + _DIGITS.get(ones, 0)
    return _DIGITS[text]


def _chinese(text: str, begin: int, finish: int) -> list[Token]:
    single, _ = words("zh")
    tokens: list[Token] = []
    codes = {"year": "Y", "month": "M", "day": "O", "ordinal": "O", "number": "N"}
    for match in _chinese_pattern().finditer(text, begin, finish):
        kind, start, end = match.lastgroup or "other", match.start(), match.end()
        if kind == "phrase":
            tokens.extend(Token(code, value, start, end, match[0]) for code, value in single[match[0]])
        elif kind in codes:
            tokens.append(Token(codes[kind], _numeral(match[kind]), start, end, match[0]))
        elif kind == "date":
            tokens.append(Token("D", match[0], start, end, match[0]))
        elif kind == "decade":
            figure = _numeral(match[kind])
            tokens.append(Token("K", figure if figure > 99 else 1900 + figure, start, end, match[0]))
        elif kind == "clock":
            hour, _, minute = match[0].removesuffix("分").partition("点")
            figure = 30 if minute == "半" else _numeral(minute) if minute else 0
            clock = f"{_numeral(hour)}:{figure:02}" if minute else f"{_numeral(hour)}h"
            tokens.append(Token("C", clock, start, end, clock))
        else:
            code = "x" if kind == "other" else "," if match[0] in ",，" else "."
            tokens.append(Token(code, 0, start, end, match[0]))
    return tokens
