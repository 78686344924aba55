"""Groups memories to trajectories by metadata, with the same order as SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from pam_retriever.store.database import Grouped
from pam_retriever.store.trajectories import groups_query


def grouped(memories: Iterable[tuple[int, str, str]], group_by: str, order_by: str | None) -> list[Grouped]:
    """Returns the same as ``Trajectories.groups``, for memories given as (row, id, metadata)."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE TABLE memories (row INTEGER PRIMARY KEY, id TEXT, metadata TEXT)")
        connection.executemany("INSERT INTO memories VALUES (?, ?, ?)", memories)
        return connection.execute(*groups_query(group_by, order_by)).fetchall()
    finally:
        connection.close()
