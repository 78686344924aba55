"""Errors of the disk and of SQLite, translated to errors of this library."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pam_retriever.errors import IndexClosed, IndexFormatError, IndexLocked, PAMError, StorageError

ADVICE = {
    errno.ENOSPC: "Make room on the disk and call again.",
    errno.EDQUOT: "Make room within the quota and call again.",
    errno.EROFS: "Make the folder writable, or open it with read_only=True.",
    errno.EACCES: "Check who may read and write there, or open it with read_only=True.",
    errno.EPERM: "Check who may write there, or open it with read_only=True.",
    errno.ENOENT: "Restore the folder, or save() the index to a new one.",
    errno.ENOTDIR: "Give the path of a folder: this one, or one above it, is a file.",
    errno.ENOTEMPTY: "Another process made it just now: call again.",
    errno.ENOLCK: "Put the folder on a disk with file locks, or open it with read_only=True.",
    errno.ENAMETOOLONG: "Give the folder a shorter name.",
    errno.EMFILE: "Raise the limit of open files (ulimit -n), or close what is not needed, and call again.",
    errno.EFBIG: "Raise the limit on the size of files and call again.",
}
# SQLite's messages (its error codes are only in Python 3.11 and later)
SQLITE_ADVICE = {
    "full": "Make room on the disk, and in the folder for temporary files (TMPDIR), and call again.",
    "readonly": ADVICE[errno.EROFS],
    "disk I/O error": "Check the disk: its health, its room, that the folder is still there, and that"
    " the folder for temporary files (TMPDIR) can be written.",
    "unable to open": "Check who may write there, and in the folder for temporary files (TMPDIR), or open it with"
    " read_only=True.",
}
# bytes; SQLite takes 512 with the ends of the names of its journals, and says only that it cannot open
LONGEST_PATH = 504
DAMAGE = ("malformed", "decode", "file format")
CALLED = "user-defined function raised exception"  # SQLite's message for an error of a Python function that it called

_FAILED = object()  # no SQL value, so SQLite reports an error
_of_function = threading.local()  # ``error``: the error of such a function, such as an interrupt


class explained:  # noqa: N801 - a context manager; around every statement, so no generator, which takes longer
    """Turns errors of the disk and of SQLite into errors of this library that name a remedy.

    Args:
        path: the file or folder in use; None for a database in memory.

    Raises:
        StorageError: the disk is full or read-only, a file is gone, or may not be written.
        IndexFormatError: SQLite finds the file damaged.
        IndexLocked: another process keeps the database locked.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, PAMError):
            return
        if isinstance(error, sqlite3.OperationalError) and CALLED in str(error):
            own = vars(_of_function).pop("error", None)
            if own is not None:
                raise own from None
        fault = _as_pam_error(error, self._path)
        if fault is not None:
            raise fault from error


def for_sqlite(function: Callable[[str | None], str | None]) -> Callable[..., Any]:
    """Returns a function that SQLite may call: ``explained`` raises its errors in place of SQLite's own error.

    While SQLite runs, an interrupt waits for Python code, so it arrives before the first line of a function that SQLite
    calls. A generator goes on inside its ``try``, which therefore sees the interrupt.
    """
    calls = _answers(function)
    next(calls)
    return calls.send


def _answers(function: Callable[[str | None], str | None]) -> Generator[object, str | None, None]:
    answer: object = None
    while True:
        try:
            while True:
                answer = function((yield answer))
        except GeneratorExit:  # noqa: PERF203
            return
        except BaseException as error:  # noqa: BLE001 - ``explained`` raises it
            _of_function.error, answer = error, _FAILED


def _as_pam_error(error: BaseException, path: Path | None) -> PAMError | None:
    """Returns the error that names a remedy; None for other errors."""
    if isinstance(error, sqlite3.DatabaseError):
        return _of_sqlite(error, path)
    if isinstance(error, UnicodeDecodeError):
        return _damaged(path, str(error))
    if not isinstance(error, OSError):
        return None
    advice = ADVICE.get(error.errno or 0, "Check the disk.")
    reason = os.strerror(error.errno) if error.errno else str(error)
    return StorageError(
        f"{error.filename or path}: {reason}.", "a folder that can be written; the index is as it was", advice
    )


def _of_sqlite(error: sqlite3.DatabaseError, path: Path | None) -> PAMError | None:
    words, where = str(error), path or "The database in memory"
    if "locked" in words:
        return IndexLocked(f"{where} is locked by another process.", "one writer at a time", "Close it there.")
    if path is not None and "unable to open" in words and (length := len(os.fsencode(path.absolute()))) > LONGEST_PATH:
        return StorageError(
            f"The path {path} has {length} bytes.",
            f"at most {LONGEST_PATH} bytes, the limit of SQLite",
            "Use a folder with a shorter path.",
        )
    for symptom, advice in SQLITE_ADVICE.items():
        if symptom in words:
            return StorageError(f"{where}: {words}.", "a folder that can be written; the index is as it was", advice)
    if type(error) is sqlite3.DatabaseError or any(symptom in words for symptom in DAMAGE):
        return _damaged(path, words)
    return None


def _damaged(path: Path | None, words: str) -> IndexFormatError:
    return IndexFormatError(
        f"{path or 'The database in memory'} is damaged ({words}).",
        "an index's SQLite file",
        "Run pam-retriever check on the folder, and restore it from a copy or repair it.",
    )


@contextmanager
def after_commit(stored: str, then: str = "") -> Iterator[None]:
    """Adds to errors of the disk which part of a call was committed before them.

    Args:
        stored: a sentence that says what is stored.
        then: a sentence that says what to do when the disk has space again.
    """
    try:
        yield
    except StorageError as error:
        fix = f"{error.fix} {then}".rstrip()
        raise StorageError(f"{error.got} {stored}", "a disk that takes all of it", fix) from error


def closed_error() -> IndexClosed:
    """Returns the error for a call on a closed store."""
    return IndexClosed("The index is closed.", "an open index", "open() or load() it again.")
