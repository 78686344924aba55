"""A reader that sees what another process writes: the moments of the database that it sees, and what changed between.

Nobody's snapshot is held while nobody asks, so that the writer may empty its journal and give the file a checksum.
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

OLDEST = 0.5  # seconds that a moment lasts while threads ask one after another without a pause
ATTEMPTS, PAUSE = 10, 0.01  # at a folder that its writer changes meanwhile; seconds, more after each
UNKNOWN = -1  # version
SHARE = 0.2  # of all memories: where more changed, all is read anew

Stamp = tuple[int, int, int]


class Moments:
    """The moments of a database that a reader sees: one for all threads that ask at a time.

    Args:
        connection: in mode "follow".
        folder: of the index.
    """

    def __init__(self, connection: Connection, folder: Path) -> None:
        self._connection, self._folder = connection, folder
        self._mutex = threading.Lock()
        self._inside = 0
        self._since = time.monotonic()
        self._held = False  # a snapshot
        self._stamp = _stamp(folder)
        connection.end_snapshot()

    @contextmanager
    def one(self) -> Iterator[bool]:
        """Has the database stay as it is; whether that is recent enough, and the folder has the same database."""
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
        """Goes on to now, and stays there for the next who asks. Nobody may be reading."""
        with self._mutex:
            self._stamp = _stamp(self._folder)
            self._renew()

    def _renew(self) -> None:
        self._held, self._since = False, time.monotonic()
        self._connection.renew_snapshot()
        self._held = True


def _stamp(folder: Path) -> Stamp | None:
    """Changes when the manifest does, which names the database."""
    try:
        found = (folder / MANIFEST).stat()
    except OSError:
        return None  # the database goes on answering
    return found.st_ino, found.st_mtime_ns, found.st_size


class FollowingStore(Store):
    """A store that may be read while another process writes to it."""

    indexes: KeyIndexes
    _database: SQLiteDatabase | None
    _moments: Moments | None  # of one that follows its writer
    _restored: bool  # the ANN index is another's, and cannot be changed
    _source: Path | None
    _version: int  # of the database, that the copies in memory are of

    @abstractmethod
    def _view_database(self, database: SQLiteDatabase) -> None:
        """Has readers see what the database holds, of which all else is built anew."""

    @property
    @abstractmethod
    def database(self) -> SQLiteDatabase:
        """The database."""

    def catch_up(self) -> bool:
        """Has readers see the folder as it is now; returns whether anything was new. Nobody may read meanwhile.

        Raises:
            IndexClosed: after ``close``.
            InvalidInput: it is in memory.
            IndexFormatError: it is damaged, gone, or another index.
        """
        if not self.database.read_only:
            if self.folder is None:
                raise InvalidInput(
                    "refresh() was called of an index in memory.",
                    "one that open() read from a folder with read_only=True",
                    "Open the folder with read_only=True, or load() it again.",
                )
            return False  # nobody else writes
        for attempt in range(ATTEMPTS):
            # weights that the database names may be gone, if the writer fitted again meanwhile
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
        self._version = UNKNOWN  # whoever is interrupted reads everything anew
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
        """Whether taking them in costs less than reading everything anew."""
        if self._restored and changes.rows:
            return False
        steps = len(changes.grown) + len(changes.removed)
        return len(changes.rows) <= SHARE * len(self.similar) and steps <= SHARE * len(self.links) + 1

    def _replace(self, database: SQLiteDatabase, manifest: Manifest) -> None:
        """Goes over to another database of the same folder."""
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
    """Has ANN indexes and links follow.

    Args:
        database: as it is after them.
        indexes: as they were before.
        links: the same.
        changes: in between; f is the same.
        dim: d.
        width: of whole keys; d before ``fit``.
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
