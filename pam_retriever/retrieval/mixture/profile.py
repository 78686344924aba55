"""A source: the mean of the requests that used a memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.arrays import GrowingArray, best
from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.retrieval.mixture.shares import grown
from pam_retriever.types import Float32, Int64


class Profile:
    """Cosine of the cue and the mean of the requests that used a memory.

    Args:
        log: past requests.
    """

    name, features = "profile", ("profile",)
    USES = 16  # reading this many numbers of a mean vector takes as long as reading one use

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._through = 0
        self._position = np.full(log.size, -1)  # position of each memory among the used ones
        self._used = GrowingArray(np.empty(0, np.int64))
        self._sums = GrowingArray(np.empty((0, log.vectors.shape[1]), np.float32))
        self._units = GrowingArray(np.empty((0, log.vectors.shape[1]), np.float32))
        self._lengths = GrowingArray(np.empty(0, np.float32))  # of the sums of requests
        self._user = GrowingArray(np.empty(0, np.int64))  # for each use: position of its memory in ``_used``,
        self._by = GrowingArray(np.empty(0, np.int64))  # and its request
        self._last = LastAnswer[Float32]()

    def score(self, cues: Cues, pools: Pools) -> Float32:
        used, near = self._near(cues)
        if not len(used):
            return np.zeros((len(pools), 1), np.float32)
        position = grown(self._position, self._log.size, -1)[pools.row]
        if self._follows_likeness(cues):  # which is approximate for many requests
            found = np.zeros(len(pools), np.float32)
            there = position >= 0
            found[there] = self._units.values[position[there]] @ cues.vectors[0]
        else:
            found = np.where(position < 0, np.float32(0), near[pools.cue, position])
        return (found * pools.visible)[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        used, near = self._near(cues)
        return [used[best(row, n)] for row in near] if len(used) else [used] * len(cues)

    def _near(self, cues: Cues) -> tuple[Int64, Float32]:
        """Returns the used memories, and the cosine (Q, U) with their means, for candidates and for features."""
        used, means = self._means()

        def compare() -> Float32:
            return self._from_likeness(cues) if self._follows_likeness(cues) else cues.vectors @ means.T

        return used, self._last.of(compare, cues, len(self._log))

    def _follows_likeness(self, cues: Cues) -> bool:
        """Whether the cosine of a mean follows from those of its members, which are fewer numbers than the mean has."""
        return len(cues) == 1 and self.USES * len(self._user) < self._units.values.size

    def _from_likeness(self, cues: Cues) -> Float32:
        """Returns the row (1, U) of one question."""
        likeness = self._log.likeness(cues)[0][0][self._by.values] * self._log.uses.weights
        sums = np.bincount(self._user.values, likeness, len(self._used))
        near: Float32 = (sums / self._lengths.values).astype(np.float32)
        return near[None]

    def _means(self) -> tuple[Int64, Float32]:
        """Returns the used memories, and their mean requests (U, dim) of unit length."""
        if self._through < len(self._log):
            new = np.arange(self._through, len(self._log))
            position, rows, weights = self._log.uses.expand(new)
            self._position = grown(self._position, self._log.size, -1)
            first = np.unique(rows[self._position[rows] < 0])
            self._position[first] = len(self._used) + np.arange(len(first))
            self._used.extend(first)
            empty = np.zeros((len(first), self._log.vectors.shape[1]), np.float32)
            self._sums.extend(empty)
            self._units.extend(empty)
            self._lengths.extend(np.zeros(len(first), np.float32))
            at = self._position[rows]
            self._user.extend(at)
            self._by.extend(new[position])
            np.add.at(self._sums.values, at, self._log.vectors[new][position] * weights[:, None])
            changed = np.unique(at)
            sums = self._sums.values[changed]
            self._lengths.values[changed] = np.maximum(np.linalg.norm(sums, axis=1), 1e-9)
            self._units.values[changed] = sums / self._lengths.values[changed, None]
            self._through = len(self._log)
        return self._used.values, self._units.values
