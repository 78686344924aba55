"""How a time without a preposition stands: as an adverb ("I asked monday") or of a noun ("my april bill").

This takes the place of capitals: chats have none.
"""

from __future__ import annotations

import re

from pam_retriever.timewords.lexicon import TELLING, Token, listed
from pam_retriever.timewords.match import Match

_IS = listed("is was are were be been ist war sind waren est était sont es era son fue")
_CLOSED = listed(  # with ``TELLING``, words that begin another phrase
    "me us him her them our your his their do does don't didn't am have has had will would can could should i've i'll"
    " we're we've that this if because but so as while pls please thanks again too what's whats who's who'd what'd why"
    " than about when's where's there"
)
_OWNERS = listed("my our your his her their")
_NO_TIME = listed(  # before a name, a label, or a thing that is liked
    "question questions answer audi infiniti exercise item frage pregunta ejercicio or named mr mrs ms happy merry"
    " belated red blue black white cold hot sweet lazy holy newly love loves hate hates frohe fröhliche joyeux feliz"
    " sur"
)
_IDIOMS = listed("blues roast roasts school schools madness club")
_NAMES = listed("may march mar april june august jan sun sat")  # words and names as often as times
_WORDS = listed("may march mar sep dec")  # "the sep argument", unlike "my dec bill"
NAMES_OR_WORDS = _NAMES | _WORDS


def begins_phrase(match: Match) -> bool:
    """Whether another phrase begins after a match, or the text ends: "monday what did I say", not "sunday roast"."""
    return phrase_ends(match.tokens, match.last + 1, match.context.language)


def phrase_ends(tokens: list[Token], at: int, language: str) -> bool:
    """Whether another phrase begins at a token, or the text ends."""
    if at >= len(tokens) or tokens[at].code in ".,&u":
        return True
    word, telling = tokens[at].text.lower(), TELLING.get(language, ())
    return tokens[at].code in "nhrsBafg" or (tokens[at].code in "xt" and (word in telling or word in _CLOSED | _IS))


def begins_sentence(tokens: list[Token], at: int) -> bool:
    """Whether no word before a token asks or tells: a text like "def yesterday helper" is a name, or a note."""
    return not any(token.text.lower() in TELLING["en"] | _CLOSED | _IS for token in tokens[:at])


def is_adverb(match: Match, named: str) -> bool:
    """Whether a time without a preposition is an adverb: at the end of a phrase, after a lower-case word or a comma."""
    previous, following = match.tokens[match.first - 1] if match.first else None, match.next()
    lowered, language = named.lower().rstrip("."), match.context.language
    first = previous is None or previous.code == "."
    if first and following is not None and following.text in ("was", "were"):
        return lowered not in _NAMES or named == "March"  # "February was dull", unlike "June was late"
    if (
        (lowered in _NAMES and not (_is_listed(match) or _is_told(match, lowered)))
        or (lowered in _WORDS and following is not None and following.code == "x")  # "set dec as default"
        or not begins_phrase(match)
        or (language in ("fr", "es") and not named.islower() and previous is not None and previous.code != ".")
    ):
        return False
    if following is not None and following.code not in ".,&u" and (language == "de" or following.text.lower() in _IS):
        return False
    if previous is None or previous.code == ".":
        return following is not None and (following.code == "," or (match.has("W") and following.code == "x"))
    if previous.code == "&" and _is_listed(match):
        return True
    word = previous.text.lower()
    if match.first > 1 and (match.tokens[match.first - 2].text.lower(), word) == ("it", "was"):
        return True  # "in I think it was September"
    if word == "(":
        return following is not None and following.text == ")"
    lower = previous.text.islower() or match.first == 1
    return previous.code == "," or (previous.code == "x" and lower and word not in _OWNERS | _NO_TIME | _IS)


_TOLD = re.compile(r"[a-z]{2,}ed|told|met|saw|went|left|got|broke|ate|bought|paid|sent|rang|came|did|was|had")


def _is_told(match: Match, lowered: str) -> bool:
    """Whether a clause that tells of the past ends with the day: "picked up the car sat", unlike "where he sat"."""
    ends = match.next() is None or match.tokens[match.last + 1].code in ".,"
    front = match.tokens[max(0, match.first - 5) : match.first]
    doubtful = lowered not in ("sat", "sun", "march") or not ends or not front or front[-1].code != "x"
    return not doubtful and any(_TOLD.fullmatch(token.text) for token in front)


def _is_listed(match: Match) -> bool:
    """Whether "and", "or" or "vs" is between a time and one that is no name: "june" of "june vs july"."""
    code = "M" if match.has("M") else "W"
    beside = [match.tokens[at : at + 2] for at in (match.last + 1, max(0, match.first - 2))]
    pairs = [(pair[0], pair[1]) if at == 0 else (pair[1], pair[0]) for at, pair in enumerate(beside) if len(pair) == 2]
    return any(link.code == "&" and other.code == code and other.text.lower() not in _NAMES for link, other in pairs)


def is_of_noun(match: Match, named: str) -> bool:
    """Whether a time is of a noun: "my april checkup", "the thursday notes", "jan sales"; not "the sun sets"."""
    front, following = match.tokens[match.first - 1 : match.first], match.next()
    previous = match.token("t") if match.has("t") else front[0] if front else None
    if following is None or following.code != "x" or not following.text.islower() or begins_phrase(match):
        return False
    noun, lowered, before = following.text, named.lower().rstrip("."), previous.text.lower() if previous else ""
    if lowered in ("sun", "sat") or noun.endswith("ed") or noun in _IDIOMS or "'" in noun:
        return False
    if match.context.language != "en":
        return False
    return before in _OWNERS or (before == "the" and lowered not in NAMES_OR_WORDS)
