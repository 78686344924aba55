"""Reads a whole folder, also while a writer changes it, and writes a copy of an index to a folder.

    manifest.json              format version, dimension, which database, its checksum
    memories-<name>.sqlite     records, vectors, trajectories, settings
    predictor-<name>.safetensors
    writer.lock                while an index is open for writing

A file is written under a new name and fsynced. Only then does an atomic write name it: the manifest names the database,
a setting in the database names the weights. So the manifest always leads to one complete index.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pam_retriever.errors import IndexFormatError, InvalidInput, PAMError, StorageError
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.store.faults import explained
from pam_retriever.store.folder.companions import check_companions, check_links, holds_log
from pam_retriever.store.folder.files import check_file, checksum_of, discard, matching, sync
from pam_retriever.store.folder.lock import WriterLock
from pam_retriever.store.folder.manifest import MANIFEST, Manifest, read_manifest, write_manifest
from pam_retriever.store.folder.tenants import (
    UNFINISHED,
    Write,
    locked_folder_of,
    remove_other_tenants,
    root_of,
    write_tenants,
)
from pam_retriever.store.folder.unfinished import is_empty, make_folder, remove_abandoned
from pam_retriever.store.folder.weights import PackedPredictor, pack_predictor, write_weights
from pam_retriever.store.folder.writable_folder import has_cache, remove_unfinished
from pam_retriever.store.sqlite import words
from pam_retriever.store.sqlite.changes import forget_cached_files, forget_changes
from pam_retriever.store.sqlite.connection import Connection, Mode
from pam_retriever.store.sqlite.damage import check_everything
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.pages import page_size_for
from pam_retriever.store.sqlite.schema import OLDER, SCHEMA

T = TypeVar("T")
ATTEMPTS = 10  # attempts to read a folder that its writer changes meanwhile
PAUSE = 0.01  # seconds after the first attempt, more after each
NAMED = ("memories-*.sqlite", "predictor-*.safetensors", "tenants-*")  # by the manifest, or by what it names
HEADER_COUNTERS = (24, 92)  # sqlite.org/fileformat2.html 1.3


def create_folder(folder: Path, manifest: Manifest) -> None:
    """Creates the folder of an empty index, completely or not at all. An empty folder may exist."""

    def write(inside: Path) -> None:
        path = inside / str(manifest["database"])
        SQLiteDatabase(path, page_size=page_size_for(manifest["dim"])).close()
        write_manifest(inside, manifest)

    make_folder(folder, write)


def load(folder: Path, build: Callable[[SQLiteDatabase, Manifest], T]) -> T:
    """Loads a folder: passes a copy in memory of its database, and its manifest, to ``build``.

    A writer may be at work; the copy is a snapshot.

    Raises:
        IndexFormatError: the folder has no index, or a damaged one.
    """
    return _while_it_stays(folder, _read_copy, build)


def view(folder: Path, build: Callable[[SQLiteDatabase, Manifest], T], mode: Mode = "read") -> T:
    """Like ``load``, but reads from a snapshot of the file itself. Later writes do not affect it.

    Args:
        folder: of the index.
        build: makes the result from a database and a manifest.
        mode: as for ``Connection``.
    """
    return _while_it_stays(folder, lambda path, manifest: _view(path, manifest, mode), build)


def _while_it_stays(
    folder: Path,
    read: Callable[[Path, Manifest], SQLiteDatabase],
    build: Callable[[SQLiteDatabase, Manifest], T],
) -> T:
    """Reads a folder. Reads again if the folder changed meanwhile, because a named file may have been replaced."""
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE * attempt)
        before = signature(folder)
        manifest = read_manifest(folder)
        error: PAMError | None = None
        try:
            check_links(folder)
            check_companions(folder / str(manifest["database"]), manifest["database_sha256"] is not None)
            database = read(folder, manifest)
            with database.closed_on_error():
                built = build(database, manifest)
                named = manifest["database_sha256"] is None or read_manifest(folder) == manifest
                if named and database.connection.in_place():
                    return built
            database.close()
        except (IndexFormatError, StorageError) as caught:
            error = caught
        if error is not None and signature(folder) == before:
            raise error
    raise IndexFormatError(f"{folder} is replaced over and over.", "a folder that stays", "Try again later.")


def refuse_companions(folder: Path) -> None:
    """Raises an error for links in a folder, and for files beside its databases that SQLite would use.

    Meanwhile a writer may change the folder.

    Raises:
        IndexFormatError: the folder has such files.
    """
    check_links(folder)
    for attempt in range(ATTEMPTS):
        before, named = signature(folder), _sealed(folder)
        try:
            for database in folder.glob("memories-*.sqlite"):
                check_companions(database, sealed=database.name == named)
            return
        except IndexFormatError:
            if attempt == ATTEMPTS - 1 or signature(folder) == before:
                raise


def _sealed(folder: Path) -> str | None:
    """Returns the name of the database if the manifest has its checksum; else None."""
    manifest = _manifest_in(folder)
    return None if manifest is None or manifest["database_sha256"] is None else str(manifest["database"])


def _manifest_in(folder: Path) -> Manifest | None:
    """Returns the manifest; None if there is none, or a damaged one."""
    try:
        return read_manifest(folder)
    except IndexFormatError:
        return None


def signature(folder: Path) -> list[tuple[str, int]]:
    """Returns the names of the files, and the time at which the manifest was written."""
    with explained(folder):
        names = [(path.name, 0) for path in matching(folder, "*.safetensors")] if folder.is_dir() else []
        manifest = folder / MANIFEST
        return [*sorted(names), (MANIFEST, manifest.stat().st_mtime_ns if manifest.exists() else 0)]


def _read_copy(folder: Path, manifest: Manifest) -> SQLiteDatabase:
    path, sha256 = folder / str(manifest["database"]), manifest["database_sha256"]
    check_file(path, sha256)
    database = SQLiteDatabase.read_copy(path, settled=sha256 is not None or _takes_no_journal(path))
    with database.closed_on_error():
        if sha256 is None:
            check_everything(database.connection)
    return database


def _view(folder: Path, manifest: Manifest, mode: Mode) -> SQLiteDatabase:
    path, sha256 = folder / str(manifest["database"]), manifest["database_sha256"]
    if _takes_no_journal(path):
        database = _read_copy(folder, manifest)
        database.connection.forbid_writing(mode)
        return database
    later = sha256 if has_cache(folder) else None
    check_file(path, None if later else sha256)
    database = SQLiteDatabase(path, mode, later)
    with database.closed_on_error():
        if sha256 is None:
            check_everything(database.connection)
    return database


def write_snapshot(
    folder: Path,
    manifest: Manifest,
    database: SQLiteDatabase,
    predictor: PredictorWeights | None,
    overwrite: bool,
    tenants: Write | None = None,
) -> None:
    """Saves a whole index. The same contents give the same bytes. ``tenants`` writes the tenants into a folder.

    Raises:
        InvalidInput: the folder has other files, or it has an index and ``overwrite`` is False.
        IndexLocked: the index to be replaced is open for writing.
        StorageError: the disk is full or read-only. The folder is unchanged.
    """
    with explained(folder):
        if not folder.parent.name.endswith(UNFINISHED):  # an unfinished folder is removed as a whole
            remove_abandoned(folder)
        if is_empty(folder):
            make_folder(folder, lambda inside: write_files(inside, None, manifest, database, predictor, tenants))
            return
        if not overwrite:
            raise InvalidInput(f"{folder} is not empty.", "a new folder", "Use overwrite=True, or another path.")
        read_manifest(folder)  # refuses a folder with other contents
        check_links(folder)
        lock = WriterLock(locked_folder_of(folder))
        try:
            old = read_manifest(folder)  # until now another writer may have had it
            remove_unfinished(folder)
            remove_other_tenants(folder, folder / old.get("tenants", ""))  # which may be lost: a copy replaces it
            replaced = matching(folder, "memories-*.sqlite*", "predictor-*.safetensors*", "ann-*", "keys-*.f32*")
            current = write_files(folder, old, manifest, database, predictor, tenants)
            for path in replaced:
                if path.name not in current:
                    path.unlink(missing_ok=True)
            remove_other_tenants(folder, root_of(folder, read_manifest(folder)))
        finally:
            lock.release()


def write_files(
    folder: Path,
    old: Manifest | None,
    manifest: Manifest,
    database: SQLiteDatabase,
    predictor: PredictorWeights | None,
    tenants: Write | None = None,
) -> set[str]:
    """Writes the files of an index, the manifest last; all, or none. Returns the names of the other files."""
    before = set(matching(folder, *NAMED))
    final = manifest
    try:
        final, current = _write_data(folder, old, manifest, database, predictor, tenants)
        write_manifest(folder, final)
    except BaseException:
        if _manifest_in(folder) != final:
            for path in set(matching(folder, *NAMED)) - before:
                discard(path)
        raise
    return current


def _write_data(
    folder: Path,
    old: Manifest | None,
    manifest: Manifest,
    database: SQLiteDatabase,
    predictor: PredictorWeights | None,
    tenants: Write | None,
) -> tuple[Manifest, set[str]]:
    """Writes the files of an index except the manifest; returns the manifest, and the names of the files."""
    if tenants is not None:
        named = write_tenants(folder, None if old is None else old.get("tenants"), tenants)
        if named is not None:
            manifest = {**manifest, "tenants": named}
    model, packed = (None, b"") if predictor is None else pack_predictor(predictor)
    copy = folder / f"{manifest['database']}.new"
    try:
        database.connection.copy_to(copy)
        if database.connection.outdated:
            Connection(copy, SCHEMA, "write", OLDER).close()  # updates the copy: the manifest is of the present version
        _finish_copy(copy, model)
        digest = checksum_of(copy)
        name = f"memories-{digest[:12]}.sqlite"
        if old is not None and old["database"] == name and old["database_sha256"] is None:
            name = f"memories-{digest[12:24]}.sqlite"  # the old file of this name has a journal
        sync(copy)
        copy.replace(folder / name)
    finally:
        copy.unlink(missing_ok=True)
    current = {name}
    if model is not None:
        write_weights(folder, model, packed)
        current.add(str(model["file"]))
    return {**manifest, "database": name, "database_sha256": digest}, current


def _takes_no_journal(path: Path) -> bool:
    """Whether no journal exists or can be created in the folder. SQLite then has to open the file as immutable."""
    return not os.access(path.parent, os.W_OK) and not holds_log(path)


def _finish_copy(path: Path, model: PackedPredictor | None) -> None:
    """Finishes a new copy: its readers never block a later writer, and equal contents give equal bytes."""
    with explained(path):
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            words.set_up(connection)

            def fetch(*statement: Any) -> list[Any]:
                return connection.execute(*statement).fetchall()

            if model is not None:  # weights that an earlier version wrote may have other bytes now, so another name
                fetch(
                    "UPDATE settings SET value = json_set(value, '$.file', ?, '$.sha256', ?) "
                    "WHERE key = 'model' AND json_extract(value, '$.sha256') != ?",
                    [model["file"], model["sha256"], model["sha256"]],
                )
            if words.erase_removed(fetch) | forget_changes(fetch) | forget_cached_files(fetch):
                connection.execute("VACUUM")
            connection.execute("PRAGMA schema_version = 1")  # SQLite counts schema changes here, copies included
            connection.execute("PRAGMA user_version = 0")  # commits of the original
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        with path.open("r+b") as file:  # change counters; that at 92 names the state whose size is stored
            for position in HEADER_COUNTERS:
                file.seek(position)
                file.write((1).to_bytes(4, "big"))
