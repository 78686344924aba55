"""Edges between memories that a question follows, the ways in which they lead to a memory, and the weights of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from pam_retriever.arrays import among
from pam_retriever.types import Bools, Float32, Int64

Way = Literal["asked", "names", "named by", "second step", "shares"]
WAYS: tuple[Way, ...] = get_args(Way)
# weights relative to cosine + LEXICAL * BM25 (1 for the best), chosen on half of the questions of three sets
# (benchmarks/real/documents.py), the same for all
MENTIONS = 1.6  # weight of all of them beside the scores of recall, chosen in the same way
PRIOR = dict(zip(WAYS, (1.0, 0.35, 0.08, 0.03, 0.25), strict=True))
LEXICAL = 0.3


class Question(Protocol):
    """The data of a question that the source needs. All rows are rows of memories that may be found."""

    text: str | None
    term_weights: Float32  # (T,) idf of the question's terms

    def scores(self, rows: Int64) -> Float32:
        """Returns (n,) cosine + LEXICAL * BM25, scaled to 1 for the best hit."""

    def holds(self, rows: Int64) -> Bools:
        """Returns whether each of the texts has each of the question's terms, (T, n)."""

    def part(self, words: str, rows: Int64) -> Float32:
        """Returns the part (n,) of the terms of some words, by idf, that each of the texts has; 0 without terms."""

    def allowed(self, rows: Int64) -> Bools:
        """Returns which rows (n,) may be found, and may lead to others."""


@dataclass(frozen=True)
class Edges:
    """Edges (m,) between memories; ``numbers`` are the numbers of the name, link or phrase of each edge."""

    sources: Int64
    numbers: Int64
    targets: Int64
    weights: Float32

    def at(self, positions: Bools | slice) -> Edges:
        """Returns the edges at these positions."""
        return Edges(self.sources[positions], self.numbers[positions], self.targets[positions], self.weights[positions])


_NONE: Int64 = np.empty(0, np.int64)
NO_EDGES = Edges(_NONE, _NONE, _NONE, np.empty(0, np.float32))


@dataclass(frozen=True)
class Mentioned:
    """The mentions for a question.

    Attributes:
        rows: (n,) sorted.
        features: (n, 5) the strength for each of ``WAYS``, at least 0.
        sources: (n, 5) the memory from which the strength comes; -1 for the question itself, or for no strength.
        numbers: (n, 5) the number of the name, link or phrase; 0 for none.
    """

    rows: Int64
    features: Float32
    sources: Int64
    numbers: Int64

    def of(self, rows: Int64) -> Float32:
        """Returns the features (m, 5) of memories (m,); else 0."""
        features = np.zeros((len(rows), len(WAYS)), np.float32)
        there, position = self._positions(rows)
        features[there] = self.features[position]
        return features

    def ways(self, rows: Int64) -> Int64:
        """Returns the sources and numbers (m, 5, 2) of memories (m,); else 0."""
        ways = np.zeros((len(rows), len(WAYS), 2), np.int64)
        there, position = self._positions(rows)
        ways[there, :, 0], ways[there, :, 1] = self.sources[position], self.numbers[position]
        return ways

    def _positions(self, rows: Int64) -> tuple[Bools, Int64]:
        """Returns a mask of the ``rows`` (m,) that are mentioned, and the positions of these in ``self.rows``."""
        there = among(self.rows, rows)
        return there, self.rows.searchsorted(rows[there])
