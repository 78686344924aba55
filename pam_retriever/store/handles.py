"""Files that SQLite has open are not closed beside it.

POSIX drops all locks of a process on a file when the process closes any descriptor of it, SQLite's locks included
(sqlite.org/howtocorrupt.html, 2.2). So a database that was opened to be checked stays open as long as a
connection does.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from pam_retriever.store.forking import call_in_child

Inode = tuple[int, int]

_mutex = threading.RLock()  # a connection may be collected, and so closed, wherever this thread is
_connections: Counter[Inode] = Counter()
_waiting: dict[Inode, list[BinaryIO]] = {}  # open, and read by nobody


def connected(inode: Inode) -> None:
    """SQLite has the file open, once more."""
    with _mutex:
        _connections[inode] += 1


def disconnected(inode: Inode) -> None:
    """SQLite has closed it."""
    with _mutex:
        _connections[inode] -= 1
        if not _connections[inode]:
            del _connections[inode]
            for file in _waiting.pop(inode, []):
                file.close()


def read(path: Path) -> BinaryIO:
    """A file to be read from its beginning: one that waits to be closed, or a new one. To be handed to ``close``."""
    found = path.stat()
    with _mutex:
        waiting = _waiting.get((found.st_dev, found.st_ino))
        file = waiting.pop() if waiting else None
    if file is None:
        return path.open("rb")
    file.seek(0)
    return file


def close(file: BinaryIO) -> None:
    """Closes a file that was read, now or when SQLite has closed it."""
    found = os.fstat(file.fileno())
    inode = found.st_dev, found.st_ino
    with _mutex:
        if inode in _connections:
            _waiting.setdefault(inode, []).append(file)
        else:
            file.close()


def _in_child() -> None:
    """The parent's connections hold nothing here, and its locks are not this process's to lose."""
    global _mutex
    _mutex = threading.RLock()
    _connections.clear()
    _waiting.clear()


call_in_child(_in_child)
