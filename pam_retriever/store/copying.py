"""Copies of a database that are finished, and files that can only be read as they stand."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

from pam_retriever.store import words
from pam_retriever.store.changes import forget_changes, forget_kept
from pam_retriever.store.faults import explained

HEADER_COUNTERS = (24, 92)  # sqlite.org/fileformat2.html 1.3


def takes_no_journal(path: Path) -> bool:
    """Whether a file can only be read as it stands: its folder takes no journal, and holds none."""
    wal = path.with_name(f"{path.name}-wal")
    return not os.access(path.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size)


def finish_copy(path: Path) -> None:
    """Makes a new copy such that readers of it never keep a later writer out, and equal copies equal in every byte."""
    with explained(path):
        connection = sqlite3.connect(path, isolation_level=None)
        try:

            def fetch(*statement: Any) -> list[Any]:
                return connection.execute(*statement).fetchall()

            if words.erase_removed(fetch) | forget_changes(fetch) | forget_kept(fetch):
                connection.execute("VACUUM")
            connection.execute("PRAGMA schema_version = 1")  # a counter of how often it was copied before
            connection.execute("PRAGMA user_version = 0")  # and of what was committed before
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        with path.open("r+b") as file:  # how many transactions that took: 92 says of which state the size in it is
            for place in HEADER_COUNTERS:
                file.seek(place)
                file.write((1).to_bytes(4, "big"))
