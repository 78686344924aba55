"""Conditional logit (McFadden 1974): the probability that a candidate was used, from a weighted sum of features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.types import Float32, Int64

Float64 = np.ndarray
MAX_STEPS = 40
SMALL_GAIN = 1e-6


@dataclass(frozen=True)
class Choices:
    """Questions with their candidates and the used ones.

    Attributes:
        features: (P, F) float32, one row per pair of question and candidate.
        starts: (Q,) the first pair of each question.
        target: (P,) share of the question's uses; the sum per question is 1.
        weight: (Q,) of the questions.
        offset: (P,) added to each pair's score: the logarithm of the number of candidates that it represents.
    """

    features: Float32
    starts: Int64
    target: Float32
    weight: Float32
    offset: Float32

    @property
    def question(self) -> Int64:
        """The question (P,) of each pair."""
        return np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.features))))

    def scores(self, weights: Float64) -> Float32:
        """Returns the weighted sum (P,) of the features, plus the offset."""
        scores: Float32 = self.features @ weights.astype(np.float32) + self.offset
        return scores

    def take(self, questions: Int64) -> Choices:
        """Returns the questions at these positions."""
        lengths = np.diff(np.append(self.starts, len(self.features)))[questions]
        starts = (np.cumsum(lengths) - lengths).astype(np.int64)
        pairs = np.repeat(self.starts[questions] - starts, lengths) + np.arange(lengths.sum())
        return Choices(self.features[pairs], starts, self.target[pairs], self.weight[questions], self.offset[pairs])


def softmax(scores: Float32, starts: Int64) -> Float32:
    """Returns the probability (P,) of each pair among those of its question."""
    lengths = np.diff(np.append(starts, len(scores)))
    odds = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), lengths))
    share: Float32 = odds / np.repeat(np.add.reduceat(odds, starts), lengths)
    return share


def log_loss(weights: Float64, choices: Choices) -> Float64:
    """Returns minus the mean log probability (Q,) of the used candidates."""
    probability = softmax(choices.scores(weights), choices.starts)
    loss: Float64 = -np.add.reduceat(choices.target * np.log(np.maximum(probability, 1e-30)), choices.starts)
    return loss


def fit(choices: Choices, prior: Float64, ridge: Float64, start: Float64 | None = None) -> Float64:
    """Returns weights (F,) that minimise ``mean loss + sum(ridge * (weights - prior) ** 2) / 2``, by damped Newton.

    Args:
        choices: the data.
        prior: (F,) centre of the ridge.
        ridge: (F,) strength of the ridge, above 0.
        start: (F,) start of the search; None for the prior.
    """
    share = choices.weight / choices.weight.sum()
    pair_share = share[choices.question]
    wanted = (choices.target * pair_share) @ choices.features

    def objective(weights: Float64) -> float:
        away = weights - prior
        return float(share @ log_loss(weights, choices)) + 0.5 * float(ridge @ away**2)

    weights = prior if start is None else start
    value = objective(weights)
    for _ in range(MAX_STEPS):
        gradient, curvature = _derivatives(weights, choices, share, pair_share)
        gradient = gradient - wanted + ridge * (weights - prior)
        step = np.linalg.solve(curvature + np.diag(ridge), gradient)
        damping = 1.0
        while (after := objective(weights - damping * step)) > value and damping > 1e-4:
            damping /= 2
        if after >= value:
            break
        gain, value, weights = value - after, after, weights - damping * step
        if gain < SMALL_GAIN:
            break
    return weights


def _derivatives(weights: Float64, choices: Choices, share: Float32, pair_share: Float32) -> tuple[Float64, Float64]:
    """Returns the mean features under the model, and their covariance within a question."""
    features = choices.features
    probability = softmax(choices.scores(weights), choices.starts)
    means = np.add.reduceat(features * probability[:, None], choices.starts, axis=0)
    scaled = features * np.sqrt(probability * pair_share)[:, None]
    scaled_means = means * np.sqrt(share)[:, None]
    curvature = scaled.T @ scaled - scaled_means.T @ scaled_means
    return (share @ means).astype(float), curvature.astype(float)
