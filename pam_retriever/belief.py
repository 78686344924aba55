"""Recall by default: what the predictor says and what was experienced, weighed by how well the cue is known.

Each memory p gets the share of the cue's experience that it takes. Two estimates are mixed by how surely the
cue is a memory that was experienced, a number t from 0 to 1:

    known    (links(q, p) + prior * learned(p | q)) / (links(q) + prior)
    unknown  w1 learned(p | q) + w2 links of q's look-alikes + w3 links of what is learned of q + w4 looks

``learned`` is the softmax over the channels that ``trust.py`` fits. The first is a count smoothed by a prior
(Dirichlet smoothing, Zhai and Lafferty 2004): where there are links they decide, and the prior is
so small that nothing unexperienced can pass anything experienced, unless ``familiarity`` says that the two met by
chance. A memory that was never experienced
cannot have links, and nothing was learnt of it as a cue: for it, missing links are no evidence, and its share
is what similarity and forward alone give it.

A share is of all that a filter leaves: with one for a user, the memories of others take none. It is the same however
many hits are asked for: the odds of the best 64 are added up, and those beyond count by what ``fit`` found there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.backends import Backend
from pam_retriever.channels import weighted
from pam_retriever.links import Links
from pam_retriever.ranges import concatenated
from pam_retriever.recall import NEIGHBOURS, Cues, Found
from pam_retriever.selection import holds
from pam_retriever.trust import LOOK_ALIKE_TEMPERATURE, LOOK_ALIKES, NAMED, SHARPENED, channels_of, confidence
from pam_retriever.types import Bools, Float32, Int64, Regime, Trust

BEST = 64  # how many memories' odds are added up; what is beyond them counts by the background
POOLED = 4  # candidates for each hit
FAN_OUT = 64  # so many links of a memory that is no more than a hint are followed
UNEXPERIENCED = 3.0  # what the share of a memory without experience counts (docs/training.md)
EPISODIC = 4  # links, in windows, that a cue has at most if it was experienced once or twice
PAIRS_AT_ONCE = 16_384  # whose keys are fetched at once
LEAST = 1e-4  # a smaller share is not followed

Part = tuple[Int64, Int64, Float32]
"""Query, row and value of each pair that some source speaks of."""

NOTHING: Part = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)


@dataclass(frozen=True)
class Knowledge:
    """What answers come from.

    Attributes:
        similar: over p.
        associative: over [p ; f(p) ; e(p)].
        links: what was experienced.
        window: tau.
        trust: in the channels.
    """

    similar: Backend
    associative: Backend
    links: Links
    window: int
    trust: Trust


@dataclass(frozen=True)
class Odds:
    """What turns the log odds of memories for Q queries into shares of all there is to choose from.

    Attributes:
        peak: (Q,) the log odds of the best memory.
        mass: (Q,) the odds of all of them together, in units of the best one's.
    """

    peak: Float32
    mass: Float32

    def shares(self, scores: Float32, query: Int64) -> Float32:
        """(E,) the shares of memories with these log odds (E,), each for a query."""
        # above the peak only where an approximate search missed it
        odds = np.exp(np.minimum(scores - self.peak[query], 0))
        share: Float32 = np.minimum(odds / self.mass[query], 1).astype(np.float32)
        return share


def believe(
    known: Cues, plain: Cues, knowledge: Knowledge, k: int | None, allowed: Int64 | None, min_score: float | None
) -> list[Found]:
    """The answers to Q cues.

    Args:
        known: the cues, completed from the memories that they were recognised as.
        plain: the same, not completed.
        knowledge: what there is to ask.
        k: at most so many; None for all that is named with at least ``min_score``.
        allowed: sorted rows to choose from; None for all.
        min_score: smallest share.
    """
    trust, backend = knowledge.trust, knowledge.associative
    t = _recognised(known, knowledge.links)  # (Q,)
    queries = t[:, None] * _query(known, trust.learnt) + (1 - t[:, None]) * _query(plain, trust.unlearnt)
    outside = t * trust.learnt.background[0] + (1 - t) * trust.unlearnt.background[0]  # (Q,)
    pool = min(max(BEST, POOLED * (k or len(backend))), len(backend))
    odds, named = _share_out(backend, queries, known.own, outside, pool, allowed)
    parts = [
        named,
        _exact_links(known, knowledge),
        *_hints(known, named, t, knowledge),
        _by_appearance(known, plain, t, knowledge, pool, allowed),
    ]
    query, row, values = _gather_by_pair(parts, known.own, allowed)

    missing = np.flatnonzero(values[:, 0] == 0)  # linked, but not among what the channels name
    late = _products(queries, query[missing], backend, row[missing])
    values[missing, 0] = odds.shares(late, query[missing])
    share, sureness = _weigh(query, values, knowledge.links.experienced(row), t, knowledge)

    order = np.lexsort((-share, query))
    kept = order if k is None else order[_places(query[order]) < k]
    if min_score is not None:
        kept = kept[share[kept] >= min_score]
    similarity = _products(known.looks, query[kept], knowledge.similar, row[kept])
    ends = np.searchsorted(query[kept], np.arange(1, len(t)))
    columns = row[kept], share[kept], similarity, values[kept, 0], np.ones(len(kept), np.int64), sureness[kept]
    return [Found(*of_one) for of_one in zip(*(np.split(column, ends) for column in columns), strict=True)]


def _share_out(
    backend: Backend, queries: Float32, own: Int64, outside: Float32, pool: int, allowed: Int64 | None
) -> tuple[Odds, Part]:
    """The odds of queries (Q, width), and the shares of the ``pool`` best, query by query, best first.

    Args:
        backend: what to ask.
        queries: whose products with keys are log odds.
        own: (Q,) rows that are no answer to themselves.
        outside: (Q,) log odds of memories that are not among the best.
        pool: how many, at least 64 if there are so many.
        allowed: sorted rows to choose from; None for all.
    """
    scores, rows = backend.search(queries, pool, allowed)
    scores = np.where((rows >= 0) & (rows != own[:, None]), scores, -np.inf)
    best = scores[:, :BEST]  # as many whatever the pool, or a share would depend on it
    peak = best.max(axis=1, initial=-1e30)
    lowest = np.where(np.isfinite(best), best, peak[:, None]).min(axis=1, initial=np.inf)
    beyond = np.exp(np.minimum(np.minimum(outside, lowest) - peak, 0))
    count = len(backend) if allowed is None else len(allowed)  # an engine counts what a filter leaves
    mass = np.exp(best - peak[:, None]).sum(axis=1) + np.float32(max(count - BEST, 0)) * beyond
    odds = Odds(peak, np.maximum(mass, 1e-30))
    query, place = np.nonzero(np.isfinite(scores))
    return odds, (query, rows[query, place], odds.shares(scores[query, place], query))


def _products(queries: Float32, query: Int64, backend: Backend, row: Int64) -> Float32:
    """(E,) the inner product of each pair of a query and a stored row, in parts that memory holds."""
    products = np.empty(len(row), np.float32)
    for start in range(0, len(row), PAIRS_AT_ONCE):
        some = slice(start, start + PAIRS_AT_ONCE)
        products[some] = np.einsum("ed,ed->e", queries[query[some]], backend.keys(row[some]))
    return products


def _weigh(
    query: Int64, values: Float32, experienced: Bools, t: Float32, knowledge: Knowledge
) -> tuple[Float32, Float32]:
    """Share and confidence of each pair; ``values`` (E, 6) are the parts in the order of ``believe``."""
    learned, links, alike, named, looks, appearance = values.T
    trust, sure = knowledge.trust, t[query]
    prior = 1 / knowledge.window
    total = np.bincount(query, links, len(t))[query]
    known = (links + prior * learned) / (total + prior)
    by_channels, by_alike, by_named, by_looks = trust.unlearnt.mixture
    unknown = by_channels * learned + by_alike * alike + by_named * named + by_looks * looks
    old = sure * known + (1 - sure) * unknown
    new = (1 - by_looks) * appearance + by_looks * looks
    # what a cue of one or two episodes met is all there is to know of it: nothing new passes that
    met = np.bincount(query[links > 0], minlength=len(t))[query]
    few = (met > 0) & (met <= EPISODIC * knowledge.window)
    new *= np.where(few, sure * prior / (total + prior) + (1 - sure), UNEXPERIENCED)
    share = np.minimum(np.where(experienced, old, new), 1)
    # of a cue that was experienced all is known: without a link, they never met
    sureness = sure * (links > 0) + (1 - sure) * confidence(trust.unlearnt, unknown)
    return share.astype(np.float32), sureness.astype(np.float32)


def _query(cues: Cues, regime: Regime) -> Float32:
    """Query vectors whose products with a key are log odds."""
    return weighted(channels_of(regime), cues.looks, cues.completed, cues.predicted)


def _recognised(cues: Cues, links: Links) -> Float32:
    """(Q,) how surely each cue is a memory that was experienced."""
    counts = [len(rows) for rows in cues.rows]
    flat = np.concatenate(cues.rows) if cues.rows else np.empty(0, np.int64)
    owner = np.repeat(np.arange(len(cues)), counts)
    weight = np.concatenate(cues.weights) if cues.weights else np.empty(0)
    experienced = np.bincount(owner, weight * links.experienced(flat), len(cues))
    total = np.maximum(np.bincount(owner, weight, len(cues)), 1e-12)
    return (cues.trust * experienced / total).astype(np.float32)


def _exact_links(cues: Cues, knowledge: Knowledge) -> Part:
    """The links of what each cue was recognised as: query, row, strength."""
    flat, weight = np.concatenate(cues.rows), np.concatenate(cues.weights)
    query = np.repeat(np.arange(len(cues)), [len(rows) for rows in cues.rows])
    owner, linked, strength = knowledge.links.of(flat, knowledge.window, knowledge.trust.familiarity)
    return query[owner], linked, strength * weight[owner]


def _hints(known: Cues, named: Part, t: Float32, knowledge: Knowledge) -> list[Part]:
    """For cues that are not surely known: links of look-alikes, links of what the channels name, and looks."""
    unsure = (t < 1) | (len(knowledge.similar) > knowledge.links.memories)  # of something that has no links
    asking = np.flatnonzero(unsure)
    if not len(asking):
        return [NOTHING] * 3
    alike, cosine = known.near[asking], known.nearness[asking]
    if not alike.shape[1]:
        cosine, alike = knowledge.similar.search(known.looks[asking], NEIGHBOURS)
    other = (alike >= 0) & (alike != known.own[asking][:, None])
    kernel = np.where(other, np.exp((cosine - cosine[:, :1]) / LOOK_ALIKE_TEMPERATURE), 0)
    looks = kernel / np.maximum(kernel.sum(axis=1, keepdims=True), 1e-30)
    at, place = np.nonzero(looks > LEAST)
    usable = other & knowledge.links.experienced(alike)
    usable &= np.cumsum(usable, axis=1) <= LOOK_ALIKES
    by, near = np.nonzero(usable)
    query, row, share = named
    first = _places(query) < NAMED
    first &= unsure[query] & knowledge.links.experienced(row)
    return [
        _step((asking[by], alike[by, near], kernel[by, near]), knowledge),
        _step((query[first], row[first], share[first] ** SHARPENED), knowledge),
        (asking[at], alike[at, place], looks[at, place]),
    ]


def _places(query: Int64) -> Int64:
    """(E,) how many entries of the same query come before each; ``query`` never falls."""
    return np.arange(len(query)) - np.searchsorted(query, query)


def _step(seeds: Part, knowledge: Knowledge) -> Part:
    """Spreads the mass of seeds along their strongest links."""
    query, row, mass = seeds
    mass = (mass / np.maximum(np.bincount(query, mass), 1e-30)[query]).astype(np.float32)
    enough = mass > LEAST
    query, mass = query[enough], mass[enough]
    distinct, seed = np.unique(row[enough], return_inverse=True)
    owner, linked, strength = knowledge.links.of(distinct, knowledge.window, knowledge.trust.familiarity)
    total = np.maximum(np.bincount(owner, strength, len(distinct)), 1e-30)  # 0 if nothing salient was met
    strength = (strength / total[owner]).astype(np.float32)
    order = np.lexsort((-strength, owner))
    start = np.searchsorted(owner[order], np.arange(len(distinct) + 1))
    count = np.minimum(np.diff(start), FAN_OUT)[seed]
    entry = concatenated(start[seed], count)
    spread = np.repeat(mass, count) * strength[order][entry]
    return np.repeat(query, count), linked[order][entry], spread.astype(np.float32)


def _by_appearance(
    known: Cues, plain: Cues, t: Float32, knowledge: Knowledge, pool: int, allowed: Int64 | None
) -> Part:
    """The shares of memories that were never experienced, of which only p itself says something."""
    trust, similar = knowledge.trust, knowledge.similar
    if len(similar) <= knowledge.links.memories:
        return NOTHING
    dim = known.looks.shape[1]
    queries = np.zeros_like(known.looks)
    outside = np.zeros_like(t)
    for cues, regime, sure in ((known, trust.learnt, t), (plain, trust.unlearnt, 1 - t)):
        similarity, forward = regime.appearance
        queries += sure[:, None] * (similarity * cues.looks + forward * cues.predicted[:, :dim])
        outside += sure * regime.background[1]
    _, (query, row, share) = _share_out(similar, queries, known.own, outside, pool, allowed)
    new = ~knowledge.links.experienced(row)
    return query[new], row[new], share[new]


def _gather_by_pair(parts: list[Part], own: Int64, allowed: Int64 | None) -> tuple[Int64, Int64, Float32]:
    """Adds up each part by (query, row): the pairs, and their values (E, parts)."""
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
