"""The first memories of an index, as if no others had followed."""

from __future__ import annotations

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.mixture.corpus import Corpus
from pam_retriever.retrieval.mixture.words import Field
from pam_retriever.types import Float32, Int64


class EarlierMemories(Corpus):
    """The first memories of a corpus. Later memories, and all links, mentions and times, change nothing here.

    Args:
        corpus: all memories.
        n: the number of the first ones, at least 1.
    """

    def __init__(self, corpus: Corpus, n: int) -> None:
        rows = corpus.rows[:n]
        super().__init__(corpus.view, Lexicon(corpus.view.database, int(rows[-1])))
        self.rows = rows
        none = np.empty(0, np.int64)
        self._links = CooccurrenceGraph(none, none, none)
        self._earlier_names = _EarlierWords(corpus.names, n)

    def nearest(self, vectors: Float32, n: int, allowed: Rows | None = None) -> list[Int64]:
        return super().nearest(vectors, n, self.rows if allowed is None else allowed)

    def mentioning(self) -> None:
        return None

    @property
    def names(self) -> Field:
        return self._earlier_names


class _EarlierWords:
    """The words of the first ``n`` memories."""

    def __init__(self, words: Field, n: int) -> None:
        self._words, self._n = words, n

    @property
    def lengths(self) -> Float32:
        return self._words.lengths[: self._n]

    @property
    def version(self) -> object:
        return self._words.version

    def counts(self, word: str) -> tuple[Int64, Float32]:
        rows, counts = self._words.counts(word)
        return rows[rows < self._n], counts[rows < self._n]
