"""The memories that an answer may contain: rows in memory, or a filter that an engine applies."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pam_retriever.arrays import among
from pam_retriever.types import Bools, Int64


class Selection(Protocol):
    """The result of a filter in an engine.

    It represents the sorted array of its rows: NumPy fetches them when it needs the array. So a function that takes
    such an array also takes a selection. To test a few rows, ``holds`` costs less. A search in the engine applies the
    filter itself.
    """

    def __len__(self) -> int:
        """The number of rows."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Int64:
        """Fetches all rows."""

    def holds(self, rows: Int64) -> Bools:
        """Returns whether each of ``rows`` (n,) is selected."""


Rows = Int64 | Selection
"""Sorted rows, in memory or in an engine."""


def holds(allowed: Rows, rows: Int64) -> Bools:
    """Returns whether each of ``rows`` (n,) is allowed; None allows all."""
    if not isinstance(allowed, np.ndarray):
        return allowed.holds(rows)
    return among(allowed, rows)
