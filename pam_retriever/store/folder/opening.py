"""Opens stores: a new store in memory, a store in a folder or in an engine, or a copy of a folder in memory."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pam_retriever.ann import make_backend
from pam_retriever.embedding import Embedder
from pam_retriever.errors import IndexFormatError, InvalidInput, StorageError
from pam_retriever.limits import MAX_DIM
from pam_retriever.protocols import Encoder
from pam_retriever.store.base import Store
from pam_retriever.store.folder import snapshot
from pam_retriever.store.folder.lock import WriterLock
from pam_retriever.store.folder.manifest import Manifest, has_manifest, new_manifest, read_manifest
from pam_retriever.store.folder.unfinished import is_empty
from pam_retriever.store.folder.writable_folder import WritableFolder
from pam_retriever.store.kinds import Engine
from pam_retriever.store.space import Space
from pam_retriever.store.sqlite.connection import Mode
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.pages import page_size_for
from pam_retriever.store.sqlite.store import SQLiteStore
from pam_retriever.validation import check_count, check_finite, check_flag

MOST_WAITING = 86_400  # seconds for another writer


def new_store(
    dim: int | None,
    backend: str | Engine,
    embedder: Embedder | None,
    encoder: Encoder | None,
    page_size: int | None = None,
) -> Store:
    """Returns an empty store in memory, or the store of an engine.

    Raises:
        InvalidInput: the arguments are invalid.
    """
    if not isinstance(backend, str):
        return _engine_store(dim, backend, embedder, encoder)
    made = None if encoder is None else Space.of(encoder)
    manifest = _new_manifest(_read_dim(dim, made, embedder), backend)
    page_size = page_size or page_size_for(manifest["dim"])
    return SQLiteStore(SQLiteDatabase(page_size=page_size), manifest, space=made)


def _engine_store(dim: int | None, engine: Engine, embedder: Embedder | None, encoder: Encoder | None) -> Store:
    if not callable(getattr(engine, "open_store", None)):
        raise InvalidInput(f"Got backend={engine!r}.", "a name or an engine", "Use 'faiss' if in doubt.")
    if encoder is not None:
        raise InvalidInput(
            f"Got an encoder with {engine!r}.",
            "vectors in an engine, or a folder for observations",
            "Encode them before add(), or leave backend out.",
        )
    if dim is None and embedder is not None:
        dim = embedder.dim()
    return engine.open_store(None if dim is None else check_count("dim", dim, MAX_DIM))


def read_mode(read_only: bool, follow: bool, lock_timeout: float) -> Mode:
    """Returns the mode in which to open a folder.

    Raises:
        InvalidInput: the arguments contradict each other.
    """
    check_flag("read_only", read_only)
    check_flag("follow", follow)
    if not 0 <= check_finite("lock_timeout", lock_timeout) <= MOST_WAITING:
        raise InvalidInput(f"Got lock_timeout={lock_timeout}.", f"0 to {MOST_WAITING:,} seconds", "10 is plenty.")
    if read_only and lock_timeout:
        raise InvalidInput(
            f"Got lock_timeout={lock_timeout} with read_only=True.", "one of them", "A reader waits for no writer."
        )
    if follow and not read_only:
        raise InvalidInput(
            "Got follow=True without read_only=True.", "both", "A writer sees its own writes: leave follow out."
        )
    return "follow" if follow else "read" if read_only else "write"


def open_store(
    folder: Path,
    dim: int | None,
    backend: str,
    embedder: Embedder | None,
    encoder: Encoder | None,
    mode: Mode,
    lock_timeout: float = 0.0,
) -> Store:
    """Opens the store in a folder; creates it if it does not exist; see ``PredictiveAssociativeIndex.open``."""
    if not isinstance(backend, str):
        raise InvalidInput(
            f"Got backend={backend!r} for a folder.",
            "the name of a backend",
            "PredictiveAssociativeIndex(dim, backend=...) opens an index in an engine.",
        )
    made = None if encoder is None else Space.of(encoder)
    if mode != "write" or has_manifest(folder) or not is_empty(folder):
        _check_dim(folder, dim)
    else:
        if dim is None and embedder is None and made is None:
            raise InvalidInput(
                f"There is no index at {folder}.", "dim or embedder for a new one", "Pass one, or check the path."
            )
        _create(folder, _new_manifest(_read_dim(dim, made, embedder), backend))
    if mode != "write":
        return snapshot.view(folder, lambda database, manifest: _read(folder, database, manifest, made), mode)
    return _store_in(WritableFolder(folder, lock_timeout), made)


def open_tenant(folder: Path, dim: int, encoder: Encoder | None, lock: WriterLock) -> Store:
    """Opens for writing the store of a tenant, whose folder exists, under the lock of its index.

    Raises:
        InvalidInput: the tenant has another dimension.
        IndexFormatError, StorageError: see ``WritableFolder``.
    """
    writable_folder = WritableFolder(folder, lock=lock)
    return _store_in(writable_folder, None if encoder is None else Space.of(encoder), dim)


def _store_in(writable_folder: WritableFolder, made: Space | None, dim: int | None = None) -> Store:
    folder = writable_folder.folder
    with writable_folder.closed_on_error():
        _refuse_dim(folder, writable_folder.manifest, dim)
        _check_backend(writable_folder.manifest)
        return SQLiteStore(
            writable_folder.database,
            writable_folder.manifest,
            folder,
            source=folder,
            writable_folder=writable_folder,
            space=made,
        )


def _create(folder: Path, manifest: Manifest) -> None:
    """Creates the folder of an empty index, unless another process creates it at the same time."""
    try:
        snapshot.create_folder(folder, manifest)
    except StorageError:
        if not has_manifest(folder):
            raise
        _check_dim(folder, manifest["dim"])


def load_store(folder: Path, encoder: Encoder | None) -> Store:
    """Returns a copy in memory of the store in a folder."""
    made = None if encoder is None else Space.of(encoder)
    return snapshot.load(folder, lambda database, manifest: _read(folder, database, manifest, made))


def _read(folder: Path, database: SQLiteDatabase, manifest: Manifest, space: Space | None) -> Store:
    _check_backend(manifest)
    return SQLiteStore(database, manifest, source=folder, space=space)


def _read_dim(dim: int | None, space: Space | None, embedder: Embedder | None) -> int:
    """Returns the dimension of a new index: the given one, or the dimension of its encoder or embedder."""
    if space is not None:
        if dim not in (None, space.encoder.dim):
            raise InvalidInput(
                f"Got dim={dim} with an encoder.", f"{space.encoder.dim}, its dimension", "Leave dim out."
            )
        return space.encoder.dim
    if dim is not None:
        return dim
    if embedder is None:
        raise InvalidInput("There is neither dim nor embedder.", "one of them", 'Pass dim=... or embedder="default".')
    return embedder.dim()


def _new_manifest(dim: int, backend: str) -> Manifest:
    _check_name(backend)
    return new_manifest(check_count("dim", dim, MAX_DIM), backend)


def _check_dim(folder: Path, dim: int | None) -> None:
    _refuse_dim(folder, read_manifest(folder), dim)


def _refuse_dim(folder: Path, manifest: Manifest, dim: int | None) -> None:
    if dim is not None and dim != manifest["dim"]:
        raise InvalidInput(
            f"Got dim={dim} for the index at {folder}.",
            f"{manifest['dim']}, its dimension",
            f"Pass {manifest['dim']}, or no dimension.",
        )


@cache
def _check_name(backend: str) -> None:
    """Refuses an unknown name of a backend."""
    make_backend(backend, 1)


def _check_backend(manifest: Manifest) -> None:
    try:
        _check_name(str(manifest["backend"]))
    except InvalidInput as error:
        raise IndexFormatError(
            f"The manifest has backend={manifest['backend']!r}.", error.expected, "Restore it."
        ) from error
