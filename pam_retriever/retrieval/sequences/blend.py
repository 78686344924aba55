"""Shares that are added up: one kind of evidence is enough to expect a memory (Jelinek and Mercer 1980).

A conditional logit multiplies what its features say, so that all must agree. What was touched of late comes again
whatever followed the newest step, which a sum says and a product does not.
"""

from __future__ import annotations

import numpy as np

from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.types import Float32, Float64

ROUNDS, STILL = 200, 1e-5  # of the fit, and the largest change of a part that ends it
LEAST = 1e-3  # of what any memory has by chance: where nothing speaks for one, the logarithm stays a number
WORTH = 10.0  # questions that the prior counts for


def blended(columns: Float32, parts: Float64 | Float32) -> Float32:
    """(P, F) the features: the shares, which are the last S columns (P, F - 1 + S), added up by their parts (S,)."""
    features, shares = np.split(columns, [columns.shape[1] - len(parts)], axis=1)
    total = shares @ parts.astype(np.float32) + np.float32(LEAST)
    return np.concatenate([features, np.log(total)[:, None]], axis=1)


def chosen(choices: Choices, count: int) -> tuple[Float64, Float64]:
    """(n, S) the shares of what was chosen, which are the last ``count`` columns, and (n,) how much each counts."""
    at = np.flatnonzero(choices.target > 0)
    weight: Float64 = (choices.target[at] * choices.weight[choices.question[at]]).astype(float)
    return choices.features[at, -count:].astype(float), weight


def fit_parts(shares: Float64, weight: Float64, prior: Float64) -> Float64:
    """(S,) the part of each share, 1 in all, that makes what was chosen likeliest, near to the prior (S,).

    By expectation and maximisation, which says how much of what was chosen each share stands for.
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
