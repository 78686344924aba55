"""Writes a folder under a hidden name, renames it when it is complete, and removes the remains of killed processes.

The hidden folder is .NAME-<random>/index, beside the folder NAME. A mounted folder cannot be replaced; then the hidden
folder is inside it. A lock shows whether the process that writes the hidden folder is alive.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from pam_retriever.errors import IndexLocked, StorageError
from pam_retriever.store.faults import explained
from pam_retriever.store.folder.files import discard, matching, sync
from pam_retriever.store.folder.lock import NAME, WriterLock
from pam_retriever.store.folder.manifest import MANIFEST

INSIDE = "index"
OF_A_FILE_SYSTEM = "lost+found"  # every new ext4 file system has one


def make_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Writes a folder completely or not at all. An empty folder may exist."""
    with explained(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _hidden(folder) as made:
            write(made)
            if _is_mount(folder):
                _move_contents(made, folder)
                return
            if folder.exists():
                folder.rmdir()  # empty: Windows does not replace folders
            made.replace(folder)
        sync(folder.parent)


def _move_contents(made: Path, folder: Path) -> None:
    """Moves all files of a folder to another one, the manifest last; after an error none stays there."""
    moved: list[Path] = []
    try:
        for path in sorted(made.iterdir(), key=lambda path: path.name == MANIFEST):
            moved.append(folder / path.name)
            path.replace(moved[-1])
    except BaseException:
        for path in moved:
            discard(path)
        raise
    sync(folder)


def is_empty(folder: Path) -> bool:
    """Returns whether a folder is missing or empty. Remains of killed processes in a mounted folder do not count."""
    with explained(folder):
        if not folder.exists():
            return True
        mounted = _is_mount(folder)
        return all(mounted and (at.name == OF_A_FILE_SYSTEM or _is_hidden(at, folder)) for at in folder.iterdir())


def remove_abandoned(folder: Path) -> None:
    """Deletes the hidden folders of killed processes, but not the hidden folder of a running process."""
    try:
        left = matching(_parent(folder), f".{escape(folder.name)}-*")
    except PermissionError:  # a process that may not list the parent may still use this folder
        return
    for path in left:
        if not _is_hidden(path, folder):
            continue
        try:
            lock = WriterLock(path)
        except (IndexLocked, StorageError):  # a live process writes it, or it is read-only
            continue
        shutil.rmtree(path, ignore_errors=True)
        lock.release()


@contextmanager
def _hidden(folder: Path) -> Iterator[Path]:
    """Creates a hidden folder, and removes it afterwards."""
    made, lock = _make_locked(folder)
    try:
        (made / INSIDE).mkdir()
        yield made / INSIDE
    finally:
        shutil.rmtree(made, ignore_errors=True)
        lock.release()
        shutil.rmtree(made, ignore_errors=True)  # ``remove_abandoned`` may have created the lock again


def _make_locked(folder: Path) -> tuple[Path, WriterLock]:
    """Creates a hidden folder with a lock. Before the folder is locked, another process may delete it as abandoned."""
    while True:
        # not TemporaryDirectory: a child forked meanwhile would delete it
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=_parent(folder)))
        try:
            return made, WriterLock(made)
        except BaseException as error:
            taken = isinstance(error, IndexLocked) or (isinstance(error, StorageError) and not made.exists())
            shutil.rmtree(made, ignore_errors=True)
            if not taken:
                raise


def _is_hidden(path: Path, folder: Path) -> bool:
    """Returns whether a path is a hidden folder of ``folder``, by its name and by its contents."""
    if not re.fullmatch(rf"\.{re.escape(folder.name)}-\w{{8}}", path.name) or path.is_symlink() or not path.is_dir():
        return False
    within = {at.name for at in matching(path, "*")}
    return NAME in within and within <= {NAME, INSIDE}


def _parent(folder: Path) -> Path:
    return folder if _is_mount(folder) else folder.parent


def _is_mount(folder: Path) -> bool:
    return os.path.ismount(folder)
