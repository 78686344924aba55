"""One writer per folder: a lock that the system releases when its process ends, however it ends."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import weakref
from datetime import datetime, timezone
from pathlib import Path

from pam_retriever.errors import IndexLocked
from pam_retriever.store.faults import explained
from pam_retriever.store.forking import tell_of_forks

NAME = "writer.lock"
NOTE_LIMIT = 1_000  # bytes; the note names the holder of the lock
ASKED_EVERY = 0.01  # seconds between attempts of a waiting process

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # beyond the note, which stays readable
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


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
        self._descriptor = -1
        while True:
            try:
                self._descriptor = self._take(folder)
            except IndexLocked:
                if time.monotonic() >= until:
                    raise
                time.sleep(ASKED_EVERY)
                continue
            # the previous holder removes the file; a descriptor opened before that locks nothing
            if _is_there(self._descriptor, self._path):
                break
            os.close(self._descriptor)
        # an index may be dropped without ``close``
        self._letting_go = weakref.finalize(self, _release, self._descriptor, self._path)
        self._letting_go.atexit = False
        tell_of_forks(self, folder=True)
        note = {
            "pid": os.getpid(),
            "host": platform.node(),
            "since": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        try:
            with explained(self._path):
                os.ftruncate(self._descriptor, 0)
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                os.write(self._descriptor, json.dumps(note).encode())
        except BaseException:
            self.release()
            raise

    def _take(self, folder: Path) -> int:
        with explained(folder):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            _lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            raise IndexLocked(
                f"The index at {folder} is open for writing in {holder(folder)}.",
                "one writer at a time",
                "Close it there, or open this one with read_only=True.",
            ) from error
        return descriptor

    def release(self) -> None:
        """Releases the lock. A second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        self._letting_go.detach()
        if descriptor >= 0:
            _release(descriptor, self._path)

    # ---- forks, see ``forking``: the child's copy of the descriptor would keep the lock after the parent ends

    def hold_still(self, timeout: float) -> bool:  # noqa: ARG002
        return True

    def go_on(self) -> None:
        """Does nothing: ``hold_still`` holds nothing."""

    def in_child(self, still: bool) -> None:  # noqa: ARG002
        descriptor, self._descriptor = self._descriptor, -1
        self._letting_go.detach()
        if descriptor >= 0:
            os.close(descriptor)


def _release(descriptor: int, path: Path) -> None:
    if sys.platform != "win32" and _is_there(descriptor, path):  # Windows does not remove open files
        path.unlink(missing_ok=True)
    os.close(descriptor)


def _is_there(descriptor: int, path: Path) -> bool:
    """Whether the path still names the file that was opened."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def holder(folder: Path) -> str:
    """Returns a description of the process that has a folder open for writing."""
    try:
        with (folder / NAME).open("rb") as file:
            note = json.loads(file.read(NOTE_LIMIT))
        return f"process {int(note['pid'])} on {str(note['host'])!r} since {note['since']}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
