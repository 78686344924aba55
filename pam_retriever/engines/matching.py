"""Evaluates a filter on metadata from an engine, as for a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pam_retriever.filters import read_filter
from pam_retriever.store.metadata_index import Segment
from pam_retriever.types import Bools


class Matcher:
    """One filter.

    Args:
        where: the filter.

    Raises:
        InvalidInput: see ``read_filter``.
    """

    def __init__(self, where: Mapping[str, object]) -> None:
        self._condition = read_filter(where)

    def __call__(self, metadatas: Sequence[str]) -> Bools:
        """Returns whether each of them satisfies the filter."""
        matching = np.zeros(len(metadatas), bool)
        matching[Segment.of(np.arange(len(metadatas)), metadatas).matching(self._condition)] = True
        return matching
