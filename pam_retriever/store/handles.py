"""Files that SQLite has open are not closed beside it.

POSIX drops all locks of a process on a file when the process closes any descriptor of it, SQLite's locks included
(sqlite.org/howtocorrupt.html, 2.2). So a database that was opened to be checked stays open as long as a
connection does.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from typing import BinaryIO

Inode = tuple[int, int]

_mutex = threading.Lock()
_connections: Counter[Inode] = Counter()
_waiting: dict[Inode, list[BinaryIO]] = {}


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


def close(file: BinaryIO) -> None:
    """Closes a file that was read, now or when SQLite has closed it."""
    found = os.fstat(file.fileno())
    inode = found.st_dev, found.st_ino
    with _mutex:
        if inode in _connections:
            _waiting.setdefault(inode, []).append(file)
        else:
            file.close()
