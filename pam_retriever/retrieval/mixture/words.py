"""An inverted index of the words of names, which grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from pam_retriever.types import Float32, Int64

K1, B = 1.2, 0.75  # of BM25 (Robertson and Zaragoza 2009)


class WordIndex:
    """How often each row holds each word; rows and counts may be added at any time.

    Args:
        n: the number of rows.
    """

    def __init__(self, n: int) -> None:
        self.lengths: Float32 = np.zeros(n, np.float32)
        self._counts: dict[str, dict[int, float]] = {}
        self._arrays: dict[str, tuple[Int64, Float32]] = {}
        self._put: dict[int, Sequence[str]] = {}

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]], weight: float = 1.0) -> WordIndex:
        """An index with one row for each list of words."""
        index = cls(len(texts))
        for row, words in enumerate(texts):
            index.add(row, words, weight)
        return index

    def __len__(self) -> int:
        return len(self.lengths)

    def add(self, row: int, words: Iterable[str], weight: float = 1.0) -> None:
        """Counts the words once more in ``row``, each as ``weight`` of one."""
        for word, count in Counter(words).items():
            counts = self._counts.setdefault(word, {})
            counts[row] = counts.get(row, 0.0) + weight * count
            self.lengths[row] += weight * count
            self._arrays.pop(word, None)

    def grow(self, n: int) -> None:
        """Makes room for rows up to ``n``."""
        self.lengths = np.concatenate([self.lengths, np.zeros(n - len(self.lengths), np.float32)])

    def put(self, row: int, words: Sequence[str]) -> None:
        """Has a row hold these words, in place of those that were put before."""
        for word in self._put.pop(row, ()):
            if self._counts[word].pop(row, None) is not None:
                self._arrays.pop(word, None)
        self.lengths[row] = 0
        if words:
            self._put[row] = words
            self.add(row, words)

    def counts(self, word: str) -> tuple[Int64, Float32]:
        """The rows that hold the word, and how often."""
        found = self._arrays.get(word)
        if found is None:
            counts = self._counts.get(word, {})
            rows = np.fromiter(counts.keys(), np.int64, len(counts))
            found = rows, np.fromiter(counts.values(), np.float32, len(counts))
            self._arrays[word] = found
        return found
