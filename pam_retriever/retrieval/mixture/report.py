"""Means with intervals, of what evidence is worth on held-out experience."""

from __future__ import annotations

import numpy as np

from pam_retriever.evaluation import Interval

DRAWS = 1000


def mean_interval(values: np.ndarray, seed: int = 0, weights: np.ndarray | None = None) -> Interval:
    """The (weighted) mean over questions and its 95 % bootstrap interval."""
    random = np.random.default_rng(seed)
    weights = np.ones(len(values)) if weights is None else weights
    drawn = random.integers(0, len(values), (DRAWS, len(values)))
    means = (values * weights)[drawn].sum(axis=1) / np.maximum(weights[drawn].sum(axis=1), 1e-9)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(np.average(values, weights=weights)), float(low), float(high))
