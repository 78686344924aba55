"""Step 2: windowed temporal co-occurrence (Dury, section 3.4).

Two memories are associates when some trajectory holds them at most ``window`` positions apart.
The result is a sparse symmetric matrix in CSR form; everything here is array operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.arrays import concatenated
from pam_retriever.experience.weighting import LinkWeights
from pam_retriever.types import Float32, Int64

Links = tuple[Int64, Int64, Float32]
"""Three arrays (E,), one entry a link: an index into the rows that were asked for; a row; how much it counts."""


@dataclass(frozen=True)
class Experience:
    """Trajectories as flat arrays, one entry per experienced state, in order.

    Attributes:
        states: (S,) int64, which memory each step holds: an index into the training vectors.
        trajectory: (S,) int64, non-decreasing; the trajectory of each step.
        position: (S,) int64, rising within a trajectory. Gaps (a deleted memory) keep
            the others as far apart as they were experienced.
        salience: (S,) float32, how much each step counts; None for all alike, 1.
    """

    states: Int64
    trajectory: Int64
    position: Int64
    salience: Float32 | None = None

    def __len__(self) -> int:
        return len(self.states)


@dataclass(frozen=True)
class Associations:
    """Who was experienced with whom, both directions, as CSR.

    Attributes:
        indptr: (M + 1,) int64; the associates of memory ``m`` lie at
            ``indptr[m]:indptr[m + 1]`` of the two arrays below.
        indices: (E,) int64 associates, sorted within a row.
        weights: (E,) float32, sum over the pair's meetings of what each counts (``LinkWeights``): without others,
            the geometric mean of the salience of its two steps, over their distance.
        meetings: (E,) float32, how often the pair met.
        salience: (E,) float32, that of the pair's most salient meeting: the geometric mean of its two steps.
    """

    indptr: Int64
    indices: Int64
    weights: Float32
    meetings: Float32
    salience: Float32

    def __len__(self) -> int:
        """How many directed associations there are."""
        return len(self.indices)

    def of(self, rows: Int64) -> Links:
        """The links of each of ``rows`` (R,), in the form in which ``CooccurrenceGraph.of`` gives them."""
        start = self.indptr[rows]
        count = self.indptr[rows + 1] - start
        entry = concatenated(start, count)
        return np.repeat(np.arange(len(rows)), count), self.indices[entry], self.weights[entry]

    def anchors(self) -> Int64:
        """(E,) the memory that each entry of ``indices`` is an associate of."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


def associate(experience: Experience, memories: int, window: int, weights: LinkWeights | None = None) -> Associations:
    """Collects every pair at most ``window`` positions apart, in both directions.

    Args:
        experience: the trajectories.
        memories: M, how many memories there are; every state is below it.
        window: tau, at least 1.
        weights: what a meeting counts; None for 1 / distance.

    Returns:
        The associations. A memory is never its own associate.
    """
    by_offset = weights or LinkWeights.inverse(window)
    salience = np.ones(len(experience), np.float32) if experience.salience is None else experience.salience
    lefts, rights, forward, backward, saliences = [], [], [], [], []
    for offset in range(1, min(window, len(experience) - 1) + 1):
        distance = experience.position[offset:] - experience.position[:-offset]
        left, right = experience.states[:-offset], experience.states[offset:]
        met = (
            (experience.trajectory[offset:] == experience.trajectory[:-offset]) & (distance <= window) & (left != right)
        )
        lefts.append(left[met])
        rights.append(right[met])
        one, other = salience[:-offset][met], salience[offset:][met]
        forward.append(by_offset.of(distance[met], one, other))
        backward.append(by_offset.of(-distance[met], one, other))
        saliences.append(np.sqrt(one * other))
    if not lefts:
        nothing = np.empty(0, np.float32)
        return Associations(np.zeros(memories + 1, np.int64), np.empty(0, np.int64), nothing, nothing, nothing)
    left, right = np.concatenate(lefts), np.concatenate(rights)
    # one number per directed pair, so that one sort groups its meetings
    key = np.concatenate([left * memories + right, right * memories + left])
    pairs, meeting = np.unique(key, return_inverse=True)
    total = np.bincount(meeting, weights=np.concatenate(forward + backward), minlength=len(pairs))
    strongest = np.zeros(len(pairs), np.float32)
    np.maximum.at(strongest, meeting, np.tile(np.concatenate(saliences), 2))
    indptr = np.searchsorted(pairs, np.arange(memories + 1) * memories)
    return Associations(
        indptr.astype(np.int64),
        pairs % max(memories, 1),
        total.astype(np.float32),
        np.bincount(meeting, minlength=len(pairs)).astype(np.float32),
        strongest,
    )


def within(associations: Associations, members: Int64, lookup: Int64) -> tuple[Int64, Int64, Int64]:
    """The associations among ``members`` only, as local coordinates.

    Args:
        associations: of all M memories.
        members: (B,) distinct memories.
        lookup: (M,) int64 scratch filled with -1; it is left so.

    Returns:
        ``rows``, ``columns`` (places in ``members``) and the places among the associations, one entry per
        directed pair.
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
