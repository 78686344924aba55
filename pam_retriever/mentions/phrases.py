"""Phrases that two texts may share without either being called so: runs of capitalised words.

They link weakly, and only where both texts have them capitalised. A text in a script without capitals has none.
"""

from __future__ import annotations

import re
from itertools import islice

from pam_retriever.mentions.folding import fold
from pam_retriever.mentions.names import MOST_WORDS, STOP_WORDS

MOST_PHRASES = 256  # of one text, those that come first
_UPPER = "".join(chr(code) for code in range(0x590) if chr(code).isupper())  # Latin, Greek, Cyrillic, Armenian
# a space, a hyphen, a line's end or the point of an initial leaves two words in one name
_RUN = re.compile(
    rf"(?<![^\W_])[{_UPPER}][\w'\u2019]{{0,63}}(?:(?:[ \n-]|(?<=\b[{_UPPER}])\. )[{_UPPER}][\w'\u2019]{{0,63}})+"
)


def capitalised(text: str) -> dict[str, tuple[int, int]]:
    """Runs of two or more capitalised words, folded, and where the first of each is; without stop words before them."""
    found: dict[str, tuple[int, int]] = {}
    for match in islice(_RUN.finditer(text), MOST_PHRASES):
        words = fold(match.group()).split()
        while words and words[0] in STOP_WORDS:
            del words[0]
        if 2 <= len(words) <= MOST_WORDS:
            found.setdefault(" ".join(words), match.span())
    return found
