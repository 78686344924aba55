"""A source: the memories that a regression over all past requests expects a question to use. ``fit`` learns it.

``PastUse`` solves the same kernel ridge regression on the neighbours of a question alone, so that a request counts as
soon as it is stored. Over all requests, the regression tells requests apart that look alike and need different things.
It takes time cubic in the number of requests, so only ``fit`` solves it. ``best_half_life`` finds how much recent
requests count in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pam_retriever.model.forked_threads import one_thread_in_children
from pam_retriever.retrieval.mixture.past_use import MOST_EXPECTED, RIDGE, kernel_of
from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog, Uses, joint
from pam_retriever.retrieval.mixture.shares import log_share
from pam_retriever.store.feedback_fit import StoredRegression
from pam_retriever.types import Bools, Float32, Int64

MOST_REQUESTS, MOST_MEMORIES = 8_000, 2_000  # the newest requests, and the memories that most requests used
MOST_WEIGHTS = 4_000_000  # a question reads all weights: 16 MB
BLOCK = 128  # requests that are compared with all earlier ones at once: their kernel stays in the cache
HALF_LIVES = (np.inf, 1_000.0, 200.0)  # in requests; the regression weights older requests less
LEAST_COUNTS = 1e-4  # the smallest weight of an old request


@dataclass(frozen=True)
class UseRegression:
    """A kernel ridge regression from requests to the memories that they used.

    Attributes:
        requests: (n,) positions in the log, rising.
        memories: (T,) positions of memories, rising.
        weights: (n, T) the expected use of a memory is the sum of the weights, times the kernel of each request.
    """

    requests: Int64
    memories: Int64
    weights: Float32

    @classmethod
    def empty(cls) -> UseRegression:
        """Returns a regression that expects nothing."""
        none = np.empty(0, np.int64)
        return cls(none, none, np.empty((0, 0), np.float32))

    @classmethod
    def of(cls, log: RequestLog, half_life: float = np.inf) -> UseRegression:
        """Solves the regression over the newest requests of a log, for memories that several requests used."""
        import torch

        one_thread_in_children()
        memories = _used_often(log)
        count = min(len(log), MOST_REQUESTS, MOST_WEIGHTS // max(len(memories), 1))
        requests = np.arange(len(log) - count, len(log))
        if not len(memories):
            return cls(requests, memories, np.zeros((count, 0), np.float32))
        kernel = _kernel_among(log, requests)
        weight = np.maximum(0.5 ** (np.arange(count)[::-1] / half_life), LEAST_COUNTS)
        kernel.flat[:: count + 1] += (RIDGE / weight).astype(np.float32)
        factor = torch.from_numpy(kernel)
        # it reads the lower triangle alone, and works in place: a quarter of a gigabyte for 8,000 requests
        torch.linalg.cholesky(factor, out=factor)
        used = torch.from_numpy(_used(log.uses, requests, memories))
        return cls(requests, memories, torch.cholesky_solve(used, factor).numpy())

    def pack(self, numbers: Int64, rows: Int64) -> bytes:
        """Returns the contents of a safetensors file, with the stored numbers of requests and rows of memories.

        Args:
            numbers: of the requests of the log, by position.
            rows: of the memories, by position.
        """
        return StoredRegression(numbers[self.requests], rows[self.memories], self.weights).pack()

    @classmethod
    def of_stored(cls, stored: StoredRegression, numbers: Int64, rows: Int64) -> UseRegression | None:
        """Returns a regression that was read; None if one of its requests or memories is no longer stored."""
        if not (np.isin(stored.requests, numbers).all() and np.isin(stored.memories, rows).all()):
            return None
        order = np.argsort(numbers)
        at = order[np.searchsorted(numbers, stored.requests, sorter=order)]
        return cls(at, np.searchsorted(rows, stored.memories), stored.weights)

    def renumbered(self, position: Int64) -> UseRegression:
        """Returns the same regression, where memories have other positions (N,)."""
        return UseRegression(self.requests, position[self.memories], self.weights)

    def expected(self, kernel: Float32) -> Float32:
        """Returns the expected uses (Q, T), from the kernel (Q, n) of questions and requests."""
        uses: Float32 = kernel @ self.weights
        return uses


class LearntRequests:
    """What the regression over all past requests expects, as a share and as its logarithm.

    Args:
        log: past requests; those of the regression, and later ones.
        regression: what ``fit`` learnt.
    """

    name, features = "learnt requests", ("learnt", "learnt_share")

    def __init__(self, log: RequestLog, regression: UseRegression) -> None:
        log.exact = True  # the weights of similar requests cancel out, so a small error in each similarity adds up
        self._log, self._regression = log, regression
        self._last = LastAnswer[Float32]()

    def score(self, cues: Cues, pools: Pools) -> Float32:
        if not len(self._regression.memories):
            return np.zeros((len(pools), len(self.features)), np.float32)
        column, there = _columns(self._regression.memories, pools.row)
        shares = np.clip(self._expected(cues)[pools.cue, column] * there * pools.visible, 0, MOST_EXPECTED)
        return np.stack([log_share(shares), shares], axis=1)

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        expected, memories = self._expected(cues), self._regression.memories
        return [memories[np.argsort(-row, kind="stable")[:n]][: np.count_nonzero(row > 0)] for row in expected]

    def _expected(self, cues: Cues) -> Float32:
        """Returns the expected uses (Q, T), computed once for proposals and features; 0 for stored memories as cues."""
        return self._last.of(lambda: self._expect(cues), cues)

    def _expect(self, cues: Cues) -> Float32:
        dense, lexical = (alike[:, self._regression.requests] for alike in self._log.likeness(cues))
        expected = self._regression.expected(kernel_of(joint(dense, lexical, out=dense)))
        return np.where(cues.rows[:, None] < 0, expected, np.float32(0))


def best_half_life(known: RequestLog, asked: Cues, used: Uses) -> float:
    """Returns the half-life whose regression over ``known`` requests has the least squared error for later ones.

    Args:
        known: past requests.
        asked: Q later ones.
        used: the memories that served each of these.
    """
    if not len(known) or not len(asked):
        return HALF_LIVES[0]
    memories = _used_often(known)
    wanted = _used(used, np.arange(len(used)), memories) > 0
    errors = []
    for half_life in HALF_LIVES:
        expected = LearntRequests(known, UseRegression.of(known, half_life))._expected(asked)
        errors.append(float(np.square(expected - wanted).sum()))
    return HALF_LIVES[int(np.argmin(errors))]


def _used_often(log: RequestLog) -> Int64:
    """Returns the memories (T,) that served several requests: those of one request say nothing beyond likeness."""
    times = np.bincount(log.uses.helpful().rows, minlength=log.size)
    often = np.flatnonzero(times > 1)
    most = often[np.argsort(-times[often], kind="stable")[:MOST_MEMORIES]]
    most.sort()
    return most


def _columns(memories: Int64, rows: Int64) -> tuple[Int64, Bools]:
    """Returns the position (n,) of each of ``rows`` (n,) in ``memories`` (T,), which rise, and whether it is there."""
    column = np.minimum(np.searchsorted(memories, rows), len(memories) - 1)
    return column, memories[column] == rows


def _used(uses: Uses, requests: Int64, memories: Int64) -> Float32:
    """Returns the weights (n, T) with which requests used memories."""
    used = np.zeros((len(requests), len(memories)), np.float32)
    if not len(memories):
        return used
    position, rows, weights = uses.expand(requests)
    column, there = _columns(memories, rows)
    np.add.at(used, (position[there], column[there]), weights[there])
    return used


def _kernel_among(log: RequestLog, requests: Int64) -> Float32:
    """Returns the lower triangle of the kernel (n, n) among requests, which is symmetric; the rest is not filled."""
    kernel, vectors = np.zeros((len(requests), len(requests)), np.float32), log.vectors[requests]
    for start in range(0, len(requests), BLOCK):
        end = min(start + BLOCK, len(requests))
        some, until = requests[start:end], requests[:end]
        cues = Cues(vectors[start:end], log.words_of(some), np.full(len(some), -1))
        dense, lexical = cues.vectors @ vectors[:end].T, log.word_cosines(cues)[:, until]
        kernel[start:end, :end] = kernel_of(joint(dense, lexical, out=dense))
    return kernel
