"""A lock for the single writer of a folder. The system releases it when the process ends, for any reason."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import weakref
from datetime import datetime, timezone
from io import FileIO
from pathlib import Path

from pam_retriever.errors import IndexLocked
from pam_retriever.store.faults import explained
from pam_retriever.store.folder.forking import tell_of_forks

NAME = "writer.lock"
NOTE_LIMIT = 1_000  # bytes; the note names the holder of the lock
ASKED_EVERY = 0.01  # seconds between attempts of a waiting process
HELD = (BlockingIOError, PermissionError)  # the errors if another process holds the lock; Windows raises the second

if sys.platform == "win32":
    import msvcrt

    def _lock(file: FileIO) -> None:
        file.seek(1 << 30)  # beyond the note, which stays readable
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(file: FileIO) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class WriterLock:
    """The lock of a folder for one writer, held until ``release`` or the end of the process.

    Args:
        folder: of the index.
        timeout: seconds to wait for another holder.

    Raises:
        IndexLocked: another index holds the lock. The message names its process and host.
        StorageError: the folder cannot be written to.
    """

    def __init__(self, folder: Path, timeout: float = 0.0) -> None:
        self._path, until = folder / NAME, time.monotonic() + timeout
        while True:
            try:
                # closing the file releases the lock, also if an interrupt drops the file; a second close does nothing
                self._file = self._take(folder)
            except IndexLocked:
                if time.monotonic() >= until:
                    raise
                time.sleep(ASKED_EVERY)
                continue
            # the previous holder removes the file; a lock of a removed file excludes nobody
            if _is_there(self._file, self._path):
                break
            self._file.close()
        # an index may be dropped without ``close``
        weakref.finalize(self, _release, self._file, self._path).atexit = False
        tell_of_forks(self, folder=True)
        note = {
            "pid": os.getpid(),
            "host": platform.node(),
            "since": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        try:
            with explained(self._path):
                self._file.seek(0)
                written = self._file.write(json.dumps(note).encode())
                # ext4 writes a file that was truncated first to the disk when it is closed: 4 ms
                if os.fstat(self._file.fileno()).st_size > written:  # the note of a killed process
                    self._file.truncate(written)
        except BaseException:
            self.release()
            raise

    def _take(self, folder: Path) -> FileIO:
        with explained(folder):
            file = FileIO(self._path, "r+b", opener=_open)
            try:
                _lock(file)
            except BaseException as error:
                file.close()
                if not isinstance(error, HELD):
                    raise
                raise IndexLocked(
                    f"The index at {folder} is open for writing in {holder(folder)}.",
                    "one writer at a time",
                    "Close it there, or open this one with read_only=True.",
                ) from error
        return file

    def release(self) -> None:
        """Releases the lock. A second call does nothing, or completes a call that was interrupted."""
        _release(self._file, self._path)

    # ---- forks, see ``forking``: the child's copy of the descriptor would keep the lock after the parent ends

    def hold_still(self, timeout: float) -> bool:  # noqa: ARG002
        return True

    def go_on(self) -> None:
        """Does nothing: ``hold_still`` holds nothing."""

    def in_child(self, still: bool) -> None:  # noqa: ARG002
        self._file.close()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _release(file: FileIO, path: Path) -> None:
    if file.closed:
        return
    if sys.platform != "win32" and _is_there(file, path):  # Windows does not remove open files
        path.unlink(missing_ok=True)
    file.close()


def _is_there(file: FileIO, path: Path) -> bool:
    """Whether the path still names the file that was opened."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


def holder(folder: Path) -> str:
    """Returns a description of the process that has a folder open for writing."""
    try:
        with (folder / NAME).open("rb") as file:
            note = json.loads(file.read(NOTE_LIMIT))
        return f"process {int(note['pid'])} on {str(note['host'])!r} since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return "another process"
