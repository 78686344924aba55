"""A folder that is open for writing: its lock, and the checksum of its database between changes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pam_retriever.errors import PAMError
from pam_retriever.locks import Mutex
from pam_retriever.store.faults import explained
from pam_retriever.store.folder.companions import check_companions, check_links, holds_log
from pam_retriever.store.folder.files import check_file, checksum_of, matching
from pam_retriever.store.folder.lock import NAME, WriterLock
from pam_retriever.store.folder.manifest import FORMAT_VERSION, MANIFEST, Manifest, read_manifest, write_manifest
from pam_retriever.store.folder.tenants import locked_folder_of, remove_other_tenants, root_of
from pam_retriever.store.sqlite.connection import Connection
from pam_retriever.store.sqlite.damage import check_everything
from pam_retriever.store.sqlite.database import SQLiteDatabase


class WritableManifest:
    """The manifest of a folder that is open for writing. It contains the checksum until the first write.

    Args:
        folder: folder of the index.

    Attributes:
        manifest: the manifest in the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.manifest = folder, read_manifest(folder)
        self._mutex = Mutex()  # a tenant may be created while another thread writes for the first time

    @property
    def whole(self) -> bool:
        """Whether the manifest has the checksum of the database."""
        return self.manifest["database_sha256"] is not None

    def lift(self) -> None:
        """Removes the checksum before the first write: after a kill it would report false damage."""
        if self.whole:
            self.set(None)

    def set(self, sha256: str | None) -> None:
        """Writes the manifest with this checksum."""
        with self._mutex:
            self._write({**self.manifest, "database_sha256": sha256})

    def name_tenants(self, name: str) -> None:
        """Writes the name of the folder of the tenants to the manifest."""
        with self._mutex:
            self._write({**self.manifest, "tenants": name})

    def bring_up_to_date(self) -> None:
        """Writes the format version of the database to the manifest."""
        with self._mutex:
            if self.manifest["format_version"] < FORMAT_VERSION:
                self._write({**self.manifest, "format_version": FORMAT_VERSION})

    def _write(self, manifest: Manifest) -> None:
        write_manifest(self._folder, manifest)
        self.manifest = manifest


