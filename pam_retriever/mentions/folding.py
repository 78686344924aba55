"""Words of a text, folded as the words index folds them, and where each of them began.

SQLite itself says how its tokenizer reads a character, so that a name and a phrase of the words index agree on what a
word is. A character becomes one character, none (a combining mark) or a space (what is no letter and no digit): a place
in the folded text is a place in the text.
"""

from __future__ import annotations

import re
import sqlite3

TOKENIZER = "unicode61 remove_diacritics 2"  # of store/words.py, without the stems
BLOCK = 256  # characters that are asked about at once
WORD = re.compile(r"[^ ]+")


class _Folding(dict[int, str]):
    """Character to folded character, filled by blocks as characters come."""

    def __missing__(self, code: int) -> str:
        self.update(_block(code - code % BLOCK))
        return self[code]


def _block(first: int) -> dict[int, str]:
    """How the tokenizer reads ``BLOCK`` characters: each is asked about between two letters."""
    # a database of its own: nothing to share between threads or with a forked child
    database = sqlite3.connect(":memory:")
    try:
        database.execute(f"CREATE VIRTUAL TABLE asked USING fts5 (text, tokenize = '{TOKENIZER}')")
        database.execute("CREATE VIRTUAL TABLE terms USING fts5vocab (asked, instance)")
        codes = [code for code in range(first, first + BLOCK) if code and not 0xD800 <= code < 0xE000]
        database.executemany(
            "INSERT INTO asked (rowid, text) VALUES (?, ?)", ((code, f"a{chr(code)}b") for code in codes)
        )
        whole = dict(database.execute("SELECT doc, term FROM terms WHERE term NOT IN ('a', 'b')"))
    finally:
        database.close()
    return {code: whole[code][1:-1] if code in whole else " " for code in range(first, first + BLOCK)}


_FOLDING = _Folding()


def fold(text: str) -> str:
    """The text in lower case without diacritics, with a space for every character that is no letter and no digit."""
    return text.translate(_FOLDING)


def words(text: str) -> list[str]:
    """The folded words of a text, in order."""
    return fold(text).split()


def spans(text: str) -> list[tuple[int, int]]:
    """(start, end) in ``text`` of each of its ``words``, in characters."""
    folded = fold(text)
    found = [match.span() for match in WORD.finditer(folded)]
    if len(folded) == len(text):
        return found
    # a mark was dropped: count the characters of the text that left one behind
    places = [at for at, character in enumerate(text) if _FOLDING[ord(character)]]
    ends = [*places[1:], len(text)]
    return [(places[start], ends[end - 1]) for start, end in found]
