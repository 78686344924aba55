"""The successor representation: discounted future occupancy (Dayan 1993; Barreto 2017 for features).

Associations have no direction here, so both directions are learned: from the experience and from its reverse.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from benchmarks.baselines.graph import discounted_walks, floats_of, followed_by, normalised
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.model.keys import unit
from pam_retriever.types import Float32, Int64

SMALLEST = 1e-4  # smaller discounts are left out


class TabularSuccessor:
    """Scores by the discounted time that the experience spent at a memory after the cue, and before it.

    The row of (I - discount * T)^-1 - I, times 1 - discount. T has the one-step transitions.
    """

    def __init__(self, discount: float = 0.8) -> None:
        steps = int(np.log(SMALLEST) / np.log(discount)) + 1
        self._weights = ((1 - discount) * discount ** np.arange(1, steps + 1)).astype(np.float32)

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:  # noqa: ARG002
        after = followed_by(experience, len(vectors))
        self._after, self._before = normalised(after), normalised(after.T.tocsr())

    def scores(self, cues: Int64) -> Float32:
        after = discounted_walks(self._after, cues, self._weights)
        return after + discounted_walks(self._before, cues, self._weights)

    def floats(self) -> int:
        return floats_of(self._after) + floats_of(self._before)


class LinearSuccessor:
    """Successor features, linear in the vector: psi(q) . p, where psi(q) predicts the coming states.

    Solved in one step by least-squares temporal differences (Bradtke and Barto 1996).
    """

    def __init__(self, discount: float = 0.8, ridge: float = 1e-3) -> None:
        self._discount, self._ridge = discount, ridge

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:  # noqa: ARG002
        self._vectors = unit(vectors)
        visits = np.bincount(experience.states, minlength=len(vectors))
        after = followed_by(experience, len(vectors))
        self._form = self._solve(after, visits) + self._solve(after.T.tocsr(), visits)

    def _solve(self, onward: sparse.csr_array, visits: Int64) -> Float32:
        """Returns W of psi(s) = s W, where psi(s) = E[s' + discount * psi(s')], and 0 at an end."""
        x = self._vectors.astype(np.float64)
        successive = x.T @ (onward.astype(np.float64) @ x)  # sum over steps of s s'^T
        here = x.T @ (visits[:, None] * x)  # sum over visits of s s^T
        ridge = self._ridge * np.trace(here) / len(here) * np.eye(len(here))
        form = np.linalg.solve(here + ridge - self._discount * successive, successive)
        return form.astype(np.float32)

    def scores(self, cues: Int64) -> Float32:
        return self.scores_of(self._vectors[cues])

    def scores_of(self, vectors: Float32) -> Float32:
        return unit(vectors) @ self._form @ self._vectors.T

    def floats(self) -> int:
        return self._form.size + self._vectors.size
