"""The words for benchmarks of use: parts of identifiers, stemmed, without stop words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

from pam_retriever.mentions.stop_words import STOP_WORDS
from pam_retriever.store.sqlite.words import Tokenizer

PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")

Stem = Callable[[str], str]


class Splitter:
    """Splits text into words, and identifiers into their parts: ``get_rootPath`` is get, root, path.

    Args:
        stop_words: words to leave out, unless the text has no other words.
        stem: maps a lower-case word to its stem; None leaves words unchanged.
    """

    def __init__(self, stop_words: Iterable[str] = (), stem: Stem | None = None) -> None:
        self._stop_words = frozenset(stop_words)
        self._stem = stem
        self._stems: dict[str, str] = {}

    def __call__(self, text: str) -> list[str]:
        """Returns the stems of the words of ``text``, in order, with repetitions."""
        words = [part.lower() for part in PART.findall(text)]
        content = [word for word in words if word not in self._stop_words] or words
        return [self._stem_of(word) for word in content]

    def _stem_of(self, word: str) -> str:
        if self._stem is None:
            return word
        stem = self._stems.get(word)
        if stem is None:
            stem = self._stems[word] = self._stem(word)
        return stem


@cache
def splitter() -> Splitter:
    """Returns one splitter per process, so that each word is stemmed once."""
    tokenize = Tokenizer()

    def stem(word: str) -> str:
        return next(iter(tokenize(word)), word)

    return Splitter(STOP_WORDS.split(), stem)
