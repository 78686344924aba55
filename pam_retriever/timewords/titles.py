"""Titles of works: the words of time in them are names."""

from __future__ import annotations

import re

from pam_retriever.timewords.lexicon import Token, listed

_MARK = re.compile(r"[《『\"“„«]")
_WORDS = r"[A-ZÀ-Þ][^%s\d.,;:!?\n]{0,60}[%s]"  # no figure and no stop: a quoted date or sentence is no title
_QUOTED = re.compile(
    "《[^》]*》|『[^』]*』|"
    + "|".join(
        front + _WORDS % (ends, ends) for front, ends in ((r"(?<!\w)\"", '"'), ("“", "”"), ("„", "“”"), ("« ?", "»"))
    )
)
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


def is_title(tokens: list[Token], first: int, last: int) -> bool:
    """Whether a time is a title: "lyrics of September", "a review of August by Ann Lee", "I saw The Last Summer"."""
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


def without_titles(text: str) -> str:
    """Returns the text with letters in place of its titles; the positions of all other words stay."""
    if _MARK.search(text) is not None:
        text = _QUOTED.sub(lambda found: "Z" * len(found[0]), text)
    if _ASKED.search(text) is None:
        return text
    return _ASKED.sub(lambda found: " " + "Z" * (len(found[0]) - 1), text)
