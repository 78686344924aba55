"""Evidence of use: what served requests before, and what was used together.

Shares of use become features as ``log(1 + share / 0.01)``: a softmax over a weighted sum of them is a product of
experts, in which a source that knows nothing leaves the others alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pam_retriever.retrieval.mixture.pools import Cues, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.retrieval.mixture.sources import BM25_UNIT, Field, Looks, best, bm25
from pam_retriever.types import Float32, Int64

Floats = npt.NDArray[np.floating]

SMALL_SHARE = 0.01
MOST_EXPECTED = 1.2  # uses by one request; a regression may say more


class Popularity:
    """How often a memory was used, ever and of late, whatever the cue.

    Args:
        log: past requests.
        half_lives: in requests; "of late" weighs a use by half for each.
    """

    name = "popularity"

    def __init__(self, log: RequestLog, half_lives: Sequence[int] = (100, 500)) -> None:
        self._log, self._half_lives = log, half_lives
        self.features = ("popularity", *(f"recency_{life}" for life in half_lives))
        self._cached: tuple[int, list[Float32]] = (-1, [])

    def score(self, cues: Cues, pools: Pools) -> Float32:
        del cues
        columns = [pools.spread(column) for column in self._columns()]
        return np.stack(columns, axis=1) * pools.visible[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        found = np.unique(np.concatenate([best(column, n) for column in self._columns()]))
        return [found] * len(cues)

    def _columns(self) -> list[Float32]:
        through, columns = self._cached
        if through != len(self._log):
            columns = self._count()
            self._cached = len(self._log), columns
        return columns

    def _count(self) -> list[Float32]:
        uses = self._log.uses
        count = np.bincount(uses.rows, uses.weights, self._log.size)
        columns = [np.log1p(np.maximum(count, 0))]
        age = np.repeat(np.arange(len(uses))[::-1], np.diff(uses.starts))
        for life in self._half_lives:
            weights = 0.5 ** (np.arange(len(uses)) / life)
            decayed = np.bincount(uses.rows, uses.weights * 0.5 ** (age / life), self._log.size)
            columns.append(log_share(decayed / max(float(weights.sum()), 1e-9)))
        return [column.astype(np.float32) for column in columns]


class PastUse:
    """What served similar requests before.

    Three shares among nearest neighbours, and a kernel ridge regression from requests to memories that is solved on
    the neighbours of the cue alone: it tells neighbours that repeat each other from neighbours that agree, needs no
    training, and knows a request as soon as it is stored. What it expects is a feature as it is, too: near 1 it says
    more than the logarithm does.

    Args:
        log: past requests.
    """

    name = "requests"
    features = ("dense_10", "dense_50", "lexical_50", "regression", "regression_share")
    NEIGHBOURS = 192  # of the regression
    DENSE_PART = 0.7  # of its kernel; the rest is TF-IDF
    WIDTH = 2.0
    RIDGE = 0.3

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._last: tuple[Cues, Float32, Float32] | None = None

    def score(self, cues: Cues, pools: Pools) -> Float32:
        if not len(self._log):
            return np.zeros((len(pools), len(self.features)), np.float32)
        dense, lexical = self._likeness(cues)
        parts = (
            _neighbours(dense, 10, 20.0),
            _neighbours(dense, 50, 10.0),
            _neighbours(lexical, 50, 5.0),
        )
        expected = self._used(*self._regression(cues, dense, lexical), pools)
        columns = [log_share(self._used(*part, pools)) for part in parts]
        columns += [log_share(expected), np.clip(expected, 0, MOST_EXPECTED)]
        return np.stack(columns, axis=1) * pools.visible[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        if not len(self._log):
            return [np.empty(0, np.int64)] * len(cues)
        joint = self._joint(*self._likeness(cues))
        near, _ = _top(joint, min(self.NEIGHBOURS, n))
        return [np.unique(self._log.uses.expand(row)[1]) for row in near]

    def _likeness(self, cues: Cues) -> tuple[Float32, Float32]:
        """(Q, n) dense and (Q, n) lexical; what candidates are found by is not computed again to score them."""
        last = self._last
        if last is None or last[0] is not cues or last[1].shape[1] != len(self._log):
            last = self._last = cues, self._log.cosines(cues), self._log.word_cosines(cues)
        return last[1], last[2]

    def _joint(self, dense: Float32, lexical: Float32) -> Float32:
        return np.float32(self.DENSE_PART) * dense + np.float32(1 - self.DENSE_PART) * lexical

    def _used(self, near: Int64, weights: Float32, pools: Pools) -> Float32:
        place, rows, counts = self._log.uses.expand(near.reshape(-1))
        return pools.add_up(place // near.shape[1], rows, weights.reshape(-1)[place] * counts)

    def _regression(self, cues: Cues, dense: Float32, lexical: Float32) -> tuple[Int64, Float32]:
        joint = self._joint(dense, lexical)
        near, likeness = _top(joint, self.NEIGHBOURS)
        weights = np.empty(near.shape, np.float32)
        ridge = np.float32(self.RIDGE) * np.eye(near.shape[1], dtype=np.float32)
        for at, requests in enumerate(near):
            if cues.rows[at] >= 0:  # what a stored memory says is no request; its company is what counts
                weights[at] = 0
                continue
            kernel = np.exp(np.float32(self.WIDTH) * (self._joint(*self._log.gram(requests)) - 1))
            weights[at] = np.linalg.solve(kernel + ridge, np.exp(np.float32(self.WIDTH) * (likeness[at] - 1)))
        return near, weights


class Profile:
    """Cosine of the cue and the mean of the requests that used a memory.

    Args:
        log: past requests.
    """

    name, features = "profile", ("profile",)

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._through = 0
        self._sums: dict[int, Float32] = {}

    def score(self, cues: Cues, pools: Pools) -> Float32:
        used, means = self._means()
        if not len(used):
            return np.zeros((len(pools), 1), np.float32)
        near = cues.vectors @ means.T
        cue, column = np.divmod(np.arange(near.size), len(used))
        return (pools.add_up(cue, used[column], near.reshape(-1)) * pools.visible)[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        used, means = self._means()
        return [used[best(row, n)] for row in cues.vectors @ means.T] if len(used) else [used] * len(cues)

    def _means(self) -> tuple[Int64, Float32]:
        """The memories that were used, and (U, dim) their mean requests at unit length."""
        if self._through < len(self._log):
            new = np.arange(self._through, len(self._log))
            place, rows, weights = self._log.uses.expand(new)
            used, inverse = np.unique(rows, return_inverse=True)
            sums = np.zeros((len(used), self._log.vectors.shape[1]), np.float32)
            np.add.at(sums, inverse, self._log.vectors[new][place] * weights[:, None])
            for row, total in zip(used.tolist(), sums, strict=True):
                self._sums[row] = self._sums[row] + total if row in self._sums else total
            self._through = len(self._log)
            rows = np.array(sorted(self._sums), np.int64)
            means = np.stack([self._sums[row] for row in rows.tolist()])
            means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
            self._cached = rows, means
        return self._cached if self._sums else (np.empty(0, np.int64), np.empty((0, 0), np.float32))


class ExpandedWords:
    """BM25 over each memory's own words, its name, and the words of the requests that used it.

    Args:
        text: the words of the memories' texts.
        names: those of their names, which count three times.
        log: past requests. A request that used n memories gives its words to each as 1 / sqrt(n) of one.
    """

    name, features = "expanded words", ("expanded_words",)
    B = 0.4  # a memory that served much is long, and should not be punished for it as a wordy text is
    NAME_WEIGHT = 3.0

    def __init__(self, text: Field, names: Field, log: RequestLog) -> None:
        self._own: list[tuple[Field, float]] = [(text, 1.0), (names, self.NAME_WEIGHT)]
        self._all: list[tuple[Field, float]] = [*self._own, (_Asked(log), 1.0)]

    def score(self, cues: Cues, pools: Pools) -> Float32:
        scores = pools.grid(self._scores(cues, self._all))
        if pools.hidden is not None:
            scores = np.where(pools.hidden, pools.grid(self._scores(cues, self._own)), scores)
        return scores[:, None] / np.float32(BM25_UNIT)

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        return [best(row, n) for row in self._scores(cues, self._all)]

    def _scores(self, cues: Cues, fields: Sequence[tuple[Field, float]]) -> Float32:
        return np.stack([bm25(fields, words, self.B) for words in cues.words])


class _Asked:
    """The words of the requests that used a memory, as a field of it."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._cached: tuple[int, Float32] = (-1, np.zeros(log.size, np.float32))

    @property
    def lengths(self) -> Float32:
        through, lengths = self._cached
        if through != len(self._log):
            uses, words = self._log.uses, self._log.words
            share = self._share()
            per_use = np.repeat(np.diff(words.starts) * share, np.diff(uses.starts))
            lengths = np.bincount(uses.rows, per_use, self._log.size).astype(np.float32)
            self._cached = len(self._log), lengths
        return lengths

    def counts(self, word: str) -> tuple[Int64, Float32]:
        requests = self._log.holding(word)
        place, rows, _ = self._log.uses.expand(requests)
        if not len(rows):
            return rows, np.empty(0, np.float32)
        found, at = np.unique(rows, return_inverse=True)
        return found, np.bincount(at, self._share()[requests][place], len(found)).astype(np.float32)

    def _share(self) -> Float32:
        uses = np.maximum(np.diff(self._log.uses.starts), 1)
        return (1 / np.sqrt(uses)).astype(np.float32)


