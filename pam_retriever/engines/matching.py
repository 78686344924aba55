"""A filter applied to metadata that an engine returned: by SQLite, so as in a folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pam_retriever.filters import compile_filter
from pam_retriever.types import Bools


class Matcher:
    """One filter.

    Args:
        where: the filter.

    Raises:
        InvalidInput: as ``compile_filter``.
    """

    def __init__(self, where: Mapping[str, Any]) -> None:
        self._condition, self._parameters = compile_filter(where)

    def __call__(self, metadatas: Sequence[str]) -> Bools:
        """Whether each of them satisfies the filter."""
        connection = sqlite3.connect(":memory:")
        try:
            connection.execute("CREATE TABLE given (at INTEGER PRIMARY KEY, metadata TEXT)")
            connection.executemany("INSERT INTO given VALUES (?, ?)", enumerate(metadatas))
            found = connection.execute(f"SELECT at FROM given WHERE {self._condition}", self._parameters).fetchall()
        finally:
            connection.close()
        matching = np.zeros(len(metadatas), bool)
        matching[[at for (at,) in found]] = True
        return matching
