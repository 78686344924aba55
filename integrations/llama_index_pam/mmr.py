"""Maximal marginal relevance: hits that are near the query, and not near each other."""

from __future__ import annotations

import numpy as np

from pam_retriever.channels import unit
from pam_retriever.types import Float32


def mmr_order(similarity: Float32, vectors: Float32, k: int, threshold: float) -> list[int]:
    """Chooses candidates one by one (Carbonell and Goldstein 1998).

    Each has the largest ``threshold * similarity to the query - (1 - threshold) * largest
    similarity to one chosen before``.

    Args:
        similarity: (n,) cosine of each candidate to the query.
        vectors: (n, d) the candidates.
        k: how many to choose.
        threshold: 1 ignores what was chosen before, 0 ignores the query after the first choice.

    Returns:
        min(k, n) places, in the order of choice.
    """
    units = unit(vectors)
    chosen: list[int] = []
    overlap = np.full(len(units), -1.0)
    open_places = np.ones(len(units), bool)
    for _ in range(min(k, len(units))):
        # the first is the nearest, even where the threshold gives the query no weight
        value = threshold * similarity - (1 - threshold) * overlap if chosen else similarity
        best = int(np.where(open_places, value, -np.inf).argmax())
        chosen.append(best)
        open_places[best] = False
        overlap = np.maximum(overlap, units @ units[best])
    return chosen
