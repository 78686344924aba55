"""Scores by channels of the key: one look-up with given weights (see ``model/keys.py``)."""

from __future__ import annotations

import numpy as np

from pam_retriever.ann import AnnIndex
from pam_retriever.ann.selection import Rows, holds
from pam_retriever.arrays import firsts
from pam_retriever.model.keys import Channels, query_vectors, totals
from pam_retriever.retrieval.candidates import Candidates
from pam_retriever.retrieval.cues import Cues, gather_keys, recognised
from pam_retriever.retrieval.directed import DirectedShares
from pam_retriever.store.view import View
from pam_retriever.types import Float32, Int64

SPECIFIC_POOL = 100  # candidates for "specific", and at least ten per hit
POOLED, DIRECTED_POOL = 4, 64  # candidates per hit, and their least number, for a direction, which discards some
FIRST_RANGE = 64  # number of hits with which an epsilon-ball search starts


class ChannelScorer:
    """Scores a memory by the weighted mean of the channels, in [-1, 1].

    Args:
        index: the index over the keys that the channels need.
        channels: the weights.
        min_score: the epsilon-ball of the paper (3.6): hits below it are dropped.
        intersect: score by the geometric mean of similarity and association (3.10): a hit needs both.
    """

    def __init__(
        self, index: AnnIndex, channels: Channels, min_score: float | None = None, intersect: bool = False
    ) -> None:
        self._index, self._channels, self._min_score, self._intersect = index, channels, min_score, intersect

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        """See ``Scorer``. One ANN look-up for all cues."""
        scores, rows = self._search(cues, k, allowed)
        valid = (rows >= 0) & (rows != cues.own[:, None])
        if not self._channels.association:  # the score is the similarity
            if self._min_score is not None:
                valid &= scores >= self._min_score
            positions = [np.flatnonzero(those)[:k] for those in valid]  # the index returns the best first
            alike = [(row[at], score[at]) for row, score, at in zip(rows, scores, positions, strict=True)]
            return [Candidates(row, score, score, None, np.zeros(len(row), np.int64)) for row, score in alike]
        similarity, association = _parts(cues, self._channels, self._index, scores, rows)
        if self._intersect:
            scores = np.sqrt(np.clip(similarity, 0, None) * np.clip(association, 0, None))
        if self._min_score is not None:
            valid &= scores >= self._min_score
        order = np.argsort(np.where(valid, -scores, np.inf), axis=1, kind="stable")[:, :k]
        found = []
        for at, count in enumerate(valid.sum(axis=1).tolist()):
            best = order[at, :count]
            columns = rows[at, best], scores[at, best], similarity[at, best], association[at, best]
            found.append(Candidates(*columns, np.ones(len(best), np.int64)))
        return found

    def _search(self, cues: Cues, k: int | None, allowed: Rows | None) -> tuple[Float32, Int64]:
        queries = query_vectors(self._channels, cues.given, cues.completed, cues.predicted)
        if self._intersect:
            pool = max(10 * (k or 1), SPECIFIC_POOL)
            return self._index.search(queries, pool if k else len(self._index), allowed)
        if k is None:
            return _search_ball(self._index, queries, self._min_score or 0.0, allowed)
        own = int((cues.own >= 0).any())
        return self._index.search(queries, k + own, allowed)


class DirectedChannelScorer:
    """Like ``ChannelScorer``, but counts only the part of the association in the direction of the view.

    Args:
        view: a view of a fitted index, with a direction.
        channels: the weights, some of them for association.
        min_score: drop hits with a lower score.
        intersect: score by the geometric mean of similarity and association.
    """

    def __init__(self, view: View, channels: Channels, min_score: float | None, intersect: bool) -> None:
        self._view, self._channels, self._min_score, self._intersect = view, channels, min_score, intersect
        self._index = view.index_of(channels)

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        channels, index, view = self._channels, self._index, self._view
        queries = query_vectors(channels, cues.given, cues.completed, cues.predicted)
        total = totals(channels, cues.predicted, cues.given.shape[1])[:, 0]
        if k is None and not self._intersect:
            near = _search_ball(index, queries, self._min_score or 0.0, allowed)[1]  # a direction only lowers scores
        else:
            pool = max(10 * (k or 1), SPECIFIC_POOL) if self._intersect else max(POOLED * (k or 1), DIRECTED_POOL)
            near = index.search(queries, pool if k else len(index), allowed)[1]
        towards = DirectedShares.of(view, cues, recognised(cues, view.links))
        found = []
        for at, own in enumerate(cues.own.tolist()):
            linked = towards.linked(at)
            rows = np.concatenate([near[at], linked if allowed is None else linked[holds(allowed, linked)]])
            rows.sort()
            rows = rows[firsts(rows) & (rows >= 0) & (rows != own)]
            keys = index.keys(rows)
            similarity = keys[:, : cues.given.shape[1]] @ cues.given[at]
            plain, rest = np.float32(channels.similarity), np.float32(total[at] - channels.similarity)
            association = (keys @ queries[at] * total[at] - plain * similarity) / np.maximum(rest, 1e-12)
            association = towards.of_pairs(at, rows, association.astype(np.float32))
            scores = (plain * similarity + rest * association) / total[at]
            if self._intersect:
                scores = np.sqrt(np.clip(similarity, 0, None) * np.clip(association, 0, None))
            hops = np.ones(len(rows), np.int64)
            answer = Candidates(rows, scores.astype(np.float32), similarity, association, hops)
            found.append(answer.best(k, self._min_score))
        return found


def _parts(cues: Cues, channels: Channels, index: AnnIndex, scores: Float32, rows: Int64) -> tuple[Float32, Float32]:
    """Returns the similarity and the association of each hit (Q, n). Association is the rest of the score."""
    dim = cues.given.shape[1]
    similarity: Float32 = np.einsum("qd,qnd->qn", cues.given, gather_keys(index, rows)[..., :dim])
    total = totals(channels, cues.predicted, dim)  # (Q, 1)
    found = np.where(rows >= 0, scores, 0)  # an index that finds too few fills up with minus infinity
    rest = found * total - np.float32(channels.similarity) * similarity
    association: Float32 = rest / np.maximum(total - np.float32(channels.similarity), 1e-12)
    return similarity, association


def _search_ball(index: AnnIndex, queries: Float32, min_score: float, allowed: Rows | None) -> tuple[Float32, Int64]:
    """Widens the search until the last hit of every query is outside the ball, or all memories are inside."""
    limit = len(index) if allowed is None else len(allowed)
    k = min(FIRST_RANGE, limit)
    while True:
        scores, rows = index.search(queries, max(k, 1), allowed)
        if k >= limit or not scores.size or scores[:, -1].max() < min_score:
            return scores, rows
        k = min(4 * k, limit)
