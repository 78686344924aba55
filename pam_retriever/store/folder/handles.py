"""Reads files of SQLite without losing its locks.

POSIX drops all locks of a process on a file when the process closes any descriptor of it, SQLite's locks included
(sqlite.org/howtocorrupt.html, 2.2). So a file that was opened for a check stays open until SQLite has closed the
database.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import BinaryIO

from pam_retriever.locks import Mutex
from pam_retriever.store.folder.forking import call_in_child

Inode = tuple[int, int]

_mutex = Mutex()  # reentrant: the garbage collector may close a connection at any point of this thread
_connections: Counter[Inode] = Counter()
_waiting: dict[Inode, list[BinaryIO]] = {}  # open files that no caller uses


def inode_of(path: Path) -> Inode:
    """Returns what identifies a file, whatever its name."""
    found = path.stat()
    return found.st_dev, found.st_ino


def connected(inode: Inode) -> None:
    """Records one more connection of SQLite to the file."""
    with _mutex:
        _connections[inode] += 1


def disconnected(inode: Inode) -> None:
    """Records that SQLite has closed a connection to the file; after the last one, closes the waiting files."""
    with _mutex:
        _connections[inode] -= 1
        if not _connections[inode]:
            del _connections[inode]
            for file in _waiting.pop(inode, []):
                file.close()


def read(path: Path) -> BinaryIO:
    """Opens a file for reading from its beginning, or reuses a file that is still open. The caller calls ``close``."""
    inode = inode_of(path)
    with _mutex:
        waiting = _waiting.get(inode)
        file = waiting.pop() if waiting else None
    if file is None:
        return path.open("rb", buffering=0)  # a buffer would keep what another process has changed since
    file.seek(0)
    return file


def close(file: BinaryIO) -> None:
    """Closes a file now, or after SQLite has closed it."""
    found = os.fstat(file.fileno())
    inode = found.st_dev, found.st_ino
    with _mutex:
        if inode in _connections:
            _waiting.setdefault(inode, []).append(file)
        else:
            file.close()


def _in_child() -> None:
    """Forgets the connections of the parent, which hold no locks in the child."""
    global _mutex
    _mutex = Mutex()
    _connections.clear()
    _waiting.clear()


call_in_child(_in_child)
