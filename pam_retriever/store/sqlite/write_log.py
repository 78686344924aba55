"""The rows of the last writes: data that were read before are brought up to date with them."""

from __future__ import annotations

from collections import deque

import numpy as np

from pam_retriever.types import Int64

MAX_WRITES = 1_000  # writes whose rows are recorded


class WriteLog:
    """Counts the writes to a table, and records their rows.

    Attributes:
        version: increases with every write, also if it is rolled back.
    """

    def __init__(self) -> None:
        self.version = 0
        self._rows: deque[Int64 | None] = deque(maxlen=MAX_WRITES)  # by version; None: unknown

    def begin(self) -> None:
        """Counts a write before it begins. Its rows are not known yet."""
        self.version += 1
        self._rows.append(None)

    def end(self, rows: Int64) -> None:
        """Records the rows that the last write adds, changes or removes."""
        self._rows[-1] = rows

    def since(self, version: int) -> Int64 | None:
        """Returns the rows written after a version, sorted; None if they are unknown."""
        behind = self.version - version
        if not behind:
            return np.empty(0, np.int64)
        if not 0 < behind <= len(self._rows):
            return None
        latest = [rows for rows in list(self._rows)[-behind:] if rows is not None]
        return np.unique(np.concatenate(latest)) if len(latest) == behind else None
