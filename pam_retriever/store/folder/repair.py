"""Checks the folder of an index, and rebuilds a damaged index from its readable data."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from pam_retriever.ann import chunks, make_backend
from pam_retriever.errors import IndexFormatError, InvalidInput, PAMError, StorageError, counted
from pam_retriever.model.episode_embeddings import with_codes
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.store import experience_fit, feedback_fit, learnt
from pam_retriever.store.faults import explained
from pam_retriever.store.folder import ann_cache, graph_cache, snapshot
from pam_retriever.store.folder.files import check_file, matching, read_path
from pam_retriever.store.folder.lock import WriterLock
from pam_retriever.store.folder.manifest import FORMAT_VERSION, TENANTS, Manifest, new_manifest, read_manifest
from pam_retriever.store.folder.tenants import locked_folder_of, root_of, tenants_in
from pam_retriever.store.folder.weights import read_predictor
from pam_retriever.store.model_metadata import MODEL, read_model, read_window_and_calibration
from pam_retriever.store.sqlite.changes import ENCODERS
from pam_retriever.store.sqlite.damage import check_structure, check_words, damaged, damaged_requests, damaged_weights
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.salvage import salvage
from pam_retriever.types import Bools, Float32

CLOSE = 1e-3  # tolerance; float32 on another machine changes f(p), of unit length, by 1e-6
NAMED = 20  # damaged memories that are listed one by one


def check(path: str | Path, tenant: str | None = None) -> list[str]:
    """Reads everything in the folder of an index; changes nothing.

    Args:
        path: the folder; it may be open for writing.
        tenant: checks only this tenant, which must exist.

    Returns:
        A line for each defect; none for a sound index.

    Raises:
        IndexFormatError: there is no index, it is of a newer format, or there is a journal or a link that SQLite would
            use.
        StorageError: the disk is full, or permissions are missing.
    """
    folder = read_path("path", path)
    refuse_others(folder)
    if tenant is not None:
        return check(dict(_tenants(folder))[tenant])
    snapshot.refuse_companions(folder)
    found = _lasting_findings(folder)
    for name, path in _tenants(folder):
        found += [f"tenant {name!r}: {line}" for line in _check_tenant(path)]
    return found


def _check_tenant(folder: Path) -> list[str]:
    try:
        return check(folder)
    except IndexFormatError as error:
        return [str(error)]


def repair(path: str | Path) -> list[str]:
    """Rebuilds the derived data of a damaged index, and leaves a sound index.

    Memories whose checksum differs are left out and listed. Association vectors are computed again from vectors and
    weights; episode codes are copied. If the weights are lost, the index has to be fitted again. A saved ANN index is
    dropped: ``open`` and ``load`` build it again. The damaged database is renamed to ``damaged-...``, with its journal,
    but only after the new one is on the disk. So a kill loses nothing: call ``repair`` again.

    Returns:
        A line for each rebuilt or lost part; none for a sound index.

    Raises:
        IndexFormatError: there is nothing to rebuild from, or there is a journal or a link that SQLite would use. The
            folder is unchanged. Tenants of which this is true are listed instead.
        IndexLocked: the index is open for writing.
        StorageError: the disk is full or read-only. The folder is unchanged.
    """
    folder = read_path("path", path)
    refuse_others(folder)
    snapshot.refuse_companions(folder)
    lock = WriterLock(locked_folder_of(folder))
    try:
        done = _repair(folder)
        for name, path in _tenants(folder):
            done += [f"tenant {name!r}: {line}" for line in _repair_tenant(path)]
        return done
    finally:
        lock.release()


def _repair_tenant(folder: Path) -> list[str]:
    """Repairs a tenant; says why if that is impossible, so that the other tenants are repaired."""
    try:
        refuse_others(folder)
        snapshot.refuse_companions(folder)
        return _repair(folder)
    except IndexFormatError as error:
        return [f"not repaired: {error}"]


def _repair(folder: Path) -> list[str]:
    """Repairs an index without its tenants. The caller holds the lock."""
    wrong = list(_findings(folder))
    return [*wrong, *(_rebuild(folder) if wrong else []), *_put_aside(folder)]


def _tenants(folder: Path) -> list[tuple[str, Path]]:
    """Returns (name, folder) of the tenants of an index."""
    manifest = _manifest(folder)
    return [] if isinstance(manifest, str) else tenants_in(root_of(folder, manifest))


def refuse_others(folder: Path) -> None:
    """Raises an error for a folder that cannot be repaired.

    Raises:
        IndexFormatError: the folder has no index, or an index of a newer format, which is not damaged.
    """
    try:
        read_manifest(folder)
    except IndexFormatError as error:
        newer = f"format version 1 to {FORMAT_VERSION}" in str(error)
        if newer or not list(folder.glob("memories-*.sqlite")):
            raise


def _lasting_findings(folder: Path) -> list[str]:
    """Returns the defects of a folder. Looks again if a writer changed the database meanwhile."""
    for _ in range(snapshot.ATTEMPTS):
        before, found = _manifest(folder), list(_findings(folder))
        if not found or _manifest(folder) == before:
            break
    return found


def _findings(folder: Path) -> Iterator[str]:
    manifest = _manifest(folder)
    if isinstance(manifest, str):
        yield manifest
        return
    try:
        make_backend(str(manifest["backend"]), 1)
    except InvalidInput as error:
        yield f"manifest.json: {error}"
    path = folder / str(manifest["database"])
    try:
        check_file(path, manifest["database_sha256"])
    except IndexFormatError as error:
        yield str(error)
        if not path.is_file():
            return
    try:
        database = SQLiteDatabase.read_copy(path, settled=manifest["database_sha256"] is not None)
    except StorageError:
        raise  # the contents are unknown
    except PAMError as error:
        yield str(error)
        return
    try:
        yield from _contents(folder, manifest, database)
        wrong = [*ann_cache.damaged(database, folder), *graph_cache.damaged(database, folder)]
        if wrong and _still_names(folder, manifest, database):
            yield from wrong
    except StorageError:
        raise
    except PAMError as error:
        yield str(error)
    finally:
        database.close()


def _still_names(folder: Path, manifest: Manifest, seen: SQLiteDatabase) -> bool:
    """Whether an index has the same saved files as its database when it was read: a writer may save others."""
    now = read_manifest(folder)
    if now["database_sha256"] is not None:
        return now == manifest
    with closing(SQLiteDatabase(folder / str(now["database"]), "read", checked=True)) as latest:
        return all(latest.settings.get(name) == seen.settings.get(name) for name in (seen.ANN, seen.GRAPH))


def _contents(folder: Path, manifest: Manifest, database: SQLiteDatabase) -> Iterator[str]:
    """Returns the defects inside a database that can be opened."""
    check_structure(database.connection)
    check_words(database.connection)
    wrong = [line for _, line in damaged(database.connection)]
    yield from wrong[:NAMED]
    if len(wrong) > NAMED:
        yield f"and {counted(len(wrong) - NAMED, 'more memory')}"
    wrong = list(damaged_requests(database.connection))
    yield from wrong[:NAMED]
    if len(wrong) > NAMED:
        yield f"and {counted(len(wrong) - NAMED, 'more request')}"
    yield from damaged_weights(database.connection)
    database.memories.find({}, None)  # metadata that are not JSON
    unsound = dict(_unsound(database))
    yield from unsound.values()
    database.settings.all(without=unsound)
    for name in ENCODERS:
        if database.settings.get(name) is not None and database.settings.weights(name) is None:
            yield f"the weights of the {name} are missing"
    dim, rows, associated = int(manifest["dim"]), database.memories.rows(), database.memories.associated
    predictor = _predictor(folder, database, dim)
    if predictor is None and associated:
        yield "there are association vectors, but no weights that made them"
    if predictor is not None and len(rows) and not associated:
        yield "there are weights, but no association vectors"
    far: list[int] = []
    for chunk in chunks(len(rows)):
        width = predictor.config.width if predictor is not None and associated else 0
        vectors, associations = database.memories.stored(rows[chunk], dim, width)
        if predictor is not None and associations is not None:
            distance = np.abs(predictor(vectors) - associations)[:, :dim].max(axis=1)
            far += rows[chunk][(distance > CLOSE) | _no_code(associations[:, dim:])].tolist()
    if far:
        yield f"{len(far):,} association vectors are not f and a code of their memory, the first in row {far[0]}"


def _unsound(database: SQLiteDatabase) -> Iterator[tuple[str, str]]:
    """Returns the name and the damage of each damaged result of ``fit``, besides the predictor."""
    yield from feedback_fit.defects(database.settings)
    yield from experience_fit.defects(database.settings)


def _predictor(folder: Path, database: SQLiteDatabase, dim: int) -> PredictorWeights | None:
    """Returns the predictor, whose calibration can be read, too; None before ``fit``.

    Raises:
        IndexFormatError: one of the two is damaged.
    """
    if (model := read_model(database.settings)) is None:
        return None
    predictor = read_predictor(folder, model, dim)
    read_window_and_calibration(model)
    return predictor


def _manifest(folder: Path) -> Manifest | str:
    """Returns the manifest, or a description of its defects."""
    try:
        return read_manifest(folder)
    except IndexFormatError as error:
        return str(error)


def _rebuild(folder: Path) -> Iterator[str]:
    """Writes the folder again from the readable data. The caller holds the lock."""
    manifest = _manifest(folder)
    known = None if isinstance(manifest, str) else manifest
    path = _database(folder, known)
    try:
        with explained(path):
            database, dim, lost = salvage(path, None if known is None else known["dim"])
    except (sqlite3.DatabaseError, IndexFormatError) as error:
        raise IndexFormatError(
            f"Nothing can be read from {path} ({error}).", "a database", "Restore the folder from a copy."
        ) from error
    with database.closed_on_error():
        if not dim:
            raise IndexFormatError(f"No memory in {path} is whole.", "at least one", "Restore it from a copy.")
        backend = _backend(known)
        predictor, words = _refit(folder, database, dim)
        with database.transaction():
            forgotten = learnt.forget_unsound(database, [name for name, _ in _unsound(database)])
        words += [f"lost: {what}: call fit() again" for what in forgotten]
        made = _new_manifest(folder, known, dim, backend)
        snapshot.write_files(folder, {**made, "database": path.name}, made, database, predictor)  # beside the damaged
        if len(database.trajectories):
            yield "trajectories have no checksum of their own: compare them with a copy if there is one"
        yield from (f"lost: {line}" for line in lost)
        yield from words
        memories, trajectories = len(database.memories), len(database.trajectories)
        requests = counted(len(database.feedback), "request")
        yield f"kept {counted(memories, 'memory')}, {counted(trajectories, 'trajectory')} and {requests}"
    database.close()


def _put_aside(folder: Path) -> Iterator[str]:
    """Renames databases that are no longer used, each after its journal.

    If a kill comes between the two renames, the next repair renames the other file.
    """
    used = str(read_manifest(folder)["database"])
    with explained(folder):
        for path in sorted(matching(folder, "memories-*.sqlite*"), key=lambda path: -len(path.name)):
            if path.name.startswith(used):
                continue
            if path.name.endswith("-shm"):  # SQLite creates it again
                path.unlink()
                continue
            moved_to = path.replace(path.with_name(f"damaged-{path.name}"))
            if path.suffix == ".sqlite":
                yield f"the damaged database is kept as {moved_to.name}"


def _new_manifest(folder: Path, known: Manifest | None, dim: int, backend: str) -> Manifest:
    """Returns a manifest with the tenants of the old one; if it is lost, with the last changed folder of tenants."""
    made = new_manifest(dim, backend)
    named = known["tenants"] if known is not None and "tenants" in known else None
    if known is None:
        found = [path for path in folder.glob("tenants-*") if TENANTS.fullmatch(path.name)]
        named = max(found, key=lambda path: path.stat().st_mtime).name if found else None
    if named is not None:
        made["tenants"] = named
    return made


def _refit(folder: Path, database: SQLiteDatabase, dim: int) -> tuple[PredictorWeights | None, list[str]]:
    """Computes f from vectors and weights, and copies sound episode codes. Without weights the index is not fitted."""
    try:
        predictor = _predictor(folder, database, dim)
    except PAMError as error:
        with database.transaction():
            database.settings.remove(MODEL)
            database.memories.clear_associations()
        return None, [f"lost: the weights ({error.got}) They cannot be rebuilt: call fit() again."]
    if predictor is None:
        with database.transaction():
            database.memories.clear_associations()
        return None, []
    rows = database.memories.rows()
    lost = 0
    with database.transaction():
        for chunk in chunks(len(rows)):
            _, vectors = database.memories.vectors_of(rows[chunk], dim)
            blobs = database.memories.association_blobs(rows[chunk])
            codes = _sound_codes(blobs, dim, predictor.config.code)
            lost += int(np.isnan(codes).any(axis=1).sum())
            associations = with_codes(predictor(vectors), np.nan_to_num(codes))
            database.memories.set_associations(rows[chunk], associations)
    words = ["association vectors computed anew from vectors and weights"]
    if lost:
        words.append(f"lost: the episode codes of {counted(lost, 'memory')}. They are learnt: call fit() again.")
    return predictor, words


def _sound_codes(blobs: list[bytes | None], dim: int, code: int) -> Float32:
    """Returns the codes (n, code) in stored association vectors; NaN where the value cannot be a code."""
    codes = np.full((len(blobs), code), np.nan, np.float32)
    for at, blob in enumerate(blobs):
        if blob is not None and len(blob) == 4 * (dim + code):
            codes[at] = np.frombuffer(blob, "<f4")[dim:]
    codes[_no_code(codes)] = np.nan
    return codes


def _no_code(codes: Float32) -> Bools:
    """Returns which of the codes (n,) have neither length 1 nor only zeros."""
    length = np.linalg.norm(codes, axis=1)
    wrong: Bools = ~(np.minimum(length, np.abs(length - 1)) <= CLOSE)
    return wrong


def _database(folder: Path, manifest: Manifest | None) -> Path:
    """Returns the database that the manifest names; without a manifest, the last changed database."""
    if manifest and (folder / str(manifest["database"])).is_file():
        return folder / str(manifest["database"])
    found = sorted(folder.glob("memories-*.sqlite"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise IndexFormatError(f"{folder} holds no database.", "memories-*.sqlite", "Restore it from a copy.")
    return found[-1]


def _backend(manifest: Manifest | None) -> str:
    backend = "faiss" if manifest is None else manifest["backend"]
    try:
        make_backend(backend, 1)
    except InvalidInput:
        return "faiss"
    return backend