class UsedTogether:
    """What was used together with the stored memory that the cue is, in one step and in two.

    A cue that was never used, or hidden, asks the used memories that look most like it.

    Args:
        log: past requests.
        vectors: (N, dim) float32, unit length.
    """

    name = "used together"
    features = ("together", "together_recently", "together_2", "together_alike")
    LATEST = 200  # uses of a memory that are looked at
    FIRST_STEP = 20  # memories from which the second step goes on
    ALIKE = 10
    HALF_LIFE = 500.0
    PRIOR = 1.0  # uses without company that every memory is taken to have

    def __init__(self, log: RequestLog, looks: Looks) -> None:
        self._log, self._looks = log, looks
        self._through = -1

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
        """Cue, memory and share, for each feature."""
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
        """Goes from memories to what was used with them; shares are divided among the uses of each."""
        at, requests, weight = self._by_memory.expand(row)
        first = np.cumsum(np.bincount(at, minlength=len(row)))[at] - np.arange(len(at)) <= self.LATEST
        at, requests, weight = at[first], requests[first], weight[first]
        if half_life is not None:
            weight = weight * (0.5 ** ((len(self._log) - 1 - requests) / half_life)).astype(np.float32)
        total = np.bincount(at, weight, len(row)) + self.PRIOR
        place, found, count = self._log.uses.expand(requests)
        source = at[place]
        other = found != row[source]
        value = (share[source] * weight[place] * count / total[source]).astype(np.float32)
        return cue[source][other], found[other], value[other]

    def _follow(self) -> None:
        if self._through < len(self._log):
            self._by_memory = self._log.uses.transpose(self._log.size)
            self._used = np.flatnonzero(np.diff(self._by_memory.starts))
            self._through = len(self._log)


