"""Runs of a flat array, such as the rows of a sparse matrix, gathered without a loop."""

from __future__ import annotations

import numpy as np

from pam_retriever.types import Int64


def concatenated(start: Int64, count: Int64) -> Int64:
    """The concatenation of the ranges ``start[i] : start[i] + count[i]``, as one array of places."""
    places: Int64 = np.arange(count.sum()) + np.repeat(start - np.cumsum(count) + count, count)
    return places
