"""What was experienced with what, held in memory: the exact links that recall checks the predictor against.

A memory's links are found from its occurrences in the trajectories, so that appending experience costs
what is new, and a popular memory costs no quadratic table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.familiarity import unfamiliarity
from pam_retriever.ranges import concatenated
from pam_retriever.types import Bools, Familiarity, Float32, Int64

TAIL = 4_096  # the newest steps, sorted by themselves until there are more
MET = np.float32(1e-3)  # what a link counts at least: however familiar the two are, they met
MOST_OCCASIONS = 8  # of a memory that is met again and again, "around" sees the latest


class Links:
    """The steps of all trajectories.

    Args:
        rows: (S,) the memory of each step, ordered by trajectory and position.
        trajectory: (S,) which trajectory.
        position: (S,) where in it.
        salience: (S,) how much each counts; None for 1.
    """

    def __init__(self, rows: Int64, trajectory: Int64, position: Int64, salience: Float32 | None = None) -> None:
        self._rows, self._trajectory, self._position = rows.copy(), trajectory, position
        self._salience = _salience(salience, rows)
        self._times = np.zeros(0, np.int64)  # how often each row was experienced
        self._memories = 0
        self._count(rows, 1)
        self._sort()

    def steps(self) -> tuple[Int64, Int64, Int64, Float32]:
        """Those that hold a memory, as they are given to the class."""
        there = self._rows >= 0
        return self._rows[there], self._trajectory[there], self._position[there], self._salience[there]

    def _sort(self) -> None:
        self._order = np.argsort(self._rows, kind="stable")
        self._sorted = self._rows[self._order]
        self._index_tail()

    def _index_tail(self) -> None:
        first = len(self._order)
        order = np.argsort(self._rows[first:], kind="stable")
        self._tail_order, self._tail_sorted = first + order, self._rows[first:][order]

    def __len__(self) -> int:
        """How many steps there are."""
        return int((self._rows >= 0).sum())

    @property
    def memories(self) -> int:
        """How many memories were experienced."""
        return self._memories

    def append(
        self,
        rows: Int64,
        trajectory: Int64,
        position: Int64,
        salience: Float32 | None = None,
        replaced: Sequence[int] = (),
    ) -> None:
        """Takes in the steps of new trajectories, given as to the class, in place of those numbered ``replaced``.

        Row -1 is an empty position.
        """
        if replaced:
            self._empty(np.isin(self._trajectory, replaced))
        self._count(rows, 1)
        self._rows = np.concatenate([self._rows, rows])
        self._trajectory = np.concatenate([self._trajectory, trajectory])
        self._position = np.concatenate([self._position, position])
        self._salience = np.concatenate([self._salience, _salience(salience, rows)])
        if len(self._rows) - len(self._order) > TAIL:
            self._sort()
        else:
            self._index_tail()

    def remove(self, rows: Int64) -> None:
        """Forgets memories; their places stay empty, so that the others stay as far apart."""
        self._empty(np.isin(self._rows, rows))

    def experienced(self, rows: Int64) -> Bools:
        """Whether each of ``rows`` (any shape) is in some trajectory."""
        known = (rows >= 0) & (rows < len(self._times))
        return known & (self._times[np.where(known, rows, 0)] > 0) if len(self._times) else known

    def of(self, rows: Int64, window: int, familiarity: Familiarity = "none") -> tuple[Int64, Int64, Float32]:
        """The links of each of ``rows``.

        Args:
            rows: (R,) memories; -1 has no links.
            window: tau, how many positions apart linked memories are at most.
            familiarity: the scale on which a pair that meets no more than by chance counts little.

        Returns:
            ``owner`` (an index into ``rows``, rising), ``linked`` (a row) and ``weight`` (sum over their meetings of
            the geometric mean of their salience / distance, times their unfamiliarity), each (E,), one entry a pair.
        """
        owner, linked, distance, salience = self._meetings(*self._occurrences(rows), window)
        pair, other, weight = _sum_pairs(owner, linked, (salience / distance).astype(np.float32))
        if familiarity != "none":
            _, _, meetings = _sum_pairs(owner, linked, np.ones(len(owner), np.float32))
            often, others = self._times[rows[pair]].astype(np.float32), self._times[other].astype(np.float32)
            above = unfamiliarity(meetings, often, others, float(self._times.sum()), window, familiarity)
            weight *= np.maximum(above, MET)
        return pair, other, weight

    def around(self, rows: Int64, window: int) -> tuple[Int64, Int64, Int64]:
        """What was experienced next to each of ``rows``, on the latest occasions of each.

        Returns:
            ``owner`` and ``linked`` as of ``of``, and how far apart they were at the nearest occasion.
        """
        owner, at = self._occurrences(rows)
        latest = np.searchsorted(owner, owner, side="right") - np.arange(len(owner)) <= MOST_OCCASIONS
        owner, linked, distance, _ = self._meetings(owner[latest], at[latest], window)
        order = np.lexsort((distance, linked, owner))
        owner, linked, distance = owner[order], linked[order], distance[order]
        nearest = np.ones(len(owner), bool)
        nearest[1:] = (owner[1:] != owner[:-1]) | (linked[1:] != linked[:-1])
        return owner[nearest], linked[nearest], distance[nearest]

    def _meetings(self, owner: Int64, at: Int64, window: int) -> tuple[Int64, Int64, Int64, Float32]:
        """Every meeting within the window of the steps ``at``: whose, with what, how far away, how salient."""
        offsets = np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
        place = at[:, None] + offsets  # (occurrences, 2 tau)
        inside = (place >= 0) & (place < len(self._rows))
        place = np.where(inside, place, 0)
        distance = np.abs(self._position[place] - self._position[at][:, None])
        met = (
            inside
            & (self._trajectory[place] == self._trajectory[at][:, None])
            & (distance <= window)
            & (self._rows[place] >= 0)
            & (self._rows[place] != self._rows[at][:, None])
        )
        salience = np.sqrt(self._salience[place] * self._salience[at][:, None])
        return np.broadcast_to(owner[:, None], met.shape)[met], self._rows[place[met]], distance[met], salience[met]

    def _empty(self, places: Bools) -> None:
        self._count(self._rows[places], -1)
        self._rows[places] = -1

    def _count(self, rows: Int64, change: int) -> None:
        rows = rows[rows >= 0]
        if rows.max(initial=-1) >= len(self._times):
            more = np.zeros(2 * int(rows.max()) + 1 - len(self._times), np.int64)
            self._times = np.concatenate([self._times, more])
        np.add.at(self._times, rows, change)
        self._memories = int(np.count_nonzero(self._times))

    def _occurrences(self, rows: Int64) -> tuple[Int64, Int64]:
        """Where each of ``rows`` was experienced: an index into ``rows`` (rising), and the step."""
        owners, places = [], []
        for ordered, order in ((self._sorted, self._order), (self._tail_sorted, self._tail_order)):
            start = np.searchsorted(ordered, rows, side="left")
            count = np.searchsorted(ordered, rows, side="right") - start
            owners.append(np.repeat(np.arange(len(rows)), count))
            places.append(order[concatenated(start, count)])
        owner, at = np.concatenate(owners), np.concatenate(places)
        known = (self._rows[at] == rows[owner]) & (rows[owner] >= 0)  # removed since they were sorted
        by_owner = np.argsort(owner[known], kind="stable")
        return owner[known][by_owner], at[known][by_owner]


def _salience(salience: Float32 | None, rows: Int64) -> Float32:
    return np.ones(len(rows), np.float32) if salience is None else salience


def _sum_pairs(owner: Int64, linked: Int64, weight: Float32) -> tuple[Int64, Int64, Float32]:
    """Adds up the weights of equal (owner, linked)."""
    if not len(owner):
        return owner, linked, weight.astype(np.float32)
    key = owner * (int(linked.max()) + 1) + linked
    pairs, place = np.unique(key, return_inverse=True)
    total = np.bincount(place, weights=weight).astype(np.float32)
    size = int(linked.max()) + 1
    return pairs // size, pairs % size, total
