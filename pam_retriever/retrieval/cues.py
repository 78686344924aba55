"""Cues: queries, completed to the stored memories that they resemble."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from pam_retriever.ann import AnnIndex
from pam_retriever.ann.selection import Rows, holds
from pam_retriever.errors import UnknownId
from pam_retriever.experience.cooccurrence import Links
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.keys import unit
from pam_retriever.model.noise import SAME, is_above, is_noise, unpack
from pam_retriever.model.scoring import NEIGHBOURS, look_alike_mass
from pam_retriever.store.view import View
from pam_retriever.types import Float32, Int64
from pam_retriever.validation import selects_all

# Cue completion: a query that is no stored memory represents its nearest memories, weighted by
# softmax(cosine / 0.02). A noisy copy of one memory becomes that memory; a query between several
# memories becomes a mixture of them.
COMPLETED_FROM = 4
COMPLETION_TEMPERATURE = 0.02
# minimum gap of the nearest memory to the second one, in units of the gaps of the next, for a noisy copy. A vector that
# differs from the memory by more than noise is a copy only if it is much nearer to it: by chance one in e^4 is.
COMPARED = 17
AHEAD, FAR_AHEAD, SLOPE = 0.5, 4.0, 0.2
FOR_WORDS = 100  # memories looked up for a question in words, which hybrid recall takes as candidates
RECOGNISED = 0.1  # a memory with a smaller weight does not contribute its experience to the cue


@dataclass(frozen=True)
class Cues:
    """Queries in the form that recall uses; all vectors have unit length.

    Attributes:
        given: (Q, d) the queries as given.
        completed: (Q, d) the completed queries; the same as ``given`` for a stored memory.
        predicted: (Q, d + code) f and e of ``completed``.
        unaided: (Q, d + code) f of the queries as given, with zeros for e; equals ``predicted`` for a stored memory,
            and if all queries certainly are experienced memories.
        rows: for each query, the stored memories to which it was completed.
        weights: the weight of each of these.
        trust: (Q,) the probability that the query is a noisy copy of a memory.
        one_of: (Q,) the probability that it is a noisy copy of any of ``rows``.
        own: (Q,) the row of a query that is a stored memory, which is not an answer; -1 for none.
        near: (Q, 64 or more) the memories most similar to the queries as given, padded with -1; (Q, 0) if they were not
            looked up.
        nearness: their cosines.
        texts: the texts of the queries; None without texts.
        among: sorted rows of the memories to which queries may be completed; None for all.
        visible: sorted rows of the memories that a filter leaves as evidence; None for all.
    """

    given: Float32
    completed: Float32
    predicted: Float32
    unaided: Float32
    rows: list[Int64]
    weights: list[Float32]
    trust: Float32
    one_of: Float32
    own: Int64
    near: Int64
    nearness: Float32
    texts: list[str] | None = None
    among: Rows | None = None
    visible: Rows | None = None

    def __len__(self) -> int:
        return len(self.own)

    @cached_property
    def meant(self) -> Links:
        """Query, memory and weight of each memory to which a query was completed, in the order of the queries."""
        if len(self.rows) == 1:  # mostly
            row, weight = self.rows[0], self.weights[0]
            return np.zeros(len(row), np.int64), row, weight
        query = np.arange(len(self.rows)).repeat([len(rows) for rows in self.rows])
        if not len(query):
            return query, np.empty(0, np.int64), np.empty(0, np.float32)
        return query, np.concatenate(self.rows), np.concatenate(self.weights)

    def followed_by(self, others: Cues) -> Cues:
        """Appends the cues ``others``."""
        assert self.texts is None, "what has words has no several hops"
        pairs = ((getattr(self, name), getattr(others, name)) for name in COLUMNS)
        columns: list[Any] = [
            one + more if isinstance(one, list) else np.concatenate([one, more]) for one, more in pairs
        ]
        joined: dict[str, Any] = dict(zip(COLUMNS, columns, strict=True))
        return Cues(**joined, among=self.among, visible=self.visible)

    def only(self, at: int) -> Cues:
        """Returns one of the cues."""
        columns = ((name, getattr(self, name)) for name in (*COLUMNS, "texts"))
        one: dict[str, Any] = {name: None if column is None else column[at : at + 1] for name, column in columns}
        return replace(self, **one)


# attributes that have one entry per query
COLUMNS = tuple(field.name for field in fields(Cues) if field.name not in ("texts", "among", "visible"))


def read_cues(
    view: View,
    index: AnnIndex,
    queries: list[str] | Float32,
    complete: bool = True,
    texts: list[str] | None = None,
    allowed: Rows | None = None,
) -> Cues:
    """Reads queries, each an id or a row of (Q, d), and completes them as requested.

    Args:
        view: a view of the index.
        index: the index that will be searched: the one over p, or the one over whole keys.
        queries: ids, or vectors.
        complete: always complete a vector, even if it is similar to several memories.
        texts: the texts of the queries.
        allowed: sorted rows of the memories that a query may be or be completed to; None for all.

    Raises:
        UnknownId: an id is not in the index, or its memory is not allowed.
    """
    if isinstance(queries, list):
        known = check_ids(view, queries, allowed)
        rows = np.array([known[id] for id in queries], np.int64)
        cues = stored_cues(index.keys(rows), rows, view.dim)
    elif view.associative is None or index is view.similar:
        cues = plain_cues(queries)
    else:
        n = NEIGHBOURS if complete else FOR_WORDS
        cues = complete_cues(queries, view, view.associative, allowed, n)
        cues = cues if complete else trusted_cues(cues)
    return cues if texts is None and allowed is None else replace(cues, texts=texts, among=allowed)


def read_filters(
    view: View, where: Mapping[str, Any] | None, cue_where: Mapping[str, Any] | None
) -> tuple[Rows | None, Rows | None]:
    """Returns the rows that may be answers, and those that a query may be or be completed to; None for all.

    Args:
        view: a view of the index.
        where: filter of answers; None for all.
        cue_where: filter of cues; None for ``where``, {} for all.
    """
    memories = view.database.memories
    allowed = None if where is None else memories.rows_where(where)
    if cue_where is None:
        return allowed, allowed
    return allowed, None if selects_all(cue_where) else memories.rows_where(cue_where)


def check_ids(view: View, queries: list[str], allowed: Rows | None = None, words: str = "text=...") -> dict[str, int]:
    """Returns the rows of requested ids. The error does not distinguish unknown ids from forbidden ids.

    Args:
        view: a view of the index.
        queries: the ids.
        allowed: sorted rows of the memories that may be requested; None for all.
        words: how the call accepts a text, for the error.

    Raises:
        UnknownId: an id is unknown or not allowed. If it looks like a text, the error says how to query with a text.
    """
    known = view.database.memories.rows_of(queries)
    if allowed is not None:
        named = np.array(list(known.values()), np.int64)
        known = {id: row for (id, row), there in zip(known.items(), holds(allowed, named), strict=True) if there}
    unknown = [id for id in queries if id not in known]
    if unknown and any(character in unknown[0].strip() for character in " \n\t?"):
        raise UnknownId(
            f"Got the words {unknown[0]!r} as a query, which is an id or a vector.",
            f"words as {words}",
            f"Pass {words.replace('...', repr(unknown[0][:60]))}.",
        )
    if unknown and allowed is not None:
        raise UnknownId(
            f"Got unknown ids: {unknown[:5]}.",
            "ids of memories that the filter allows",
            "Pass vectors instead, or cue_where= of recall, recall_next and expand for queries that where= leaves out.",
        )
    if unknown:
        raise UnknownId(f"Got unknown ids: {unknown[:5]}.", "ids in the index", f"Pass vectors, or words as {words}")
    return known


def check_queries(
    view: View, queries: list[str] | Float32, where: Mapping[str, Any] | None, cue_where: Mapping[str, Any] | None
) -> None:
    """Checks filters and ids before a recall that returns no hits.

    Raises:
        InvalidInput, UnknownId: an argument is invalid.
    """
    _, among = read_filters(view, where, cue_where)
    if isinstance(queries, list):
        check_ids(view, queries, among)


def stored_cues(keys: Float32, rows: Int64, dim: int) -> Cues:
    """Returns cues for stored memories with these ``keys`` (Q, width), which need no completion."""
    given, predicted, itself = keys[:, :dim], keys[:, dim:], np.ones(1, np.float32)
    alone = [np.array([row]) for row in rows.tolist()]
    sure = np.ones(len(rows), np.float32)
    near, nearness = _not_looked_up(len(rows))
    return Cues(given, given, predicted, predicted, alone, [itself] * len(rows), sure, sure, rows, near, nearness)


def plain_cues(queries: Float32, predicted: Float32 | None = None) -> Cues:
    """Returns cues (Q, d) without completion; ``predicted`` (Q, d + code) has f and e, None for similarity alone."""
    given, count = unit(queries), len(queries)
    nothing, nobody, unsure = np.empty(0, np.float32), np.empty(0, np.int64), np.zeros(count, np.float32)
    predicted = given[:, :0] if predicted is None else predicted
    return Cues(
        given,
        given,
        predicted,
        predicted,
        [nobody] * count,
        [nothing] * count,
        unsure,
        unsure,
        np.full(count, -1, np.int64),
        *_not_looked_up(count),
    )


def _not_looked_up(count: int) -> tuple[Int64, Float32]:
    return np.empty((count, 0), np.int64), np.empty((count, 0), np.float32)


def complete_cues(
    queries: Float32, view: View, associative: AnnIndex, allowed: Rows | None = None, n: int = NEIGHBOURS
) -> Cues:
    """Returns cues for vectors, completed to the memories nearest to them.

    A vector that equals a stored memory becomes that memory, as if given by its id.

    Args:
        queries: (Q, d).
        view: a view of a fitted index.
        associative: its index over [p ; f(p) ; e(p)].
        allowed: sorted rows of the memories to which they may be completed; None for all.
        n: number of most similar memories to look up, at least 64.
    """
    given = unit(queries)
    nearness, near = view.similar.search(given, n, allowed)
    if not near.shape[1]:
        return plain_cues(queries, view.predict(queries))
    nearest = nearness[:, :COMPARED]
    cosine, rows = nearness[:, :COMPLETED_FROM], near[:, :COMPLETED_FROM]  # (Q, m)
    weights = np.exp((cosine - cosine[:, :1]) / COMPLETION_TEMPERATURE)  # -inf gives 0
    weights /= weights.sum(axis=1, keepdims=True)
    keys, dim = gather_keys(associative, rows), given.shape[1]  # (Q, m, width)
    mixed = np.einsum("qm,qmk->qk", weights, keys)  # (Q, width)
    likely = weights >= RECOGNISED
    same = cosine[:, 0] >= SAME
    noise = noise_of(view, given, keys[:, 0, :dim])
    predicted = _unit_parts(mixed[:, dim:], dim)
    cues = Cues(
        given,
        unit(mixed[:, :dim]),
        predicted,
        predicted,
        [row[mask] for row, mask in zip(rows, likely, strict=True)],
        [weight[mask] for weight, mask in zip(weights, likely, strict=True)],
        np.where(same, 1, is_view(nearest, np.ones(len(given), np.int64), noise)).astype(np.float32),
        np.where(same, 1, is_view(nearest, likely.sum(axis=1), noise)).astype(np.float32),
        np.where(same, rows[:, 0], -1),
        near,
        nearness,
    )
    if (cues.one_of == 1).all() and (recognised(cues, view.links) == 1).all():
        return cues
    return replace(cues, unaided=view.predict(queries))


def trusted_cues(cues: Cues) -> Cues:
    """Returns cues for vectors that may be no memory, such as texts: completed as far as they are noisy copies."""
    trust, dim = cues.trust[:, None], cues.given.shape[1]
    completed = trust * cues.completed + (1 - trust) * cues.given
    predicted = trust * cues.predicted + (1 - trust) * cues.unaided
    nobody = np.full(len(cues), -1, np.int64)
    return replace(cues, completed=unit(completed), predicted=_unit_parts(predicted, dim), own=nobody)


def noise_of(view: View, given: Float32, nearest: Float32) -> Float32 | None:
    """Returns the probability (Q,) that vectors differ from the memories ``nearest`` (Q, d) by noise alone.

    ``given`` (Q, d) have unit length. None if ``fit`` has not measured how memories differ.
    """
    packed = None if view.calibration is None else view.calibration.directions
    return None if packed is None else is_noise(given, nearest, unpack(packed, view.dim))


def is_view(cosine: Float32, count: Int64, noise: Float32 | None = None) -> Float32:
    """Returns the probability that queries are noisy copies of one of their ``count`` (Q,) nearest memories.

    The cosines (Q, n) fall. If the query is a copy of none, the gaps between its largest cosines are about equal: gaps
    of extreme values are exponential. A copy is ahead by several times such a gap, on any scale. ``noise`` (Q,) is the
    probability that a query differs from the nearest memory by noise alone; None if that is not measured.
    """
    cosine = np.maximum(cosine, -1)  # -inf where there are fewer
    if cosine.shape[1] < 3:
        return np.ones(len(cosine), np.float32)
    last = np.minimum(count, cosine.shape[1] - 2)[:, None]  # the first memory after the ``count`` nearest
    others = np.arange(cosine.shape[1] - 1) >= last
    spread = np.mean(cosine[:, :-1] - cosine[:, -1:], axis=1, where=others)
    ahead = np.take_along_axis(cosine, last - 1, axis=1) - np.take_along_axis(cosine, last, axis=1)
    ahead = ahead[:, 0] / np.maximum(spread, 1e-6)
    near, far = (is_above(ahead, threshold, SLOPE * threshold) for threshold in (AHEAD, FAR_AHEAD))
    return near if noise is None else noise * near + (1 - noise) * far


def _unit_parts(predicted: Float32, dim: int) -> Float32:
    """Normalises f and the code, (Q, d + code), to unit length each."""
    return np.concatenate([unit(predicted[:, :dim]), unit(predicted[:, dim:])], axis=1)


def recognised(cues: Cues, links: CooccurrenceGraph) -> Float32:
    """Returns the probability (Q,) that each cue is an experienced memory."""
    query, row, weight = cues.meant
    experienced = np.bincount(query, weight * links.experienced(row), len(cues))
    total = np.maximum(np.bincount(query, weight, len(cues)), 1e-12)
    return (cues.trust * experienced / total).astype(np.float32)


def look_alikes(known: Cues, asking: Int64, view: View, among: Rows | None) -> tuple[Int64, Float32]:
    """Returns the allowed memories (n, m) most similar to the queries ``asking`` (n,), and their weights."""
    alike, cosine = known.near[asking], known.nearness[asking]
    if not alike.shape[1] or among is not known.among:
        cosine, alike = view.similar.search(known.given[asking], NEIGHBOURS, among)
    other = (alike >= 0) & (alike != known.own[asking][:, None])
    return alike, look_alike_mass(cosine, other.astype(np.float32))


def gather_keys(index: AnnIndex, rows: Int64) -> Float32:
    """Returns the keys of rows of any shape, (..., width); zeros for -1."""
    found = rows >= 0
    stored = index.keys(rows[found])
    keys = np.zeros((*rows.shape, stored.shape[1]), np.float32)
    keys[found] = stored
    return keys
