"""Counts the memories that followed the last steps of trajectories in earlier experience."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever import arrays
from pam_retriever.ann.selection import Rows, holds
from pam_retriever.arrays import added_up
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.types import Bools, Float32, Float64, Int64

REACH = 5  # positions before and after an occurrence that are read
LATEST = 1_000  # last occurrences of a step that are read
LAID_ON = 100  # the same, where more positions of each are read
ONWARD_OF = 200  # last occurrences of a memory whose followers are read
ORDER = 4  # most steps in a context
NEIGHBOURS = 200  # sessions that share some of the last steps
AGED, NEAR = 0.7, 0.6  # factors: per step back in the question; per position from the match

Found = tuple[Int64, Int64, Float32]
"""Question, memory and value, (E,) each; every pair once, sorted."""

NOTHING: Found = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)


@dataclass(frozen=True)
class Occurrences:
    """Earlier occurrences of the last steps of Q questions, (E,) each.

    Attributes:
        query: the question, rising within each of its steps.
        back: the step of the question, 0 for the newest.
        at: the step in the graph.
        beside: (E, 10) the memories up to five positions before and after; -1 for none.
        rows: (Q, 10) the last steps.
    """

    query: Int64
    back: Int64
    at: Int64
    beside: Int64
    rows: Int64

    @classmethod
    def of(cls, graph: CooccurrenceGraph, rows: Int64, allowed: Rows | None) -> Occurrences:
        """Finds the occurrences of the steps ``rows`` (Q, L). Memories that a filter excludes count as absent."""
        owner, at = graph.occurrences(rows.reshape(-1), LATEST)
        query, back = np.divmod(owner, rows.shape[1])
        beside = graph.beside(at, REACH)
        if allowed is not None:
            beside = np.where(holds(allowed, beside.reshape(-1)).reshape(beside.shape), beside, -1)
        return cls(query, back, at, beside, rows)

    def after(self, distance: int = 1) -> Int64:
        """Returns the memories (E,) this many positions later."""
        found: Int64 = self.beside[:, REACH + distance - 1]
        return found

    def before(self, distance: int = 1) -> Int64:
        """Returns the memories (E,) this many positions earlier."""
        found: Int64 = self.beside[:, REACH - distance]
        return found

    def context(self) -> Int64:
        """Returns the length (E,) of the matching context at each occurrence of the newest step; 0 for other steps."""
        alike = self.back == 0
        length: Int64 = alike.astype(np.int64)
        for distance in range(1, ORDER):
            step = self.rows[self.query, min(distance, self.rows.shape[1] - 1)]
            alike = alike & (step >= 0) & (self.before(distance) == step)
            length = length + alike
        return length

    def ahead(self, graph: CooccurrenceGraph, allowed: Rows | None) -> Found:
        """Counts the memories that came up to five positions after the end of the question, laid on each occurrence.

        If the question's third last step occurred before, its last step is expected two positions later, and the
        steps after it three to seven. So the next moment is found, if several steps of a moment are in no order.
        """
        owner = self.query * self.rows.shape[1] + self.back
        order = np.argsort(owner, kind="stable")
        owner = owner[order]
        latest = order[np.searchsorted(owner, owner, side="right") - np.arange(len(owner)) <= LAID_ON]
        reach = self.rows.shape[1] - 1 + REACH
        came = graph.beside(self.at[latest], reach)[:, reach:]
        distance = np.arange(1, reach + 1) - self.back[latest][:, None]
        there = (came >= 0) & (distance >= 1) & (distance <= REACH)
        query, came = self.query[latest[there.nonzero()[0]]], came[there]
        if allowed is not None:
            inside = holds(allowed, came)
            query, came = query[inside], came[inside]
        return added_up(query, came, np.ones(len(came), np.float32))

    def count(self, chosen: Bools, came: Int64) -> Found:
        """Counts each memory of ``came`` (E,) at the chosen occurrences."""
        there = chosen & (came >= 0)
        return added_up(self.query[there], came[there], np.ones(int(there.sum()), np.float32))


def total(found: Found, queries: int) -> Float64:
    """Returns the sum (Q,) of the values of each question."""
    return np.bincount(found[0], found[2], queries).astype(np.float64)


def shares(found: Found, queries: int) -> Found:
    """Returns the values divided by the sum of the question."""
    query, row, value = found
    of_query = np.maximum(total(found, queries), 1e-9)
    return query, row, (value / of_query[query]).astype(np.float32)


def strongest(found: Found, n: int) -> Found:
    """Returns the ``n`` largest values of each question; of equal values the first rows."""
    query, row, value = found
    selected = np.sort(arrays.strongest(query, value, n))
    return query[selected], row[selected], value[selected]


def onward(graph: CooccurrenceGraph, seeds: Found, allowed: Rows | None) -> Found:
    """Returns the direct followers of the seeds; each seed divides its value among them."""
    query, row, value = seeds
    owner, at = graph.occurrences(row, ONWARD_OF)
    came = graph.beside(at, 1)[:, 1]
    there = (came >= 0) if allowed is None else holds(allowed, came)
    owner, came = owner[there], came[there]
    times = np.bincount(owner, minlength=len(row))
    return added_up(query[owner], came, value[owner] / times[owner])


def session_neighbours(graph: CooccurrenceGraph, occurrences: Occurrences, queries: int) -> tuple[Found, Found]:
    """Returns the memories that followed, and that preceded, in the sessions most similar to each question.

    As in VSKNN (Ludewig and Jannach 2018) and STAN (Garg et al. 2019), the weight of a session grows with the shared
    steps, more for rare and new steps. The weight of a memory falls with the distance from the newest shared step.

    Returns:
        The shares of later and of earlier memories.
    """
    if not len(occurrences.at):
        return NOTHING, NOTHING
    session, _ = graph.positions(occurrences.at)
    query, back = occurrences.query, occurrences.back
    often = graph.counts(occurrences.rows)[query, back]
    weight = AGED**back * np.log((len(graph) + 1) / (often + 1) + 1)
    key = query * (int(session.max()) + 1) + session
    steps = np.unique(key * occurrences.rows.shape[1] + back, return_index=True)[1]  # each step once per session
    keys, position = np.unique(key, return_inverse=True)
    likeness = np.bincount(position[steps], weight[steps], len(keys)).astype(np.float32)
    order = np.lexsort((occurrences.at, back, key))  # the newest shared step, at its first occurrence
    newest = order[np.searchsorted(key[order], keys)]
    owner = query[newest]
    owner, at, likeness = strongest((owner, np.arange(len(owner)), likeness), NEIGHBOURS)
    near = occurrences.beside[newest[at]]
    _, _, likeness = shares((owner, at, likeness), queries)
    distance = np.concatenate([np.arange(REACH, 0, -1), np.arange(1, REACH + 1)])
    value = likeness[:, None] * NEAR ** (distance[None] - 1)
    sides = []
    for side in (slice(REACH, None), slice(0, REACH)):
        step, column = np.nonzero(near[:, side] >= 0)
        sides.append(added_up(owner[step], near[:, side][step, column], value[:, side][step, column]))
    return sides[0], sides[1]


def first_of(found: Found, queries: int, n: int) -> list[Int64]:
    """Returns the ``n`` strongest memories of each question."""
    query, row, _ = strongest(found, n)
    start = np.searchsorted(query, np.arange(queries + 1))
    return np.split(row, start[1:-1])
