"""A filter that PostgreSQL evaluates in the look-up."""

from __future__ import annotations

from typing import Any

import numpy as np

from pam_retriever.engines.postgres.connection import Connections
from pam_retriever.types import Bools, Int64


class Selected:
    """The memories that satisfy a condition; see ``selection.Selection``.

    Args:
        database: with the memories.
        condition: on the table "memories".
        parameters: of the condition.
    """

    def __init__(self, database: Connections, condition: str, parameters: list[Any]) -> None:
        self._database, self.condition, self.parameters = database, condition, parameters

    def __len__(self) -> int:
        count: int = self._database.fetch(f"SELECT count(*) FROM memories WHERE {self.condition}", self.parameters)[0][
            0
        ]
        return count

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Int64:
        found = self._database.fetch(f"SELECT row FROM memories WHERE {self.condition} ORDER BY row", self.parameters)
        return np.array([row for (row,) in found], np.int64)

    def holds(self, rows: Int64) -> Bools:
        found = self._database.fetch(
            f"SELECT row FROM memories WHERE row = ANY(%s::bigint[]) AND {self.condition}",
            [np.unique(rows).tolist(), *self.parameters],
        )
        held: Bools = np.isin(rows, np.array([row for (row,) in found], np.int64))
        return held
