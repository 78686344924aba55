"""Association scores from the predictor and from links, weighted by how certainly the cue is a known memory.

The score of a memory is its share of the associations of the cue (``pair_shares``). Here the candidates and the
evidence are gathered: links of the cue, memories that the channels find, links of look-alikes and of these memories,
similarity. Mentions of a stored cue without experience come first.

Shares are relative to the memories that a filter leaves. They do not depend on the number of hits: the odds of the best
64 memories are added, and ``fit`` estimates the sum of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pam_retriever.ann import AnnIndex
from pam_retriever.ann.selection import Rows, holds
from pam_retriever.arrays import place_of
from pam_retriever.experience.walk import LEAST, walk
from pam_retriever.model.keys import weighted
from pam_retriever.model.scoring import BEST, LOOK_ALIKES, NAMED, channels_of, sharpened
from pam_retriever.retrieval.candidates import Candidates, Scorer, Tiers
from pam_retriever.retrieval.cues import Cues, look_alikes, recognised
from pam_retriever.retrieval.directed import DirectedShares
from pam_retriever.retrieval.first_mentions import MENTIONED, FirstMentions, Part
from pam_retriever.retrieval.odds import products_of, share_out
from pam_retriever.retrieval.pair_shares import Pairs
from pam_retriever.retrieval.second_step import visible_links, visible_second_step
from pam_retriever.retrieval.sources import Contributions, check_without
from pam_retriever.store.view import View
from pam_retriever.types import Calibration, Float32, Int64, ScoringWeights

# the sources by name; each consists of some columns of the evidence of ``Pairs``
SOURCES = {
    "experience": (1,),
    "prediction": (0,),
    "links of look-alikes": (2,),
    "links of predictions": (3,),
    "similarity": (4, 5),
    "links of links": (6,),
}

NOTHING: Part = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)


class AssociationScorer:
    """Default recall by links and channels. Scores are probabilities.

    Args:
        view: a view of a fitted index, with calibrated weights.
        min_score: smallest probability.
        by_confidence: score by the probability that a hit was experienced with the cue, where it is known. Multi-hop
            recall uses this for each step.
        without: names of ``SOURCES`` to leave out, or of mentions.
        explain: return the part of each source in the scores.
        mentions: scores the mentions of stored cues without experience; None to ignore them.
    """

    def __init__(
        self,
        view: View,
        min_score: float | None = None,
        by_confidence: bool = False,
        without: frozenset[str] = frozenset(),
        explain: bool = False,
        mentions: Scorer | None = None,
    ) -> None:
        assert view.associative is not None and view.calibration is not None
        self._view, self._index, self._calibration = view, view.associative, view.calibration
        self._min_score, self._by_confidence, self._explain = min_score, by_confidence, explain
        names = (*SOURCES, MENTIONED) if mentions is not None else tuple(SOURCES)
        self._mentions = None if MENTIONED in without else mentions
        self._without = [part for name in check_without(without, names) for part in SOURCES.get(name, ())]

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        first = FirstMentions(self._mentions, cues, self._view.links, allowed)
        count = _count(self._index, allowed)
        k = count if k is None else k
        tiers = Tiers(BEST, k, count, self._min_score)
        for n in tiers.sizes():
            tiers.add(self._best_of(cues, n, k, allowed, first))
        return tiers.best()

    def _best_of(self, cues: Cues, n: int, k: int, allowed: Rows | None, first: FirstMentions) -> list[Candidates]:
        """Returns at most ``k`` and ``n`` candidates of each cue, among them the ``n`` best of each look-up."""
        view, index, calibration = self._view, self._index, self._calibration
        t = recognised(cues, view.links)  # (Q,)
        queries = _query(cues, calibration.seen, cues.completed, cues.predicted)
        if (t < 1).any():
            as_given = _query(cues, calibration.unseen, cues.given, cues.unaided)
            queries = t[:, None] * queries + (1 - t[:, None]) * as_given
        outside = t * calibration.seen.background[0] + (1 - t) * calibration.unseen.background[0]  # (Q,)
        pool = min(max(n, BEST), len(index))
        odds, named = share_out(index.search(queries, pool, allowed), cues.own, outside, _count(index, allowed))
        towards = DirectedShares.of(view, cues, t)
        seen_new, look_like = _by_appearance(cues, t, view, calibration, pool, allowed)
        named = named[0], named[1], towards.of_pairs(*named)
        linked = _exact_links(cues, view, calibration)
        parts = [named, linked, *_hints(cues, named, t, view, calibration), first.added_to(seen_new)]
        further = NOTHING
        if calibration.second_step:
            further = visible_second_step(view, linked, cues.own, cues.visible, calibration.familiarity)
        parts.append(further)
        query, row, values = _gather_by_pair(parts, cues.own, allowed)

        missing = np.flatnonzero(values[:, 0] == 0)  # linked, but not among the best by the channels
        late = products_of(queries, query[missing], index, row[missing])
        values[missing, 0] = towards.of_pairs(query[missing], row[missing], odds.shares(late, query[missing]))
        experienced = view.links.experienced(row)
        values[:, self._without] = 0
        pairs = Pairs(query, values, experienced, t, calibration, view.window)
        share, mentioned, factor = first.rank(query, row, pairs.shares())

        order = np.lexsort((-share, query))
        if self._without:  # drops memories that only an excluded source found
            order = order[share[order] > 0]
        selected = order[place_of(query[order]) < min(k, n)]
        query, row = query[selected], row[selected]
        values, share, experienced = values[selected], share[selected], experienced[selected]
        similarity = products_of(cues.given, query, view.similar, row)
        complete = values.copy()
        missing = np.flatnonzero((values[:, 5] == 0) & ~experienced)
        complete[missing, 5] = look_like(query[missing], row[missing])  # not among the best by similarity
        sureness = pairs.confidence(selected, complete, odds.lead[query])
        columns: list[Any] = [row, share, similarity, values[:, 0], np.ones(len(row), np.int64), sureness]
        if self._by_confidence:  # never with an explanation
            query, columns = self._raised(query, columns, experienced * first.factors(query, row))
        ends = np.searchsorted(query, np.arange(len(t) + 1)).tolist()
        of_each = [slice(start, end) for start, end in zip(ends, ends[1:], strict=False)]
        parts_of_each: list[list[Any]] = [[column[its] for column in columns] for its in of_each]
        found = [Candidates(*those) for those in parts_of_each]
        if not self._explain:
            return found
        found = [replace(one, mentions=first.ways(at, one.rows)) for at, one in enumerate(found)]
        contributions, mentioned = values * (pairs.factors() * factor[:, None])[selected], mentioned[selected]
        sources = [_by_source(contributions[its], mentioned[its]) for its in of_each]
        return [replace(one, sources=its) for one, its in zip(found, sources, strict=True)]

    def _raised(self, query: Int64, columns: list[Any], factors: Float32) -> tuple[Int64, list[Any]]:
        """Raises each score to the probability that the memory was experienced with the cue, if this is larger.

        ``factors`` (n,) are 0 for a memory that keeps its score, so that it may still be a step of a path: it was never
        experienced, or the cue mentions it.
        """
        row, score, *others, sureness = columns
        score = np.maximum(factors * sureness, score)
        order = np.lexsort((-score, query))  # among equal scores the larger probability comes first
        return query[order], [column[order] for column in (row, score, *others, sureness)]


def _by_source(parts: Float32, mentioned: Float32) -> Contributions:
    """Returns the part of each source in the scores of n memories, from the parts (n, 7) and mentions (n,)."""
    columns: dict[str, Float32] = {name: parts[:, list(its)].sum(axis=1) for name, its in SOURCES.items()}
    return Contributions.of(columns | {MENTIONED: mentioned})


def _count(index: AnnIndex, allowed: Rows | None) -> int:
    """Returns the number of memories to choose from. An engine counts those that a filter leaves."""
    return len(index) if allowed is None else len(allowed)


def _query(cues: Cues, regime: ScoringWeights, meant: Float32, predicted: Float32) -> Float32:
    """Returns query vectors whose products with a key are log odds, for cues completed to ``meant`` (Q, d)."""
    return weighted(channels_of(regime), cues.given, meant, predicted)


def _exact_links(cues: Cues, view: View, calibration: Calibration) -> Part:
    """Returns the links of the memories that each cue was recognised as: query, row, strength."""
    query, row, weight = cues.meant
    owner, linked, strength = visible_links(view, cues.visible, calibration.familiarity)(row)
    return query[owner], linked, strength * weight[owner]


def _hints(known: Cues, named: Part, t: Float32, view: View, calibration: Calibration) -> list[Part]:
    """Returns links of look-alikes, links of memories that the channels find, and similarities.

    The links are evidence for uncertain cues only. Similarities are evidence for memories without experience, too.
    """
    unsure = t < 1
    asking = np.flatnonzero(unsure | (len(view.similar) > view.links.memories))
    if not len(asking):
        return [NOTHING] * 3
    alike, kernel = look_alikes(known, asking, view, known.among)
    # the look-alikes of a query and the answers may have different filters
    seen, alike_weights = (
        (alike, kernel) if known.visible is known.among else look_alikes(known, asking, view, known.visible)
    )
    alike_weights = alike_weights / np.maximum(alike_weights.sum(axis=1, keepdims=True), 1e-30)
    at, position = np.nonzero(alike_weights > LEAST)
    similar = asking[at], seen[at, position], alike_weights[at, position]
    if not unsure.any():  # mostly
        return [NOTHING, NOTHING, similar]
    usable = (kernel > 0) & view.links.experienced(alike) & unsure[asking, None]
    usable &= np.cumsum(usable, axis=1) <= LOOK_ALIKES
    by, near = np.nonzero(usable)
    query, row, share = named
    first = place_of(query) < NAMED
    first &= unsure[query] & view.links.experienced(row)
    links_of = visible_links(view, known.visible, calibration.familiarity)
    return [
        walk(links_of, (asking[by], alike[by, near], kernel[by, near])),
        walk(links_of, (query[first], row[first], sharpened(share[first]))),
        similar,
    ]


def _by_appearance(
    cues: Cues, t: Float32, view: View, calibration: Calibration, pool: int, allowed: Rows | None
) -> tuple[Part, Callable[[Int64, Int64], Float32]]:
    """Returns the shares of memories that were never experienced, from p alone, and a function for other pairs."""
    if len(view.similar) <= view.links.memories:
        return NOTHING, lambda _, row: np.zeros(len(row), np.float32)
    dim = cues.given.shape[1]
    queries = np.zeros_like(cues.given)
    outside = np.zeros_like(t)
    for predicted, regime, sure in ((cues.predicted, calibration.seen, t), (cues.unaided, calibration.unseen, 1 - t)):
        similarity, forward = regime.appearance
        queries += sure[:, None] * (similarity * cues.given + forward * predicted[:, :dim])
        outside += sure * regime.background[1]
    found = view.similar.search(queries, pool, allowed)
    odds, (query, row, share) = share_out(found, cues.own, outside, _count(view.similar, allowed))
    new = ~view.links.experienced(row)
    return (query[new], row[new], share[new]), lambda query, row: odds.shares(
        products_of(queries, query, view.similar, row), query
    )


def _gather_by_pair(parts: list[Part], own: Int64, allowed: Rows | None) -> tuple[Int64, Int64, Float32]:
    """Sums each part by (query, row); returns the pairs and their values (E, parts)."""
    query = np.concatenate([part[0] for part in parts])
    row = np.concatenate([part[1] for part in parts])
    value = np.concatenate([part[2] for part in parts])
    column = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
    keep = row != own[query]
    if allowed is not None:
        keep &= holds(allowed, row)
    query, row, value, column = query[keep], row[keep], value[keep], column[keep]
    width = int(row.max(initial=0)) + 1
    pairs, pair = np.unique(query * width + row, return_inverse=True)
    values = np.bincount(pair * len(parts) + column, value, len(pairs) * len(parts)).reshape(-1, len(parts))
    return pairs // width, pairs % width, values.astype(np.float32)
