"""A source: the memories that served similar requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pam_retriever.arrays import distinct, top
from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog, joint
from pam_retriever.retrieval.mixture.shares import log_share
from pam_retriever.retrieval.mixture.sources import weights_of
from pam_retriever.types import Float32, Int64

MOST_EXPECTED = 1.2  # bound on the predicted uses by one request; a regression may predict more
WIDTH, RIDGE = 2.0, 0.3  # of the kernel of two requests, and the ridge of a regression over them
STEPS, EXACT = 40, 1e-14  # most steps of conjugate gradients, and the square of the relative error that ends them


class PastUse:
    """The memories that served similar requests.

    Features: three shares among nearest neighbours, and a kernel ridge regression from requests to memories, solved on
    the neighbours of the cue. The regression discounts near-duplicate neighbours, needs no training, and uses a request
    as soon as it is stored. Its prediction is also a feature without the logarithm, which is more informative near 1.

    Args:
        log: past requests.
    """

    name = "requests"
    features = ("dense_10", "dense_50", "lexical_50", "regression", "regression_share")
    NEIGHBOURS = 192  # number of neighbours in the regression

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._last = LastAnswer[tuple[Int64, Float32]]()
        self._scored = LastAnswer[Float32]()

    def score(self, cues: Cues, pools: Pools) -> Float32:
        if not len(self._log):
            return np.zeros((len(pools), len(self.features)), np.float32)
        scores = self._scored.of(lambda: self._score(cues, pools), cues, len(self._log), pools.row)
        return scores * pools.visible[:, None]

    def _score(self, cues: Cues, pools: Pools) -> Float32:
        """Returns the features (P, F), also of hidden memories."""
        dense, lexical = self._log.likeness(cues)
        fifty, alike = top(dense, 50)
        ten, most_alike = top(alike, 10)
        by_words, like_words = top(lexical, 50)
        near, solved = self._regression(cues)
        requests = np.concatenate([fifty, by_words, near], axis=1)
        weights = np.zeros((len(self.features) - 1, *requests.shape), np.float32)
        end_of_fifty, end_of_words = fifty.shape[1], fifty.shape[1] + by_words.shape[1]
        weights[0, np.arange(len(ten))[:, None], ten] = weights_of(most_alike, 20.0)
        weights[1, :, :end_of_fifty] = weights_of(alike, 10.0)
        weights[2, :, end_of_fifty:end_of_words] = weights_of(like_words, 5.0)
        weights[3, :, end_of_words:] = solved
        shares = self._used(requests, weights, pools)
        return np.concatenate([log_share(shares), np.clip(shares[:, -1:], 0, MOST_EXPECTED)], axis=1)

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        if not len(self._log):
            return [np.empty(0, np.int64)] * len(cues)
        near, likeness = self._near(cues)
        nearest, _ = top(likeness, n)
        return [distinct(self._log.uses.expand(row)[1]) for row in np.take_along_axis(near, nearest, axis=1)]

    def _near(self, cues: Cues) -> tuple[Int64, Float32]:
        """Returns the neighbours (Q, n) of the regression and their similarity. The nearest give the candidates."""
        return self._last.of(lambda: top(joint(*self._log.likeness(cues)), self.NEIGHBOURS), cues, len(self._log))

    def _used(self, near: Int64, weights: Float32, pools: Pools) -> Float32:
        """Returns the use (P, columns) of each candidate by requests (Q, n), for weights (columns, Q, n) of these."""
        position, rows, counts = self._log.uses.expand(near.reshape(-1))
        values = weights.reshape(len(weights), -1)[:, position] * counts
        return pools.add_up(position // near.shape[1], rows, values)

    def _regression(self, cues: Cues) -> tuple[Int64, Float32]:
        near, likeness = self._near(cues)
        weights = np.zeros(near.shape, np.float32)
        for at, requests in enumerate(near):
            if cues.rows[at] < 0:  # the text of a stored memory is not a request; memories used with it count instead
                dense, lexical = self._log.gram(requests)
                kernel = kernel_of(joint(dense, lexical, out=dense))
                kernel.flat[:: len(kernel) + 1] += np.float32(RIDGE)
                weights[at] = _solve(kernel, kernel_of(likeness[at]))
        return near, weights


def kernel_of(likeness: Float32) -> Float32:
    """Returns the kernel of pairs of requests with these similarities, of any shape."""
    kernel: Float32 = np.exp(np.float32(WIDTH) * (likeness - 1))
    return kernel


def _solve(matrix: Float32, values: Float32) -> Float32:
    """Solves a symmetric, positive definite system (T, T) by conjugate gradients (Hestenes and Stiefel 1952).

    The kernel of similar requests with a ridge has few distinct eigenvalues: about 15 steps are exact to float32, in a
    third of the time of a factorisation.
    """
    solution: Float32 = np.zeros_like(values)
    rest, direction = values, values
    first = square = rest @ rest
    for _ in range(STEPS):
        if square <= EXACT * first:
            return solution
        along = matrix @ direction
        step: Any = square / (direction @ along)
        solution = solution + step * direction
        rest = rest - step * along
        before, square = square, rest @ rest
        turn: Any = square / before
        direction = rest + turn * direction
    solved: Float32 = np.linalg.solve(matrix, values)
    return solved
