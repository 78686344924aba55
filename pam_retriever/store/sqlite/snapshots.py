"""The snapshots of a reader that sees the writes of another process.

A snapshot is held only during queries. So the writer can empty its journal and store a checksum of the file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pam_retriever.locks import Mutex
from pam_retriever.store.folder.manifest import MANIFEST
from pam_retriever.store.sqlite.connection import Connection

OLDEST = 0.5  # seconds that a snapshot lasts while queries of several threads overlap without a pause

Stamp = tuple[int, int, int]


class Snapshots:
    """The snapshots of the database that a reader sees: one at a time for all threads.

    Args:
        connection: in mode "follow".
        folder: of the index.
    """

    def __init__(self, connection: Connection, folder: Path) -> None:
        self._connection, self._folder = connection, folder
        self._mutex = Mutex()
        self._inside = 0
        self._since = time.monotonic()
        self._open = False  # whether a snapshot is held
        self._stamp = _stamp(folder)
        connection.end_snapshot()

    @contextmanager
    def one(self) -> Iterator[bool]:
        """Holds a snapshot; yields whether it is recent and the folder still has the same database."""
        with self._mutex:
            old = time.monotonic() - self._since > OLDEST
            if not self._inside and (old or not self._open):
                self._renew()
                old = False
            self._inside += 1
        try:
            same = self._stamp is not None and self._stamp == _stamp(self._folder)
            yield not old and same and self._connection.in_place()
        finally:
            with self._mutex:
                self._inside -= 1
                if not self._inside:
                    self._open = False
                    self._connection.end_snapshot()

    def renew(self) -> None:
        """Takes a new snapshot and keeps it for the next query. Nobody may be reading."""
        with self._mutex:
            self._stamp = _stamp(self._folder)
            self._renew()

    def release(self) -> None:
        """Releases the snapshot of ``renew``, because no query comes next. Nobody may be reading."""
        with self._mutex:
            self._open = False
            self._connection.end_snapshot()

    def forget(self) -> None:
        """Forgets the state of the folder, so that no snapshot is recent before the next ``renew``."""
        with self._mutex:
            self._stamp = None

    def _renew(self) -> None:
        self._open, self._since = False, time.monotonic()
        self._connection.renew_snapshot()
        self._open = True


def _stamp(folder: Path) -> Stamp | None:
    """Returns the state of the manifest file, which names the database; None if it is gone."""
    try:
        found = (folder / MANIFEST).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
