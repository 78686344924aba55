"""A source: memories that were used together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.arrays import added_up, strongest, top, union
from pam_retriever.retrieval.mixture.pools import Cues, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.retrieval.mixture.shares import log_share
from pam_retriever.retrieval.mixture.sources import MemoryVectors, weights_of
from pam_retriever.types import Float32, Int64


class UsedTogether:
    """Memories that were used together with the stored memory of the cue, directly and over two steps.

    A never-used or hidden cue is replaced by the used memories that are most similar to it.

    Args:
        log: past requests.
        vectors: (N, dim) float32, unit length.
    """

    name = "used together"
    features = ("together", "together_recently", "together_2", "together_alike")
    LATEST = 200  # number of the last uses of a memory that are read
    FIRST_STEP = 20  # memories from which the second step starts
    ALIKE = 10
    HALF_LIFE = 500.0
    PRIOR = 1.0  # pseudo-count: uses of every memory in which no other memory was used

    def __init__(self, log: RequestLog, vectors: MemoryVectors) -> None:
        self._log, self._vectors = log, vectors

    def score(self, cues: Cues, pools: Pools) -> Float32:
        stored_cues = np.flatnonzero(cues.rows >= 0)
        if not len(stored_cues) or not self._log.served.any():
            return np.zeros((len(pools), len(self.features)), np.float32)
        columns = np.stack([pools.add_up(*triple) for triple in self._triples(cues, stored_cues)], axis=1)
        return log_share(columns) * pools.visible[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        found: list[Int64] = [np.empty(0, np.int64)] * len(cues)
        stored_cues = np.flatnonzero(cues.rows >= 0)
        if not len(stored_cues) or not self._log.served.any():
            return found
        for cue, row, value in self._triples(cues, stored_cues):
            order = np.argsort(-value, kind="stable")
            for at in stored_cues.tolist():
                mine = row[order[cue[order] == at]]
                found[at] = union(found[at], mine[:n])
        return found

    def _triples(self, cues: Cues, stored_cues: Int64) -> list[tuple[Int64, Int64, Float32]]:
        """Returns cue, memory and share, for each feature."""
        rows = cues.rows[stored_cues]
        one = self._step(stored_cues, rows, np.ones(len(stored_cues), np.float32))
        recent = self._step(stored_cues, rows, np.ones(len(stored_cues), np.float32), self.HALF_LIFE)
        two = self._step(*_strongest(*one, self.FIRST_STEP))
        used = np.flatnonzero(self._log.served)
        near, alike = top(self._vectors[rows] @ self._vectors[used].T, self.ALIKE)
        weights = weights_of(alike, 10.0)
        others = self._step(np.repeat(stored_cues, near.shape[1]), used[near.reshape(-1)], weights.reshape(-1))
        return [one, recent, two, others]

    def _step(
        self, cue: Int64, row: Int64, share: Float32, half_life: float | None = None
    ) -> tuple[Int64, Int64, Float32]:
        """Steps from memories to those used with them; divides the share among the uses of each."""
        at, requests, weight = self._log.requests_of.expand(row)
        first = np.cumsum(np.bincount(at, minlength=len(row)))[at] - np.arange(len(at)) <= self.LATEST
        at, requests, weight = at[first], requests[first], weight[first]
        if half_life is not None:
            weight = weight * (0.5 ** ((len(self._log) - 1 - requests) / half_life)).astype(np.float32)
        total = np.bincount(at, weight, len(row)) + self.PRIOR
        position, found, count = self._log.uses.expand(requests)
        source = at[position]
        other = found != row[source]
        value = (share[source] * weight[position] * count / total[source]).astype(np.float32)
        return cue[source][other], found[other], value[other]


def _strongest(cue: Int64, row: Int64, share: Float32, n: int) -> tuple[Int64, Int64, Float32]:
    """Returns the ``n`` rows of each cue with the largest shares, without duplicates."""
    cue, row, total = added_up(cue, row, share)
    kept = strongest(cue, total, n)
    return cue[kept], row[kept], total[kept]
