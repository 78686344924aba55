"""Items in one SQLite file: the single source of truth of a store, and what its indexes have still to take over.

A write is one transaction over all its items, whatever tenants they belong to. It also leaves a row in ``pending`` for
each change of the indexes. These are applied after the commit, and again when the store is opened, in case the process
ended between the two: each is the wanted state of an item, so that applying it twice does no harm.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
from langgraph.store.base import Item, SearchItem

from langgraph_pam.reading import Namespace, from_json
from pam_retriever import IndexFormatError, StorageError
from pam_retriever.types import Float32

FILE, FORMAT = "items.sqlite", 1
MINUTE = 60_000_000  # microseconds, in which times are stored
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SEPARATOR, AFTER_SEPARATOR = ".", "/"  # of a namespace's labels, which hold none; and the character after it
SCHEMA = """
CREATE TABLE namespaces (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE
);
CREATE TABLE items (
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
CREATE INDEX items_of_namespace ON items (namespace, id);
CREATE INDEX items_expire ON items (expires) WHERE expires IS NOT NULL;
CREATE TABLE pending (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL,
    namespace INTEGER NOT NULL,
    item INTEGER NOT NULL,
    time INTEGER NOT NULL,
    before INTEGER NOT NULL,
    texts TEXT NOT NULL,
    vectors BLOB NOT NULL
);
"""
COLUMNS = "items.id, path, key, value, created, updated, ttl, vectors"
JOINED = "FROM items JOIN namespaces ON namespaces.id = items.namespace"
UNDER = "(:path = '' OR path = :path OR (path > :path || '.' AND path < :path || '/'))"
ALIVE = "(expires IS NULL OR expires > :now)"


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Put:
    """An item to be stored in place of what is there; without a value, to be deleted.

    Attributes:
        namespace: its namespace, not empty.
        key: its key.
        value: its JSON; None deletes.
        ttl: minutes, None for ever.
        texts: n texts that were embedded.
        vectors: (n, d), none of them zeros.
    """

    namespace: Namespace
    key: str
    value: str | None
    ttl: float | None
    texts: Sequence[str]
    vectors: Float32


@dataclass(frozen=True)
class Change:
    """What an index has to take over: the vectors that an item has now.

    Attributes:
        id: rises with each change.
        path: of the namespace, labels joined by dots.
        namespace: its number.
        item: its number.
        time: when that was, in microseconds since 1970; it never falls.
        before: how many vectors it had.
        texts: n texts.
        vectors: their n vectors as float32, one after the other.
    """

    id: int
    path: str
    namespace: int
    item: int
    time: int
    before: int
    texts: list[str]
    vectors: bytes

    def matrix(self) -> Float32:
        """(n, d) the vectors."""
        return np.frombuffer(self.vectors, np.float32).reshape(len(self.texts), -1)


@dataclass(frozen=True)
class Row:
    """A stored item, its value as JSON; times in microseconds, ``ttl`` in minutes."""

    id: int
    path: str
    key: str
    value: str
    created: int
    updated: int
    ttl: float | None
    vectors: int

    def item(self) -> Item:
        """The item, new for each caller."""
        return Item(
            value=from_json(self.value),
            key=self.key,
            namespace=from_path(self.path),
            created_at=as_datetime(self.created),
            updated_at=as_datetime(self.updated),
        )

    def found(self, score: float | None) -> SearchItem:
        """The item as an answer to a search."""
        return SearchItem(
            from_path(self.path),
            self.key,
            from_json(self.value),
            as_datetime(self.created),
            as_datetime(self.updated),
            score,
        )


def to_path(namespace: Namespace) -> str:
    """The labels of a namespace joined by dots."""
    return SEPARATOR.join(namespace)


def from_path(path: str) -> Namespace:
    """The labels of a namespace."""
    return tuple(path.split(SEPARATOR))


def as_datetime(microseconds: int) -> datetime:
    """A stored time, in UTC."""
    return EPOCH + timedelta(microseconds=microseconds)


class Items:
    """The items of a store.

    Args:
        folder: where the file is, or is made; None keeps it in memory.
        clock: microseconds since 1970.

    Raises:
        IndexFormatError: the file is none of this version.
        StorageError: it cannot be opened.
    """

    def __init__(self, folder: Path | None, clock: Callable[[], int] = now) -> None:
        self.clock, self._lock = clock, threading.RLock()
        self._file = ":memory:" if folder is None else str(folder / FILE)
        self._latest = 0
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
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")  # what a call returned is on disk
        self._db.execute("PRAGMA secure_delete = ON")
        self._db.execute("PRAGMA foreign_keys = ON")
        if version == 0:
            self._db.executescript(f"BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;")
        (self._latest,) = self._db.execute("SELECT COALESCE(MAX(updated), 0) FROM items").fetchone()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """One thread at a time, with errors of the library."""
        with self._lock:
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
                self._db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Closes the file; closing twice is harmless."""
        with self._guarded():
            self._db.close()

    # ---- reading

    def get(self, namespace: Namespace, key: str, at: int | None) -> Row | None:
        """An item; with a time ``at``, only one that has not expired by then."""
        with self._guarded():
            row = self._db.execute(
                f"SELECT {COLUMNS} {JOINED} WHERE path = :path AND key = :key AND (:now IS NULL OR {ALIVE})",
                {"path": to_path(namespace), "key": key, "now": at},
            ).fetchone()
        return None if row is None else Row(*row)

    def by_id(self, ids: Iterable[int]) -> dict[int, Row]:
        """Those of the items that are stored, by number."""
        with self._guarded():
            rows = self._db.execute(
                f"SELECT {COLUMNS} {JOINED} WHERE items.id IN (SELECT value FROM json_each(?))",  # noqa: S608
                (json.dumps(list(ids)),),
            ).fetchall()
        return {row[0]: Row(*row) for row in rows}

    def under(
        self, prefix: Namespace, at: int | None, limit: int = -1, offset: int = 0, without_vectors: bool = False
    ) -> list[Row]:
        """The items of all namespaces under a prefix: namespaces and items in the order in which they came."""
        with self._guarded():
            rows = self._db.execute(
                f"SELECT {COLUMNS} {JOINED} WHERE {UNDER} AND (:now IS NULL OR {ALIVE}) "
                "AND (vectors = 0 OR NOT :without) ORDER BY namespaces.id, items.id LIMIT :limit OFFSET :offset",
                {
                    "path": to_path(prefix),
                    "now": at,
                    "without": without_vectors,
                    "limit": min(limit, 2**63 - 1),
                    "offset": min(offset, 2**63 - 1),
                },
            ).fetchall()
        return [Row(*row) for row in rows]

    def namespaces(self, prefix: Namespace = (), at: int | None = None) -> dict[str, int]:
        """Number by path of the namespaces under a prefix; with a time, of those with an item that lives then."""
        with self._guarded():
            rows = self._db.execute(
                f"SELECT path, id FROM namespaces WHERE {UNDER} AND "  # noqa: S608
                f"(:now IS NULL OR id IN (SELECT namespace FROM items WHERE {ALIVE})) ORDER BY id",
                {"path": to_path(prefix), "now": at},
            ).fetchall()
        return dict(rows)

    def expired(self, prefix: Namespace, at: int) -> list[int]:
        """Numbers of the items under a prefix that have expired."""
        with self._guarded():
            rows = self._db.execute(
                f"SELECT items.id {JOINED} WHERE {UNDER} AND expires <= :now",
                {"path": to_path(prefix), "now": at},
            ).fetchall()
        return [id for (id,) in rows]

    def pending(self) -> list[Change]:
        """What the indexes have still to take over, in order."""
        with self._guarded():
            rows = self._db.execute(
                "SELECT id, path, namespace, item, time, before, texts, vectors FROM pending ORDER BY id"
            ).fetchall()
        return [
            Change(id, path, namespace, item, time, before, json.loads(texts), vectors)
            for id, path, namespace, item, time, before, texts, vectors in rows
        ]

    # ---- writing

    def refresh(self, ids: Sequence[int]) -> None:
        """Lets items that expire live as long again, from now on."""
        with self._transaction():
            self._db.execute(
                f"UPDATE items SET expires = ? + CAST(ttl * {MINUTE} AS INTEGER) "  # noqa: S608
                "WHERE ttl IS NOT NULL AND id IN (SELECT value FROM json_each(?))",
                (self.clock(), json.dumps(list(ids))),
            )

    def write(self, puts: Iterable[Put], applied: int) -> None:
        """Stores and deletes items, all or none, and notes what the indexes have to take over.

        Args:
            puts: at most one for each item.
            applied: the last change that the indexes have taken over; those up to it are forgotten.
        """
        with self._transaction():
            self._db.execute("DELETE FROM pending WHERE id <= ?", (applied,))
            self._latest = max(self._latest, self.clock())  # a clock that is set back does not reorder what happened
            emptied = {namespace for put in puts if (namespace := self._write_one(put)) is not None}
            self._forget_namespaces(emptied)

    def settle(self, applied: int) -> None:
        """Forgets the changes that the indexes have taken over."""
        with self._transaction():
            self._db.execute("DELETE FROM pending WHERE id <= ?", (applied,))

    def sweep(self, at: int, applied: int) -> int:
        """Deletes what has expired; returns how many items."""
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
        """Stores or deletes one item; returns the namespace from which one was deleted."""
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
        """Those of which nothing is left."""
        self._db.execute(
            "DELETE FROM namespaces WHERE id IN (SELECT value FROM json_each(?)) "
            "AND NOT EXISTS (SELECT 1 FROM items WHERE items.namespace = namespaces.id)",
            (json.dumps(sorted(ids)),),
        )
