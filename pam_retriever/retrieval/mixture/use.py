"""Evidence of use: the memories that served earlier requests, and memories that were used together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pam_retriever.retrieval.mixture.pools import Cues, Pools
from pam_retriever.retrieval.mixture.requests import Growing, RequestLog
from pam_retriever.retrieval.mixture.shares import grown, log_share
from pam_retriever.retrieval.mixture.sources import Looks, best, by_length, largest
from pam_retriever.retrieval.mixture.words import BM25, Field
from pam_retriever.types import Float32, Int64

MOST_EXPECTED = 1.2  # bound on the predicted uses by one request; a regression may predict more
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
    DENSE_PART = 0.7  # weight of dense similarity in its kernel; the rest is TF-IDF
    WIDTH = 2.0
    RIDGE = 0.3

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._last: tuple[Cues, int, Int64, Float32] | None = None

    def score(self, cues: Cues, pools: Pools) -> Float32:
        if not len(self._log):
            return np.zeros((len(pools), len(self.features)), np.float32)
        dense, lexical = self._log.likeness(cues)
        fifty, alike = _top(dense, 50)
        ten, most_alike = _top(alike, 10)
        worded, like_words = _top(lexical, 50)
        near, solved = self._regression(cues)
        requests = np.concatenate([fifty, worded, near], axis=1)
        weights = np.zeros((len(self.features) - 1, *requests.shape), np.float32)
        of_fifty, of_worded, of_near = np.split(weights, np.cumsum([fifty.shape[1], worded.shape[1]]), axis=2)
        of_fifty[0, _each(alike), ten] = _weights(most_alike, 20.0)
        of_fifty[1], of_worded[2], of_near[3] = _weights(alike, 10.0), _weights(like_words, 5.0), solved
        shares = self._used(requests, weights, pools)
        columns = np.concatenate([log_share(shares), np.clip(shares[:, -1:], 0, MOST_EXPECTED)], axis=1)
        return columns * pools.visible[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        if not len(self._log):
            return [np.empty(0, np.int64)] * len(cues)
        near, likeness = self._near(cues)
        nearest, _ = _top(likeness, n)
        return [np.unique(self._log.uses.expand(row)[1]) for row in np.take_along_axis(near, nearest, axis=1)]

    def _near(self, cues: Cues) -> tuple[Int64, Float32]:
        """Returns the neighbours (Q, n) of the regression and their similarity. The nearest give the candidates."""
        last = self._last
        if last is None or last[0] is not cues or last[1] != len(self._log):
            last = self._last = cues, len(self._log), *_top(self._joint(*self._log.likeness(cues)), self.NEIGHBOURS)
        return last[2:]

    def _joint(self, dense: Float32, lexical: Float32) -> Float32:
        return np.float32(self.DENSE_PART) * dense + np.float32(1 - self.DENSE_PART) * lexical

    def _used(self, near: Int64, weights: Float32, pools: Pools) -> Float32:
        """Returns the use (P, columns) of each candidate by requests (Q, n), for weights (columns, Q, n) of these."""
        place, rows, counts = self._log.uses.expand(near.reshape(-1))
        values = weights.reshape(len(weights), -1)[:, place] * counts
        return pools.add_up(place // near.shape[1], rows, values)

    def _regression(self, cues: Cues) -> tuple[Int64, Float32]:
        near, likeness = self._near(cues)
        weights = np.zeros(near.shape, np.float32)
        for at, requests in enumerate(near):
            if cues.rows[at] < 0:  # the text of a stored memory is not a request; memories used with it count instead
                kernel = self._kernel(self._joint(*self._log.gram(requests)))
                kernel[np.diag_indices_from(kernel)] += np.float32(self.RIDGE)
                weights[at] = _solve(kernel, self._kernel(likeness[at]))
        return near, weights

    def _kernel(self, likeness: Float32) -> Float32:
        kernel: Float32 = np.exp(np.float32(self.WIDTH) * (likeness - 1))
        return kernel


class Profile:
    """Cosine of the cue and the mean of the requests that used a memory.

    Args:
        log: past requests.
    """

    name, features = "profile", ("profile",)
    USES = 16  # reading this many numbers of a mean vector takes as long as reading one use

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._through = 0
        self._place = np.full(log.size, -1)  # position of each memory among the used ones
        self._used = Growing(np.empty(0, np.int64))
        self._sums = Growing(np.empty((0, log.vectors.shape[1]), np.float32))
        self._units = Growing(np.empty((0, log.vectors.shape[1]), np.float32))
        self._lengths = Growing(np.empty(0, np.float32))  # of the sums of requests
        self._user, self._by = Growing(np.empty(0, np.int64)), Growing(np.empty(0, np.int64))  # one entry per use
        self._last: tuple[Cues, int, Float32] | None = None

    def score(self, cues: Cues, pools: Pools) -> Float32:
        used, near = self._near(cues)
        if not len(used):
            return np.zeros((len(pools), 1), np.float32)
        place = grown(self._place, self._log.size, -1)[pools.row]
        return (np.where(place < 0, np.float32(0), near[pools.cue, place]) * pools.visible)[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        used, near = self._near(cues)
        return [used[best(row, n)] for row in near] if len(used) else [used] * len(cues)

    def _near(self, cues: Cues) -> tuple[Int64, Float32]:
        """Returns the used memories, and the cosine (Q, U) with their means, for candidates and for features."""
        used, means = self._means()
        last = self._last
        if last is None or last[0] is not cues or last[1] != len(self._log):
            # the cosine of a mean follows from the cosines of its members, which are fewer numbers than the mean has
            few = len(cues) == 1 and self.USES * len(self._user) < means.size
            near = self._from_likeness(cues) if few else cues.vectors @ means.T
            last = self._last = cues, len(self._log), near
        return used, last[2]

    def _from_likeness(self, cues: Cues) -> Float32:
        """Returns the row (1, U) of one question."""
        likeness = self._log.likeness(cues)[0][0][self._by.view] * self._log.uses.weights
        sums = np.bincount(self._user.view, likeness, len(self._used))
        near: Float32 = (sums / self._lengths.view).astype(np.float32)
        return near[None]

    def _means(self) -> tuple[Int64, Float32]:
        """Returns the used memories, and their mean requests (U, dim) of unit length."""
        if self._through < len(self._log):
            new = np.arange(self._through, len(self._log))
            place, rows, weights = self._log.uses.expand(new)
            self._place = grown(self._place, self._log.size, -1)
            first = np.unique(rows[self._place[rows] < 0])
            self._place[first] = len(self._used) + np.arange(len(first))
            self._used.extend(first)
            empty = np.zeros((len(first), self._log.vectors.shape[1]), np.float32)
            self._sums.extend(empty)
            self._units.extend(empty)
            self._lengths.extend(np.zeros(len(first), np.float32))
            at = self._place[rows]
            self._user.extend(at)
            self._by.extend(new[place])
            np.add.at(self._sums.view, at, self._log.vectors[new][place] * weights[:, None])
            changed = np.unique(at)
            sums = self._sums.view[changed]
            self._lengths.view[changed] = np.maximum(np.linalg.norm(sums, axis=1), 1e-9)
            self._units.view[changed] = sums / self._lengths.view[changed, None]
            self._through = len(self._log)
        return self._used.view, self._units.view


class ExpandedWords:
    """BM25 over the words of a memory, of its name, and of the requests that used it.

    Args:
        text: the words of the memories' texts.
        names: the words of their names, which count three times.
        log: past requests. The words of a request that used n memories have weight 1 / sqrt(n) in each.
    """

    name, features = "expanded words", ("expanded_words",)
    B = 0.4  # a memory that served many requests is long for a good reason: less length normalisation
    NAME_WEIGHT = 3.0

    def __init__(self, text: Field, names: Field, log: RequestLog) -> None:
        own: list[tuple[Field, float]] = [(text, 1.0), (names, self.NAME_WEIGHT)]
        self._own, self._all = BM25(own, self.B), BM25([*own, (_Asked(log), 1.0)], self.B)
        self._log = log
        self._last: tuple[Cues, int, Float32] | None = None

    def score(self, cues: Cues, pools: Pools) -> Float32:
        scores = pools.grid(self._of_all(cues))
        if pools.hidden is not None:
            scores = np.where(pools.hidden, pools.grid(self._scores(cues, self._own)), scores)
        return (scores * by_length(cues, pools))[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        return [best(row, n) for row in self._of_all(cues)]

    def _of_all(self, cues: Cues) -> Float32:
        """Returns the scores (Q, n), computed once for proposals and features."""
        if self._last is None or self._last[0] is not cues or self._last[1] != len(self._log):
            self._last = cues, len(self._log), self._scores(cues, self._all)
        return self._last[2]

    def _scores(self, cues: Cues, words: BM25) -> Float32:
        return np.stack([words.scores(asked) for asked in cues.words])


class _Asked:
    """The words of the requests that used a memory, as a field of this memory."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._through = 0
        self._lengths = np.zeros(log.size)
        self._share = Growing(np.empty(0, np.float32))  # weight of the words of each request

    @property
    def version(self) -> tuple[int, int]:
        return len(self._log), self._log.size

    @property
    def lengths(self) -> Float32:
        self._follow()
        return self._lengths.astype(np.float32)

    def _follow(self) -> None:
        """Adds the requests since the last question."""
        self._lengths = grown(self._lengths, self._log.size)
        if self._through < len(self._log):
            new = np.arange(self._through, len(self._log))
            place, rows, _ = self._log.uses.expand(new)
            used = np.maximum(np.diff(self._log.uses.starts[self._through :]), 1)
            self._share.extend((1 / np.sqrt(used)).astype(np.float32))
            np.add.at(self._lengths, rows, (self._log.word_counts[new] * self._share.view[new])[place])
            self._through = len(self._log)

    def counts(self, word: str) -> tuple[Int64, Float32]:
        self._follow()
        requests = self._log.holding(word)
        place, rows, _ = self._log.uses.expand(requests)
        counts = np.bincount(rows, self._share.view[requests][place], self._log.size)
        found = np.flatnonzero(counts)
        return found, counts[found].astype(np.float32)


