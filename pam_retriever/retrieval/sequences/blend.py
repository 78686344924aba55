"""A weighted sum of shares as one feature: one kind of evidence suffices to expect a memory (Jelinek and Mercer 1980).

A conditional logit multiplies the evidence of its features, so that all must agree. But a recently used memory may
recur whatever followed the newest step before. A sum can express this, a product cannot.
"""

from __future__ import annotations

import numpy as np

from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.types import Float32, Float64

ROUNDS, STILL = 200, 1e-5  # most iterations of the fit, which ends earlier if no weight changes by more than this
LEAST = 1e-3  # added to each sum, so that its logarithm is finite; the share by chance is 1
WORTH = 10.0  # number of questions whose weight the prior has


def blended(columns: Float32, parts: Float64 | Float32) -> Float32:
    """Returns the features (P, F): ``parts`` (S,) weight the sum of the last S of the ``columns`` (P, F - 1 + S)."""
    features, shares = np.split(columns, [columns.shape[1] - len(parts)], axis=1)
    total = shares @ parts.astype(np.float32) + np.float32(LEAST)
    return np.concatenate([features, np.log(total)[:, None]], axis=1)


def chosen(choices: Choices, count: int) -> tuple[Float64, Float64]:
    """Returns the shares (n, S) of the chosen candidates, which are the last ``count`` columns, and weights (n,)."""
    at = np.flatnonzero(choices.target > 0)
    weight: Float64 = (choices.target[at] * choices.weight[choices.question[at]]).astype(float)
    return choices.features[at, -count:].astype(float), weight


def fit_parts(shares: Float64, weight: Float64, prior: Float64) -> Float64:
    """Returns the weights (S,), with sum 1, under which the chosen candidates are most likely, given the prior (S,).

    Uses expectation maximisation: each iteration divides every chosen candidate among the shares that explain it.
    """
    parts = prior
    for _ in range(ROUNDS):
        expected = shares * parts
        expected /= np.maximum(expected.sum(axis=1, keepdims=True), 1e-12)
        after = weight @ expected + WORTH * prior
        after /= after.sum()
        change, parts = float(np.abs(after - parts).max()), after
        if change < STILL:
            break
    return parts
