"""Random walks over temporal edges: the position some steps after the cue, in closed form, without sampling."""

from __future__ import annotations

import numpy as np

from benchmarks.baselines.graph import co_occurrences, discounted_walks, floats_of, normalised
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.types import Float32, Int64


class RandomWalk:
    """Scores by the mean probability, over 1 to ``steps`` steps, to be at a memory."""

    def __init__(self, steps: int = 3) -> None:
        self._weights = np.full(steps, 1 / steps, np.float32)

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:
        self._transition = normalised(co_occurrences(experience, len(vectors), window))

    def scores(self, cues: Int64) -> Float32:
        return discounted_walks(self._transition, cues, self._weights)

    def floats(self) -> int:
        return floats_of(self._transition)
