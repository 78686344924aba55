"""The exact temporal graph: counts of co-occurrence. It learns nothing, and recalls exact cues perfectly."""

from __future__ import annotations

from benchmarks.baselines.graph import co_occurrences, floats_of
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.types import Float32, Int64


class Counts:
    """Scores by the number of co-occurrences within the window."""

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:
        self._co_occurrences = co_occurrences(experience, len(vectors), window)

    def scores(self, cues: Int64) -> Float32:
        return self._co_occurrences[cues].toarray()

    def floats(self) -> int:
        return floats_of(self._co_occurrences)
