"""What was experienced next to a memory: exact, from the stored trajectories, as array operations."""

from __future__ import annotations

import numpy as np

from pam_retriever.types import Int64

MOST_OCCASIONS = 8  # the latest occasions of a memory that is met again and again


class Neighbours:
    """The steps of all trajectories, found by memory.

    Args:
        rows: (S,) the memory of each step, in order of trajectory and position.
        trajectory: (S,) the trajectory of each step.
        position: (S,) its position there.
    """

    def __init__(self, rows: Int64, trajectory: Int64, position: Int64) -> None:
        self._rows, self._trajectory, self._position = rows, trajectory, position
        self._by_row = np.argsort(rows, kind="stable")
        self._sorted = rows[self._by_row]
        self._once = bool((np.diff(self._sorted) > 0).all())  # no memory in two steps, so no pair comes twice

    def around(self, rows: Int64, window: int) -> tuple[Int64, Int64, Int64]:
        """The memories at most ``window`` positions from each of ``rows``.

        Returns:
            Three arrays of equal length: the place in ``rows``, the neighbour, and how far away it was at the
            nearest occasion. A pair comes once; a memory is not its own neighbour.
        """
        first = np.searchsorted(self._sorted, rows, "left")
        last = np.searchsorted(self._sorted, rows, "right")
        count = np.minimum(last - first, MOST_OCCASIONS)
        place = np.repeat(np.arange(len(rows)), count)
        # the concatenation of the ranges last - count : last
        step = self._by_row[np.arange(count.sum()) + np.repeat(last - np.cumsum(count), count)]
        offsets = np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
        other = step[:, None] + offsets  # (steps, 2 window)
        inside = (other >= 0) & (other < len(self._rows))
        other = np.where(inside, other, 0)
        distance = np.abs(self._position[other] - self._position[step][:, None])
        inside &= (self._trajectory[other] == self._trajectory[step][:, None]) & (distance <= window)
        inside &= self._rows[other] != self._rows[step][:, None]
        place, met, distance = (
            np.broadcast_to(place[:, None], other.shape)[inside],
            self._rows[other][inside],
            distance[inside],
        )
        if self._once:
            return place, met, distance
        order = np.lexsort((distance, met, place))
        place, met, distance = place[order], met[order], distance[order]
        new = np.ones(len(place), bool)
        new[1:] = (place[1:] != place[:-1]) | (met[1:] != met[:-1])
        return place[new], met[new], distance[new]
