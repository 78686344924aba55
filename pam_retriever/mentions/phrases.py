"""Phrases that two texts share although no memory has them as a name: runs of capitalised words.

They link texts weakly, and only if both texts capitalise them. A script without capitals has no such phrases.
"""

from __future__ import annotations

import re
from itertools import dropwhile, islice

from pam_retriever.mentions.folding import fold
from pam_retriever.mentions.names import MOST_WORDS, STOP_WORDS

MOST_PHRASES = 256  # per text: the first ones
_UPPER = "".join(chr(code) for code in range(0x590) if chr(code).isupper())  # Latin, Greek, Cyrillic, Armenian
# a space, a hyphen, a line break or the point of an initial may separate two words of a name
_RUN = re.compile(
    rf"[{_UPPER}](?<![^\W_][{_UPPER}])[\w'\u2019]{{0,63}}"
    rf"(?:(?:[ \n-]|(?<=\b[{_UPPER}])\. )[{_UPPER}][\w'\u2019]{{0,63}})+"
)


def capitalised(text: str) -> dict[str, tuple[int, int]]:
    """Returns runs of two or more capitalised words, folded, with positions; without leading stop words."""
    found: dict[str, tuple[int, int]] = {}
    for match in islice(_RUN.finditer(text), MOST_PHRASES):
        words = list(dropwhile(STOP_WORDS.__contains__, fold(match.group()).split()))
        if 2 <= len(words) <= MOST_WORDS:
            found.setdefault(" ".join(words), match.span())
    return found
