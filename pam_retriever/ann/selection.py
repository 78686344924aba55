"""Which memories an answer may come from: rows in memory, or a filter that an engine applies itself."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pam_retriever.types import Bools, Int64


class Selection(Protocol):
    """What a filter leaves, in an engine.

    It stands for the array of its rows, sorted: NumPy takes it for that, and fetches them then. So what takes such an
    array also takes this; what only looks some rows up asks ``holds``, and a look-up in the engine applies the filter.
    """

    def __len__(self) -> int:
        """How many there are."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Int64:
        """All of them."""

    def holds(self, rows: Int64) -> Bools:
        """Whether each of ``rows`` (n,) is among them."""


Rows = Int64 | Selection
"""Sorted rows, here or in an engine."""


def holds(allowed: Rows, rows: Int64) -> Bools:
    """Whether each of ``rows`` (n,) may be answered."""
    if not isinstance(allowed, np.ndarray):
        return allowed.holds(rows)
    if not len(allowed):
        return np.zeros(len(rows), bool)
    found: Bools = np.take(allowed, np.searchsorted(allowed, rows), mode="clip") == rows
    return found
