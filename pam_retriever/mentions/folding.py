"""Folds texts to words in the same way as the full-text index, with the position of each word.

SQLite's own tokenizer folds each character, so that names and the full-text index split words in the same way. A
character becomes one character, none (a combining mark), or a space (neither letter nor digit). So positions in the
folded text can be mapped to positions in the text.
"""

from __future__ import annotations

import re
import sqlite3
from itertools import accumulate, islice

from pam_retriever.mentions.scripts import SELECTORS, is_optional, is_unspaced, spaced

# of store/sqlite/words.py, without the stems. Vowel signs (Mn, Mc) are parts of words, as in Hindi and Tamil
TOKENIZER = f"unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc' separators '{SELECTORS}'"
BLOCK = 256  # characters per query
WORD = re.compile(r"[^ ]+")
CAPITALS = "".join(chr(code) for code in range(0x590) if chr(code).isupper())  # Latin, Greek, Cyrillic, Armenian


class _Folding(dict[int, str]):
    """A map from character to folded character, filled in blocks on demand."""

    def __missing__(self, code: int) -> str:
        self.update(_block(code - code % BLOCK))
        return self[code]


def _block(first: int) -> dict[int, str]:
    """Returns the folded form of ``BLOCK`` characters: the tokenizer folds each between two letters."""
    # a new database: nothing to share between threads or with a forked child
    database = sqlite3.connect(":memory:")
    try:
        database.execute(f'CREATE VIRTUAL TABLE asked USING fts5 (text, tokenize = "{TOKENIZER}")')
        database.execute("CREATE VIRTUAL TABLE terms USING fts5vocab (asked, instance)")
        codes = [code for code in range(first, first + BLOCK) if code and not 0xD800 <= code < 0xE000]
        database.executemany(
            "INSERT INTO asked (rowid, text) VALUES (?, ?)", ((code, f"a{chr(code)}b") for code in codes)
        )
        whole = dict(database.execute("SELECT doc, term FROM terms WHERE term NOT IN ('a', 'b')"))
    finally:
        database.close()
    folded = {code: whole[code][1:-1] if code in whole else " " for code in range(first, first + BLOCK)}
    return {code: "" if is_optional(chr(code)) else character for code, character in folded.items()}


_FOLDING = _Folding()


def fold(text: str) -> str:
    """Returns the text in lower case without diacritics; other characters than letters and digits become spaces."""
    return text.translate(_FOLDING)


def fold_words(text: str) -> str:
    """Returns the folded text, in which each letter of a script without spaces is a word."""
    return spaced(fold(text))


def words(text: str) -> list[str]:
    """Returns the folded words of a text, in order; of scripts without spaces, its letters."""
    return fold_words(text).split()


def are_aligned(text: str, folded: str) -> bool:
    """Returns whether each character of ``text`` is at the same place in ``folded``, its text by ``fold_words``."""
    return len(folded) == len(text) and not is_unspaced(folded)


def spans(text: str, folded: str, count: int | None = None) -> list[tuple[int, int]]:
    """Returns the positions of the words of a text.

    Args:
        text: the text.
        folded: the text by ``fold_words``.
        count: number of words, from the first on; None for all.

    Returns:
        (start, end) in ``text`` of each word, in characters.
    """
    found = [match.span() for match in islice(WORD.finditer(folded), count)]
    if are_aligned(text, folded):
        return found
    # folding dropped combining marks, or put spaces around a letter: the position of each character that remains
    remain = [at for at, character in enumerate(text) if _FOLDING[ord(character)]]
    both = zip(remain, [*remain[1:], len(text)], strict=True)
    inside = [(start, end) for start, end in both if _FOLDING[ord(text[start])] != " "]
    ends = [*accumulate(end - start for start, end in found)]
    starts = [0, *ends[:-1]]
    return [(inside[first][0], inside[last - 1][1]) for first, last in zip(starts, ends, strict=False)]
