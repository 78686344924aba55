"""The folders of tenants: each is the folder of an index, inside a folder that the manifest names.

    tenants-<name>/t-<base32 of the tenant's name>/    manifest.json, memories-*.sqlite, ... of that tenant

Names of folders are lower-case letters and digits. So no name of a tenant leads out of the folder, and two names are
two folders on any file system.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pam_retriever.errors import IndexFormatError, InvalidInput
from pam_retriever.store.faults import explained
from pam_retriever.store.folder.files import matching, sync
from pam_retriever.store.folder.manifest import MANIFEST, Manifest, read_manifest, write_manifest
from pam_retriever.store.folder.tenant_names import NAMED, folder_of, name_of
from pam_retriever.store.sqlite.connection import Mode
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.pages import OF_TENANTS

if TYPE_CHECKING:
    from pam_retriever.store.folder.lock import WriterLock
    from pam_retriever.store.folder.writable_folder import WritableFolder

UNFINISHED = ".new"  # suffix of a folder that is being written or removed
Write = Callable[[Path], object]
_empty_database: list[bytes] = []  # the file of one, once there is one


def locked_folder_of(folder: Path) -> Path:
    """Returns the folder whose lock a writer of this index takes: for a tenant the folder of the index around it.

    So one lock excludes other writers from an index and from all of its tenants.
    """
    tenant = folder.resolve()
    index = tenant.parent.parent
    within = NAMED.fullmatch(tenant.parent.name) and name_of(tenant.name) is not None and (index / MANIFEST).exists()
    return index if within else folder


class TenantFolders:
    """The tenants in the folder of an index.

    Args:
        folder: folder of the index.
        writable_folder: the same folder, open for writing; None for reading.
        mode: mode of the database of the index. In "read" and "follow" nothing may be changed, not even in memory.

    Attributes:
        writable: whether tenants can be created and removed.
        read_only: whether tenants must not be changed.
        mode: as given.
    """

    def __init__(self, folder: Path, writable_folder: WritableFolder | None, mode: Mode) -> None:
        self._folder, self._writable_folder = folder, writable_folder
        self.writable, self.read_only, self.mode = writable_folder is not None, mode in ("read", "follow"), mode

    @property
    def lock(self) -> WriterLock:
        """The lock of the index, if it is open for writing: it excludes other writers of the tenants, too."""
        assert self._writable_folder is not None
        return self._writable_folder.lock

    def names(self) -> list[str]:
        """Returns the names of the tenants.

        Raises:
            IndexFormatError: a link is among them.
        """
        return [name for name, _ in tenants_in(self._root())]

    def find(self, name: str) -> Path | None:
        """Returns the folder of a tenant; None if there is none.

        Raises:
            IndexFormatError: it is a link.
        """
        root = self._root()
        if root is None:
            return None
        path = root / folder_of(name)
        return path if _is_folder(path) else None

    def make(self, name: str, write: Write) -> Path:
        """Creates the folder of a tenant, completely or not at all, and returns it."""
        assert self._writable_folder is not None
        with explained(self._folder):
            root = self._root()
            if root is None:
                root = self._folder / f"tenants-{uuid.uuid4().hex[:12]}"
                root.mkdir()
                self._writable_folder.name_tenants(root.name)
            made = self._folder / f"tenant-{uuid.uuid4().hex}{UNFINISHED}"
            try:
                made.mkdir()
                write(made)
                path = made.replace(root / folder_of(name))
            finally:
                shutil.rmtree(made, ignore_errors=True)
            sync(root)
        return path

    def remove(self, name: str) -> bool:
        """Deletes all files of a tenant, or none; returns whether it existed.

        After an interrupt the next call deletes the rest of the files.
        """
        path = self.find(name)
        with explained(self._folder):
            if path is not None:
                path.replace(self._folder / f"tenant-{uuid.uuid4().hex}{UNFINISHED}")
                sync(path.parent)
            for unfinished in matching(self._folder, f"tenant-*{UNFINISHED}"):
                shutil.rmtree(unfinished)
        return path is not None

    def _root(self) -> Path | None:
        manifest = read_manifest(self._folder) if self._writable_folder is None else self._writable_folder.manifest
        return root_of(self._folder, manifest)


def write_empty(folder: Path, manifest: Manifest) -> None:
    """Writes the files of an empty index into a folder. A copied database costs less than a new one."""
    path = folder / str(manifest["database"])
    if _empty_database:
        path.write_bytes(_empty_database[0])
    else:
        SQLiteDatabase(path, page_size=OF_TENANTS).close()
        _empty_database.append(path.read_bytes())
    sync(path)
    write_manifest(folder, manifest)


def root_of(folder: Path, manifest: Manifest) -> Path | None:
    """Returns the folder that holds the tenants of an index; None if the index has no tenants.

    Raises:
        IndexFormatError: the folder is missing, or a link.
    """
    named = manifest.get("tenants")
    if named is None:
        return None
    path = folder / named
    if not _is_folder(path):
        raise IndexFormatError(f"{path} is missing.", "the folder of the tenants", "Restore it from a copy.")
    return path


def tenants_in(root: Path | None) -> list[tuple[str, Path]]:
    """Returns (name, folder) of the tenants in a folder, by name.

    Raises:
        IndexFormatError: a link is among them.
    """
    if root is None:
        return []
    found = []
    with explained(root):
        for path in root.iterdir():
            name = name_of(path.name)
            if name is not None:
                _refuse_link(path)
                found.append((name, path))
    return sorted(found)


def remove_other_tenants(folder: Path, root: Path | None) -> None:
    """Deletes tenants of a replaced index, and unfinished folders of a killed call, but not the tenants in ``root``."""
    with explained(folder):
        for path in matching(folder, "tenants-*", f"tenant-*{UNFINISHED}"):
            if path != root and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)


def write_tenants(folder: Path, taken: str | None, write: Write) -> str | None:
    """Writes the folder of the tenants of a copy; returns its name, None if there are no tenants.

    The same tenants give the same name.

    Args:
        folder: of the index.
        taken: a name that must not be used.
        write: writes the folders of all tenants into the given folder, and flushes its entries to the disk.
    """
    made = folder / f"tenants-{uuid.uuid4().hex}{UNFINISHED}"
    try:
        made.mkdir()
        write(made)
        tenants = tenants_in(made)
        if not tenants:
            return None
        digest = hashlib.sha256()
        for name, path in tenants:
            digest.update(f"{name}\0{read_manifest(path)['database_sha256']}\0".encode())
        named = f"tenants-{digest.hexdigest()[:12]}"
        if named == taken:
            named = f"tenants-{digest.hexdigest()[12:24]}"
        made.replace(folder / named)
        return named
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise _link_error(path)


def _is_folder(path: Path) -> bool:
    """Returns whether there is a folder; refuses a link. One look at the disk answers both."""
    with explained(path):
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
    if stat.S_ISLNK(mode):
        raise _link_error(path)
    return stat.S_ISDIR(mode)


def _link_error(path: Path) -> IndexFormatError:
    return IndexFormatError(
        f"{path} is a link.", "a folder of the index itself", "Put the folder that it leads to in its place."
    )


def no_tenants(backend: str) -> InvalidInput:
    """Returns the error for a call of ``tenant`` on a store that cannot have tenants."""
    return InvalidInput(
        f"Got tenant(...) on an index in {backend!r}.",
        "an index in a folder or in memory",
        "In an engine give each tenant an index of its own: another schema=... or prefix=... of the backend.",
    )
