"""The schema of a database, as SQLite describes it, for comparison with the schema of an index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

SCHEMA_OF = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
Said = tuple[tuple[Any, ...], ...]


def schema_of(statements: Sequence[str]) -> Said:
    """Returns the description by SQLite of a database with these statements."""
    return _schema_of_these(tuple(statements))


@cache
def _schema_of_these(statements: tuple[str, ...]) -> Said:
    """Does the work of ``schema_of``, cached for each of the few schemas."""
    database = sqlite3.connect(":memory:")
    try:
        for statement in statements:
            database.execute(statement)
        return plain(tuple(database.execute(SCHEMA_OF).fetchall()))
    finally:
        database.close()


@lru_cache(8)
def plain(schema: Said) -> Said:
    """Removes comments from the statements of a schema: they may differ between versions."""
    return tuple((*names, sql and " ".join(re.sub(r"--[^\n]*", "", str(sql)).split())) for *names, sql in schema)
