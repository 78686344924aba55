"""The graph of experience in memory: which memories were experienced together, exactly.

The links of a memory are computed from its occurrences in the trajectories. So appending experience costs time for the
new steps only, and a frequent memory needs no quadratic table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pam_retriever.arrays import GrowingArray, added_up, concatenated, largest
from pam_retriever.experience.chain import Chain
from pam_retriever.experience.cooccurrence import Links, weights_of_co_occurrences
from pam_retriever.experience.weighting import above_chance
from pam_retriever.types import Bools, Direction, Familiarity, Float32, Int64

TAIL = 4_096  # number of newest steps that are sorted separately
MOST_OCCURRENCES = 8  # latest occurrences of a memory that "around" reads


class CooccurrenceGraph:
    """The steps of all trajectories, and the links between their memories.

    ``Associations`` holds the same links with the same weights, precomputed, for experience that does not grow.

    Args:
        rows: (S,) the memory of each step, ordered by trajectory and position.
        trajectory: (S,) the number of the trajectory of each step.
        position: (S,) the position of each step in the trajectory.
        salience: (S,) the salience of each step; None for 1.

    Attributes:
        direction: count only links to memories after, or before; None for both. See ``towards``.
    """

    direction: Direction | None = None
    _columns: tuple[GrowingArray, ...]
    _last_number: int
    _stored: Int64 | None  # the steps that hold a memory, once a query needed them

    def __init__(self, rows: Int64, trajectory: Int64, position: Int64, salience: Float32 | None = None) -> None:
        self._keep(rows.copy(), trajectory, position, _salience(salience, rows))
        self._chain: Chain | None = None  # only while trajectories grow that are not the last
        self._times: Int64 = np.bincount(rows[rows >= 0])  # number of steps of each row
        self._memories = int(np.count_nonzero(self._times))
        self._sort()

    def towards(self, direction: Direction | None) -> CooccurrenceGraph:
        """Returns the same experience with links only to memories after, or before, a memory.

        It shares the steps, and is valid until steps are appended or removed.
        """
        graph = object.__new__(type(self))  # every directed query needs it; ``copy`` takes several times as long
        graph.__dict__.update(self.__dict__)
        graph.direction = direction
        return graph

    def reversed(self) -> CooccurrenceGraph:
        """Returns the same experience in the opposite direction; without a direction the same graph."""
        return self if self.direction is None else self.towards("before" if self.direction == "after" else "after")

    def steps(self) -> tuple[Int64, Int64, Int64, Float32]:
        """The steps that hold a memory, in the form of the constructor's arguments."""
        there = np.flatnonzero(self._rows >= 0)
        if self._chain is not None:
            there = there[np.lexsort((self._position[there], self._trajectory[there]))]
        return self._rows[there], self._trajectory[there], self._position[there], self._salience[there]

    def _sort(self) -> None:
        if self._chain is not None or self._removed:
            self._keep(*self.steps())
            self._chain = None
        self._order = np.argsort(self._rows, kind="stable")
        self._sorted = self._rows[self._order]
        self._index_tail()

    def _index_tail(self) -> None:
        first = len(self._order)
        order = np.argsort(self._rows[first:], kind="stable")
        self._tail_order, self._tail_sorted = first + order, self._rows[first:][order]

    def __len__(self) -> int:
        """The number of steps."""
        return int((self._rows >= 0).sum())

    @property
    def memories(self) -> int:
        """The number of memories with a step."""
        return self._memories

    def append(
        self,
        rows: Int64,
        trajectory: Int64,
        position: Int64,
        salience: Float32 | None = None,
        replaced: Sequence[int] = (),
    ) -> None:
        """Adds steps, in the form of the constructor's arguments, and removes the trajectories numbered ``replaced``.

        The steps belong to new trajectories, or follow the last step of an existing one. Row -1 is an empty position.
        """
        if replaced:
            self.remove_trajectories(replaced)
        self._count(rows, 1)
        joints = self._joints(trajectory)
        if joints and self._chain is None and self._removed:
            self._sort()  # a chain leads past the steps that are removed later
            joints = self._joints(trajectory)
        added: tuple[npt.NDArray[Any], ...] = (rows, trajectory, position, _salience(salience, rows))
        for column, values in zip(self._columns, added, strict=True):
            column.extend(values)
        self._last_number = max(self._last_number, int(trajectory.max(initial=0)))
        self._removed += int(np.count_nonzero(rows < 0))
        self._stored = None
        if joints and self._chain is None:
            self._chain = Chain()
        if self._chain is not None:
            self._chain.join(joints, len(self._rows))
            self._chain.unlink(len(self._rows) - len(rows) + np.flatnonzero(rows < 0))
        if len(self._rows) - len(self._order) > TAIL:
            self._sort()
        else:
            self._index_tail()

    def remove(self, rows: Int64) -> None:
        """Removes memories; their positions stay empty, so that distances between others stay."""
        self._empty(np.isin(self._rows, rows))

    def remove_trajectories(self, numbers: Sequence[int]) -> None:
        """Removes trajectories; their memories stay in the others."""
        self._empty(np.isin(self._trajectory, list(numbers)))

    def _joints(self, trajectory: Int64) -> list[tuple[int, int]]:
        """Returns where new steps continue a trajectory elsewhere: its last step or -1, and the first new one."""
        if not len(trajectory) or not len(self._trajectory) or trajectory.min() > self._last_number:
            return []
        first = np.flatnonzero(np.diff(trajectory, prepend=trajectory[0] - 1))
        ends = [(self._last_step(int(trajectory[at])), len(self._rows) + at) for at in first.tolist()]
        return [(last, at) for last, at in ends if last != at - 1]  # the others are neighbours in the arrays

    def _last_step(self, number: int) -> int:
        """Returns the last step of a trajectory that holds a memory, -1 if it has none."""
        ordered = len(self._order)  # the sorted part is ordered by trajectory, too
        start, end = np.searchsorted(self._trajectory[:ordered], [number, number + 1]).tolist()
        for first, last in ((ordered, len(self._rows)), (start, end)):
            there = (self._trajectory[first:last] == number) & (self._rows[first:last] >= 0)
            if there.any():
                return int(first + np.flatnonzero(there)[-1])
        return -1

    # ---- columns, one number per step

    def _keep(self, rows: Int64, trajectory: Int64, position: Int64, salience: Float32) -> None:
        self._columns = tuple(GrowingArray(column) for column in (rows, trajectory, position, salience))
        self._last_number = int(trajectory.max(initial=0))
        self._removed = 0  # number of steps without a memory, at most
        self._stored = None

    @property
    def _rows(self) -> Int64:
        return self._columns[0].values

    @property
    def _trajectory(self) -> Int64:
        return self._columns[1].values

    @property
    def _position(self) -> Int64:
        return self._columns[2].values

    @property
    def _salience(self) -> Float32:
        return self._columns[3].values

    def experienced(self, rows: Int64) -> Bools:
        """Returns whether each of ``rows`` (any shape) is in some trajectory."""
        known = (rows >= 0) & (rows < len(self._times))
        return known & (self._times.take(rows, mode="clip") > 0) if len(self._times) else known

    def of(
        self,
        rows: Int64,
        window: int,
        familiarity: Familiarity = "none",
        latest: int | None = None,
    ) -> Links:
        """Returns the links of each of ``rows``.

        Args:
            rows: (R,) memories; -1 has no links.
            window: tau, the largest distance between linked memories.
            familiarity: the scale that lowers the weight of pairs that co-occur by chance.
            latest: number of steps per row that count, the last stored ones; None for all.

        Returns:
            ``owner`` (an index into ``rows``, rising), ``linked`` (a row) and ``weight`` (sum of the weights of their
            co-occurrences, times the factor by ``familiarity``), each (E,), one entry per pair.
        """
        steps = self._occurrences(rows) if latest is None else self.occurrences(rows, latest)
        owner, linked, offset, salience = self._co_occurrences(*steps, window, self.direction)
        pair, other, weight = added_up(owner, linked, weights_of_co_occurrences(offset, *salience, window))
        if familiarity != "none":
            # by chance half of the co-occurrences are on either side
            _, _, co_occurrences = added_up(owner, linked, np.full(len(owner), 1.0 if self.direction is None else 2.0))
            often, others = self._times[rows[pair]].astype(np.float32), self._times[other].astype(np.float32)
            weight *= above_chance(co_occurrences, often, others, float(self._times.sum()), window, familiarity)
        return pair, other, weight

    def sides(self, rows: Int64, window: int) -> tuple[Int64, Int64, Bools, Float32]:
        """Like ``of``, with one entry per co-occurrence: whether it lies in the graph's direction, and its weight."""
        owner, linked, offset, salience = self._co_occurrences(*self._occurrences(rows), window, None)
        weight: Float32 = weights_of_co_occurrences(offset, *salience, window).astype(np.float32)
        return owner, linked, offset > 0 if self.direction == "after" else offset < 0, weight

    def around(self, rows: Int64, window: int) -> tuple[Int64, Int64, Int64]:
        """Returns the neighbours of each of ``rows`` in trajectories, at its latest occurrences.

        Returns:
            ``owner`` and ``linked`` as in ``of``, and their smallest distance.
        """
        owner, at = self._occurrences(rows)
        if not len(owner):
            return owner, owner, owner
        latest = np.searchsorted(owner, owner, side="right") - np.arange(len(owner)) <= MOST_OCCURRENCES
        owner, linked, offset, _ = self._co_occurrences(owner[latest], at[latest], window, self.direction)
        distance = np.abs(offset)
        order = np.lexsort((distance, linked, owner))
        owner, linked, distance = owner[order], linked[order], distance[order]
        nearest = np.ones(len(owner), bool)
        nearest[1:] = (owner[1:] != owner[:-1]) | (linked[1:] != linked[:-1])
        return owner[nearest], linked[nearest], distance[nearest]

    def in_long(self, rows: Int64, reach: int) -> Bools:
        """Returns for each of ``rows`` (R,) whether it is only in trajectories that go on for ``reach`` steps.

        They may go on before the memory or after it. Its latest occurrences count, as in ``around``. Removed steps do
        not count.
        """
        owner, at = self.occurrences(rows, MOST_OCCURRENCES)
        if self._chain is None:
            if self._removed and self._stored is None:
                self._stored = np.flatnonzero(self._rows >= 0)
            there = self._stored
            count, place = (len(self._rows), at) if there is None else (len(there), np.searchsorted(there, at))
            ends = np.stack([np.maximum(place - reach, -1), place + reach], axis=1)
            ends[ends >= count] = -1
            if there is not None:
                ends[ends >= 0] = there[ends[ends >= 0]]
        else:
            ends = self._chain.around(at, reach)[:, [0, -1]]
        same = (ends >= 0) & (self._trajectory[ends] == self._trajectory[at][:, None])
        found = np.zeros(len(rows), bool)
        found[owner] = True
        found[owner[~same.any(axis=1)]] = False
        return found

    # ---- order

    def occurrences(self, rows: Int64, latest: int) -> tuple[Int64, Int64]:
        """Returns the steps of each of ``rows``: an index into ``rows`` (rising), and the step.

        Args:
            rows: (R,) memories; -1 has none.
            latest: largest number per row; the last stored ones are taken.
        """
        owner, at = self._occurrences(rows)
        mask = np.searchsorted(owner, owner, side="right") - np.arange(len(owner)) <= latest
        return owner[mask], at[mask]

    def beside(self, at: Int64, reach: int) -> Int64:
        """Returns the memories (n, 2 reach) within ``reach`` positions before and after each of the steps ``at`` (n,).

        The step itself is left out. -1 outside the trajectory, and for a deleted memory.
        """
        neighbour = self._around(at, reach)
        offset = self._position[neighbour] - self._position[at][:, None]
        same = (neighbour >= 0) & (self._trajectory[neighbour] == self._trajectory[at][:, None])
        there = same & (np.abs(offset) <= reach) & (self._rows[neighbour] >= 0)
        found = np.full(neighbour.shape, -1, np.int64)
        step, _ = np.nonzero(there)
        later = offset[there]
        found[step, np.where(later < 0, later + reach, later + reach - 1)] = self._rows[neighbour[there]]
        return found

    def positions(self, at: Int64) -> tuple[Int64, Int64]:
        """Returns the trajectories of steps (n,), and their positions in them."""
        return self._trajectory[at], self._position[at]

    def newest(self, count: int) -> Int64:
        """The memories of the last steps by trajectory and position, in order, as in the database."""
        at = np.arange(max(len(self._order) - count - self._removed, 0), len(self._rows))
        if self._chain is not None:
            at = at[np.lexsort((self._position[at], self._trajectory[at]))]
        rows = self._rows[at]
        return rows[rows >= 0][-count:]

    def counts(self, rows: Int64) -> Int64:
        """Returns the number of steps of each of ``rows`` (any shape)."""
        known = (rows >= 0) & (rows < len(self._times))
        found: Int64 = np.where(known, self._times[np.where(known, rows, 0)], 0) if len(self._times) else known * 0
        return found

    def most_experienced(self, n: int) -> Int64:
        """Returns up to ``n`` memories with the most steps; of those with as many, those stored first."""
        rows, few = self._rows, len(self._times) > 4 * len(self._rows)  # rows of removed memories are not used again
        rows = np.unique(rows[rows >= 0]) if few else np.flatnonzero(self._times)
        return rows[largest(self._times[rows], min(n, len(rows)))]

    def _co_occurrences(
        self, owner: Int64, at: Int64, window: int, direction: Direction | None
    ) -> tuple[Int64, Int64, Int64, tuple[Float32, Float32]]:
        """Returns all co-occurrences in the window of steps ``at``: owner, linked memory, offset, both saliences."""
        neighbour = self._around(at, window)  # (occurrences, 2 tau); take and one mask cost less than indexing
        stored, trajectory, position, salience = (column.values for column in self._columns)
        rows = stored.take(neighbour)
        offset = position.take(neighbour) - position.take(at)[:, None]
        met = neighbour >= 0
        met &= trajectory.take(neighbour) == trajectory.take(at)[:, None]
        met &= np.abs(offset) <= window
        met &= rows >= 0
        met &= rows != stored.take(at)[:, None]
        if direction is not None:
            met &= offset > 0 if direction == "after" else offset < 0
        found = met.ravel().nonzero()[0]
        step, other = found // neighbour.shape[1], neighbour.ravel().take(found)
        saliences = salience.take(at.take(step)), salience.take(other)
        return owner.take(step), rows.ravel().take(found), offset.ravel().take(found), saliences

    def _around(self, at: Int64, window: int) -> Int64:
        """Returns the steps before and after each (occurrences, 2 tau), in the arrays or in its chain; -1 for none."""
        if self._chain is not None:
            return self._chain.around(at, window)
        neighbour = at[:, None] + _offsets(window)
        inside = neighbour.view(np.uint64) < len(self._rows)  # negative numbers are large ones
        return np.where(inside, neighbour, -1)

    def _empty(self, positions: Bools) -> None:
        self._count(self._rows[positions], -1)
        self._rows[positions] = -1
        self._removed += int(np.count_nonzero(positions))
        self._stored = None
        if self._chain is not None:
            self._chain.unlink(np.flatnonzero(positions))
        if self._removed > max(TAIL, len(self._rows) // 2):
            self._sort()  # else a graph that is never read again would grow with all that it ever held

    def _count(self, rows: Int64, change: int) -> None:
        rows = rows[rows >= 0]
        if not len(rows):
            return
        if rows.max(initial=-1) >= len(self._times):
            more = np.zeros(2 * int(rows.max()) + 1 - len(self._times), np.int64)
            self._times = np.concatenate([self._times, more])
        distinct, times = np.unique(rows, return_counts=True)
        self._memories -= int(np.count_nonzero(self._times[distinct]))
        self._times[distinct] += change * times
        self._memories += int(np.count_nonzero(self._times[distinct]))

    def _occurrences(self, rows: Int64) -> tuple[Int64, Int64]:
        """Returns the steps of each of ``rows``, in the order of the database: an index into ``rows``, and the step."""
        owners: list[Int64] = []
        positions: list[Int64] = []
        for ordered, order in ((self._sorted, self._order), (self._tail_sorted, self._tail_order)):
            if owners and not len(ordered):  # mostly there is no tail
                break
            start = ordered.searchsorted(rows, side="left")  # NumPy's functions take longer than methods of arrays
            count = ordered.searchsorted(rows, side="right") - start
            owners.append(np.arange(len(rows)).repeat(count))
            positions.append(order.take(concatenated(start, count)))
        owner, at = (each[0] if len(each) == 1 else np.concatenate(each) for each in (owners, positions))
        wanted = rows.take(owner)
        known = (self._rows.take(at) == wanted) & (wanted >= 0)  # a row may be removed after the sort
        if not known.all():
            owner, at = owner[known], at[known]
        if self._chain is None and len(owners) == 1:
            return owner, at  # in order already
        order = np.lexsort((owner,) if self._chain is None else (self._position[at], self._trajectory[at], owner))
        return owner[order], at[order]


@cache
def _offsets(window: int) -> Int64:
    """Returns -window to window without 0."""
    return np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])


def _salience(salience: Float32 | None, rows: Int64) -> Float32:
    return np.ones(len(rows), np.float32) if salience is None else salience
