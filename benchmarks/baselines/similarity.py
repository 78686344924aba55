"""Cosine similarity, as in a vector store. It does not use experience."""

from __future__ import annotations

from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.model.keys import unit
from pam_retriever.types import Float32, Int64


class Similarity:
    """Scores by cosine of the vectors."""

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:  # noqa: ARG002
        self._units = unit(vectors)

    def scores(self, cues: Int64) -> Float32:
        return self.scores_of(self._units[cues])

    def scores_of(self, vectors: Float32) -> Float32:
        return unit(vectors) @ self._units.T

    def floats(self) -> int:
        return self._units.size
