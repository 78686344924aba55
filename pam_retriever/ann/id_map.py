"""A map between the rows of the database and the positions of FAISS."""

from __future__ import annotations

import numpy as np

from pam_retriever.ann.selection import Inside, RowMask, Rows
from pam_retriever.arrays import GrowingArray
from pam_retriever.types import Bools, Int64

DENSE_SPAN = 1_000_000  # rows within this span, or within four times their number, are mapped by a table
MANY = 0.1  # from this share of the rows on, a mask is faster translated than a list


class IdMap:
    """Rows by position, and positions by row.

    Args:
        rows: (n,) the row at each position, -1 for a removed row.

    Attributes:
        dead: number of removed positions.
    """

    def __init__(self, rows: Int64 | None = None) -> None:
        self._rows = GrowingArray(np.empty(0, np.int64) if rows is None else rows)
        self.dead = 0 if rows is None else int((rows < 0).sum())
        self._positions: GrowingArray  # row - self._first -> position, -1 if not stored
        self._sorted: Int64 | None  # the rows in order, if their span is too large for a table
        self._first: int
        self._start: int | None  # the row of position 0, if that of each position is the next one; else None
        self._number()

    def __len__(self) -> int:
        """The number of stored rows."""
        return len(self.rows) - self.dead

    @property
    def rows(self) -> Int64:
        """The row at each position (n,), -1 for a removed row; every change updates it."""
        return self._rows.values

    @property
    def bytes(self) -> int:
        """Bytes in memory."""
        return self._rows.nbytes + self._positions.nbytes + (0 if self._sorted is None else self._sorted.nbytes)

    def stored(self) -> Int64:
        """The positions that hold a row."""
        return np.flatnonzero(self.rows >= 0)

    def alive(self) -> Bools:
        """A mask of the positions that hold a row."""
        return self.rows >= 0

    def append(self, rows: Int64) -> None:
        """Adds rows at the next positions."""
        first_position = len(self.rows)
        if self._start is not None and not _follow(rows, self._start + first_position):
            self._start = None
        if first_position:
            self._rows.extend(rows)
        else:
            self._rows = GrowingArray(rows.copy())  # many indexes never grow, so no room is reserved
        if first_position and self._sorted is None and self._is_dense(rows):
            beyond = int(rows.max()) - self._first + 1 - len(self._positions)
            if beyond > 0:
                self._positions.extend(np.full(beyond, -1, np.int64))
            self._position[rows - self._first] = np.arange(first_position, len(self.rows))
        else:
            self._number()

    def empty(self, positions: Int64) -> None:
        """Removes the rows at ``positions``, all of which hold one; the others keep their positions."""
        if self._sorted is None:
            self._position[self.rows[positions] - self._first] = -1
        self.rows[positions] = -1
        self.dead += len(positions)

    def drop(self, positions: Int64) -> None:
        """Removes the rows at ``positions``; later rows move up."""
        self._rows = GrowingArray(np.delete(self.rows, positions))
        self._number()

    def all(self) -> Inside:
        """Returns the positions that hold a row, as those that a filter leaves."""
        return Inside(len(self.rows), self.stored())

    def inside(self, allowed: Rows) -> Inside:
        """Returns the positions of those ``allowed`` rows that are stored."""
        count = len(self.rows)
        if isinstance(allowed, RowMask):
            if self._start is not None:
                mask = allowed.part(self._start, count)
                return Inside(count, mask=mask & self.alive() if self.dead else mask)
            if len(allowed) > MANY * count:
                return Inside(count, mask=allowed.holds(self.rows))
        positions = self.of(np.asarray(allowed))
        return Inside(count, positions[positions >= 0] if positions.min(initial=0) < 0 else positions)

    def of(self, rows: Int64) -> Int64:
        """Returns the position (n,) of each row, -1 for rows that are not stored."""
        if self._sorted is not None:
            at = np.minimum(np.searchsorted(self._sorted, rows), len(self._sorted) - 1)
            positions = self._position[at]
            return np.where((self._sorted[at] == rows) & (self.rows[positions] == rows), positions, -1)
        offsets = rows - self._first
        if len(rows) and offsets.min() >= 0 and offsets.max() < len(self._position):
            return self._position.take(offsets)
        known = (offsets >= 0) & (offsets < len(self._position))
        positions = np.full(len(rows), -1, np.int64)
        positions[known] = self._position[offsets[known]]
        return positions

    @property
    def _position(self) -> Int64:
        return self._positions.values

    def _number(self) -> None:
        stored = self.stored()
        rows = self.rows[stored]
        start = int(rows[0] - stored[0]) if len(rows) else 0
        self._start = start if np.array_equal(rows, stored + start) else None
        self._first = int(rows.min()) if len(rows) else 0
        if self._is_dense(rows):
            self._sorted = None
            self._positions = GrowingArray(np.full(int(rows.max()) - self._first + 1 if len(rows) else 0, -1, np.int64))
            self._position[rows - self._first] = stored
        else:
            order = np.argsort(rows)
            self._sorted, self._positions = rows[order], GrowingArray(stored[order])

    def _is_dense(self, rows: Int64) -> bool:
        """Whether a table up to the last of ``rows`` is small enough."""
        if not len(rows):
            return True
        return int(rows.min()) >= self._first and int(rows.max()) - self._first < DENSE_SPAN + 4 * len(self.rows)


def _follow(rows: Int64, start: int) -> bool:
    """Whether each of the rows is the next one, from ``start`` on."""
    return np.array_equal(rows, np.arange(start, start + len(rows)))
