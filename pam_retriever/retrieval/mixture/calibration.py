"""Calibration: from a share among the candidates to the probability that a hit is used."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.evaluation import ReliabilityBin
from pam_retriever.types import Bools, Float32, Float64, Int64

RIDGE = 1e-3
STEPS = 50
BINS = 15
SMALLEST = 1e-6


@dataclass(frozen=True)
class Calibration:
    """A logistic regression on the log odds of the share and the logarithm of the rank.

    Attributes:
        weights: constant, log odds, log rank. With the default, the probability is the share.
    """

    weights: tuple[float, float, float] = (0.0, 1.0, 0.0)

    def __call__(self, share: Float32, rank: Int64) -> Float32:
        """Returns probabilities (P,) from 0 to 1."""
        odds = columns(share, rank) @ np.array(self.weights)
        probability: Float32 = (1 / (1 + np.exp(-np.clip(odds, -30, 30)))).astype(np.float32)
        return probability

    @classmethod
    def fit(cls, share: Float32, rank: Int64, used: Bools) -> Calibration:
        """Fits weights with the least log loss, and a small ridge towards the default.

        A lower rank must not raise the probability: if the fit gives it that sign, the rank gets weight 0.
        """
        if not len(share):
            return cls()
        x, prior = columns(share, rank), np.array(cls().weights)
        weights = _newton(x, used, prior)
        if weights[2] > 0:
            weights = np.append(_newton(x[:, :2], used, prior[:2]), 0.0)
        return cls((float(weights[0]), max(float(weights[1]), 0.0), float(weights[2])))


def _newton(x: Float64, used: Bools, prior: Float64) -> Float64:
    """Returns the weights of a logistic regression with a ridge towards ``prior``."""
    weights = prior.copy()
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        gradient = x.T @ (p - used) / len(x) + RIDGE * (weights - prior)
        curvature = (x * (p * (1 - p))[:, None]).T @ x / len(x) + RIDGE * np.eye(x.shape[1])
        step = np.linalg.solve(curvature, gradient)
        step /= max(1.0, float(np.abs(step).max()))
        weights = weights - step
        if np.abs(step).max() < 1e-6:
            break
    return weights


def columns(share: Float32, rank: Int64) -> Float64:
    """Returns the columns (P, 3) of the regression."""
    inside = np.clip(share.astype(float), SMALLEST, 1 - SMALLEST)
    return np.stack([np.ones(len(inside)), np.log(inside / (1 - inside)), np.log(rank)], axis=1)


def expected_calibration_error(probability: Float32, used: Bools) -> float:
    """Mean distance between probability and frequency over bins of equal size (Guo et al. 2017, adaptive bins)."""
    gaps = [one.count * abs(one.confidence - one.frequency) for one in reliability(probability, used)]
    return sum(gaps) / max(len(probability), 1)


def reliability(probability: Float32, used: Bools) -> tuple[ReliabilityBin, ...]:
    """Mean probability and frequency in bins of equal size, by rising probability. Few hits give fewer bins."""
    order = np.argsort(probability, kind="stable")
    parts = [part for part in np.array_split(order, BINS) if len(part)]
    return tuple(ReliabilityBin(float(probability[p].mean()), float(used[p].mean()), len(p)) for p in parts)


def log_loss(probability: Float32, used: Bools) -> float:
    """Mean of minus the log probability of the outcomes."""
    inside = np.clip(probability.astype(float), SMALLEST, 1 - SMALLEST)
    return float(-np.where(used, np.log(inside), np.log(1 - inside)).mean())
