"""Runs of a flat array, gathered without a loop, and arrays that grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pam_retriever.types import Int64

SPARE = 8  # a growing array has an eighth more room than it needs


def concatenated(start: Int64, count: Int64) -> Int64:
    """The concatenation of the ranges ``start[i] : start[i] + count[i]``, as one array of places."""
    places: Int64 = np.arange(count.sum()) + np.repeat(start - np.cumsum(count) + count, count)
    return places


class GrowingArray:
    """Numbers to which others are appended, at a cost that does not grow with how many there are.

    Args:
        values: (n,) to begin with; taken over, not copied.
    """

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._held, self._length = values, len(values)

    @property
    def values(self) -> npt.NDArray[Any]:
        """(n,) a view of them all."""
        return self._held[: self._length]

    def extend(self, more: npt.NDArray[Any]) -> None:
        """Appends numbers."""
        length = self._length + len(more)
        if length > len(self._held):
            held = np.empty(length + length // SPARE + 16, self._held.dtype)
            held[: self._length] = self.values
            self._held = held
        self._held[self._length : length] = more
        self._length = length
