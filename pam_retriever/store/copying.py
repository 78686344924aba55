"""Finished copies of a database, and databases in folders that take no journal."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

from pam_retriever.store import words
from pam_retriever.store.changes import forget_changes, forget_kept
from pam_retriever.store.companions import holds_log
from pam_retriever.store.faults import explained

HEADER_COUNTERS = (24, 92)  # sqlite.org/fileformat2.html 1.3


def takes_no_journal(path: Path) -> bool:
    """Whether the folder takes no journal and holds none. SQLite then has to open the file as immutable."""
    return not os.access(path.parent, os.W_OK) and not holds_log(path)


def finish_copy(path: Path) -> None:
    """Finishes a new copy: its readers never block a later writer, and equal contents give equal bytes."""
    with explained(path):
        connection = sqlite3.connect(path, isolation_level=None)
        try:

            def fetch(*statement: Any) -> list[Any]:
                return connection.execute(*statement).fetchall()

            if words.erase_removed(fetch) | forget_changes(fetch) | forget_kept(fetch):
                connection.execute("VACUUM")
            connection.execute("PRAGMA schema_version = 1")  # SQLite counts schema changes here, copies included
            connection.execute("PRAGMA user_version = 0")  # commits of the original
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        with path.open("r+b") as file:  # change counters; the one at 92 says for which state the stored size is valid
            for place in HEADER_COUNTERS:
                file.seek(place)
                file.write((1).to_bytes(4, "big"))
