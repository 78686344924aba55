"""A reader that sees the writes of another process: its snapshots of the database, and the changes between them.

A snapshot is held only during queries. So the writer can empty its journal and store a checksum of the file.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from pam_retriever.errors import IndexFormatError, InvalidInput, StorageError
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.store import snapshot
from pam_retriever.store.base import Store
from pam_retriever.store.changes import Changes, changes_between
from pam_retriever.store.connection import Connection
from pam_retriever.store.key_indexes import KeyIndexes
from pam_retriever.store.manifest import MANIFEST, Manifest, read_manifest
from pam_retriever.store.space import read_space
from pam_retriever.store.sqlite_database import SQLiteDatabase

OLDEST = 0.5  # seconds that a snapshot lasts while queries of several threads overlap without a pause
ATTEMPTS, PAUSE = 10, 0.01  # attempts to read a changing folder; seconds, more after each attempt
UNKNOWN = -1  # version
SHARE = 0.2  # of all memories: if more changed, everything is read again

Stamp = tuple[int, int, int]


class Moments:
    """The snapshots of the database that a reader sees: one at a time for all threads.

    Args:
        connection: in mode "follow".
        folder: of the index.
    """

    def __init__(self, connection: Connection, folder: Path) -> None:
        self._connection, self._folder = connection, folder
        self._mutex = threading.Lock()
        self._inside = 0
        self._since = time.monotonic()
        self._held = False  # whether a snapshot is held
        self._stamp = _stamp(folder)
        connection.end_snapshot()

    @contextmanager
    def one(self) -> Iterator[bool]:
        """Holds a snapshot; yields whether it is recent and the folder still has the same database."""
        with self._mutex:
            old = time.monotonic() - self._since > OLDEST
            if not self._inside and (old or not self._held):
                self._renew()
                old = False
            self._inside += 1
        try:
            yield not old and self._stamp == _stamp(self._folder)
        finally:
            with self._mutex:
                self._inside -= 1
                if not self._inside:
                    self._held = False
                    self._connection.end_snapshot()

    def renew(self) -> None:
        """Takes a new snapshot and keeps it for the next query. Nobody may be reading."""
        with self._mutex:
            self._stamp = _stamp(self._folder)
            self._renew()

    def _renew(self) -> None:
        self._held, self._since = False, time.monotonic()
        self._connection.renew_snapshot()
        self._held = True


def _stamp(folder: Path) -> Stamp | None:
    """Returns the state of the manifest file, which names the database; None if it cannot be read."""
    try:
        found = (folder / MANIFEST).stat()
    except OSError:
        return None  # queries are still answered from the database that is open
    return found.st_ino, found.st_mtime_ns, found.st_size


class FollowingStore(Store):
    """A store that may be read while another process writes to it."""

    indexes: KeyIndexes
    _database: SQLiteDatabase | None
    _moments: Moments | None  # of a store that follows its writer
    _restored: bool  # the ANN index was restored from a file and cannot be changed
    _source: Path | None
    _version: int  # of the database for which the copies in memory were made

    @abstractmethod
    def _view_database(self, database: SQLiteDatabase) -> None:
        """Reads the view from the database and builds the copies in memory again."""

    @property
    @abstractmethod
    def database(self) -> SQLiteDatabase:
        """The database."""

    def catch_up(self) -> bool:
        """Updates the view to the current contents of the folder; returns whether they changed. Nobody may read then.

        Raises:
            IndexClosed: after ``close``.
            InvalidInput: the store is in memory.
            IndexFormatError: the folder is damaged, gone, or has another index.
        """
        if not self.database.read_only:
            if self.folder is None:
                raise InvalidInput(
                    "refresh() was called of an index in memory.",
                    "an index that open() read from a folder with read_only=True",
                    "Open the folder with read_only=True, or load() it again.",
                )
            return False  # nobody else writes
        for attempt in range(ATTEMPTS):
            # the weights that the database names may be gone, if the writer fitted again meanwhile
            with suppress(IndexFormatError, StorageError):
                return self._catch_up()
            time.sleep(PAUSE * attempt)
        return self._catch_up()

    def _catch_up(self) -> bool:
        database, folder = self.database, self._source
        assert folder is not None
        connection = database.connection
        if self._moments is None:
            connection.renew_snapshot()
        else:
            self._moments.renew()
        if connection.path is None or connection.path.name != read_manifest(folder)["database"]:
            snapshot.view(folder, self._replace, "read" if self._moments is None else "follow")
            database.close()
            return True
        seen, version = self._version, connection.version
        if seen == version:
            return False
        self._version = UNKNOWN  # after an interrupt, everything is read again
        changes = changes_between(connection.fetch, seen, version)
        if changes is None or changes.refitted or not self._are_few(changes):
            database.memories.follow(None)
            self.space = read_space(database, self.space, self.dim)
            self._view_database(database)
        else:
            if changes.retold:
                database.memories.follow(np.array(sorted(changes.rows), np.int64))
            width = self.dim + (0 if self.predictor is None else self.predictor.config.width)
            take_changes(database, self.indexes, self.links, changes, self.dim, width)
            self._version = version
        return True

    def _are_few(self, changes: Changes) -> bool:
        """Whether applying the changes costs less than reading everything again."""
        if self._restored and changes.rows:
            return False
        steps = len(changes.grown) + len(changes.removed)
        return len(changes.rows) <= SHARE * len(self.similar) and steps <= SHARE * len(self.links) + 1

    def _replace(self, database: SQLiteDatabase, manifest: Manifest) -> None:
        """Switches to another database of the same folder."""
        if manifest["dim"] != self.dim or manifest["backend"] != self.backend:
            raise IndexFormatError(
                f"{self._source} was replaced by another index, with dim={manifest['dim']} and "
                f"backend={manifest['backend']!r}.",
                f"one with dim={self.dim} and backend={self.backend!r}",
                "Close this index and open the folder again.",
            )
        database.verify()
        self._version = UNKNOWN
        self.space = read_space(database, self.space, self.dim)
        self._view_database(database)
        self._database = database
        if self._moments is not None and self._source is not None:
            self._moments = Moments(database.connection, self._source)


def take_changes(
    database: SQLiteDatabase, indexes: KeyIndexes, links: CooccurrenceGraph, changes: Changes, dim: int, width: int
) -> None:
    """Applies changes to ANN indexes and links.

    Args:
        database: the database after the changes.
        indexes: the indexes before the changes.
        links: the links before the changes.
        changes: the changes to apply; they do not include f.
        dim: d.
        width: length of whole keys; d before ``fit``.
    """
    rows = np.array(sorted(changes.rows), np.int64)
    if len(rows):
        there = np.array(sorted(database.memories.contents(rows)), np.int64)
        gone = np.setdiff1d(rows, there, assume_unique=True)
        if len(gone):
            indexes.remove(gone)
            links.remove(gone)
        if len(there):
            indexes.add(there, *database.memories.stored(there, dim, width - dim))
    if changes.removed:
        links.remove_trajectories(sorted(changes.removed))
    steps = [database.trajectories.steps_from(number, changes.grown[number]) for number in sorted(changes.grown)]
    steps = [columns for columns in steps if len(columns[0])]
    if steps:
        rows, numbers, positions, salience = (np.concatenate(column) for column in zip(*steps, strict=True))
        links.append(rows, numbers, positions, salience)
