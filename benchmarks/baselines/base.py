"""The interface of baselines, and a wrapper that answers unseen cues by baselines that score only stored states."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.model.keys import unit
from pam_retriever.types import Float32, Int64


class Baseline(Protocol):
    """Learns from experience, then scores every memory for stored cues."""

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:
        """Learns from the trajectories of M memories.

        Args:
            experience: the steps, which point at rows of ``vectors``.
            vectors: (M, d), not normalised.
            window: largest distance of associates, in positions. Methods with their own definition of
                distance ignore it.
        """

    def scores(self, cues: Int64) -> Float32:
        """Returns (Q, M) scores for (Q,) rows of stored memories; larger is closer. A cue scores itself, too."""

    def floats(self) -> int:
        """Returns how many numbers the method must store to answer, including the indices of sparse matrices."""


@runtime_checkable
class OnVectors(Protocol):
    """A baseline that scores any vector, stored or not."""

    def scores_of(self, vectors: Float32) -> Float32:
        """Returns (Q, M) scores for (Q, d) vectors."""


class Recognising:
    """Answers a vector with a baseline's scores for the nearest stored memories.

    Averages the scores of the ``nearest`` memories by cosine, weighted by softmax(cosine / temperature). With one
    memory this replaces the cue by a stored state, which is fair to baselines that are tables of states.
    """

    def __init__(self, baseline: Baseline, vectors: Float32, nearest: int = 1, temperature: float = 0.02) -> None:
        self._baseline, self._units = baseline, unit(vectors)
        self._nearest, self._temperature = nearest, temperature

    def scores_of(self, vectors: Float32) -> Float32:
        cosine = unit(vectors) @ self._units.T  # (Q, M)
        if self._nearest == 1:
            return self._baseline.scores(cosine.argmax(axis=1))
        rows = np.argpartition(-cosine, self._nearest - 1, axis=1)[:, : self._nearest]
        weight = np.exp((np.take_along_axis(cosine, rows, 1) - cosine.max(1, keepdims=True)) / self._temperature)
        weight /= weight.sum(1, keepdims=True)
        answers = self._baseline.scores(rows.reshape(-1)).reshape(*rows.shape, -1)
        mixed: Float32 = np.einsum("qn,qnm->qm", weight, answers)
        return mixed
