"""Titles of works: the words of time in them are names."""

from __future__ import annotations

import re

from pam_retriever.timewords.lexicon import Token, listed
from pam_retriever.timewords.standing import begins_sentence

_MARK = re.compile(r"[《『\"“„«'‘]")
_WORDS = r"[A-ZÀ-Þ][^%s\d.,;:!?\n]{0,60}[%s]"  # no figure and no stop: a quoted date or sentence is no title
_QUOTED = re.compile(
    r"《[^》]*》|『[^』]*』|(?<!\w)'[^\W\d]+(?: [^\W\d]+){0,2}'(?!\w)|‘[^’\d]{1,40}’(?!\w)|"
    + "|".join(
        front + _WORDS % (ends, ends) for front, ends in ((r"(?<!\w)\"", '"'), ("“", "”"), ("„", "“”"), ("« ?", "»"))
    )
)
_MENTIONED = re.compile(r"(?<!\w)[\"“„][^\W\d]+(?:['’]s)?(?: [^\W\d]+)?[\"“”](?!\w)")  # who sang "tomorrow"
_OF_WORKS = [f"{verb} in" for verb in ("star", "stars", "starred", "starring", "acts", "acted")] + [
    f"{noun} of" for noun in ("rating", "plot", "cast", "soundtrack", "trailer", "lyrics", "ending", "remake", "theme")
]
_ASKED = re.compile(  # "who stars in Independence Day", "the plot of The Day After Tomorrow"
    " (?=[A-Z])(?<= [io][nf] )(?:" + "|".join(rf"(?<=\b{words} )" for words in _OF_WORKS) + ")"
    r"[A-Z][^\W\d]+(?: (?:[A-Z][^\W\d]*|of|the|on|and)\b)+(?! ?\d)"
)
_WORKS = listed(
    "lyrics chords tabs soundtrack trailer cast plot remake cover songtext liedtext akkorde paroles accords letra"
    " acordes"
)


_TONGUES = (
    "english|french|german|spanish|chinese|mandarin|japanese|italian|finnish|swedish|dutch|polish|russian|latin"
    "|portuguese|korean|arabic|turkish|greek|hindi|danish|norwegian|czech"
)
_ABOUT_WORDS = re.compile(  # "what does YTD mean", "how do you spell Wednesday", "how do you say 'tomorrow' in Finnish"
    r"\W*(?:what (?:does|is) ['\"]?[\w-]+(?: [\w-]+){0,3}['\"]? (?:mean|stand for|short for)\W*$"
    r"|how many (?:(?:working|business|school|calendar) )?(?:days|weeks|hours|mondays|weekends)"
    r"(?: (?:are|were))?(?: there)? in \w+(?: \d{4})?\W*$"
    r"|how (?:(?:do|does|would|should|can|is|to) )?(?:(?:you|i|we|one|people) )?"
    r"(?:spell|pronounce|hyphenate|abbreviate|capitali[sz]e|translate)\b"
    rf"|how (?:do|does|would|should|can|to) (?:(?:you|i|we|one|people) )?(?:say|write) .* in (?:{_TONGUES})\W*$"
    rf"|(?:what['’]?s|what is) the (?:(?:{_TONGUES}) )?"
    rf"(?:word|plural|abbreviation|translation|etymology|spelling|{_TONGUES}) (?:for|of) [\w '\"‘’“”]+\W*$"
    r"|wie (?:schreibt|buchstabiert|spricht|sagt|übersetzt) man\b|was (?:heißt|bedeutet)\b"
    r"|comment (?:on )?(?:dit-on|écrit-on|prononce-t-on|s['’]écrit|se (?:dit|prononce)|dit|écrit|prononce)\b"
    r"|que (?:veut dire|signifie)\b|c[óo]mo se (?:dice|escribe|pronuncia|deletrea)\b|qué significa\b)"
    r"|.*(?:怎么|如何)(?:说|写|读|念|拼)\W*$|.*是什么意思\W*$",
    re.IGNORECASE,
)
_STREETS = listed(
    "rue avenue boulevard place quai impasse calle avenida plaza paseo barrio carrer via rua straße strasse allee platz"
    " brücke gare lycée collège stade instituto colegio escuela estadio puente hospital"
)


_ROADS = listed("street avenue ave lane road")  # "42 March Street"


def is_about_words(text: str) -> bool:
    """Whether a question asks for the spelling, the meaning or the translation of words."""
    return _ABOUT_WORDS.match(text) is not None


def is_street(tokens: list[Token], first: int, last: int) -> bool:
    """Whether a day or a month is the name of a street or a place: "rue du 8 Mai 1945", "calle 25 de Mayo"."""
    codes = [token.code for token in tokens[first : last + 1]]
    if "M" in codes and last + 1 < len(tokens) and tokens[last + 1].text.lower() in _ROADS:
        return True
    if not first or codes[0] == "n" or tokens[first - 1].text.lower() == "of":
        return False  # "took place on 28 November"
    while first > 0 and tokens[first - 1].code in "oftNu":
        first -= 1
    return (
        ("M" in codes or "D" in codes) and codes[0] != "v" and first > 0 and tokens[first - 1].text.lower() in _STREETS
    )


_ABOUT_WORKS = listed("lyrics chords tabs soundtrack trailer cast plot remake actress episode theme presenter album")
_GOVERNORS = frozenset("inrhsBafguq")


def _leads_to_work(tokens: list[Token], first: int, last: int) -> bool:
    """Whether a time begins the name of a work: "friday i'm in love lyrics"."""
    figures = any(token.code in "YDNOC" for token in tokens[first : last + 1])  # "born 12 May 1984, an actress"
    if not figures and not _ABOUT_WORKS.isdisjoint(token.text for token in tokens[last + 1 : last + 6]):
        return tokens[first].code not in _GOVERNORS and begins_sentence(tokens, first)
    return False


def is_title(tokens: list[Token], first: int, last: int, question: bool = False) -> bool:
    """Whether a time is a title: "lyrics of September", "a review of August by Ann Lee", "I saw The Last Summer"."""
    if is_street(tokens, first, last) or (question and _leads_to_work(tokens, first, last)):
        return True
    at = first if tokens[first].code == "t" else first - 1  # of an article
    if at > 0 and tokens[at].code == "t" and tokens[at].text.istitle() and tokens[at - 1].code in "xZ":
        return True
    front = [token for token in tokens[max(0, first - 3) : first] if token.code != "t"]
    if len(front) < 2 or front[-1].code not in "oruhf":
        return False
    year = any(token.code == "Y" for token in tokens[first : last + 1])  # "the cast of the 1986 film"
    if front[-2].text.lower() in _WORKS and not year:
        return front[-1].code != "f" or front[-1].text.lower() == "von"
    behind = tokens[last + 1 : last + 3]
    by = [token.code for token in behind] == ["q", "Z"] and behind[0].text.lower() == "by"
    return by and front[-1].code == "o"


def without_titles(text: str, question: bool = False) -> str:
    """Returns the text with letters in place of its titles, and of words that a question quotes; positions stay."""
    if _MARK.search(text) is not None:
        text = _QUOTED.sub(lambda found: "Z" * len(found[0]), text)
        if question:
            text = _MENTIONED.sub(lambda found: "Z" * len(found[0]), text)
    if _ASKED.search(text) is None:
        return text
    return _ASKED.sub(lambda found: " " + "Z" * (len(found[0]) - 1), text)
