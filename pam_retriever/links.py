"""What was experienced with what, held in memory: the exact links that recall checks the predictor against.

A memory's links are found from its occurrences in the trajectories, so that appending experience costs
what is new, and a popular memory costs no quadratic table.
"""

from __future__ import annotations

import numpy as np

from pam_retriever.types import Bools, Float32, Int64

TAIL = 4_096  # steps that are searched through before they are sorted in


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

    def _sort(self) -> None:
        self._order = np.argsort(self._rows, kind="stable")
        self._sorted = self._rows[self._order]

    def __len__(self) -> int:
        """How many steps there are."""
        return int((self._rows >= 0).sum())

    @property
    def memories(self) -> int:
        """How many memories were experienced."""
        return self._memories

    def append(
        self,
        trajectory: int,
        rows: Int64,
        positions: Int64,
        replaced: int | None = None,
        salience: Float32 | None = None,
    ) -> None:
        """Takes in a new trajectory, in place of the one numbered ``replaced``; row -1 is an empty position."""
        if replaced is not None:
            gone = self._trajectory == replaced
            self._count(self._rows[gone], -1)
            self._rows[gone] = -1
        self._count(rows, 1)
        self._rows = np.concatenate([self._rows, rows])
        self._trajectory = np.concatenate([self._trajectory, np.full(len(rows), trajectory)])
        self._position = np.concatenate([self._position, positions])
        self._salience = np.concatenate([self._salience, _salience(salience, rows)])
        if len(self._rows) - len(self._order) > TAIL:
            self._sort()

    def remove(self, rows: Int64) -> None:
        """Forgets memories; their places stay empty, so that the others stay as far apart."""
        gone = np.isin(self._rows, rows)
        self._count(self._rows[gone], -1)
        self._rows[gone] = -1

    def experienced(self, rows: Int64) -> Bools:
        """Whether each of ``rows`` (any shape) is in some trajectory."""
        known = (rows >= 0) & (rows < len(self._times))
        return known & (self._times[np.where(known, rows, 0)] > 0) if len(self._times) else known

    def of(self, rows: Int64, window: int) -> tuple[Int64, Int64, Float32]:
        """The links of each of ``rows``.

        Args:
            rows: (R,) memories; -1 has no links.
            window: tau, how many positions apart linked memories are at most.

        Returns:
            ``owner`` (an index into ``rows``, rising), ``linked`` (a row) and ``weight`` (sum over their meetings of
            the geometric mean of their salience / distance), each (E,), one entry a pair.
        """
        owner, at = self._occurrences(rows)
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
            & (self._rows[place] != rows[owner][:, None])
        )
        owner = np.broadcast_to(owner[:, None], met.shape)[met]
        salience = np.sqrt(self._salience[place] * self._salience[at][:, None])[met]
        return _sum_pairs(owner, self._rows[place[met]], salience / distance[met])

    def _count(self, rows: Int64, change: int) -> None:
        rows = rows[rows >= 0]
        if rows.max(initial=-1) >= len(self._times):
            more = np.zeros(2 * int(rows.max()) + 1 - len(self._times), np.int64)
            self._times = np.concatenate([self._times, more])
        np.add.at(self._times, rows, change)
        self._memories = int(np.count_nonzero(self._times))

    def _occurrences(self, rows: Int64) -> tuple[Int64, Int64]:
        """Where each of ``rows`` was experienced: an index into ``rows`` (rising), and the step."""
        start = np.searchsorted(self._sorted, rows, side="left")
        count = np.searchsorted(self._sorted, rows, side="right") - start
        owner = np.repeat(np.arange(len(rows)), count)
        # the concatenation of the ranges start[i] : start[i] + count[i]
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        at = self._order[np.repeat(start, count) + within]
        tail = self._rows[len(self._order) :]
        if len(tail):
            late_owner, late = np.nonzero(rows[:, None] == tail)
            owner, at = np.concatenate([owner, late_owner]), np.concatenate([at, late + len(self._order)])
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
