"""Items in one SQLite file: the single source of truth of a store, with the pending changes of its indexes.

A write is one transaction over all its items, of any tenants. It adds a row to ``pending`` for each change of the
indexes. The changes are applied after the commit; if the process ended before, they are applied at the next opening of
the store. Each row has the final state of an item, so that it can be applied twice.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langgraph_pam.reading import Namespace
from langgraph_pam.rows import Change, Put, Row, to_path
from pam_retriever import IndexClosed, IndexFormatError, StorageError
from pam_retriever.errors import counted
from pam_retriever.locks import Mutex
from pam_retriever.store.folder.manifest import MANIFEST

FILE, FORMAT = "items.sqlite", 1
MINUTE = 60_000_000  # in microseconds, the unit of stored times
PATIENCE = 5.0  # seconds to wait for other processes that open a new file, as SQLite waits for other locks
SCHEMA = """
CREATE TABLE IF NOT EXISTS namespaces (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS items (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace INTEGER NOT NULL REFERENCES namespaces (id),
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    ttl REAL,
    expires INTEGER,
    vectors INTEGER NOT NULL,
    UNIQUE (namespace, key)
);
CREATE INDEX IF NOT EXISTS items_of_namespace ON items (namespace, id);
CREATE INDEX IF NOT EXISTS items_expire ON items (expires) WHERE expires IS NOT NULL;
CREATE TABLE IF NOT EXISTS pending (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL,
    namespace INTEGER NOT NULL,
    item INTEGER NOT NULL,
    time INTEGER NOT NULL,
    before INTEGER NOT NULL,
    texts TEXT NOT NULL,
    vectors BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS clock (latest INTEGER NOT NULL);
INSERT INTO clock SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM clock);
"""
COLUMNS = "items.id, path, key, value, created, updated, ttl, vectors"
JOINED = "FROM items JOIN namespaces ON namespaces.id = items.namespace"
# namespaces under a path begin with "path."; labels have no dot, and "/" is the character after "."
UNDER = "(:path = '' OR path = :path OR (path > :path || '.' AND path < :path || '/'))"
ALIVE = "(expires IS NULL OR expires > :now)"


def now() -> int:
    """Returns the time in microseconds since 1970."""
    return time.time_ns() // 1000


class Items:
    """The items of a store.

    Args:
        folder: folder of the file, which is created if needed; None keeps the items in memory.

    Attributes:
        clock: returns the time in microseconds since 1970.

    Raises:
        IndexFormatError: the file is not of this version.
        StorageError: the file cannot be opened.
    """

    def __init__(self, folder: Path | None) -> None:
        self.clock: Callable[[], int] = now
        self._lock = Mutex()
        self._file = ":memory:" if folder is None else str(folder / FILE)
        self._latest, self._closed = 0, False
        with self._guarded():
            self._db = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def _prepare(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            raise IndexFormatError(
                f"{self._file} has format {version}.", f"format {FORMAT}", "Install a newer version of pam-retriever."
            )
        self._keep_journal()
        self._db.execute("PRAGMA synchronous = FULL")  # a commit is on the disk before the call returns
        self._db.execute("PRAGMA secure_delete = ON")
        self._db.execute("PRAGMA foreign_keys = ON")
        if version == 0:  # another process may have made the tables since
            self._db.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;")

    def _keep_journal(self) -> None:
        """Switches the file to a write-ahead log. SQLite waits for no other process that does the same just now."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:  # error codes: from Python 3.11 on
                    raise
            time.sleep(0.002)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Admits one thread at a time, and translates errors."""
        with self._lock:
            if self._closed:
                raise IndexClosed("The store is closed.", "an open store", "Open it again: PAMStore(path, ...).")
            try:
                yield
            except sqlite3.DatabaseError as error:
                known = isinstance(error, sqlite3.OperationalError | sqlite3.IntegrityError | sqlite3.ProgrammingError)
                kind = StorageError if known else IndexFormatError
                raise kind(
                    f"{self._file}: {error}.", "a file that can be read and written", "Check the disk and the folder."
                ) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._guarded():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk may have ended it
                    self._db.execute("ROLLBACK")
                raise

    def _fetch(self, sql: str, parameters: Mapping[str, object] | Sequence[object] = ()) -> list[Any]:
        """Runs one statement; returns all of its rows."""
        with self._guarded():
            return self._db.execute(sql, parameters).fetchall()

    def close(self) -> None:
        """Closes the file. A second call does nothing; every other call raises ``IndexClosed`` from then on."""
        with self._lock:
            if not self._closed:
                with self._guarded():
                    self._db.close()
            self._closed = True

    def check_index(self, index: Path) -> None:
        """Checks that the folder of the indexes is there, if they hold vectors of items.

        Raises:
            IndexFormatError: it is gone. Searches would not find these items, and nobody would know.
        """
        if (index / MANIFEST).exists():
            return
        applied = "SELECT COUNT(*) FROM items WHERE vectors > 0 AND id NOT IN (SELECT item FROM pending)"
        ((lost,),) = self._fetch(applied)
        if lost:
            raise IndexFormatError(
                f"The index of {counted(lost, 'item')} is gone: {index} has no {MANIFEST}.",
                "the folder as it was, with index/",
                "Restore it. Or open the items without index=, and put them into a new store.",
            )

    # ---- reading

    def get(self, namespace: Namespace, key: str, at: int | None) -> Row | None:
        """Returns an item; with a time ``at``, only if it has not expired then."""
        rows = self._fetch(
            f"SELECT {COLUMNS} {JOINED} WHERE path = :path AND key = :key AND (:now IS NULL OR {ALIVE})",
            {"path": to_path(namespace), "key": key, "now": at},
        )
        return Row._make(rows[0]) if rows else None

    def by_id(self, ids: Iterable[int]) -> dict[int, Row]:
        """Returns number -> item, for the items that are stored."""
        listed = json.dumps(list(ids))
        rows = self._fetch(f"SELECT {COLUMNS} {JOINED} WHERE items.id IN (SELECT value FROM json_each(?))", [listed])  # noqa: S608
        return {row[0]: Row._make(row) for row in rows}

    def under(
        self, prefix: Namespace, at: int | None, limit: int = -1, offset: int = 0, without_vectors: bool = False
    ) -> list[Row]:
        """Returns the items of all namespaces under a prefix, in the order of creation."""
        rows = self._fetch(
            f"SELECT {COLUMNS} {JOINED} WHERE {UNDER} AND (:now IS NULL OR {ALIVE}) "
            "AND (vectors = 0 OR NOT :without) ORDER BY namespaces.id, items.id LIMIT :limit OFFSET :offset",
            {
                "path": to_path(prefix),
                "now": at,
                "without": without_vectors,
                "limit": min(limit, 2**63 - 1),
                "offset": min(offset, 2**63 - 1),
            },
        )
        return list(map(Row._make, rows))

    def values(self, prefix: Namespace, at: int | None) -> list[tuple[int, str]]:
        """Returns number and JSON of the items under a prefix, in the order of ``under``."""
        return self._fetch(
            f"SELECT items.id, value {JOINED} WHERE {UNDER} AND (:now IS NULL OR {ALIVE}) "
            "ORDER BY namespaces.id, items.id",
            {"path": to_path(prefix), "now": at},
        )

    def namespaces(self, at: int | None) -> list[str]:
        """Returns the paths of all namespaces; with a time, only namespaces with an item that has not expired then."""
        there = f":now IS NULL OR id IN (SELECT namespace FROM items WHERE {ALIVE})"  # noqa: S608
        return [path for (path,) in self._fetch(f"SELECT path FROM namespaces WHERE {there}", {"now": at})]  # noqa: S608

    def found_by_vector(self, prefix: Namespace) -> dict[str, int]:
        """Returns path -> number of the namespaces under a prefix that have items with vectors."""
        holds = "EXISTS (SELECT 1 FROM items WHERE items.namespace = namespaces.id AND vectors > 0)"
        statement = f"SELECT path, id FROM namespaces WHERE {UNDER} AND {holds} ORDER BY id"  # noqa: S608
        return dict(self._fetch(statement, {"path": to_path(prefix)}))

    def expired(self, prefix: Namespace, at: int) -> list[int]:
        """Returns the numbers of the expired items under a prefix."""
        parameters = {"path": to_path(prefix), "now": at}
        return [id for (id,) in self._fetch(f"SELECT items.id {JOINED} WHERE {UNDER} AND expires <= :now", parameters)]

    def pending(self) -> list[Change]:
        """Returns the changes that the indexes have not applied yet, in order."""
        rows = self._fetch("SELECT id, path, namespace, item, time, before, texts, vectors FROM pending ORDER BY id")
        return [
            Change(id, path, namespace, item, time, before, max(before, len(words)), words, vectors)
            for id, path, namespace, item, time, before, texts, vectors in rows
            for words in (json.loads(texts),)
        ]

    # ---- writing

    def refresh(self, ids: Sequence[int]) -> None:
        """Restarts the time to live of items. It never becomes shorter, even if the clock is set back meanwhile."""
        with self._transaction():
            self._db.execute(
                f"UPDATE items SET expires = MAX(expires, ? + CAST(ttl * {MINUTE} AS INTEGER)) "  # noqa: S608
                "WHERE ttl IS NOT NULL AND id IN (SELECT value FROM json_each(?))",
                (self.clock(), json.dumps(list(ids))),
            )

    def write(self, puts: Iterable[Put], applied: int) -> None:
        """Stores and deletes items, all or none, and records the changes of the indexes.

        Args:
            puts: at most one put for each item.
            applied: the last change that the indexes have applied; the changes up to it are removed.
        """
        with self._transaction():
            self._db.execute("DELETE FROM pending WHERE id <= ?", (applied,))
            (latest,) = self._db.execute("SELECT latest FROM clock").fetchone()  # another process may have written it
            self._latest = max(latest, self.clock())  # times never fall, even if the clock is set back
            self._db.execute("UPDATE clock SET latest = ?", (self._latest,))
            emptied = {namespace for put in puts if (namespace := self._write_one(put)) is not None}
            self._forget_namespaces(emptied)

    def settle(self, applied: int) -> None:
        """Removes the changes that the indexes have applied."""
        with self._transaction():
            self._db.execute("DELETE FROM pending WHERE id <= ?", (applied,))

    def scrub(self, prefix: Namespace, applied: int) -> None:
        """Removes every byte of deleted items under a prefix from the file and its journal."""
        with self._transaction():
            self._db.execute("DELETE FROM pending WHERE id <= ?", (applied,))
            # these pending puts are of items that were deleted later; the deletions are pending changes, too
            self._db.execute(f"DELETE FROM pending WHERE {UNDER} AND texts <> '[]'", {"path": to_path(prefix)})  # noqa: S608
        self._fetch("PRAGMA wal_checkpoint(TRUNCATE)")

    def sweep(self, at: int, applied: int) -> int:
        """Deletes expired items; returns how many."""
        with self._transaction():
            self._db.execute("DELETE FROM pending WHERE id <= ?", (applied,))
            rows = self._db.execute(
                f"SELECT items.id, namespaces.id, path, vectors {JOINED} WHERE expires <= ?",
                (at,),
            ).fetchall()
            for item, namespace, path, vectors in rows:
                self._delete(path, namespace, item, vectors)
            self._forget_namespaces({row[1] for row in rows})
        return len(rows)

    def _write_one(self, put: Put) -> int | None:
        """Stores or deletes one item; returns the namespace of a deleted item."""
        path, time = to_path(put.namespace), self._latest
        row = self._db.execute(
            f"SELECT items.id, namespaces.id, vectors {JOINED} WHERE path = ? AND key = ?",
            (path, put.key),
        ).fetchone()
        if put.value is None:
            if row is None:
                return None
            self._delete(path, row[1], row[0], row[2])
            return int(row[1])
        expires = None if put.ttl is None else time + int(put.ttl * MINUTE)
        if row is None:
            self._db.execute("INSERT INTO namespaces (path) VALUES (?) ON CONFLICT DO NOTHING", (path,))
            (namespace,) = self._db.execute("SELECT id FROM namespaces WHERE path = ?", (path,)).fetchone()
            made = self._db.execute(
                "INSERT INTO items (namespace, key, value, created, updated, ttl, expires, vectors) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (namespace, put.key, put.value, time, time, put.ttl, expires, len(put.texts)),
            )
            item, before = made.lastrowid or 0, 0
        else:
            item, namespace, before = row
            self._db.execute(
                "UPDATE items SET value = ?, updated = ?, ttl = ?, expires = ?, vectors = ? WHERE id = ?",
                (put.value, time, put.ttl, expires, len(put.texts), item),
            )
        if before or put.texts:
            self._note(path, namespace, item, before, put.texts, put.vectors.tobytes())
        return None

    def _delete(self, path: str, namespace: int, item: int, vectors: int) -> None:
        self._db.execute("DELETE FROM items WHERE id = ?", (item,))
        if vectors:
            self._note(path, namespace, item, vectors, [], b"")

    def _note(self, path: str, namespace: int, item: int, before: int, texts: Sequence[str], vectors: bytes) -> None:
        self._db.execute(
            "INSERT INTO pending (path, namespace, item, time, before, texts, vectors) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (path, namespace, item, self._latest, before, json.dumps(texts, ensure_ascii=False), vectors),
        )

    def _forget_namespaces(self, ids: set[int]) -> None:
        """Removes namespaces that have no item left."""
        self._db.execute(
            "DELETE FROM namespaces WHERE id IN (SELECT value FROM json_each(?)) "
            "AND NOT EXISTS (SELECT 1 FROM items WHERE items.namespace = namespaces.id)",
            (json.dumps(sorted(ids)),),
        )
