"""Evidence sources: each computes features of candidates for cues; 0 means no information.

The sources here read vectors, words and neighbours of the memories. Each source of past use has a module of its
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.arrays import best, union
from pam_retriever.retrieval.hybrid import WINDOW
from pam_retriever.retrieval.lexical import LONG
from pam_retriever.retrieval.mixture.corpus import Corpus
from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, Pools
from pam_retriever.retrieval.mixture.words import BM25, Field
from pam_retriever.types import Float32, Int64

BM25_UNIT = 10.0  # scales BM25 to the order of 1
PLAIN_UNIT = 10.0  # scales a mean of cosines to the order of 1


class Source(Protocol):
    """A source of evidence."""

    @property
    def name(self) -> str:
        """The name in reports."""
        ...

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the columns that ``score`` returns."""
        ...

    def score(self, cues: Cues, pools: Pools) -> Float32:
        """Returns the features (P, F), one row per pair of cue and candidate; 0 without information."""
        ...

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        """Returns about ``n`` memories for each cue that this source ranks first; fewer if it knows fewer."""
        ...


class MemoryVectors(Protocol):
    """The vectors of the memories, by position."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: Int64) -> Float32:
        """Returns the vectors (m, dim) at positions (m,), of unit length."""
        ...

    def nearest(self, vectors: Float32, n: int, allowed: Rows | None = None) -> list[Int64]:
        """For each vector (Q, dim), returns the positions of the ``n`` most similar ``allowed`` memories."""
        ...


class Similarity:
    """Cosine of cue and memory.

    Args:
        vectors: the vectors of the memories.
    """

    name, features = "similarity", ("similarity",)

    def __init__(self, vectors: MemoryVectors) -> None:
        self._vectors = vectors

    def score(self, cues: Cues, pools: Pools) -> Float32:
        return _cosines(cues, pools, self._vectors)[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        return self._vectors.nearest(cues.vectors, n, cues.allowed)


class Words:
    """BM25 of a cue's words in a field of the memories.

    Args:
        name: the name of the source and of its feature.
        field: the field with the words.
    """

    def __init__(self, name: str, field: Field) -> None:
        self.name, self.features = name, (name,)
        self._bm25 = BM25([(field, 1.0)])
        self._last = LastAnswer[Float32]()

    def score(self, cues: Cues, pools: Pools) -> Float32:
        return (pools.grid(self._scores(cues)) * by_length(cues, pools))[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        return [best(row, n) for row in self._scores(cues)]

    def _scores(self, cues: Cues) -> Float32:
        """Returns the scores (Q, n), computed once for proposals and features."""
        return self._last.of(lambda: self._bm25.scores_of(cues.words), cues)


class WordsAndNeighbours:
    """Recall without feedback: vector, words and neighbours in one score.

    A turn of a conversation seldom names its topic; its neighbours do. So the neighbours of memories that
    look like the question, or have its words, are candidates, too; similarity and words propose the others.

    Args:
        corpus: the memories.
    """

    name, features = "words and neighbours", ("plain",)

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._last = LastAnswer[Float32]()

    def score(self, cues: Cues, pools: Pools) -> Float32:
        return self._last.of(lambda: self._score(cues, pools), cues, pools.row)  # what is hidden changes nothing

    def _score(self, cues: Cues, pools: Pools) -> Float32:
        parts = [self._scores(cues, at, pools.row[mine]) for at, mine in enumerate(pools.of_cues())]
        return (np.float32(PLAIN_UNIT) * np.concatenate(parts))[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        corpus, found = self._corpus, [np.empty(0, np.int64)] * len(cues)
        questions = np.flatnonzero(cues.rows < 0).tolist() if corpus.has_trajectories else []
        near, few = corpus.nearest(cues.vectors, n, cues.allowed) if questions else [], n // (2 * WINDOW + 1)
        for at in questions:
            by_words = corpus.positions(corpus.lexicon.best(list(cues.words[at]), few, cues.allowed))
            found[at] = corpus.neighbours(union(near[at][:few], by_words), cues.direction, cues.allowed)
        return found

    def _scores(self, cues: Cues, at: int, rows: Int64) -> Float32:
        return self._corpus.plain(cues.vectors[at], cues.words[at], rows, cues.direction, cues.allowed)


def _cosines(cues: Cues, pools: Pools, vectors: MemoryVectors) -> Float32:
    """Returns the cosine (P,) of each pair."""
    if pools.is_full:
        cosines: Float32 = (cues.vectors @ vectors[np.arange(pools.size)].T).reshape(-1)
        return cosines
    if len(cues) == 1:
        alone: Float32 = vectors[pools.row] @ cues.vectors[0]
        return alone
    rows, position = np.unique(pools.row, return_inverse=True)
    return (cues.vectors @ vectors[rows].T)[pools.cue, position]


def by_length(cues: Cues, pools: Pools) -> Float32:
    """Scales BM25 scores (P,): a question of many words counts no more than one of five words.

    BM25 sums over words as if they were independent. The words of a long question are redundant.
    """
    lengths = np.array([max(len(set(words)), LONG) for words in cues.words], np.float32)
    factor: Float32 = (np.float32(LONG / BM25_UNIT) / lengths)[pools.cue]
    return factor


def weights_of(likeness: Float32, width: float) -> Float32:
    """Returns the weights (Q, n) of neighbours, with sum 1; dissimilar ones have weight 0."""
    odds = np.exp(np.float32(width) * (likeness - likeness.max(axis=1, keepdims=True))) * (likeness > 0)
    weights: Float32 = odds / np.maximum(odds.sum(axis=1, keepdims=True), np.float32(1e-9))
    return weights
