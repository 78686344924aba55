"""The schema that SQLite finds in a file, in a form that can be compared with the tables of ``schema``."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

SCHEMA_OF = "SELECT type, name, tbl_name, sql FROM sqlite_master"
Said = tuple[tuple[Any, ...], ...]


def schema_of(statements: Sequence[str]) -> Said:
    """Returns the description by SQLite of a database with these statements, without comments, sorted."""
    return plain(described(tuple(statements)))


@cache
def described(statements: tuple[str, ...]) -> Said:
    """Returns the description by SQLite of a database with these statements, as it stands there."""
    database = sqlite3.connect(":memory:")
    try:
        for statement in statements:
            database.execute(statement)
        return tuple(database.execute(SCHEMA_OF).fetchall())
    finally:
        database.close()


@lru_cache(8)
def plain(schema: Said) -> Said:
    """Removes comments from the statements of a schema, which may differ between versions, and sorts them by name."""
    found = [(*names, sql and " ".join(re.sub(r"--[^\n]*", "", str(sql)).split())) for *names, sql in schema]
    return tuple(sorted(found, key=lambda one: (str(one[0]), str(one[1]))))
