"""Conditional logit (McFadden 1974): the probability that a candidate was used, from a weighted sum of features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from pam_retriever.arrays import concatenated, starts_of
from pam_retriever.types import Bools, Float32, Float64, Int64

MAX_STEPS = 40
SMALL_GAIN = 1e-6
LEAST_DAMPING = 1e-4
BLOCK = 64  # questions whose pairs are added up at once: sums of what is in the cache take half the time


@dataclass(frozen=True)
class Choices:
    """Questions with their candidates, some of which were used.

    Attributes:
        features: (P, F) float32, one row per pair of question and candidate.
        starts: (Q,) the first pair of each question.
        target: (P,) share of the question's uses; the sum per question is 1.
        weight: (Q,) the weights of the questions.
        offset: (P,) added to each pair's score: the logarithm of the number of candidates that it represents.
    """

    features: Float32
    starts: Int64
    target: Float32
    weight: Float32
    offset: Float32

    @cached_property
    def lengths(self) -> Int64:
        """The number (Q,) of pairs of each question."""
        return lengths_of(self.starts, len(self.features))

    @cached_property
    def question(self) -> Int64:
        """The question (P,) of each pair."""
        return np.repeat(np.arange(len(self.starts)), self.lengths)

    def scores(self, weights: Float64) -> Float32:
        """Returns the weighted sum (P,) of the features, plus the offset."""
        scores: Float32 = self.features @ weights.astype(np.float32) + self.offset
        return scores

    def pairs_of(self, questions: Int64) -> Int64:
        """Returns the pairs of the questions at these positions."""
        return concatenated(self.starts[questions], self.lengths[questions])

    def take(self, questions: Int64) -> Choices:
        """Returns the questions at these positions."""
        starts, pairs = starts_of(self.lengths[questions])[:-1], self.pairs_of(questions)
        return Choices(self.features[pairs], starts, self.target[pairs], self.weight[questions], self.offset[pairs])

    def only(self, chosen: Bools) -> Choices:
        """Returns the same questions with the chosen pairs (P,)."""
        starts = starts_of(np.bincount(self.question[chosen], minlength=len(self.starts)))[:-1]
        return Choices(self.features[chosen], starts, self.target[chosen], self.weight, self.offset[chosen])


def softmax(scores: Float32, starts: Int64) -> Float32:
    """Returns the probability (P,) of each pair among the pairs of its question."""
    away, lengths = _below_best(scores, starts)
    odds: Float32 = np.exp(away)
    share: Float32 = odds / repeated(np.add.reduceat(odds, starts), lengths)
    return share


def log_softmax(scores: Float32, starts: Int64) -> Float32:
    """Returns the logarithm of ``softmax``, also where that is 0 in float32."""
    away, lengths = _below_best(scores, starts)
    log_share: Float32 = away - repeated(np.log(np.add.reduceat(np.exp(away), starts)), lengths)
    return log_share


def _below_best(scores: Float32, starts: Int64) -> tuple[Float32, Int64]:
    """Returns each score (P,) minus the best of its question, and the number (Q,) of pairs of each question."""
    lengths = lengths_of(starts, len(scores))
    away: Float32 = scores - repeated(np.maximum.reduceat(scores, starts), lengths)
    return away, lengths


def lengths_of(starts: Int64, pairs: int) -> Int64:
    """Returns the number (Q,) of pairs of each question, of ``pairs`` pairs."""
    return np.array([pairs]) if len(starts) == 1 else np.diff(starts, append=pairs)


def repeated(values: Float32, lengths: Int64) -> Float32:
    """Returns the value of each question for each of its pairs (P,); one value (1,) if there is one question."""
    return values if len(values) == 1 else np.repeat(values, lengths)


def ranks(scores: Float32, question: Int64, starts: Int64) -> Int64:
    """Returns the rank (P,) of each pair among the pairs of its question, from 1."""
    order, rank = ranked(scores, question, starts)
    found = np.empty(len(order), np.int64)
    found[order] = rank
    return found


def ranked(scores: Float32, question: Int64, starts: Int64) -> tuple[Int64, Int64]:
    """Returns the pairs (P,), best first within their question, and the rank (P,) of each of these, from 1."""
    away, bounds = -scores, pairwise([*starts.tolist(), len(scores)])
    if len(starts) > 1:  # a lexsort of all pairs takes four times as long
        order = np.concatenate([start + np.argsort(away[start:end], kind="stable") for start, end in bounds])
    else:
        order = np.argsort(away, kind="stable")
    return order, np.arange(1, len(order) + 1) - starts[question]


def log_loss(weights: Float64, choices: Choices) -> Float64:
    """Returns minus the mean log probability (Q,) of the used candidates."""
    return loss_of(choices.scores(weights), choices)


def loss_of(scores: Float32, choices: Choices) -> Float64:
    """Returns ``log_loss`` of given scores (P,) of the candidates."""
    probability = softmax(scores, choices.starts)
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
    problem = _Problem(choices, prior, ridge)
    weights = prior if start is None else start
    value, probability = problem.value(weights)
    for _ in range(MAX_STEPS):
        gradient, curvature = problem.derivatives(weights, probability)
        step = np.linalg.solve(curvature, gradient)
        if gradient @ step < 2 * SMALL_GAIN:  # twice the gain of the step, for constant curvature
            return weights - step
        damping = 1.0
        after, probability = problem.value(weights - step)
        while after > value and damping > LEAST_DAMPING:
            damping /= 2
            after, probability = problem.value(weights - damping * step)
        if after >= value:
            break
        value, weights = after, weights - damping * step
    return weights


class _Problem:
    """The mean loss with its ridge, as a function of the weights (F,)."""

    def __init__(self, choices: Choices, prior: Float64, ridge: Float64) -> None:
        self.choices, self.prior, self.ridge = choices, prior, ridge
        self.share = choices.weight / choices.weight.sum()
        self.pair_share = self.share[choices.question]
        self.target = choices.target * self.pair_share
        self.wanted = self.target @ choices.features

    def value(self, weights: Float64) -> tuple[float, Float32]:
        """Returns the value, and the probability (P,) of each pair."""
        choices = self.choices
        scores = choices.scores(weights)
        most = np.maximum.reduceat(scores, choices.starts)
        odds = np.exp(scores - most[choices.question])
        total = np.add.reduceat(odds, choices.starts)
        loss = self.share @ (most + np.log(total)) - self.target @ scores
        probability: Float32 = np.divide(odds, total[choices.question], dtype=np.float32)
        return float(loss) + 0.5 * float(self.ridge @ (weights - self.prior) ** 2), probability

    def derivatives(self, weights: Float64, probability: Float32) -> tuple[Float64, Float64]:
        """Returns the gradient (F,) and the curvature (F, F) at the weights that give these probabilities."""
        features, starts = self.choices.features, self.choices.starts
        weights_of_pairs = (probability * self.pair_share)[:, None]
        likely = np.empty(features.shape, np.result_type(features, weights_of_pairs))
        means = np.empty((len(starts), features.shape[1]), likely.dtype)  # of each question, times its share
        for first in range(0, len(starts), BLOCK):
            some = starts[first : first + BLOCK]
            mine = slice(some[0], starts[first + BLOCK] if first + BLOCK < len(starts) else len(features))
            np.multiply(features[mine], weights_of_pairs[mine], out=likely[mine])
            np.add.reduceat(likely[mine], some - some[0], axis=0, out=means[first : first + BLOCK])
        share = np.maximum(self.share, np.finfo(np.float32).tiny)
        curvature = features.T @ likely - (means / share[:, None]).T @ means
        gradient = means.sum(axis=0) - self.wanted + self.ridge * (weights - self.prior)
        return gradient.astype(float), curvature.astype(float) + np.diag(self.ridge)
