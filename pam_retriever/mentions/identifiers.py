"""Parts of words such as ``HTTPDigestAuth``, which code and names of products write without spaces."""

from __future__ import annotations

import re

LONGEST = 64  # characters of a word that has parts; longer ones are mostly keys and encoded data

_BETWEEN = r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
_LETTERS = "[0-9A-Za-z\u00b5-\u024f\u0370-\u052f]"  # Latin, Greek and Cyrillic
# from its first letter on: a search from each letter takes quadratic time in a word without parts
_WORD = f"(?<!{_LETTERS}){_LETTERS}*[a-z][A-Z]{_LETTERS}*"


def with_parts(text: str) -> str:
    """Returns a text in which each word such as ``HTTPDigestAuth`` is followed by its parts: HTTP, Digest and Auth.

    Parts of one letter are left out, so ``eBay`` is followed by ``Bay`` alone.
    """
    if not re.search("[a-z][A-Z]", text):  # takes half as long in the many texts without such a word
        return text
    return re.sub(_WORD, _word_and_parts, text)


def _word_and_parts(match: re.Match[str]) -> str:
    word = match.group()
    if len(word) > LONGEST:
        return word
    return " ".join([word, *(part for part in re.split(_BETWEEN, word) if len(part) > 1)])
