"""Titles of works in a text: the words of time in them are names."""

from __future__ import annotations

import re

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


def without_titles(text: str) -> str:
    """Returns the text with letters in place of its titles; the positions of all other words stay."""
    if _MARK.search(text) is not None:
        text = _QUOTED.sub(lambda found: "Z" * len(found[0]), text)
    if _ASKED.search(text) is None:
        return text
    return _ASKED.sub(lambda found: " " + "Z" * (len(found[0]) - 1), text)
