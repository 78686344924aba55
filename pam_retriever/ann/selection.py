"""The memories that an answer may contain: rows or a mask in memory, or a filter that an engine applies."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pam_retriever.arrays import among
from pam_retriever.types import Bools, Int64


class Selection(Protocol):
    """The result of a filter: a mask, or a filter in an engine.

    It represents the sorted array of its rows: NumPy fetches them when it needs the array. So a function that takes
    such an array also takes a selection. To test a few rows, ``holds`` costs less. A search in the engine applies the
    filter itself, and a search in memory the mask.
    """

    def __len__(self) -> int:
        """The number of rows."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Int64:
        """Fetches all rows."""

    def holds(self, rows: Int64) -> Bools:
        """Returns whether each of ``rows`` (n,) is selected."""


class RowMask:
    """Rows as a mask: a filter gives one, and a search needs one, so a list of many rows is only made if asked for.

    Args:
        first: the row of the first entry of the mask.
        mask: (n,) whether each of the consecutive rows from ``first`` on is selected.
    """

    def __init__(self, first: int, mask: Bools) -> None:
        self._first, self._mask = first, mask

    def __len__(self) -> int:
        return self._count

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Int64:
        return self._rows.astype(dtype or np.int64, copy=bool(copy))

    def holds(self, rows: Int64) -> Bools:
        there = (rows >= self._first) & (rows < self._first + len(self._mask))
        if len(self._mask):
            there &= self._mask.take(rows - self._first, mode="clip")
        return there

    def part(self, first: int, count: int) -> Bools:
        """Returns the mask (count,) of the consecutive rows from ``first`` on."""
        start = first - self._first
        if start >= 0 and start + count <= len(self._mask):
            return self._mask[start : start + count]
        return self.holds(np.arange(first, first + count))

    @cached_property
    def _count(self) -> int:
        return int(np.count_nonzero(self._mask))

    @cached_property
    def _rows(self) -> Int64:
        rows = np.flatnonzero(self._mask)
        rows += self._first
        return rows


Rows = Int64 | Selection
"""Sorted rows, in memory or in an engine."""


def holds(allowed: Rows, rows: Int64) -> Bools:
    """Returns whether each of ``rows`` (n,) is allowed."""
    if not isinstance(allowed, np.ndarray):
        return allowed.holds(rows)
    return among(allowed, rows)


class Inside:
    """The positions that a filter leaves, as a list and as a mask. Each is made from the other when it is needed.

    Args:
        count: number of all positions.
        positions: (m,) those that the filter leaves; None if there is a mask.
        mask: (count,) whether the filter leaves each position.
    """

    def __init__(self, count: int, positions: Int64 | None = None, mask: Bools | None = None) -> None:
        self._count, self._positions, self._mask = count, positions, mask

    def __len__(self) -> int:
        return int(np.count_nonzero(self.mask)) if self._positions is None else len(self._positions)

    @property
    def positions(self) -> Int64:
        """Positions (m,)."""
        if self._positions is None:
            assert self._mask is not None
            self._positions = np.flatnonzero(self._mask)
        return self._positions

    @property
    def mask(self) -> Bools:
        """A mask (count,)."""
        if self._mask is None:
            self._mask = np.zeros(self._count, bool)
            self._mask[self._positions] = True
        return self._mask
