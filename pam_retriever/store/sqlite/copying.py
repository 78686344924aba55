"""Copies a whole database of SQLite to a file, or from one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from pam_retriever.store.folder import handles
from pam_retriever.store.folder.companions import holds_log

State = tuple[int, int, int, bool]  # inode, bytes, time of the last change in ns, and whether there is a log


def uri_of(path: Path, mode: str) -> str:
    """Returns the URI with which SQLite opens a file, for example with the mode "ro&immutable=1"."""
    # Path.as_uri of Python 3.14 loads urllib.request, with all that the network needs
    return f"file://{quote(os.fsencode(path.absolute()))}?mode={mode}"


def write_copy(source: sqlite3.Connection, path: Path) -> None:
    """Writes a compact copy to a new file: of the snapshot, if there is one."""
    if not source.in_transaction:
        source.execute("VACUUM INTO CAST(? AS TEXT)", [os.fsencode(path)])  # as bytes: a name may be no UTF-8
        return
    with closing(sqlite3.connect(path, isolation_level=None)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.execute("VACUUM")


def read_copy(path: Path, settled: bool, copy: sqlite3.Connection, timeout: float) -> None:
    """Replaces the contents of ``copy`` by those of a file, which is not changed.

    Args:
        path: the file.
        settled: whether nobody writes to it and it has no journal.
        copy: a connection.
        timeout: seconds to wait for a lock of SQLite.
    """
    uri = uri_of(path, "ro&immutable=1" if settled else "ro")
    with closing(sqlite3.connect(uri, uri=True, timeout=timeout)) as source:
        inode = handles.inode_of(path)
        handles.connected(inode)  # another thread that reads the file must not release the locks of this connection
        try:
            source.backup(copy)
        finally:
            source.close()  # before it counts as closed
            handles.disconnected(inode)


def state_of(path: Path) -> State | None:
    """Returns what changes when somebody writes to a database; None if it is gone."""
    try:
        found = path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns, holds_log(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
