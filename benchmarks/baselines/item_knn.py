"""Item-kNN of recommender systems: memories that co-occur with the same others are similar (Sarwar 2001)."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from benchmarks.baselines.graph import co_occurrences, floats_of
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.types import Float32, Int64


class ItemKNN:
    """Scores by the cosine of two memories' rows of co-occurrence counts."""

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:
        graph = co_occurrences(experience, len(vectors), window)
        length = np.sqrt(np.asarray(graph.power(2).sum(axis=1), np.float32).reshape(-1))
        scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        self._rows = sparse.csr_array(sparse.diags_array(scale) @ graph)

    def scores(self, cues: Int64) -> Float32:
        return (self._rows[cues] @ self._rows.T).toarray()

    def floats(self) -> int:
        return floats_of(self._rows)
