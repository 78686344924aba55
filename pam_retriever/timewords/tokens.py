"""Tokens of a text: words with the codes of ``vocabulary``, dates and times of day in figures, and other text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from pam_retriever.timewords.chinese import chinese_tokens
from pam_retriever.timewords.figures import DECADES, FIGURES, HOURS, SPANISH_HOURS, figure
from pam_retriever.timewords.lexicon import DEPENDING, HOMONYMS, LANGUAGES, LETTERS, NAMES, TELLING, Entry, Token, words

_SELDOM = (
    r"(?P<fiscal>\bFY ?['’]?(?:20)?\d\d\b)"
    r"|(?P<spoken>\b(?:(?:a|sobre|hacia) las?|de las?(?= \d\d? del? )) (?:\d{1,2}(?![\w:.,/]|\d)"
    rf"|(?:{'|'.join(SPANISH_HOURS)})\b)"
    rf"|\b(?:a )?(?:(?:half|quarter|ten|twenty) past|quarter to) (?:{HOURS}|\d{{1,2}})\b|\b(?:{HOURS}) o['’]clock\b)"
    rf"|(?P<tens>\b(?:{'|'.join(f'{name}n?' for name in DECADES)})\b)"
    r"|(?P<quarter>(?:\b|(?<=\b(?:19|20)\d\d))[QH][1-4]\b)"
    r"|(?P<elided>\b[ldLD]['’](?=\w))|"
)
_IN_SELDOM = frozenset(  # a match of ``_SELDOM`` has one of these words
    ["fy", "la", "las", "past", "quarter", "clock", "q", "h", "l", "d", *DECADES, *(f"{name}n" for name in DECADES)]
)
_OTHER = (
    r"(?P<word>[^\W\d_]+(?:['’][^\W\d_]+|-[^\W\d_]+)*)"
    r"|(?P<junk>[\w$€£#]+)|(?P<mark>(?<=\d)\.\.(?=\d)|[.?!;:,–—-]|[^\w\s])"
)
_WORD = re.compile(r"[^\W\d_]+")
_TELLING_WORD = re.compile(r"(?<![^\W_])[^\W\d_]+")  # not the "am" of "10am"
_FIGURE = re.compile(r"[\d\u4e00-\u9fff]")
_CHINESE_CHARACTER = re.compile(r"[\u4e00-\u9fff]")
_ELIDED = re.compile(r"\b(?:[jcn]|qu)['’]\w", re.IGNORECASE)  # "j'ai"; "l'" and "d'" are in names, too
_GERMAN_DAY = re.compile(r"(?<![\d.])[0-3]?\d\.[01]?\d\.(?=\W|$)")  # "5.8. - 16.8.", in a text of no language
MAX_TEXT = 2**31
_FIRST_PERSON = ("I", "I'", "I’")  # "in the spring I took": no name
_WORDS = ("word", "elided")  # groups of the pattern


class _Needed(NamedTuple):
    """The words that indicate a time: every time without figures contains at least one of them."""

    alone: frozenset[str]
    units: frozenset[str]  # these need one of ``beside``: "week" is no time, "last week" is
    beside: frozenset[str]
    ordinals: frozenset[str]  # after "on": "on the first"


@lru_cache(maxsize=2)
def _pattern(seldom: bool) -> re.Pattern[str]:
    """Returns the pattern of a token; compiled on demand: it takes as long as importing ten modules."""
    return re.compile(rf"(?=[\d'’])(?:{FIGURES})|{_SELDOM if seldom else ''}{_OTHER}", re.IGNORECASE)


@lru_cache(maxsize=8)
def _first_words(language: str) -> frozenset[str]:
    """Returns the words of time of a language, and the first words of its phrases."""
    single, phrases = words(language)
    return frozenset([*single, *phrases])


@lru_cache(maxsize=1)
def _needed() -> _Needed:
    alone: set[str] = {*DECADES, *(f"{name}n" for name in DECADES)}  # "in den Neunzigern"
    units: set[str] = set()
    beside: set[str] = set()
    ordinals: set[str] = set()
    for language in LANGUAGES:
        single, phrases = words(language)
        entries = [(word, entry) for word, entry in single.items()]
        for parts, entry in (phrase for found in phrases.values() for phrase in found):
            if len(entry) == 1:
                entries.append((parts[0] if entry[0][0] == "Y" else max(parts, key=len), entry))
            else:  # "the other day"
                *_, second, longest = sorted(parts, key=len)
                if len(longest) > 2:  # not "am Do"
                    units.add(longest)
                    beside.add(second)
        for word, entry in entries:
            code = entry[0][0]
            named = (
                alone
                if code in "MWSHRKCY" or len(entry) > 1 or entry[0][1] == "weekend" or str(entry[0][1]).startswith("W")
                else units
                if code in "UPd"
                else None
            )
            if named is None and code in "LVXTAFNOBewvcs":
                named = beside
                ordinals.update([word] if code == "O" else ())
            if named is not None:
                named.update(part for part in _WORD.findall(word) if len(part) > 1)  # not the "s" of "valentine's"
    return _Needed(frozenset(alone), frozenset(units), frozenset(beside), frozenset(ordinals))


def names_a_time(text: str, start: int, end: int) -> bool:
    """Whether a text has a word or a figure that may belong to a time: a fast test that excludes most sentences."""
    if _FIGURE.search(text, start, end) is not None:
        return True
    found = _WORD.findall(text[start:end].lower())
    needed = _needed()
    if not needed.alone.isdisjoint(found):
        return True
    if "on" in found and not needed.ordinals.isdisjoint(found):
        return True
    units = needed.units.intersection(found)
    beside = needed.beside.intersection(found) if units else units
    return bool(beside) and len(units | beside) > 1  # one word is not both


def language_of(text: str) -> str:
    """Detects the language of a text among the five; English by default."""
    if _CHINESE_CHARACTER.search(text):
        return "zh"
    counts = dict.fromkeys(TELLING, 0.0)
    weights = _telling()
    for word in set(_TELLING_WORD.findall(text[:400].lower())):
        for language, weight in weights.get(word, ()):
            counts[language] += weight
    counts["fr"] += ("'" in text or "’" in text) and _ELIDED.search(text) is not None
    if not text.isascii():
        for language, letters in LETTERS.items():
            counts[language] += 0.5 * (not letters.isdisjoint(text[:400].lower()))
    best = max(counts.values())
    if not best and _GERMAN_DAY.search(text) is not None:
        return "de"
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
        for word, entry in words(language)[0].items():
            alone = entry[0][0] in "WR" and sum(word in words(one)[0] for one in TELLING) == 1
            weights.setdefault(word, []).append((language, 1.0 if alone else 0.5))
    return weights


def tokenize(text: str, language: str, start: int = 0, end: int = MAX_TEXT) -> list[Token]:
    """Returns the tokens of a text from ``start`` to ``end``, in order."""
    return chinese_tokens(text, start, end) if language == "zh" else _spaced(text, language, start, end)


def _spaced(text: str, language: str, begin: int, finish: int) -> list[Token]:
    single, phrases = words(language)
    known = _first_words(language)
    seldom = not _IN_SELDOM.isdisjoint(_WORD.findall(text[begin:finish].lower()))
    matches = list(_pattern(seldom).finditer(text, begin, finish))
    plain = text in (text.lower(), text.upper())  # a text without capitals cannot distinguish names
    tokens: list[Token] = []
    at = 0
    while at < len(matches):
        match = matches[at]
        word = match[0]
        if match.lastgroup in _WORDS and _is_unknown(word, known):  # most words
            if language == "en" and _is_filler(word, tokens[-1:]):
                at += 1
                continue
            named = word[0].isupper() and not plain and bool(tokens) and tokens[-1].code != "."
            named = named and word[:2] not in _FIRST_PERSON
            start, end = match.span()
            code = "Z" if named or _in_name(text, start, end) else "x"
            tokens.append(Token(code, 0, start, end, word))
            at += 1
            continue
        if match.lastgroup not in _WORDS:
            if not _ends_abbreviation(tokens, matches, at):
                tokens.extend(figure(match, "".join(token.code for token in tokens[-2:]), language))
            at += 1
            continue
        lowered, whole = _bare(word), word.lower().replace("’", "'")
        count, entry = _phrase(matches, at, phrases.get(whole, []))
        if _in_name(text, *match.span()):
            count, entry = 1, (("Z", 0),)
        elif entry == (("L", 2),) and count == 2 and not _ends_phrase(tokens, matches, at + 2, single):
            count, entry = 1, None  # "before last Christmas", unlike "the week before last"
        if entry is None:
            entry = _depending(lowered, tokens, single.get(whole) or single.get(lowered))
            if entry is None and "-" in lowered:
                tokens.extend(_hyphenated(match, single, plain))
                at += 1
                continue
        tokens += _coded(text, matches[at : at + count], entry, tokens[-1:], plain, language == "en")
        at += count
    return tokens


def _coded(
    text: str, matches: list[re.Match[str]], entry: Entry | None, before: list[Token], plain: bool, english: bool
) -> list[Token]:
    """Returns the tokens of a word or phrase after the token ``before``; ``plain`` is a text without capitals."""
    word, start, end = matches[0][0], matches[0].start(), matches[-1].end()
    capital = not plain and word[0].isupper()
    named = capital and bool(before) and before[0].code != "."
    if entry is None:
        return [Token("Z" if named else "x", 0, start, end, word)]
    (first, value), text, last = entry[0], text[start:end], end
    if first == "U" and not plain and len(word) > 1 and word.isupper() and word != "KW":
        return [Token("Z", 0, start, end, word)]  # "HR", "MIN"
    if not english:
        return [Token(code, value, start, end, text) for code, value in entry]
    bare = _bare(word)
    weak = not (plain or capital) and bare in HOMONYMS
    if len(matches) == 1:
        last = end - len(word) + len(bare)
        if last < end and first in "WM" and bare not in NAMES and _plain_before(before):
            entry = (("n" if first == "W" else "i", 1), *entry)  # "Thursday's lunch", "July's sales"
    if named and (first == "R" or bare == "midnight"):
        return [Token("Z", value, start, last, text, weak)]  # the song "Yesterday", "The Day After Tomorrow"
    return [Token(code, value, start, last, text, weak) for code, value in entry]


def _plain_before(before: list[Token]) -> bool:
    """Whether no name and no other time is before a word: "Man Friday's", "last Thursday's"."""
    return not before or before[0].code == "." or (before[0].code in "xihofr" and before[0].text.islower())


def _is_unknown(word: str, known: frozenset[str]) -> bool:
    """Whether a word is no word of time, and has no part that is one."""
    lowered = word.lower()
    if lowered in known:
        return False
    return lowered.isalpha() or ("-" not in lowered and known.isdisjoint((_bare(lowered), lowered.replace("’", "'"))))


_FILLERS = frozenset(["um", "uh", "er", "erm", "hmm"])


def _is_filler(word: str, before: list[Token]) -> bool:
    """Whether a word only fills a pause: "on uh Monday", "at like three"."""
    return word in _FILLERS or (word == "like" and bool(before) and before[0].code in "inhgsBaqf")


def _ends_phrase(tokens: list[Token], matches: list[re.Match[str]], at: int, single: dict[str, Entry]) -> bool:
    """Whether "before last" belongs to the word before it, and not to the time after it."""
    following = single.get(_bare(matches[at][0])) if at < len(matches) else None
    return bool(tokens) and tokens[-1].code in "USWMH" and (following is None or following[0][0] not in "USWMHP")


def _in_name(text: str, start: int, end: int) -> bool:
    """Whether a word is part of the name of a site, a file or a function: "Monday.com", "march.csv", "date.today"."""
    if start > 1 and text[start - 1] == "." and text[start - 2].isalpha() and text[start : start + 1].islower():
        return True
    if text[end : end + 1] == "(" and text[end - 1 : end].islower():
        return True  # "today()"
    return (text[end : end + 1] == "." and text[end + 1 : end + 2].islower()) or (start > 1 and text[start - 1] in "@_")


def _depending(word: str, tokens: list[Token], entry: Entry | None) -> Entry | None:
    """Returns the meaning of a word after these tokens: "morgen" is tomorrow, but after "heute" the morning."""
    if word not in DEPENDING or entry is None or entry[0][0] == "n":
        return entry  # German "am"
    codes, behind, other = DEPENDING[word]
    return other if (bool(tokens) and tokens[-1].code in codes) == behind else entry


def _ends_abbreviation(tokens: list[Token], matches: list[re.Match[str]], at: int) -> bool:
    """Whether a mark is the full stop of an abbreviation: "Sept. 2021", "Mon. 5 March"."""
    short = bool(tokens) and tokens[-1].code in "MW" and len(tokens[-1].text) <= 4 and tokens[-1].text.lower() != "may"
    if not short or matches[at][0] != "." or at + 1 == len(matches) or tokens[-1].end != matches[at].start():
        return False
    following = matches[at + 1][0][0]
    return following.islower() or following.isdigit() or following in "'’,"


def _bare(word: str) -> str:
    """Returns a word in lower case, without a genitive ("yesterday's")."""
    lowered = word.lower().replace("’", "'")
    return lowered[:-2] if lowered.endswith("'s") else lowered


def _phrase(
    matches: list[re.Match[str]], at: int, found: list[tuple[tuple[str, ...], Entry]]
) -> tuple[int, Entry | None]:
    if not found:
        return 1, None
    longest = len(found[0][0])
    behind = tuple(match[0].lower().replace("’", "'") for match in matches[at + 1 : at + longest])
    for parts, entry in found:
        if parts[1:] == behind[: len(parts) - 1]:
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
