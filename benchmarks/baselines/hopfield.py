"""A modern Hopfield network as hetero-associative memory: softmax(beta q K) V (Ramsauer 2021).

Keys are the memories. The value of a memory is the mean of its associates.
"""

from __future__ import annotations

import numpy as np

from benchmarks.baselines.graph import co_occurrences, normalised
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.model.keys import unit
from pam_retriever.types import Float32, Int64


class Hopfield:
    """Scores by the cosine to the output of the network: one point for each cue.

    Args:
        beta: inverse temperature of the softmax over cosines; 50 is the temperature 0.02 of recall.
    """

    def __init__(self, beta: float = 50.0) -> None:
        self._beta = beta

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:
        self._keys = unit(vectors)
        self._values = normalised(co_occurrences(experience, len(vectors), window)) @ self._keys  # (M, d)

    def scores(self, cues: Int64) -> Float32:
        return self.scores_of(self._keys[cues])

    def scores_of(self, vectors: Float32) -> Float32:
        energy = self._beta * (unit(vectors) @ self._keys.T)  # (Q, M)
        weights = np.exp(energy - energy.max(axis=1, keepdims=True))
        read_out = weights @ self._values / weights.sum(axis=1, keepdims=True)
        return unit(read_out) @ self._keys.T

    def floats(self) -> int:
        return self._keys.size + self._values.size
