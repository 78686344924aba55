"""Step 7: recall. Complete the cue, look up; hops are in ``hops.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from pam_retriever.backends import Backend
from pam_retriever.channels import Channels, query_vectors, totals, unit
from pam_retriever.types import Float32, Int64

# Cue completion: a query that is no stored state stands for its nearest memories, weighted by
# softmax(cosine / 0.02). A noisy view of one memory becomes that memory; what lies between
# memories becomes a mixture of them.
COMPLETED_FROM = 4
COMPLETION_TEMPERATURE = 0.02
# how far the nearest must be above the last of them to be what the query is about (docs/training.md)
STANDS_OUT, STANDS_OUT_WIDTH = 0.2, 0.03
# how far the nearest must be ahead of the second, in spreads of the next ones, to be what the query is a view of
COMPARED = 17
NEIGHBOURS = 64  # how many memories that look like a query are looked up, once for all that asks for them
AHEAD, AHEAD_WIDTH = 0.5, 0.1
SAME = 0.9999  # cosine from which a query is the stored memory itself
RECOGNISED = 0.1  # a memory with less of the weight does not count as experienced by the cue

SPECIFIC_POOL = 100  # how many candidates "specific" looks through, and at least ten a hit
FIRST_RANGE = 64  # how many hits an epsilon-ball search starts with


@dataclass(frozen=True)
class Cues:
    """Queries as recall sees them, all vectors of unit length.

    Attributes:
        looks: (Q, d) the queries as given.
        completed: (Q, d) what they were completed to; the same for a stored memory.
        predicted: (Q, d + code) f and e of that.
        rows: for each query, the stored memories that it was recognised as.
        weights: how much each of these counts.
        trust: (Q,) how surely the query is a view of a memory, from 0 to 1.
        one_of: (Q,) how surely it is a view of one of ``rows``, whichever.
        stands_out: (Q,) how far the nearest memory stands out, from 0 to 1: stricter, for questions in words.
        own: (Q,) the row of a query that is a stored memory, which is no answer to itself; -1 for none.
        near: (Q, 64) the memories that look most like the queries as given, padded with -1; (Q, 0) if they were not
            looked up.
        nearness: their cosines.
    """

    looks: Float32
    completed: Float32
    predicted: Float32
    rows: list[Int64]
    weights: list[Float32]
    trust: Float32
    one_of: Float32
    stands_out: Float32
    own: Int64
    near: Int64
    nearness: Float32

    def __len__(self) -> int:
        return len(self.own)

    def followed_by(self, others: Cues) -> Cues:
        """These cues and then ``others``."""
        pairs = ((getattr(self, column.name), getattr(others, column.name)) for column in fields(self))
        columns: list[Any] = [
            one + more if isinstance(one, list) else np.concatenate([one, more]) for one, more in pairs
        ]
        return Cues(*columns)

    def only(self, at: int) -> Cues:
        """One of the cues."""
        return Cues(*(getattr(self, column.name)[at : at + 1] for column in fields(self)))


@dataclass(frozen=True)
class Found:
    """The answers to one query, best first, each array of length n.

    Attributes:
        rows: the memories.
        scores: what they are sorted by.
        similarity: cosine to the query as given.
        association: weighted mean of the association channels, or the share that the predictor gives;
            None without association.
        hops: how many steps away.
        confidence: the probability that it was experienced with the cue; None where that is not calibrated.
        paths: (n, any) the memories on the way to each, padded with -1; None for a single hop.
    """

    rows: Int64
    scores: Float32
    similarity: Float32
    association: Float32 | None
    hops: Int64
    confidence: Float32 | None = None
    paths: Int64 | None = None

    def at(self, places: Int64) -> Self:
        """Some of them."""
        columns: dict[str, Any] = {column.name: getattr(self, column.name) for column in fields(self)}
        make: Callable[..., Self] = type(self)
        return make(**{name: None if array is None else array[places] for name, array in columns.items()})


def stored_cues(keys: Float32, rows: Int64, dim: int) -> Cues:
    """Cues that are stored memories with their ``keys`` (Q, width): nothing to complete."""
    looks, predicted, itself = keys[:, :dim], keys[:, dim:], np.ones(1, np.float32)
    alone = [np.array([row]) for row in rows.tolist()]
    sure = np.ones(len(rows), np.float32)
    near, nearness = _not_looked_up(len(rows))
    return Cues(looks, looks, predicted, alone, [itself] * len(rows), sure, sure, sure, rows, near, nearness)


def plain_cues(queries: Float32, predicted: Float32 | None = None) -> Cues:
    """Cues (Q, d) as they are: for similarity alone, or with ``predicted`` f and e of them (Q, d + code)."""
    looks, count = unit(queries), len(queries)
    nothing, nobody = np.empty(0, np.float32), np.empty(0, np.int64)
    return Cues(
        looks,
        looks,
        looks[:, :0] if predicted is None else predicted,
        [nobody] * count,
        [nothing] * count,
        np.zeros(count, np.float32),
        np.zeros(count, np.float32),
        np.zeros(count, np.float32),
        np.full(count, -1, np.int64),
        *_not_looked_up(count),
    )


def _not_looked_up(count: int) -> tuple[Int64, Float32]:
    return np.empty((count, 0), np.int64), np.empty((count, 0), np.float32)


def complete_cues(queries: Float32, similar: Backend, associative: Backend) -> Cues:
    """Cues that are vectors, completed from the memories nearest to them.

    A vector that is a stored memory is taken for that memory, as if asked for by its id.

    Args:
        queries: (Q, d).
        similar: over p.
        associative: over [p ; f(p) ; e(p)].
    """
    looks = unit(queries)
    nearness, near = similar.search(looks, NEIGHBOURS)
    nearest = nearness[:, :COMPARED]
    cosine, rows = nearness[:, :COMPLETED_FROM], near[:, :COMPLETED_FROM]  # (Q, m)
    weights = np.exp((cosine - cosine[:, :1]) / COMPLETION_TEMPERATURE)  # -inf gives 0
    weights /= weights.sum(axis=1, keepdims=True)
    mixed = np.einsum("qm,qmk->qk", weights, _gather(associative, rows))  # (Q, width)
    kept = weights >= RECOGNISED
    margin = cosine[:, 0] - np.where(rows >= 0, cosine, np.inf).min(axis=1)
    same = cosine[:, 0] >= SAME
    stands_out = 0.5 + 0.5 * np.tanh((margin - STANDS_OUT) / (2 * STANDS_OUT_WIDTH))
    dim = looks.shape[1]
    return Cues(
        looks,
        unit(mixed[:, :dim]),
        _unit_parts(mixed[:, dim:], dim),
        [row[keep] for row, keep in zip(rows, kept, strict=True)],
        [weight[keep] for weight, keep in zip(weights, kept, strict=True)],
        np.where(same, 1, _is_view(nearest, np.ones(len(looks), np.int64))).astype(np.float32),
        np.where(same, 1, _is_view(nearest, kept.sum(axis=1))).astype(np.float32),
        np.where(same, 1, stands_out).astype(np.float32),
        np.where(same, rows[:, 0], -1),
        near,
        nearness,
    )


def trusted_cues(completed: Cues, plain: Cues) -> Cues:
    """Cues that may be no view of any memory, such as questions in words: completed so far as one stands out."""
    trust, dim = completed.stands_out[:, None], completed.looks.shape[1]
    cues = trust * completed.completed + (1 - trust) * plain.completed
    predicted = trust * completed.predicted + (1 - trust) * plain.predicted
    return replace(completed, completed=unit(cues), predicted=_unit_parts(predicted, dim), own=plain.own)


def _is_view(cosine: Float32, count: Int64) -> Float32:
    """How surely queries are views of one of their ``count`` (Q,) nearest, from the cosines (Q, n), falling.

    Among memories of which none is meant, the best is ahead of the second by about as much as these are spread:
    the gaps of extreme values are exponential. A view is ahead by several times that, whatever the scale.
    """
    cosine = np.maximum(cosine, -1)  # -inf where there are fewer
    if cosine.shape[1] < 3:
        return np.ones(len(cosine), np.float32)
    last = np.minimum(count, cosine.shape[1] - 2)[:, None]  # the first that is not meant
    others = np.arange(cosine.shape[1] - 1) >= last
    spread = np.mean(cosine[:, :-1] - cosine[:, -1:], axis=1, where=others)
    ahead = np.take_along_axis(cosine, last - 1, axis=1) - np.take_along_axis(cosine, last, axis=1)
    ahead = ahead[:, 0] / np.maximum(spread, 1e-6)
    sure: Float32 = 0.5 + 0.5 * np.tanh((ahead - AHEAD) / (2 * AHEAD_WIDTH))
    return sure


def _unit_parts(predicted: Float32, dim: int) -> Float32:
    """f and the code, (Q, d + code), each at unit length."""
    return np.concatenate([unit(predicted[:, :dim]), unit(predicted[:, dim:])], axis=1)


def look_up(
    cues: Cues,
    channels: Channels,
    backend: Backend,
    k: int | None,
    *,
    min_score: float | None = None,
    allowed: Int64 | None = None,
    intersect: bool = False,
) -> list[Found]:
    """One ANN look-up for all cues.

    Args:
        cues: Q of them.
        channels: their weights.
        backend: over the keys [p ; f(p) ; e(p)].
        k: at most so many; None for all with at least ``min_score``.
        min_score: the epsilon-ball of the paper (3.6): hits below it are left out.
        allowed: sorted rows to choose from.
        intersect: score by the geometric mean of similarity and association (3.10): a hit needs both.

    Returns:
        Q answers.
    """
    queries = query_vectors(channels, cues.looks, cues.completed, cues.predicted)
    own = int((cues.own >= 0).any())
    if intersect:
        pool = max(10 * (k or 1), SPECIFIC_POOL)
        scores, rows = backend.search(queries, pool if k else len(backend), allowed)
    elif k is None:
        scores, rows = _search_ball(backend, queries, min_score or 0.0, allowed)
    else:
        scores, rows = backend.search(queries, k + own, allowed)
    similarity, association = _parts(cues, channels, backend, scores, rows)
    if intersect and association is not None:
        scores = np.sqrt(np.clip(similarity, 0, None) * np.clip(association, 0, None))
        scores = np.where(rows < 0, -np.inf, scores)
    valid = (rows >= 0) & (rows != cues.own[:, None])
    if min_score is not None:
        valid &= scores >= min_score
    scores = np.where(valid, scores, -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    counts = np.minimum(valid.sum(axis=1), order.shape[1])
    found = []
    for at, count in enumerate(counts):
        best = order[at, :count]
        hops = np.full(count, 1 if channels.association else 0, np.int64)
        parts = None if association is None else association[at, best]
        found.append(Found(rows[at, best], scores[at, best], similarity[at, best], parts, hops))
    return found


def _parts(
    cues: Cues, channels: Channels, backend: Backend, scores: Float32, rows: Int64
) -> tuple[Float32, Float32 | None]:
    """The similarity of each hit (Q, n), and its association: what is left of its score."""
    dim = cues.looks.shape[1]
    similarity: Float32 = np.einsum("qd,qnd->qn", cues.looks, _gather(backend, rows)[..., :dim])
    if not channels.association:
        return similarity, None
    total = totals(channels, cues.predicted, dim)  # (Q, 1)
    rest = scores * total - np.float32(channels.similarity) * similarity
    association: Float32 = rest / np.maximum(total - np.float32(channels.similarity), 1e-12)
    return similarity, association


def _search_ball(backend: Backend, queries: Float32, min_score: float, allowed: Int64 | None) -> tuple[Float32, Int64]:
    """Widens the search until every query's last hit is out of the ball, or all is in it."""
    limit = len(backend) if allowed is None else len(allowed)
    k = min(FIRST_RANGE, limit)
    while True:
        scores, rows = backend.search(queries, max(k, 1), allowed)
        if k >= limit or not scores.size or scores[:, -1].max() < min_score:
            return scores, rows
        k = min(4 * k, limit)


def _gather(backend: Backend, rows: Int64) -> Float32:
    """The keys of rows of any shape, (..., width); zeros for -1."""
    found = rows >= 0
    stored = backend.keys(rows[found])
    keys = np.zeros((*rows.shape, stored.shape[1]), np.float32)
    keys[found] = stored
    return keys
