"""Evaluates a filter on metadata from an engine, as for a folder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.filters import Condition
from pam_retriever.store.metadata_index import Segment
from pam_retriever.types import Bools, Int64


class Matcher:
    """One filter.

    Args:
        condition: the filter, with a list of memories for each condition on time.
    """

    def __init__(self, condition: Condition) -> None:
        self._condition = condition

    def __call__(self, rows: Sequence[int], metadatas: Sequence[str]) -> Bools:
        """Returns whether each of distinct memories satisfies the filter."""
        numbers: Int64 = np.array(rows, np.int64)
        order = np.argsort(numbers)
        segment = Segment.of(numbers[order], [metadatas[at] for at in order])
        matching: Bools = np.isin(numbers, segment.matching(self._condition))
        return matching
