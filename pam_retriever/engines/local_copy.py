"""Feedback, times and mentions of an index in an engine: a copy in SQLite, which follows the engine.

The engine stores documents that it does not interpret. Each document holds the data of one request, or of the time or
the mentions of one memory. A transaction changes the copy, by the same code as for a folder. Triggers record the
changed documents, which are written to the engine before it commits. Other processes read only newer documents.
So queries read feedback, times and mentions from the copy alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from pam_retriever.engines.mentions import EngineMentions
from pam_retriever.filters import read_filter
from pam_retriever.filters.conditions import Condition
from pam_retriever.filters.stored import to_json
from pam_retriever.store.columns import from_json
from pam_retriever.store.database import Memories
from pam_retriever.store.index_mentions import IndexMentions
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.feedback import remove_requests_of
from pam_retriever.store.sqlite.metadata_index import with_times
from pam_retriever.types import Float32, Int64, Record

Document = tuple[str, int, str | None]
"""Kind, key, and JSON; None instead of JSON for removed data."""

# kind of document -> tables and their columns, the first of which is the key
KINDS: Mapping[str, Mapping[str, str]] = {
    "memories": {"memories": "row, id, text, metadata, checksum"},  # memories that another kind refers to
    "feedback": {
        "feedback": "number, id, text, metadata, vector, timestamp, checksum",
        "uses": "feedback, row, weight",
    },
    "times": {"times": "row, given, handed, zone"},
    "names": {"names": "number, phrase"},
    "mentions": {"called": "row, number, short", "mentions": "row, number, start, length"},
    "settings": {"settings": "rowid, key, value"},
}
ABOUT_MEMORIES = ("uses", "times", "called", "mentions")
LAST = "last_feedback"  # the setting with the highest number of any request, also a removed one


class Documents(Protocol):
    """Documents in an engine."""

    def since(self, version: int) -> list[Document]:
        """Returns the documents written after a version; for a version below 0, all stored ones."""

    def put(self, documents: Sequence[Document]) -> None:
        """Inside a transaction: stores documents, and replaces those of the same kind and key."""


def _own_tables() -> Iterator[str]:
    """Returns triggers that record changed documents, and that create the memory rows to which documents refer."""
    yield "CREATE TEMP TABLE changed (kind TEXT, key INTEGER, PRIMARY KEY (kind, key)) WITHOUT ROWID"
    for kind, tables in KINDS.items():
        for table, columns in tables.items():
            for event, row in (("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old")):
                if (table, event) == ("memories", "INSERT"):
                    continue  # a trigger of the referring table creates it
                this = f"{row}.{columns.partition(',')[0]}"
                yield (
                    f"CREATE TEMP TRIGGER {table}_{event} AFTER {event} ON {table} BEGIN "
                    f"INSERT INTO changed SELECT '{kind}', {this} "
                    f"WHERE NOT EXISTS (SELECT 1 FROM changed WHERE kind = '{kind}' AND key = {this}); END"
                )
    for table in ABOUT_MEMORIES:  # a blob, because ids are strings
        yield (
            f"CREATE TEMP TRIGGER {table}_memory BEFORE INSERT ON {table} BEGIN "
            "INSERT INTO memories SELECT new.row, CAST(new.row AS BLOB), NULL, '{}', 0 "
            "WHERE NOT EXISTS (SELECT 1 FROM memories WHERE row = new.row); END"
        )


class LocalCopy:
    """The copy of one process.

    Args:
        documents: the documents in the engine.
        memories: the memories of the same index.

    Attributes:
        feedback: requests, and the memories that served them.
        times: the times of memories.
        mentions: the mentions of memories in texts.
    """

    def __init__(self, documents: Documents, memories: Memories) -> None:
        self._documents, self._memories = documents, memories
        self._copy = SQLiteDatabase()
        self._sql = self._copy.connection
        self._sql.fetch("PRAGMA recursive_triggers = ON")  # records replaced rows, too
        for statement in _own_tables():
            self._sql.fetch(statement)
        self.feedback, self.times = self._copy.feedback, self._copy.times
        self._names = EngineMentions(self._sql, memories)
        self.mentions = IndexMentions(self._names, self._copy.settings)

    def copy_to(self, database: SQLiteDatabase) -> None:
        """Inside a transaction of another database, with the same memories: copies everything to it."""
        for kind, tables in KINDS.items():
            for table, columns in tables.items() if kind not in ("memories", "settings") else ():
                database.connection.run_many(
                    f"INSERT INTO {table} ({columns}) VALUES ({_placeholders(columns)})",
                    self._sql.fetch(f"SELECT {columns} FROM {table}"),
                )
        for key, value in self._copy.settings.all().items():
            if key != LAST:
                database.settings.set(key, value)
        database.mentions.store.add_beginnings([phrase for (phrase,) in self._sql.fetch("SELECT phrase FROM names")])

    def condition(self, where: Mapping[str, object]) -> Condition:
        """Returns a filter in which each condition on time is a list of memories.

        Raises:
            InvalidInput: the filter is invalid.
        """
        return with_times(read_filter(where), self.times.rows_of)

    def records(self, found: Iterable[tuple[int, str, Float32, str | None, str]]) -> list[Record]:
        """Returns memories, given by row, id, vector, text and metadata as JSON, as records with their times."""
        stored = list(found)
        times = self.times.moments(np.array([row for row, *_ in stored], np.int64))
        return [
            Record(id, vector, text, from_json(metadata, f"The metadata of {id!r}"), times.get(row))
            for row, id, vector, text, metadata in stored
        ]

    @property
    def memories(self) -> Int64:
        """Returns the rows of the memories that have feedback, a time, names or mentions."""
        return np.array(self._sql.fetch("SELECT row FROM memories"), np.int64).reshape(-1)

    # ---- following

    def follow(self, version: int) -> None:
        """Reads the documents written to the engine after a version; everything, for a version below 0."""
        found = self._documents.since(version)
        with self._sql.alone():
            self._sql.fetch("PRAGMA foreign_keys = OFF")  # a document is complete, and independent of others
            try:
                with self._copy.transaction():
                    self._take_in(found)
            finally:
                self._sql.fetch("PRAGMA foreign_keys = ON")
        self.times.log.begin()

    def _take_in(self, documents: Sequence[Document]) -> None:
        self._sql.changes.names = True
        for kind, tables in KINDS.items():
            own = [(key, json.loads(data) if data else {}) for of, key, data in documents if of == kind]
            for table, columns in list(tables.items())[::-1]:
                self._sql.run_many(
                    f"DELETE FROM {table} WHERE {columns.partition(',')[0]} = ?", [(key,) for key, _ in own]
                )
            for table, columns in tables.items():
                self._sql.run_many(
                    f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({_placeholders(columns)})",
                    [list(map(_from_plain, row)) for _, data in own for row in data.get(table, ())],
                )
            if kind == "names":
                self._names.add_beginnings([row[1] for _, data in own for row in data.get(kind, ())])
        self._sql.fetch("DELETE FROM sqlite_sequence WHERE name = 'feedback'")
        self._sql.fetch("INSERT INTO sqlite_sequence SELECT 'feedback', value FROM settings WHERE key = ?", [LAST])
        self._sql.fetch("DELETE FROM changed")

    # ---- writing, inside a transaction of the engine

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits the writes of the block to the copy, or undoes them together with the writes to the engine."""
        with self._copy.transaction():
            yield

    def written(self, rows: Int64, version: int) -> None:
        """Updates the copy after the contents of memories were replaced at a version."""
        self._sql.run_many("UPDATE memories SET checksum = ? WHERE row = ?", [(version, row) for row in rows.tolist()])

    def forget(self, rows: Int64) -> None:
        """Removes the data of removed memories."""
        remove_requests_of(self._sql, rows)
        self._sql.run_many("DELETE FROM memories WHERE row = ?", [(row,) for row in rows.tolist()])

    def store(self) -> None:
        """Writes the documents that the transaction changed to the engine."""
        fetch = self._sql.fetch
        self._complete_requests()
        changed = fetch("SELECT kind, key FROM changed")
        documents: list[Document] = []
        for kind, key in changed:
            held = {
                table: fetch(f"SELECT {columns} FROM {table} WHERE {columns.partition(',')[0]} = ?", [key])
                for table, columns in KINDS[kind].items()
            }
            stored = {table: [list(map(_plain, row)) for row in rows] for table, rows in held.items() if rows}
            documents.append((kind, key, to_json(stored) if stored else None))
        fetch("DELETE FROM changed")
        if documents:
            self._documents.put(documents)

    def _complete_requests(self) -> None:
        """Adds the ids of memories to requests, and stores the highest number, which is never used again."""
        fetch = self._sql.fetch
        if not fetch("SELECT 1 FROM changed WHERE kind = 'feedback' LIMIT 1"):
            return
        used = fetch(
            "SELECT DISTINCT uses.row FROM changed JOIN uses ON feedback = changed.key JOIN memories USING (row) "
            "WHERE kind = 'feedback' AND typeof(memories.id) = 'blob'"
        )
        contents = self._memories.contents(np.array(used, np.int64).reshape(-1))
        self._sql.run_many("UPDATE memories SET id = ? WHERE row = ?", [(c[0], row) for row, c in contents.items()])
        fetch(
            "INSERT INTO settings (key, value) SELECT ?, seq FROM sqlite_sequence WHERE name = 'feedback' "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [LAST],
        )


def _placeholders(columns: str) -> str:
    return ", ".join("?" * len(columns.split(",")))


def _plain(value: object) -> object:
    """Converts a value for JSON."""
    return [base64.b64encode(value).decode()] if isinstance(value, bytes) else value


def _from_plain(value: Any) -> Any:
    return base64.b64decode(value[0]) if isinstance(value, list) else value
