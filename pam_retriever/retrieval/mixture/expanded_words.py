"""A source: the words of a memory, and of the requests that used it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.arrays import GrowingArray, best
from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.retrieval.mixture.shares import grown
from pam_retriever.retrieval.mixture.sources import by_length
from pam_retriever.retrieval.mixture.words import BM25, Field
from pam_retriever.types import Float32, Int64


class ExpandedWords:
    """BM25 over the words of a memory, of its name, and of the requests that used it.

    Args:
        text: the words of the memories' texts.
        names: the words of their names, which count three times.
        log: past requests. The words of a request that n memories served have weight 1 / sqrt(n) in each.
    """

    name, features = "expanded words", ("expanded_words",)
    B = 0.4  # a memory that served many requests is long for a good reason: less length normalisation
    NAME_WEIGHT = 3.0

    def __init__(self, text: Field, names: Field, log: RequestLog) -> None:
        own: list[tuple[Field, float]] = [(text, 1.0), (names, self.NAME_WEIGHT)]
        self._own, self._all = BM25(own, self.B), BM25([*own, (_RequestWords(log), 1.0)], self.B)
        self._log = log
        self._last = LastAnswer[Float32]()

    def score(self, cues: Cues, pools: Pools) -> Float32:
        scores = pools.grid(self._of_all(cues))
        if pools.hidden is not None:
            scores = np.where(pools.hidden, pools.grid(self._own.scores_of(cues.words)), scores)
        return (scores * by_length(cues, pools))[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        return [best(row, n) for row in self._of_all(cues)]

    def _of_all(self, cues: Cues) -> Float32:
        """Returns the scores (Q, n), computed once for proposals and features."""
        return self._last.of(lambda: self._all.scores_of(cues.words), cues, len(self._log))


class _RequestWords:
    """The words of the requests that a memory served, as a field of this memory."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._through = 0
        self._lengths = np.zeros(log.size)
        self._share = GrowingArray(np.empty(0, np.float32))  # weight of the words of each request

    @property
    def version(self) -> tuple[int, int]:
        return len(self._log), self._log.size

    @property
    def lengths(self) -> Float32:
        self._follow()
        return self._lengths.astype(np.float32)

    def _follow(self) -> None:
        """Adds the requests since the last question."""
        self._lengths = grown(self._lengths, self._log.size)
        if self._through < len(self._log):
            new = np.arange(self._through, len(self._log))
            position, rows = self._log.served_by(new)
            used = np.maximum(np.bincount(position, minlength=len(new)), 1)
            self._share.extend((1 / np.sqrt(used)).astype(np.float32))
            np.add.at(self._lengths, rows, (self._log.word_counts[new] * self._share.values[new])[position])
            self._through = len(self._log)

    def counts(self, word: str) -> tuple[Int64, Float32]:
        self._follow()
        requests = self._log.holding(word)
        position, rows = self._log.served_by(requests)
        counts = np.bincount(rows, self._share.values[requests][position], self._log.size)
        found = np.flatnonzero(counts)
        return found, counts[found].astype(np.float32)