def log_share(share: Floats) -> Float32:
    """Shares as features: 0 for nothing, 4.6 for all."""
    feature: Float32 = np.log1p(np.maximum(share, 0) / SMALL_SHARE).astype(np.float32)
    return feature


def _top(values: Float32, n: int) -> tuple[Int64, Float32]:
    """(Q, n) the columns with the largest values, in no order, and these values."""
    n = min(n, values.shape[1])
    top = np.argpartition(-values, n - 1, axis=1)[:, :n]
    return top, np.take_along_axis(values, top, axis=1)


def _neighbours(likeness: Float32, n: int, width: float) -> tuple[Int64, Float32]:
    """(Q, n) nearest columns and their weights, which add up to 1; those without likeness weigh nothing."""
    near, value = _top(likeness, n)
    weights = np.exp(np.float32(width) * (value - value.max(axis=1, keepdims=True))) * (value > 0)
    return near, weights / np.maximum(weights.sum(axis=1, keepdims=True), np.float32(1e-9))


def _strongest(cue: Int64, row: Int64, share: Float32, n: int) -> tuple[Int64, Int64, Float32]:
    """The ``n`` rows of each cue with the largest shares, each once."""
    keys, inverse = np.unique(np.stack([cue, row], axis=1), axis=0, return_inverse=True)
    total = np.bincount(inverse.reshape(-1), share, len(keys)).astype(np.float32)
    order = np.lexsort((-total, keys[:, 0])) if len(keys) else np.empty(0, np.int64)
    cue, row, total = keys[order, 0], keys[order, 1], total[order]
    _, first = np.unique(cue, return_index=True) if len(cue) else (cue, cue)
    rank = np.arange(len(cue)) - np.repeat(first, np.diff([*first.tolist(), len(cue)]))
    kept = rank < n
    return cue[kept], row[kept], total[kept]
