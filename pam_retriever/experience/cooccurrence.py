"""Step 2: windowed temporal co-occurrence (Dury, section 3.4).

Two memories are associates if some trajectory contains them at most ``window`` positions apart. Each such case
is a co-occurrence.
The result is a sparse symmetric matrix in CSR form, built by array operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from pam_retriever.arrays import concatenated, starts_of
from pam_retriever.types import Float32, Int64, Times

Links = tuple[Int64, Int64, Float32]
"""Three arrays (E,), one entry per link: an index into the requested rows, the linked row, and its weight."""


@dataclass(frozen=True)
class Experience:
    """Trajectories as flat arrays, one entry per step, in order.

    Attributes:
        states: (S,) int64, the memory of each step: an index into the training vectors.
        trajectory: (S,) int64, non-decreasing; the trajectory of each step.
        position: (S,) int64, rising within a trajectory. A deleted memory leaves a gap, so that distances stay.
        salience: (S,) float32, the weight of each step; None for 1 each.
    """

    states: Int64
    trajectory: Int64
    position: Int64
    salience: Float32 | None = None

    def __len__(self) -> int:
        return len(self.states)


@dataclass(frozen=True)
class Associations:
    """The associated pairs, in both directions, as CSR.

    Attributes:
        indptr: (M + 1,) int64; the associates of memory ``m`` lie at
            ``indptr[m]:indptr[m + 1]`` of the two arrays below.
        indices: (E,) int64 associates, sorted within a row.
        weights: (E,) float32, sum of the weights of the pair's co-occurrences. A weight is the geometric mean of the
            salience of the two steps, divided by their distance.
        co_occurrences: (E,) float32, number of co-occurrences of the pair.
        salience: (E,) float32, the highest salience of the pair's co-occurrences: the geometric mean of the two steps.
    """

    indptr: Int64
    indices: Int64
    weights: Float32
    co_occurrences: Float32
    salience: Float32

    def __len__(self) -> int:
        """The number of directed associations."""
        return len(self.indices)

    def of(self, rows: Int64) -> Links:
        """Returns the links of each of ``rows`` (R,), in the form of ``CooccurrenceGraph.of``."""
        start = self.indptr[rows]
        count = self.indptr[rows + 1] - start
        entry = concatenated(start, count)
        return np.repeat(np.arange(len(rows)), count), self.indices[entry], self.weights[entry]

    def only(self, others: Associations) -> Associations:
        """Returns the associations whose pair is in ``others``, too, with the weights that they have here."""
        memories = len(self.indptr) - 1
        mask = np.isin(self.anchors() * memories + self.indices, others.anchors() * memories + others.indices)
        indptr = starts_of(mask)[self.indptr]
        return Associations(
            indptr, self.indices[mask], self.weights[mask], self.co_occurrences[mask], self.salience[mask]
        )

    def anchors(self) -> Int64:
        """Returns the memory (E,) of which each entry of ``indices`` is an associate."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


def associate(experience: Experience, memories: int, window: int) -> Associations:
    """Collects every pair at most ``window`` positions apart, in both directions.

    Args:
        experience: the trajectories.
        memories: M, the number of memories; every state is smaller.
        window: tau, at least 1.

    Returns:
        The associations. A memory is never its own associate.
    """
    salience = np.ones(len(experience), np.float32) if experience.salience is None else experience.salience
    lefts, rights, weights, saliences = [], [], [], []
    for offset in range(1, min(window, len(experience) - 1) + 1):
        distance = experience.position[offset:] - experience.position[:-offset]
        left, right = experience.states[:-offset], experience.states[offset:]
        met = (
            (experience.trajectory[offset:] == experience.trajectory[:-offset]) & (distance <= window) & (left != right)
        )
        lefts.append(left[met])
        rights.append(right[met])
        one, other = salience[:-offset][met], salience[offset:][met]
        weights.append(weights_of_co_occurrences(distance[met], one, other, window))
        saliences.append(np.sqrt(one * other))
    if not lefts:
        nothing = np.empty(0, np.float32)
        return Associations(np.zeros(memories + 1, np.int64), np.empty(0, np.int64), nothing, nothing, nothing)
    left, right = np.concatenate(lefts), np.concatenate(rights)
    # one number per directed pair, so that one sort groups the co-occurrences
    key = np.concatenate([left * memories + right, right * memories + left])
    pairs, pair_of = np.unique(key, return_inverse=True)
    total = np.bincount(pair_of, weights=np.tile(np.concatenate(weights), 2), minlength=len(pairs))
    strongest = np.zeros(len(pairs), np.float32)
    np.maximum.at(strongest, pair_of, np.tile(np.concatenate(saliences), 2))
    indptr = np.searchsorted(pairs, np.arange(memories + 1) * memories)
    return Associations(
        indptr.astype(np.int64),
        pairs % max(memories, 1),
        total.astype(np.float32),
        np.bincount(pair_of, minlength=len(pairs)).astype(np.float32),
        strongest,
    )


def within(associations: Associations, members: Int64, lookup: Int64) -> tuple[Int64, Int64, Int64]:
    """Returns the associations among ``members`` only, as positions in ``members``.

    Args:
        associations: the associations of all M memories.
        members: (B,) distinct memories.
        lookup: (M,) int64 scratch array, filled with -1 before and after.

    Returns:
        ``rows``, ``columns`` (positions in ``members``) and the positions of the associations, one entry per directed
        pair.
    """
    lookup[members] = np.arange(len(members))
    start = associations.indptr[members]
    count = associations.indptr[members + 1] - start
    rows = np.repeat(np.arange(len(members)), count)
    entry = concatenated(start, count)
    columns = lookup[associations.indices[entry]]
    inside = columns >= 0
    lookup[members] = -1
    return rows[inside], columns[inside], entry[inside]


def weights_of_co_occurrences(offset: Int64, one: Float32, other: Float32, window: int) -> Times:
    """Returns the weights (n,) of co-occurrences: 1 / distance, times the geometric mean of the salience of both steps.

    Args:
        offset: (n,) the number of positions by which the other step came later, from -window to window.
        one: (n,) the salience of the first step.
        other: (n,) the salience of the second step.
        window: tau.
    """
    weights: Times = _by_distance(window)[np.abs(offset)] * np.sqrt(one * other)
    return weights


@cache  # every query needs it
def _by_distance(window: int) -> Times:
    """Returns 1 / distance for the distances up to ``window``; 0 for a step and itself."""
    return np.array([0.0, *(1 / distance for distance in range(1, window + 1))])
