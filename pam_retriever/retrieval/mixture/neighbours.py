"""Nearest neighbours among a few: their positions and their weights."""

from __future__ import annotations

import numpy as np

from pam_retriever.retrieval.mixture.sources import largest
from pam_retriever.types import Float32, Int64


def top(values: Float32, n: int) -> tuple[Int64, Float32]:
    """Returns the columns (Q, n) with the largest values, rising, and these values."""
    n = min(n, values.shape[1])
    found = np.array([largest(row, n) for row in values], np.int64).reshape(len(values), n)
    return found, values[np.arange(len(values))[:, None], found]


def weights_of(likeness: Float32, width: float) -> Float32:
    """Returns the weights (Q, n) of neighbours, with sum 1; dissimilar ones have weight 0."""
    odds = np.exp(np.float32(width) * (likeness - likeness.max(axis=1, keepdims=True))) * (likeness > 0)
    weights: Float32 = odds / np.maximum(odds.sum(axis=1, keepdims=True), np.float32(1e-9))
    return weights
