"""Multi-hop recall (Dury 3.7) by a beam search over paths of memories."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pam_retriever.ann import AnnIndex
from pam_retriever.ann.selection import Rows
from pam_retriever.arrays import concatenated, place_of
from pam_retriever.experience.weighting import rarity
from pam_retriever.model.keys import Channels, query_vectors, totals
from pam_retriever.retrieval.candidates import Candidates, Scorer, Tiers
from pam_retriever.retrieval.cues import Cues, plain_cues, stored_cues
from pam_retriever.retrieval.query import Hops
from pam_retriever.store.view import View
from pam_retriever.types import Float32, Int64

NEARLY = 0.8
SURELY = 0.99  # from this probability on, a cue is a noisy copy of some memory


@dataclass(frozen=True)
class Paths:
    """Paths of one length, in any order.

    Attributes:
        query: (P,) the query of each path.
        rows: (P, 1 + length) the memory that the query was recognised as, then the memories of the path up to its end.
            -1 for no memory.
        scores: (P,) product over its hops of score and unfamiliarity, with 0 for negative scores; in the end its
            geometric mean.
    """

    query: Int64
    rows: Int64
    scores: Float32

    @property
    def ends(self) -> Int64:
        """The last memory (P,) of each path."""
        return self.rows[:, -1]

    def at(self, positions: Int64) -> Paths:
        """Returns the paths at these positions."""
        return Paths(self.query[positions], self.rows[positions], self.scores[positions])


class MultihopScorer:
    """Multi-hop recall: the best memories at the ends of paths.

    The score of a path is the geometric mean of the scores of its hops, with 0 for negative scores. The mean normalises
    for length, as in beam search: two certain steps are not worth less than one unlikely step. The score of a hop is
    multiplied by the unfamiliarity of its start (3.8), because a memory that occurs everywhere links unrelated
    memories. A memory gets the score of its best path, and is reported with the shortest path that is nearly as good.
    No path visits a memory twice, or returns to the cue.

    Args:
        steps: the scorers of the first hop, and of the others.
        view: a view of a fitted index.
        channels: the weights of the channels.
        hops: the settings, with ``snap``.
        recognise: whether a cue that resembles several memories starts a path at each, weighted by similarity.
    """

    def __init__(
        self,
        steps: tuple[Scorer, Scorer],
        view: View,
        channels: Channels,
        hops: Hops,
        recognise: bool = True,
    ) -> None:
        assert view.associative is not None
        (self._first, self._step), self._channels = steps, channels
        self._view, self._index = view, view.associative
        self._hops, self._recognise = hops, recognise

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        """See ``Scorer``. Each answer has its path."""
        assert k is not None, "several hops need a k"
        hops, count = self._hops, len(self._index) if allowed is None else len(allowed)
        start, begun = _begin(cues, self._index) if self._recognise else (cues, _at(cues.own))
        tiers = Tiers(hops.fan_out, k, count)
        for n in tiers.sizes():
            reached = [_one_hop(begun, self._first.score(start, n, allowed))]
            while len(reached) < hops.count:
                paths = best_ends(reached[-1], hops.beam)
                ends, which = np.unique(paths.ends, return_inverse=True)
                if len(ends):  # one look-up for all
                    found = self._step.score(self._stored(ends, cues), hops.fan_out, allowed)
                    reached.append(self._extended(paths, _one_hop(_at(ends), found), ends, which))
                else:
                    reached.append(Paths(paths.query, np.pad(paths.rows, ((0, 0), (0, 1))), paths.scores))
            tiers.add(_best_of(cues, self._channels, self._index, reached, k))
        return tiers.best()

    def _stored(self, rows: Int64, cues: Cues) -> Cues:
        """Returns stored memories as the cues of a later hop. Paths continue only from visible memories."""
        stored = stored_cues(self._index.keys(rows), rows, cues.given.shape[1])
        return replace(stored, among=cues.visible, visible=cues.visible)

    def _extended(self, paths: Paths, onward: Paths, starts: Int64, which: Int64) -> Paths:
        """Extends each path by one hop.

        Args:
            paths: P of them.
            onward: the hops from each of the memories ``starts``.
            starts: the memories at the ends of the paths.
            which: (P,) the position of the end of each path among these.
        """
        count = np.bincount(onward.query, minlength=len(starts))
        first = np.cumsum(count) - count
        parent = np.repeat(np.arange(len(which)), count[which])
        entry = concatenated(first[which], count[which])
        before, ends = paths.rows[parent], onward.ends[entry]
        query = paths.query[parent]
        scores = paths.scores[parent] * onward.scores[entry] * unfamiliar(self._view, starts)[which[parent]]
        fresh = (scores > 0) & (before != ends[:, None]).all(axis=1)
        return Paths(query[fresh], np.column_stack([before, ends])[fresh], scores[fresh])


class ContinuumScorer:
    """Multi-hop recall without stops at stored memories: each hop starts at the point that the one before predicted.

    A point is not a memory and has no score: it gets the score of the best memory near it.

    Args:
        steps: the scorers of the first hop, and of the others.
        view: a view of a fitted index.
        channels: the weights of the channels.
        hops: the settings, without ``snap``.
    """

    def __init__(self, steps: tuple[Scorer, Scorer], view: View, channels: Channels, hops: Hops) -> None:
        assert view.associative is not None
        (self._first, self._step), self._channels = steps, channels
        self._view, self._index, self._hops = view, view.associative, hops

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        """See ``Scorer``. Each answer has its path, with -1 for a point."""
        assert k is not None, "several hops need a k"
        n, dim = max(k, self._hops.fan_out), cues.given.shape[1]
        found = _one_hop(_at(cues.own), self._first.score(cues, n, allowed))
        reached, point, support = [found], cues.predicted, np.ones(len(cues), np.float32)
        for hop in range(1, self._hops.count):
            best = np.zeros(len(cues), np.float32)
            np.maximum.at(best, found.query, found.scores)
            support = support * best
            ahead = self._view.predict(point[:, :dim])
            there = plain_cues(point[:, :dim], ahead)
            there = replace(there, own=cues.own, among=cues.visible, visible=cues.visible)
            point, found = ahead, _one_hop(_at(cues.own), self._step.score(there, n, allowed))
            rows = np.insert(found.rows, [1] * hop, -1, axis=1)
            reached.append(Paths(found.query, rows, found.scores * support[found.query]))
        return _best_of(cues, self._channels, self._index, reached, k)


def unfamiliar(view: View, rows: Int64) -> Float32:
    """Returns the unfamiliarity (n,) of each memory, from 1 (experienced at most once) to 0 (Dury 3.8)."""
    counts, steps = view.database.trajectories.experienced_often(rows)
    return rarity(counts, steps, view.window)


def best_ends(paths: Paths, limit: int) -> Paths:
    """Returns the best path to each memory, at most ``limit`` per query."""
    return paths.at(_rank(paths, limit, np.zeros(len(paths.scores), np.int64)))


def _rank(paths: Paths, limit: int, lengths: Int64) -> Int64:
    """Returns positions of the best path to each memory, by query and falling score, at most ``limit`` per query.

    Among equal scores the shorter path comes first.
    """
    order = np.lexsort((lengths, -paths.scores, paths.ends, paths.query))
    selected = order[_first_of_each(paths, order)]
    selected = selected[np.lexsort((lengths[selected], -paths.scores[selected], paths.query[selected]))]
    return selected[place_of(paths.query[selected]) < limit]


def _first_of_each(paths: Paths, order: Int64) -> npt.NDArray[np.bool_]:
    """Returns the positions (P,) in ``order``, sorted by query and end, at which the paths to another memory begin."""
    query, ends = paths.query[order], paths.ends[order]
    first = np.ones(len(order), bool)
    first[1:] = (query[1:] != query[:-1]) | (ends[1:] != ends[:-1])
    return first


def _shortest(paths: Paths, lengths: Int64) -> Int64:
    """Returns for each path (P,) the position of the shortest path to the same memory that is nearly as good."""
    order = np.lexsort((-paths.scores, paths.ends, paths.query))
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(_first_of_each(paths, order)) - 1
    best = np.zeros(len(order), np.float32)
    np.maximum.at(best, group, paths.scores)
    good = np.flatnonzero(paths.scores >= NEARLY * best[group])
    good = good[np.lexsort((-paths.scores[good], lengths[good], group[good]))]
    return good[np.searchsorted(group[good], group)]


def _begin(cues: Cues, index: AnnIndex) -> tuple[Cues, Paths]:
    """Returns an empty path for each memory that a cue may be, one for an unrecognised cue, and these as cues.

    The score of a path is the probability of its start relative to the most likely start.
    """
    query, rows, weights = cues.meant
    best = np.array([weights.max(initial=0) for weights in cues.weights], np.float32)
    weights = weights / best[query] * cues.one_of[query]
    stored = stored_cues(index.keys(rows), rows, cues.given.shape[1])
    recognised = replace(
        stored, given=cues.given[query], unaided=cues.unaided[query], among=cues.among, visible=cues.visible
    )
    none = np.flatnonzero(cues.one_of < SURELY)
    new = plain_cues(cues.given[none], cues.unaided[none])
    begun = Paths(
        np.concatenate([query, none]),
        np.concatenate([rows, new.own])[:, None],
        np.concatenate([weights, 1 - cues.one_of[none]]),
    )
    return recognised.followed_by(new), begun


def _at(rows: Int64) -> Paths:
    """Returns an empty path at each of ``rows``."""
    return Paths(np.arange(len(rows)), rows[:, None], np.ones(len(rows), np.float32))


def _one_hop(begun: Paths, found: list[Candidates]) -> Paths:
    """Extends each path of ``begun`` to the memories found from it."""
    parent = np.repeat(np.arange(len(found)), [len(answer.rows) for answer in found])
    ends = np.concatenate([answer.rows for answer in found])
    scores = np.maximum(np.concatenate([answer.scores for answer in found]), 0)
    return Paths(begun.query[parent], np.column_stack([begun.rows[parent], ends]), begun.scores[parent] * scores)


def _best_of(cues: Cues, channels: Channels, index: AnnIndex, reached: list[Paths], k: int) -> list[Candidates]:
    """Returns at most ``k`` answers to each cue, among the paths ``reached`` by each number of hops."""
    hops = len(reached)
    # from here on without the start, padded on the left so that the end stays last
    padded = [
        np.pad(paths.rows[:, 1:], ((0, 0), (hops - hop, 0)), constant_values=-1)
        for hop, paths in enumerate(reached, start=1)
    ]
    lengths = np.concatenate([np.full(len(paths.scores), hop) for hop, paths in enumerate(reached, start=1)])
    scores = np.concatenate([paths.scores ** (1 / hop) for hop, paths in enumerate(reached, start=1)])
    together = Paths(
        np.concatenate([paths.query for paths in reached]), np.concatenate(padded), scores.astype(np.float32)
    )
    positions, shortest = _rank(together, k, lengths), _shortest(together, lengths)
    best = replace(together.at(positions), rows=together.rows[shortest[positions]])
    return _describe(cues, channels, index, best, lengths[shortest[positions]])


def _describe(cues: Cues, channels: Channels, index: AnnIndex, paths: Paths, lengths: Int64) -> list[Candidates]:
    """Returns ranked paths as answers, with the scores of their ends from the cue itself."""
    dim = cues.given.shape[1]
    keys = index.keys(paths.ends)  # (P, 2d + code)
    queries = query_vectors(channels, cues.given, cues.completed, cues.predicted)
    direct = np.einsum("pk,pk->p", queries[paths.query], keys)
    similarity = np.einsum("pd,pd->p", cues.given[paths.query], keys[:, :dim])
    total = totals(channels, cues.predicted, dim)[paths.query, 0]
    association = (direct * total - channels.similarity * similarity) / np.maximum(total - channels.similarity, 1e-12)
    cuts = np.searchsorted(paths.query, np.arange(1, len(cues)))
    through = np.split(paths.rows[:, :-1], cuts)
    columns = (paths.ends, paths.scores, similarity, association.astype(np.float32), lengths)
    answers = zip(*(np.split(column, cuts) for column in columns), strict=True)
    return [replace(Candidates(*parts), paths=rows) for parts, rows in zip(answers, through, strict=True)]