class WritableFolder:
    """A folder that is open for writing. Until ``close``, no other object can open it for writing.

    Args:
        folder: of an index: nothing but the lock may be written into another folder.
        timeout: seconds to wait for another writer.
        lock: the lock of the index, for one of its tenants; ``close`` does not release it. None: take one.

    Attributes:
        database: the database in the folder.
        bare: whether the folder had only a manifest, a database and the lock: no call has left anything to remove.

    Raises:
        IndexFormatError: the folder is damaged, or no index.
        IndexLocked: another index has the folder open for writing.
        StorageError: the folder cannot be written to.
    """

    def __init__(self, folder: Path, timeout: float = 0.0, lock: WriterLock | None = None) -> None:
        self.folder, self._shares_lock = folder, lock is not None
        names = check_links(folder)
        self._lock: WriterLock | None = lock or WriterLock(locked_folder_of(folder), timeout)
        try:
            self._seal = WritableManifest(folder)
            if lock is None:  # until now another writer may have had it
                names = check_links(folder)
            self.bare = names <= {MANIFEST, NAME, self.manifest["database"]}
            if not self.bare:
                remove_unfinished(folder)
                remove_other_tenants(folder, root_of(folder, self.manifest))
            self.database = self._open()
            if not self.bare:
                remove_other_databases(folder, keep=str(self.manifest["database"]))
        except BaseException:
            self._release()
            raise

    @property
    def manifest(self) -> Manifest:
        """The manifest in the folder."""
        return self._seal.manifest

    @property
    def lock(self) -> WriterLock:
        """The lock that excludes other writers."""
        assert self._lock is not None
        return self._lock

    @property
    def untouched(self) -> bool:
        """Whether the folder was bare and nothing was written to its database since."""
        return self.bare and self._seal.whole

    def name_tenants(self, name: str) -> None:
        """Writes the name of the folder of the tenants to the manifest."""
        self._seal.name_tenants(name)

    def _open(self) -> SQLiteDatabase:
        path, sha256 = self.folder / str(self.manifest["database"]), self.manifest["database_sha256"]
        check_companions(path, sealed=sha256 is not None)
        later = sha256 if not self.bare and has_cache(self.folder) else None
        check_file(path, None if later else sha256)
        self._sha256, self._stamp = sha256, _stamp(path)
        try:
            immutable = sha256 is not None and later is None
            database = SQLiteDatabase(path, "write", later, before_change=self._seal.lift, immutable=immutable)
        except PAMError:
            self._say_checksum()
            raise
        self._seal.bring_up_to_date()
        with database.closed_on_error():
            if sha256 is None:  # the last writer was killed
                check_everything(database.connection)
                if holds_log(path):
                    _end_log(database.connection)
        return database

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Closes the folder if the block raises."""
        try:
            yield
        except BaseException:
            self._leave()
            raise

    def close(self) -> None:
        """Closes the database and stores a checksum of its file if it was changed.

        Raises:
            IndexFormatError: the database was damaged when it was opened.
        """
        try:
            self.database.finish_verifying()
        except PAMError:
            self._leave(damaged=True)
            raise
        try:
            self.database.connection.check_there()
            if not self._seal.whole:
                self._settle()
        except PAMError as error:
            # all acknowledged writes are on the disk; only the next ``open`` has to verify every memory
            warnings.warn(f"The index was closed without a checksum: {error}", RuntimeWarning, stacklevel=3)
        finally:
            self.database.close()
            self._release()

    def _settle(self) -> None:
        """Closes a database that was written to, and stores a checksum of its file."""
        if self.database.holds_removed:
            self.database.erase_removed()
        settled = self.database.connection.settle()
        self.database.close()
        if self._as_it_was():
            self._say_checksum()
        elif settled:
            self._sha256 = checksum_of(self.folder / str(self.manifest["database"]))
            self._say_checksum()

    def abandon(self) -> None:
        """Releases the folder without further writes. Does nothing on a closed folder."""
        self.database.close()
        self._release()

    def _release(self) -> None:
        if not self._shares_lock:
            self.lock.release()
        else:
            self._lock = None  # if the index was dropped without ``close``, the last of its tenants releases the lock

    def _leave(self, damaged: bool = False) -> None:
        """Closes a folder that cannot be used. A damaged database keeps its checksum for the next open."""
        self.database.close()
        try:
            if damaged or self._as_it_was():
                self._say_checksum()
        finally:
            self._release()

    def _as_it_was(self) -> bool:
        """Whether nothing was written to the database since it was opened."""
        path = self.folder / str(self.manifest["database"])
        return self._sha256 is not None and not self.database.connection.changed and _stamp(path) == self._stamp

    def _say_checksum(self) -> None:
        if self.manifest["database_sha256"] != self._sha256:
            self._seal.set(self._sha256)


def has_cache(folder: Path) -> bool:
    """Whether the folder may have a saved index that can answer before the database is verified; see ``ann_cache``."""
    return bool(matching(folder, "ann-*.faiss"))


def remove_unfinished(folder: Path) -> None:
    """Deletes unfinished files of a killed call. The caller holds the lock."""
    with explained(folder):
        for path in matching(folder, "*.new", "*.new-*"):
            if not path.is_dir():  # the folder of a tenant
                path.unlink(missing_ok=True)


def remove_other_databases(folder: Path, keep: str) -> list[str]:
    """Deletes databases that the manifest does not name. Returns the files that stay. The caller holds the lock.

    A ``save`` over this index that was killed leaves the database that it replaced, or the one that it wrote.
    """
    others = [path for path in matching(folder, "memories-*.sqlite*") if not path.name.startswith(keep)]
    for path in others:
        with suppress(OSError):  # no answer depends on such a file, and the next open tries again
            path.unlink(missing_ok=True)
    return [path.name for path in others if path.exists()]


def _end_log(connection: Connection) -> None:
    """Overwrites what follows the last commit that this process sees in the write-ahead log.

    A kill may come after a commit was written to the log and before SQLite told other processes of it. While a reader
    is connected, nobody sees that commit; it would appear as soon as the log is read as a whole.
    """
    with connection.transaction():
        pass


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
