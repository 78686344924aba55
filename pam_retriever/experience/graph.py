"""What was experienced with what, held in memory: the exact links that recall checks the predictor against.

A memory's links are found from its occurrences in the trajectories, so that appending experience costs
what is new, and a popular memory costs no quadratic table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from pam_retriever.arrays import GrowingArray, concatenated
from pam_retriever.experience.cooccurrence import Links
from pam_retriever.experience.weighting import LinkWeights, above_chance
from pam_retriever.types import Bools, Direction, Familiarity, Float32, Int64, Times

FAN_OUT = 64  # so many links of a memory are followed, the strongest
LEAST = 1e-4  # a smaller share of the mass is not followed
TAIL = 4_096  # the newest steps, sorted by themselves until there are more
MOST_OCCASIONS = 8  # of a memory that is met again and again, "around" sees the latest


class CooccurrenceGraph:
    """The steps of all trajectories, and the links between the memories that they hold.

    ``Associations`` are the same links of an experience that does not grow, all worked out; both weigh them alike.

    Args:
        rows: (S,) the memory of each step, ordered by trajectory and position.
        trajectory: (S,) which trajectory.
        position: (S,) where in it.
        salience: (S,) how much each counts; None for 1.

    Attributes:
        direction: what counts as linked: only what came after, or before; None for both. See ``towards``.
    """

    direction: Direction | None = None
    _columns: tuple[GrowingArray, ...]
    _last_number: int

    def __init__(self, rows: Int64, trajectory: Int64, position: Int64, salience: Float32 | None = None) -> None:
        self._keep(rows.copy(), trajectory, position, _salience(salience, rows))
        self._chain: tuple[GrowingArray, GrowingArray] | None = None  # the step before and after, once some are apart
        self._times = np.zeros(0, np.int64)  # how often each row was experienced
        self._memories = 0
        self._count(rows, 1)
        self._sort()

    def towards(self, direction: Direction | None) -> CooccurrenceGraph:
        """The same experience, in which only what came after a memory, or before it, is linked to it.

        It shares the steps, and holds while nothing is appended or removed.
        """
        graph = copy(self)
        graph.direction = direction
        return graph

    def reversed(self) -> CooccurrenceGraph:
        """The same experience in the other direction; without a direction itself."""
        return self if self.direction is None else self.towards("before" if self.direction == "after" else "after")

    def steps(self) -> tuple[Int64, Int64, Int64, Float32]:
        """Those that hold a memory, as they are given to the class."""
        there = np.flatnonzero(self._rows >= 0)
        if self._chain is not None:
            there = there[np.lexsort((self._position[there], self._trajectory[there]))]
        return self._rows[there], self._trajectory[there], self._position[there], self._salience[there]

    def _sort(self) -> None:
        if self._chain is not None:
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
        """Takes in steps, given as to the class, in place of the trajectories numbered ``replaced``.

        They are of new trajectories, or follow on the last step of one that is there. Row -1 is an empty position.
        """
        if replaced:
            self.remove_trajectories(replaced)
        self._count(rows, 1)
        joints = self._joints(trajectory)
        added: tuple[npt.NDArray[Any], ...] = (rows, trajectory, position, _salience(salience, rows))
        for column, values in zip(self._columns, added, strict=True):
            column.extend(values)
        self._last_number = max(self._last_number, int(trajectory.max(initial=0)))
        self._join(joints)
        if len(self._rows) - len(self._order) > TAIL:
            self._sort()
        else:
            self._index_tail()

    def remove(self, rows: Int64) -> None:
        """Forgets memories; their places stay empty, so that the others stay as far apart."""
        self._empty(np.isin(self._rows, rows))

    def remove_trajectories(self, numbers: Sequence[int]) -> None:
        """Forgets trajectories; their memories stay in the others."""
        self._empty(np.isin(self._trajectory, list(numbers)))

    def _joints(self, trajectory: Int64) -> list[tuple[int, int]]:
        """Where steps that are about to be appended go on with a trajectory: its last step, and the first of these."""
        if not len(trajectory) or not len(self._trajectory) or trajectory.min() > self._last_number:
            return []
        first = np.flatnonzero(np.diff(trajectory, prepend=trajectory[0] - 1))
        joints = []
        for at in first.tolist():
            last = self._last_step(int(trajectory[at]))
            joints.append((last, len(self._rows) + at))
        return joints

    def _last_step(self, number: int) -> int:
        """The last step of a trajectory, -1 where it has none."""
        ordered = len(self._order)  # what was sorted is ordered by trajectory, too
        tail = np.flatnonzero(self._trajectory[ordered:] == number)
        if len(tail):
            return ordered + int(tail[-1])
        at = int(np.searchsorted(self._trajectory[:ordered], number, side="right")) - 1
        return at if at >= 0 and self._trajectory[at] == number else -1

    def _join(self, joints: list[tuple[int, int]]) -> None:
        """Has the steps around each find one another, though they are not neighbours in the arrays."""
        if self._chain is None and not joints:
            return
        if self._chain is None:
            self._chain = GrowingArray(np.empty(0, np.int64)), GrowingArray(np.empty(0, np.int64))
        before, after = self._chain
        known, steps = len(before.values), len(self._rows)
        before.extend(np.arange(known - 1, steps - 1))
        after.extend(np.arange(known + 1, steps + 1))
        if known and after.values[known - 1] < 0:
            after.values[known - 1] = known
        after.values[steps - 1] = -1
        for last, first in joints:
            before.values[first] = last
            if last >= 0:
                after.values[last] = first

    # ---- columns, a number a step

    def _keep(self, rows: Int64, trajectory: Int64, position: Int64, salience: Float32) -> None:
        self._columns = tuple(GrowingArray(column) for column in (rows, trajectory, position, salience))
        self._last_number = int(trajectory.max(initial=0))

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
        """Whether each of ``rows`` (any shape) is in some trajectory."""
        known = (rows >= 0) & (rows < len(self._times))
        return known & (self._times[np.where(known, rows, 0)] > 0) if len(self._times) else known

    def of(
        self, rows: Int64, window: int, familiarity: Familiarity = "none", weights: LinkWeights | None = None
    ) -> Links:
        """The links of each of ``rows``.

        Args:
            rows: (R,) memories; -1 has no links.
            window: tau, how many positions apart linked memories are at most.
            familiarity: the scale on which a pair that meets no more than by chance counts little.
            weights: what a meeting counts; None for 1 / distance.

        Returns:
            ``owner`` (an index into ``rows``, rising), ``linked`` (a row) and ``weight`` (sum over their meetings of
            what each counts, times how far they are above chance), each (E,), one entry a pair.
        """
        by_offset = weights or LinkWeights.inverse(window)
        owner, linked, offset, salience = self._meetings(*self._occurrences(rows), window)
        pair, other, weight = _sum_pairs(owner, linked, by_offset.of(offset, *salience))
        if familiarity != "none":
            # chance brings a memory as often to either side, so one side holds half of the meetings
            _, _, meetings = _sum_pairs(owner, linked, np.full(len(owner), 1.0 if self.direction is None else 2.0))
            often, others = self._times[rows[pair]].astype(np.float32), self._times[other].astype(np.float32)
            weight *= above_chance(meetings, often, others, float(self._times.sum()), window, familiarity)
        return pair, other, weight

    def sides(self, rows: Int64, window: int) -> tuple[Int64, Int64, Float32, Float32]:
        """As ``of``, in both directions: what the pair's meetings weigh in the direction of this graph, and in all."""
        whole = self.towards(None)
        owner, linked, offset, salience = whole._meetings(*whole._occurrences(rows), window)
        weight = LinkWeights.inverse(window).of(offset, *salience)
        size = int(linked.max(initial=0)) + 1
        pairs, place = np.unique(owner * size + linked, return_inverse=True)
        this = weight * (offset > 0 if self.direction == "after" else offset < 0)
        sums = (np.bincount(place, values, len(pairs)).astype(np.float32) for values in (this, weight))
        return pairs // size, pairs % size, *sums

    def around(self, rows: Int64, window: int) -> tuple[Int64, Int64, Int64]:
        """The memories that were experienced next to each of ``rows``, at the latest places of each.

        Returns:
            ``owner`` and ``linked`` as in ``of``, and how far apart they were at the nearest place.
        """
        owner, at = self._occurrences(rows)
        latest = np.searchsorted(owner, owner, side="right") - np.arange(len(owner)) <= MOST_OCCASIONS
        owner, linked, offset, _ = self._meetings(owner[latest], at[latest], window)
        distance = np.abs(offset)
        order = np.lexsort((distance, linked, owner))
        owner, linked, distance = owner[order], linked[order], distance[order]
        nearest = np.ones(len(owner), bool)
        nearest[1:] = (owner[1:] != owner[:-1]) | (linked[1:] != linked[:-1])
        return owner[nearest], linked[nearest], distance[nearest]

    # ---- the order of what was experienced

    def occasions(self, rows: Int64, latest: int) -> tuple[Int64, Int64]:
        """The steps that hold each of ``rows``: an index into ``rows`` (rising), and the step.

        Args:
            rows: (R,) memories; -1 has none.
            latest: so many of each at most, those that were stored last.
        """
        owner, at = self._occurrences(rows)
        kept = np.searchsorted(owner, owner, side="right") - np.arange(len(owner)) <= latest
        return owner[kept], at[kept]

    def beside(self, at: Int64, reach: int) -> Int64:
        """(n, 2 reach) the memories ``reach`` positions before each of the steps ``at`` (n,) to as many after it.

        The step itself is not among them. -1 where the trajectory has begun or ended, or a memory was deleted.
        """
        place = self._around(at, reach)
        offset = self._position[place] - self._position[at][:, None]
        same = (place >= 0) & (self._trajectory[place] == self._trajectory[at][:, None])
        there = same & (np.abs(offset) <= reach) & (self._rows[place] >= 0)
        found = np.full(place.shape, -1, np.int64)
        step, _ = np.nonzero(there)
        later = offset[there]
        found[step, np.where(later < 0, later + reach, later + reach - 1)] = self._rows[place[there]]
        return found

    def places(self, at: Int64) -> tuple[Int64, Int64]:
        """The trajectories of steps (n,), and their positions there."""
        return self._trajectory[at], self._position[at]

    def newest(self, count: int) -> Int64:
        """The memories of the steps that were stored last, in their order; -1 for what was deleted."""
        return self._rows[max(len(self._rows) - count, 0) :]

    def counts(self, rows: Int64) -> Int64:
        """How often each of ``rows`` (any shape) was experienced."""
        known = (rows >= 0) & (rows < len(self._times))
        found: Int64 = np.where(known, self._times[np.where(known, rows, 0)], 0) if len(self._times) else known * 0
        return found

    def most_experienced(self, n: int) -> Int64:
        """The ``n`` memories that were experienced most often, in no order; fewer where there are fewer."""
        n = min(n, self._memories)
        found: Int64 = np.argpartition(-self._times, n - 1)[:n] if n else np.empty(0, np.int64)
        return found

    def _meetings(self, owner: Int64, at: Int64, window: int) -> tuple[Int64, Int64, Int64, tuple[Float32, Float32]]:
        """Every meeting within the window of the steps ``at``: whose, with what, how much later, both saliences."""
        place = self._around(at, window)  # (occurrences, 2 tau)
        inside = place >= 0
        offset = self._position[place] - self._position[at][:, None]
        met = (
            inside
            & (self._trajectory[place] == self._trajectory[at][:, None])
            & (np.abs(offset) <= window)
            & (self._rows[place] >= 0)
            & (self._rows[place] != self._rows[at][:, None])
        )
        if self.direction is not None:
            met &= offset > 0 if self.direction == "after" else offset < 0
        step, _ = np.nonzero(met)
        salience = self._salience[at[step]], self._salience[place[met]]
        return owner[step], self._rows[place[met]], offset[met], salience

    def _around(self, at: Int64, window: int) -> Int64:
        """(occurrences, 2 tau) the steps before and after each in the arrays, or in its chain; -1 where none is."""
        if self._chain is None:
            place = at[:, None] + np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
            return np.where((place >= 0) & (place < len(self._rows)), place, -1)
        columns = []
        for towards in self._chain:
            here = at
            for _ in range(window):
                here = np.where(here >= 0, towards.values[here], -1)
                columns.append(here)
        earlier, later = columns[:window], columns[window:]
        return np.stack([*reversed(earlier), *later], axis=1)

    def _empty(self, places: Bools) -> None:
        self._count(self._rows[places], -1)
        self._rows[places] = -1

    def _count(self, rows: Int64, change: int) -> None:
        rows = rows[rows >= 0]
        if rows.max(initial=-1) >= len(self._times):
            more = np.zeros(2 * int(rows.max()) + 1 - len(self._times), np.int64)
            self._times = np.concatenate([self._times, more])
        distinct, times = np.unique(rows, return_counts=True)
        self._memories -= int(np.count_nonzero(self._times[distinct]))
        self._times[distinct] += change * times
        self._memories += int(np.count_nonzero(self._times[distinct]))

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