class UsedTogether:
    """Memories that were used together with the stored memory of the cue, directly and over two steps.

    A never-used or hidden cue is replaced by the used memories that are most similar to it.

    Args:
        log: past requests.
        vectors: (N, dim) float32, unit length.
    """

    name = "used together"
    features = ("together", "together_recently", "together_2", "together_alike")
    LATEST = 200  # number of the last uses of a memory that are read
    FIRST_STEP = 20  # memories from which the second step starts
    ALIKE = 10
    HALF_LIFE = 500.0
    PRIOR = 1.0  # pseudo-count: uses of every memory in which no other memory was used

    def __init__(self, log: RequestLog, looks: Looks) -> None:
        self._log, self._looks = log, looks
        self._followed = (-1, -1)

    def score(self, cues: Cues, pools: Pools) -> Float32:
        asked = np.flatnonzero(cues.rows >= 0)
        if not len(asked) or not len(self._log):
            return np.zeros((len(pools), len(self.features)), np.float32)
        self._follow()
        columns = np.stack([pools.add_up(*triple) for triple in self._triples(cues, asked)], axis=1)
        return log_share(columns) * pools.visible[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        found: list[Int64] = [np.empty(0, np.int64)] * len(cues)
        asked = np.flatnonzero(cues.rows >= 0)
        if not len(asked) or not len(self._log):
            return found
        self._follow()
        for cue, row, value in self._triples(cues, asked):
            order = np.argsort(-value, kind="stable")
            for at in asked.tolist():
                mine = row[order[cue[order] == at]]
                found[at] = np.unique(np.concatenate([found[at], mine[:n]]))
        return found

    def _triples(self, cues: Cues, asked: Int64) -> list[tuple[Int64, Int64, Float32]]:
        """Returns cue, memory and share, for each feature."""
        rows = cues.rows[asked]
        one = self._step(asked, rows, np.ones(len(asked), np.float32))
        recent = self._step(asked, rows, np.ones(len(asked), np.float32), self.HALF_LIFE)
        two = self._step(*_strongest(*one, self.FIRST_STEP))
        used = self._used
        near, weights = _neighbours(self._looks[rows] @ self._looks[used].T, self.ALIKE, 10.0)
        alike = self._step(np.repeat(asked, near.shape[1]), used[near.reshape(-1)], weights.reshape(-1))
        return [one, recent, two, alike]

    def _step(
        self, cue: Int64, row: Int64, share: Float32, half_life: float | None = None
    ) -> tuple[Int64, Int64, Float32]:
        """Steps from memories to those used with them; divides the share among the uses of each."""
        at, requests, weight = self._by_memory.expand(row)
        first = np.cumsum(np.bincount(at, minlength=len(row)))[at] - np.arange(len(at)) <= self.LATEST
        at, requests, weight = at[first], requests[first], weight[first]
        if half_life is not None:
            weight = weight * (0.5 ** ((len(self._log) - 1 - requests) / half_life)).astype(np.float32)
        total = np.bincount(at, np.abs(weight), len(row)) + self.PRIOR  # uses that did not help are negative
        place, found, count = self._log.uses.expand(requests)
        source = at[place]
        other = found != row[source]
        value = (share[source] * weight[place] * count / total[source]).astype(np.float32)
        return cue[source][other], found[other], value[other]

    def _follow(self) -> None:
        now = len(self._log), self._log.size
        if self._followed != now:
            self._by_memory = self._log.uses.transpose(self._log.size)
            self._used = np.flatnonzero(np.diff(self._by_memory.starts))
            self._followed = now


def _top(values: Float32, n: int) -> tuple[Int64, Float32]:
    """Returns the columns (Q, n) with the largest values, rising, and these values."""
    n = min(n, values.shape[1])
    top = np.array([largest(row, n) for row in values], np.int64).reshape(len(values), n)
    return top, values[_each(values), top]


def _each(values: Float32) -> Int64:
    """Returns the indices (Q, 1) of the rows of values (Q, n)."""
    return np.arange(len(values))[:, None]


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


def _neighbours(likeness: Float32, n: int, width: float) -> tuple[Int64, Float32]:
    """Returns the nearest columns (Q, n) and weights with sum 1; dissimilar ones have weight 0."""
    near, value = _top(likeness, n)
    return near, _weights(value, width)


def _weights(likeness: Float32, width: float) -> Float32:
    """Returns the weights (Q, n) of neighbours, with sum 1; dissimilar ones have weight 0."""
    odds = np.exp(np.float32(width) * (likeness - likeness.max(axis=1, keepdims=True))) * (likeness > 0)
    weights: Float32 = odds / np.maximum(odds.sum(axis=1, keepdims=True), np.float32(1e-9))
    return weights


def _strongest(cue: Int64, row: Int64, share: Float32, n: int) -> tuple[Int64, Int64, Float32]:
    """Returns the ``n`` rows of each cue with the largest shares, without duplicates."""
    keys, inverse = np.unique(np.stack([cue, row], axis=1), axis=0, return_inverse=True)
    total = np.bincount(inverse.reshape(-1), share, len(keys)).astype(np.float32)
    order = np.lexsort((-total, keys[:, 0])) if len(keys) else np.empty(0, np.int64)
    cue, row, total = keys[order, 0], keys[order, 1], total[order]
    _, first = np.unique(cue, return_index=True) if len(cue) else (cue, cue)
    rank = np.arange(len(cue)) - np.repeat(first, np.diff([*first.tolist(), len(cue)]))
    kept = rank < n
    return cue[kept], row[kept], total[kept]
