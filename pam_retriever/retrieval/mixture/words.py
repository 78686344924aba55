"""BM25 for the mixture: over several fields of the memories (texts, names, requests), and a growing inverted index.

``retrieval.lexical`` has the BM25 of recall without feedback, over texts and the texts of neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pam_retriever.arrays import union
from pam_retriever.retrieval.lexical import K1, B
from pam_retriever.retrieval.postings import TermScoreCache, TermScores
from pam_retriever.types import Float32, Int64

MOST_CACHED = 1_000_000  # scores in the cache


class Field(Protocol):
    """The words of one field of the memories: texts or names."""

    @property
    def lengths(self) -> Float32:
        """The number (n,) of words of each memory."""
        ...

    @property
    def version(self) -> object:
        """Changes with every added or removed word."""
        ...

    def counts(self, word: str) -> tuple[Int64, Float32]:
        """Returns the positions of the memories that hold a word, each once, and the counts."""
        ...


class BM25:
    """BM25 of every memory over weighted fields. Caches the scores of each word.

    Args:
        fields: each with its weight.
        b: length normalisation.
    """

    def __init__(self, fields: Sequence[tuple[Field, float]], b: float = B) -> None:
        self._fields, self._b = tuple(fields), b
        self._version: object = None
        self._known = TermScoreCache(MOST_CACHED)

    def scores_of(self, questions: Sequence[Sequence[str]]) -> Float32:
        """Returns the scores (Q, n) for the words of Q questions."""
        rows = [self.scores(words) for words in questions]
        return rows[0][None] if len(rows) == 1 else np.stack(rows)

    def scores(self, words: Sequence[str]) -> Float32:
        """Returns scores (n,), at least 0. A repeated word of the question counts once."""
        self._follow()
        scores = np.zeros(len(self._norm), np.float32)
        for word in dict.fromkeys(words):
            self._known.of(word, self._of).add_to(scores)
        return scores

    def _follow(self) -> None:
        """Clears the cache if a field changed."""
        version = tuple(field.version for field, _ in self._fields)
        if self._version == version:
            return
        lengths: Float32 = np.stack([np.float32(weight) * field.lengths for field, weight in self._fields]).sum(axis=0)
        mean = max(float(lengths.mean()), 1.0) if len(lengths) else 1.0
        self._norm: Float32 = (1 - self._b + self._b * lengths / mean).astype(np.float32)
        self._times = np.zeros(len(lengths), np.float32)  # weighted count of a word in each memory
        self._known, self._version = TermScoreCache(MOST_CACHED), version

    def _of(self, word: str) -> TermScores:
        """Returns the scores for a word of the memories that hold it in any field."""
        held = [field.counts(word) for field, _ in self._fields]
        rows = held[0][0] if len(held) == 1 else union(*(part for part, _ in held))
        for (part, counts), (_, weight) in zip(held, self._fields, strict=True):
            self._times[part] += counts * np.float32(weight)
        count = self._times[rows]
        self._times[rows] = 0
        idf = np.float32(np.log1p((len(self._norm) - len(rows) + 0.5) / (len(rows) + 0.5)))
        values = (idf * count * (K1 + 1) / (count + K1 * self._norm[rows])).astype(np.float32)
        return TermScores.of(rows, values, len(self._norm))


class WordIndex:
    """The count of each word in each row; rows can be added, and their words replaced.

    Args:
        n: the number of rows.
    """

    def __init__(self, n: int) -> None:
        self.lengths: Float32 = np.zeros(n, np.float32)
        self._counts: dict[str, dict[int, int]] = {}
        self._arrays: dict[str, tuple[Int64, Float32]] = {}
        self._put: dict[int, Sequence[str]] = {}
        self.version = 0

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]]) -> WordIndex:
        """Creates an index with one row per list of words."""
        index = cls(len(texts))
        for row, words in enumerate(texts):
            index.put(row, words)
        return index

    def __len__(self) -> int:
        return len(self.lengths)

    def grow(self, n: int) -> None:
        """Extends the index to ``n`` rows."""
        self.version += 1
        self.lengths = np.concatenate([self.lengths, np.zeros(n - len(self.lengths), np.float32)])

    def put(self, row: int, words: Sequence[str]) -> None:
        """Replaces the words of a row."""
        self.version += 1
        for word in self._put.pop(row, ()):
            if self._counts[word].pop(row, None) is not None:
                self._arrays.pop(word, None)
        self.lengths[row] = len(words)
        for word, count in Counter(words).items():
            self._counts.setdefault(word, {})[row] = count
            self._arrays.pop(word, None)
        if words:
            self._put[row] = words

    def counts(self, word: str) -> tuple[Int64, Float32]:
        """Returns the rows that hold the word, and the counts."""
        found = self._arrays.get(word)
        if found is None:
            counts = self._counts.get(word, {})
            rows = np.fromiter(counts.keys(), np.int64, len(counts))
            found = rows, np.fromiter(counts.values(), np.float32, len(counts))
            self._arrays[word] = found
        return found