def walk(links_of: Callable[[Int64], Links], seeds: Links) -> Links:
    """One step of a random walk: the mass of the seeds of each query, 1 in all, spreads along their strongest links.

    Args:
        links_of: the links of rows (R,).
        seeds: query, row and mass of each, (E,).

    Returns:
        Query, row and mass of each memory that is reached, once for each seed that leads there.
    """
    query, row, mass = seeds
    mass = (mass / np.maximum(np.bincount(query, mass), 1e-30)[query]).astype(np.float32)
    enough = mass > LEAST
    query, mass = query[enough], mass[enough]
    distinct, seed = np.unique(row[enough], return_inverse=True)
    owner, linked, strength = links_of(distinct)
    total = np.maximum(np.bincount(owner, strength, len(distinct)), 1e-30)  # 0 if nothing salient was met
    strength = (strength / total[owner]).astype(np.float32)
    order = np.lexsort((-strength, owner))
    start = np.searchsorted(owner[order], np.arange(len(distinct) + 1))
    count = np.minimum(np.diff(start), FAN_OUT)[seed]
    entry = concatenated(start[seed], count)
    spread = np.repeat(mass, count) * strength[order][entry]
    return np.repeat(query, count), linked[order][entry], spread.astype(np.float32)


def _sum_pairs(owner: Int64, linked: Int64, weight: Times) -> Links:
    """Adds up the weights of equal (owner, linked)."""
    if not len(owner):
        return owner, linked, weight.astype(np.float32)
    key = owner * (int(linked.max()) + 1) + linked
    pairs, place = np.unique(key, return_inverse=True)
    total = np.bincount(place, weights=weight).astype(np.float32)
    size = int(linked.max()) + 1
    return pairs // size, pairs % size, total
