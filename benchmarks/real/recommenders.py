"""Baselines from session recommendation that use no associations: popularity, Markov, EASE, nearest counts."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from benchmarks.baselines.graph import co_occurrences, followed_by
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.model.keys import unit
from pam_retriever.types import Float32, Int64

EASE_REGULARISATION = 200.0


class Popularity:
    """Scores a memory by its number of experiences, for every cue."""

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:  # noqa: ARG002
        self._counts = np.bincount(experience.states, minlength=len(vectors)).astype(np.float32)

    def scores(self, cues: Int64) -> Float32:
        return np.broadcast_to(self._counts, (len(cues), len(self._counts)))


class Markov:
    """Scores a memory by how often it came directly after the cue."""

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:  # noqa: ARG002
        self._next = followed_by(experience, len(vectors))

    def scores(self, cues: Int64) -> Float32:
        return self._next[cues].toarray()


class NearestCounts:
    """Sums the co-occurrence counts of the memories most similar to the cue, including the cue itself."""

    def __init__(self, nearest: int = 5) -> None:
        self._nearest = nearest

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:
        self._units = unit(vectors)
        self._co_occurrences = co_occurrences(experience, len(vectors), window)

    def scores(self, cues: Int64) -> Float32:
        cosine = self._units[cues] @ self._units.T
        near = np.argpartition(-cosine, self._nearest - 1, axis=1)[:, : self._nearest]
        return np.stack([np.asarray(self._co_occurrences[rows].sum(axis=0)).reshape(-1) for rows in near])


class EASE:
    """Embarrassingly shallow autoencoder (Steck, WWW 2019): one ridge regression from trajectory to memory."""

    def __init__(self, regularisation: float = EASE_REGULARISATION) -> None:
        self.regularisation = regularisation

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:  # noqa: ARG002
        ones = np.ones(len(experience), np.float32)
        shape = int(experience.trajectory.max()) + 1, len(vectors)
        visits = sparse.csr_array((ones, (experience.trajectory, experience.states)), shape)
        visits.data[:] = 1  # a repeated memory counts once
        gram = (visits.T @ visits).toarray()
        gram[np.diag_indices_from(gram)] += self.regularisation
        inverse = np.linalg.inv(gram)
        self._weights = -inverse / np.diag(inverse)
        np.fill_diagonal(self._weights, 0)

    def scores(self, cues: Int64) -> Float32:
        return self._weights[cues]
