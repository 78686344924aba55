"""Personalised PageRank on the graph of meetings (Haveliwala 2002)."""

from __future__ import annotations

import numpy as np

from benchmarks.baselines.graph import floats_of, meetings, normalised, starts
from pam_retriever.cooccurrence import Experience
from pam_retriever.types import Float32, Int64


class PersonalisedPageRank:
    """Scores by the share of time that a walk spends at a memory, if it returns to the cue at every
    step with probability 1 - ``damping``, and always where there is no way on.
    """

    def __init__(self, damping: float = 0.85, tolerance: float = 1e-6) -> None:
        self._damping, self._tolerance = damping, tolerance

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:
        self._transition = normalised(meetings(experience, len(vectors), window))
        self._dead_ends = np.diff(self._transition.indptr) == 0

    def scores(self, cues: Int64) -> Float32:
        home = starts(cues, len(self._dead_ends)).toarray()
        rank = home
        onward = self._transition.T.tocsr()
        while True:
            stuck = rank[:, self._dead_ends].sum(axis=1, keepdims=True)
            moved = self._damping * ((onward @ rank.T).T + stuck * home) + (1 - self._damping) * home
            change = np.abs(moved - rank).sum(axis=1).max()
            rank = moved
            if change < self._tolerance:
                return np.ascontiguousarray(rank, np.float32)

    def floats(self) -> int:
        return floats_of(self._transition)
