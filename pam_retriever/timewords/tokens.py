"""Tokens of a text: words with the codes of ``vocabulary``, dates and times of day in figures, and other text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from pam_retriever.timewords.chinese import chinese_tokens
from pam_retriever.timewords.figures import DECADES, FIGURES, HOURS, SPANISH_HOURS, figure
from pam_retriever.timewords.lexicon import DEPENDING, HOMONYMS, LANGUAGES, NAMES, TELLING, Entry, Token, words

_ONE = (
    rf"(?=[\d'’])(?:{FIGURES})"
    r"|(?P<fiscal>\bFY ?['’]?(?:20)?\d\d\b)"
    r"|(?P<spoken>\ba las? (?:\d{1,2}(?![\w:.,/]|\d)"
    rf"|(?:{'|'.join(SPANISH_HOURS)})\b)"
    rf"|\b(?:a )?(?:(?:half|quarter|ten|twenty) past|quarter to) (?:{HOURS}|\d{{1,2}})\b|\b(?:{HOURS}) o['’]clock\b)"
    r"|(?P<tens>\b(?:twen|thir|for|fif|six|seven|eigh|nine)ties\b|\b(?:zwanz|dreiß|vierz|fünfz|sechz|siebz|achtz|neunz)igern?\b)"
    r"|(?P<quarter>(?:\b|(?<=\b(?:19|20)\d\d))[QH][1-4]\b)"
    r"|(?P<elided>\b[ldLD]['’](?=\w))"
    r"|(?P<word>[^\W\d_]+(?:['’][^\W\d_]+|-[^\W\d_]+)*)"
    r"|(?P<junk>[\w$€£#]+)|(?P<mark>[.?!;:,–—-]|[^\w\s])"
)
_WORD = re.compile(r"[^\W\d_]+")
_TELLING_WORD = re.compile(r"(?<!\d)[^\W\d_]+")  # not the "am" of "10am"
_FIGURE = re.compile(r"[\d\u4e00-\u9fff]")
_CHINESE_CHARACTER = re.compile(r"[\u4e00-\u9fff]")
MAX_TEXT = 2**31


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
    alone: set[str] = {*DECADES, *(f"{name}n" for name in DECADES)}  # "in den Neunzigern"
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
                if code in "MWSHRKC" or len(entry) > 1 or entry[0][1] == "weekend"
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
    for word in set(_TELLING_WORD.findall(text[:400].lower())):
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
    return chinese_tokens(text, start, end) if language == "zh" else _spaced(text, language, start, end)


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
                tokens.extend(figure(match, "".join(token.code for token in tokens[-2:]), language))
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
    return not before or before[0].code == "." or (before[0].code in "xihofr" and before[0].text.islower())


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
