"""Means with intervals, for the results on held-out experience."""

from __future__ import annotations

import math

import numpy as np

from pam_retriever.evaluation import Interval

DRAWS = 1000


def mean_interval(
    values: np.ndarray, seed: int = 0, weights: np.ndarray | None = None, ordered: bool = False
) -> Interval:
    """Returns the (weighted) mean over questions and its 95 % bootstrap interval.

    Args:
        values: (Q,) the values of the questions.
        seed: the seed of the bootstrap.
        weights: (Q,) the weights of the questions.
        ordered: whether the questions are in the order of time. Neighbours in time are correlated, so the bootstrap
            draws runs (circular block bootstrap, Politis and Romano 1992).
    """
    random, n = np.random.default_rng(seed), len(values)
    weights = np.ones(n) if weights is None else weights
    run = math.isqrt(n) if ordered else 1
    first = random.integers(0, n, (DRAWS, -(-n // run)))
    drawn = ((first[:, :, None] + np.arange(run)) % n).reshape(DRAWS, -1)[:, :n]
    means = (values * weights)[drawn].sum(axis=1) / np.maximum(weights[drawn].sum(axis=1), 1e-9)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(np.average(values, weights=weights)), float(low), float(high))
