"""Personalised PageRank on the co-occurrence graph (Haveliwala 2002)."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.baselines.graph import co_occurrences, discounted_walks, floats_of, normalised
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.types import Float32, Int64


class PersonalisedPageRank:
    """Scores by the share of time that a walk spends at a memory.

    The walk returns to the cue with probability 1 - ``damping`` at every step, and always at a dead end.
    """

    def __init__(self, damping: float = 0.85, tolerance: float = 1e-4) -> None:
        self._damping = damping
        # the walk as a sum over its steps, until their remaining weight is below ``tolerance``
        steps = math.ceil(math.log(tolerance) / math.log(damping))
        self._weights = ((1 - damping) * damping ** np.arange(1, steps + 1)).astype(np.float32)

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:
        # co-occurrence is symmetric, so only cues without any co-occurrence are dead ends
        self._transition = normalised(co_occurrences(experience, len(vectors), window))

    def scores(self, cues: Int64) -> Float32:
        rank = discounted_walks(self._transition, cues, self._weights)
        rank[np.arange(len(cues)), cues] += 1 - self._damping
        return rank / rank.sum(axis=1, keepdims=True)

    def floats(self) -> int:
        return floats_of(self._transition)
