"""Fits the weight of the second step of recall, by leaving trajectories out.

The links of the other trajectories answer for cues that were experienced often, with each weight. Relevant are the
memories that occurred with the cues in the trajectories that are left out. The best weight has the largest gain in
nDCG@10 over the links alone, less two standard errors. So where a second step does not help, recall answers by
the links.
"""

from __future__ import annotations

import numpy as np

from pam_retriever.arrays import added_up, among, place_of
from pam_retriever.experience.cooccurrence import Experience, Links
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.experience.second_step import EPISODIC, LATEST, interpolated, is_frequent, second_step
from pam_retriever.training.cross_validation import DEPTH, FEWEST, FOLDS, best_gain
from pam_retriever.types import Bools, Familiarity, Float32, Float64, Int64

WEIGHTS = (0.1, 0.3, 0.5, 0.7, 0.9)
CUES, CO_OCCURRENCES = 500, 4_000_000  # most cues that are asked, and most co-occurrences of these, to bound the memory
ERRORS = 2  # standard errors by which a gain has to be larger than 0


def fit_second_step(
    experience: Experience, window: int, familiarity: Familiarity, random: np.random.Generator
) -> float:
    """Returns the weight of the second step, from 0 to 0.9.

    Args:
        experience: the trajectories.
        window: tau.
        familiarity: the scale of a link's excess over chance; see ``FitConfig``.
        random: the generator for the trajectories that are left out, and for the cues.
    """
    trajectories = np.unique(experience.trajectory)
    inside = np.isin(experience.trajectory, random.permutation(trajectories)[: len(trajectories) // FOLDS])
    relevant, evidence = (_graph(experience, mask) for mask in (inside, ~inside))
    cues = np.unique(experience.states[inside])
    cues = random.permutation(cues[evidence.counts(cues) > EPISODIC // 2])  # others have too few links
    cues = cues[:CUES]
    cues = np.sort(cues[2 * window * evidence.counts(cues).cumsum() <= CO_OCCURRENCES])
    query, row, strength = evidence.of(cues, window, familiarity)
    total = np.bincount(query, strength, len(cues))
    expected = relevant.of(cues, window)
    asked = np.bincount(query[is_frequent(query, window)], minlength=len(cues)) > 0
    asked &= (total > 0) & (np.bincount(expected[0], expected[2], len(cues)) > 0)
    if asked.sum() < FEWEST:
        return 0.0
    linked = query, row, (strength / np.maximum(total, 1e-30)[query]).astype(np.float32)

    def links_of(rows: Int64) -> Links:
        return evidence.of(rows, window, familiarity, LATEST)

    reached = second_step(links_of, linked, window, cues)
    before = _ndcg(linked, expected, len(cues))[asked]
    after = [_ndcg(added_up(*interpolated(linked, reached, weight)), expected, len(cues))[asked] for weight in WEIGHTS]
    best = best_gain([found - before for found in after], ERRORS)
    return 0.0 if best is None else WEIGHTS[best]


def _graph(experience: Experience, mask: Bools) -> CooccurrenceGraph:
    """Returns the links of some of the steps."""
    salience = None if experience.salience is None else experience.salience[mask]
    steps = experience.states[mask], experience.trajectory[mask], experience.position[mask]
    return CooccurrenceGraph(*steps, salience)


def _ndcg(found: Links, expected: Links, queries: int) -> Float64:
    """Returns the nDCG@10 (Q,) of the memories ``found``, with a score each.

    The relevance of a memory is the strength of its link, so that a neighbour counts more than a distant step.
    """
    query, row, score = found
    owner, linked, strength = expected
    memories = int(max(row.max(), linked.max())) + 1
    pairs, keys = query * memories + row, owner * memories + linked  # the second are sorted
    gain = np.where(among(keys, pairs), np.take(strength, keys.searchsorted(pairs), mode="clip"), 0)
    ideal = np.maximum(_dcg(owner, strength, strength, queries), 1e-30)  # 0 for a query without expected memories
    ndcg: Float64 = _dcg(query, gain, score, queries) / ideal
    return ndcg


def _dcg(query: Int64, gain: Float32, score: Float32, queries: int) -> Float64:
    """Returns the sum (Q,) of the gains of the ten best scores of each query, discounted by their places."""
    order = np.lexsort((-score, query))
    place = place_of(query[order])
    order, place = order[place < DEPTH], place[place < DEPTH]
    discounted = gain[order] / np.log2(place + 2)
    total: Float64 = np.bincount(query[order], discounted, queries).astype(np.float64)
    return total
