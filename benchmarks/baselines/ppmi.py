"""Positive pointwise mutual information of co-occurrence (Church and Hanks 1990)."""

from __future__ import annotations

import numpy as np

from benchmarks.baselines.graph import co_occurrences, floats_of
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.types import Float32, Int64


class PPMI:
    """Scores by max(0, log(P(both) / (P(one) P(other))))."""

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:
        graph = co_occurrences(experience, len(vectors), window).tocoo()
        met = np.asarray(graph.sum(axis=1), np.float64).reshape(-1)
        ratio = graph.data * met.sum() / (met[graph.row] * met[graph.col])
        graph.data = np.maximum(np.log(ratio), 0.0).astype(np.float32)
        self._information = graph.tocsr()

    def scores(self, cues: Int64) -> Float32:
        return self._information[cues].toarray()

    def floats(self) -> int:
        return floats_of(self._information)
