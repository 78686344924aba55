"""Cuts texts into words for the full-text index: scripts without spaces between words, and parts of identifiers.

Chinese, Japanese, Thai, Lao, Khmer and Burmese put no spaces between words, and Korean appends particles to them. A
run of their letters becomes each letter and each pair of neighbours: "東京都" becomes 東 東京 京 京都 都. Pairs
find about as much as words of a dictionary do (Nie, Gao, Zhang and Zhou 2000, for Chinese), and single letters find
words of one letter. The figures are in benchmarks/notes/real-data.md.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from pam_retriever.mentions.identifiers import with_parts

# ranges of characters, for the brackets of a pattern
_HAN = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
_HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
_EAST = _HAN + _KANA + _HANGUL
_SOUTH_EAST = (  # Thai, Lao, Burmese and Khmer, without their digits
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u109a-\u109d"
    "\u1780-\u17d3\u17d7\u17dc\u17dd\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"
)
_SOUTH_EAST_MARKS = (  # vowels and tones above, below and beside a letter: a part of it
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u1056-\u1059\u105e-\u1060"
    "\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d\u17b4-\u17d3\u17dd\ua9e5\uaa7b-\uaa7d"
)
# narrow, wide and composed forms, and marks that follow a kana as characters of their own
_FORMS = "\u3099\u309a\u3200-\u33ff\uff01-\uffef"
# points of vowels in Hebrew and Arabic, which most texts leave out; the Arabic line that makes a word longer
_OPTIONAL_MARKS = (
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"
)
FIRST_MARK = "\u0300"  # Python counts all earlier letters and digits as parts of words
SELECTORS = "\ufe00-\ufe0f"  # choose between forms of the character before, such as an emoji and a letter
_IDEOGRAPHIC_SELECTORS = "\U000e0100-\U000e01ef"
# accents; SQLite removes only most of them
_DIACRITICS = "\u0300-\u036f\u0483-\u0487\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20dc\u20e1\u20e5-\u20f0\ufe20-\ufe2f"

# patterns, compiled when a text needs one: together they take 15 ms, which a process with ASCII alone need not wait for
_REMOVED = f"[{_DIACRITICS}{_OPTIONAL_MARKS}{_IDEOGRAPHIC_SELECTORS}]+"
_COMPOSED = f"[{_EAST}{_FORMS}]+"
_RUN = f"[{_EAST}]+|[{_SOUTH_EAST}]+"
_CLUSTER = f"[{_SOUTH_EAST}][{_SOUTH_EAST_MARKS}]*"
_CHANGED = f"[{_DIACRITICS}{_OPTIONAL_MARKS}{_SOUTH_EAST}{_EAST}{_FORMS}{_IDEOGRAPHIC_SELECTORS}]"
_UNSPACED = f"[{_EAST}{_SOUTH_EAST}]"
_LETTER = f"[{_EAST}]|{_CLUSTER}"
_BETWEEN = f"(?<={_UNSPACED}) +(?={_UNSPACED})"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def is_unspaced(text: str) -> bool:
    """Returns whether a text has letters of a script without spaces between words."""
    return not text.isascii() and _compiled(_UNSPACED).search(text) is not None


def is_optional(character: str) -> bool:
    """Returns whether most texts leave a character out, such as a point for a vowel in Arabic and Hebrew."""
    return _compiled(_REMOVED).match(character) is not None


def spaced(folded: str) -> str:
    """Puts a space before and after each letter of a script without spaces between words."""
    return folded if folded.isascii() else _compiled(_LETTER).sub(r" \g<0> ", folded)


def joined(phrase: str) -> str:
    """Removes the spaces between such letters again."""
    return phrase if phrase.isascii() else _compiled(_BETWEEN).sub("", phrase)


def letters(phrase: str) -> list[str]:
    """Returns the words of a spaced phrase as ``cut`` returns them, of scripts without spaces the letters alone."""
    return spaced(_composed(joined(phrase))).split()


def cut(text: str | None) -> str | None:
    """Returns a text with spaces between what the full-text index takes for words.

    Args:
        text: any text; None for none.

    Returns:
        The text itself, if it has only words with spaces between them, and none such as ``HTTPDigestAuth``.
    """
    return None if text is None else separated(with_parts(text))


def separated(text: str) -> str:
    """Returns a text with spaces between the letters and pairs of letters of scripts that write none."""
    if text.isascii() or not _compiled(_CHANGED).search(text):
        return text
    return _compiled(_RUN).sub(_pieces, _composed(_compiled(_REMOVED).sub("", text)))


def _composed(text: str) -> str:
    return _compiled(_COMPOSED).sub(lambda match: unicodedata.normalize("NFKC", match.group()), text)


def _pieces(run: re.Match[str]) -> str:
    """Returns each letter, followed by the pair that it begins."""
    found = run.group()
    clusters = _compiled(_CLUSTER)
    each = clusters.findall(found) if clusters.match(found) else list(found)
    pieces = [""] * (2 * len(each) - 1)
    pieces[::2] = each
    pieces[1::2] = [first + second for first, second in zip(each, each[1:], strict=False)]
    return f" {' '.join(pieces)} "


def split(text: str) -> list[str]:
    """Returns the words of a text, as the full-text index splits it; of scripts without spaces, whole runs."""
    return re.findall(r"\w+", text) if text.isascii() or max(text) < FIRST_MARK else _word().findall(text)


@cache
def _word() -> re.Pattern[str]:
    """Returns the pattern of a word: letters, digits, and the marks that Python does not count as letters."""
    every = (chr(code) for code in range(ord(FIRST_MARK), 0x1F000) if not 0xFE00 <= code <= 0xFE0F)
    return re.compile(f"[\\w{''.join(one for one in every if unicodedata.category(one) in ('Mn', 'Mc'))}]+")
