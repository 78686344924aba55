"""What is wrong with the folder of an index, and what of it can be rebuilt."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pam_retriever import kept
from pam_retriever.backends import make_backend, parts
from pam_retriever.codes import with_codes
from pam_retriever.errors import IndexFormatError, InvalidInput, PAMError
from pam_retriever.prediction import predict
from pam_retriever.predictor import Predictor
from pam_retriever.storage import snapshot
from pam_retriever.storage.damage import damaged
from pam_retriever.storage.documents import Documents
from pam_retriever.storage.files import check_file
from pam_retriever.storage.lock import WriterLock
from pam_retriever.storage.manifest import FORMAT_VERSION, new_manifest, read_manifest
from pam_retriever.storage.salvage import ENCODERS, salvage
from pam_retriever.storage.weights import read_predictor
from pam_retriever.types import Bools, Float32

CLOSE = 1e-3  # float32 on another machine moves f(p), of unit length, by 1e-6
NAMED = 20  # damaged memories that are named one by one


def check(path: str | Path) -> list[str]:
    """Reads everything in the folder of an index, and changes nothing.

    Args:
        path: the folder; it may be open for writing.

    Returns:
        A line for each thing that is wrong; none for a sound index.

    Raises:
        IndexFormatError: there is no index, or it is of a newer format.
    """
    folder = Path(path)
    refuse_others(folder)
    return list(_findings(folder))


def repair(path: str | Path) -> list[str]:
    """Rebuilds what can be rebuilt, and leaves a sound index.

    Memories whose checksum differs are left out and named; association vectors are computed anew from vectors
    and weights, but for the episode codes, which are kept; where the weights are lost, the index has to be fitted
    again. ANN indexes are built by ``open`` and ``load``; one that was kept in the folder is dropped. The damaged
    database is kept as ``damaged-...``.

    Returns:
        A line for each thing that was done, lost or could not be rebuilt; none for a sound index.

    Raises:
        IndexFormatError: there is nothing to rebuild from; the folder is as it was.
        IndexLocked: the index is open for writing.
        StorageError: the disk does not take it; the folder is as it was.
    """
    folder = Path(path)
    refuse_others(folder)
    lock = WriterLock(folder)
    try:
        wrong = list(_findings(folder))
        return [*wrong, *_rebuild(folder)] if wrong else []
    finally:
        lock.release()


def refuse_others(folder: Path) -> None:
    """Refuses a folder without an index, and one of a newer format, which is not damaged.

    Raises:
        IndexFormatError: it is one of them.
    """
    try:
        read_manifest(folder)
    except IndexFormatError as error:
        newer = f"format version 1 to {FORMAT_VERSION}" in str(error)
        if newer or not list(folder.glob("memories-*.sqlite")):
            raise


def _findings(folder: Path) -> Iterator[str]:
    manifest = _manifest(folder)
    if isinstance(manifest, str):
        yield manifest
        return
    try:
        make_backend(str(manifest["backend"]), 1)
    except InvalidInput as error:
        yield f"manifest.json: {error}"
    database = folder / str(manifest["database"])
    try:
        check_file(database, manifest["database_sha256"])
    except IndexFormatError as error:
        yield str(error)
        if not database.is_file():
            return
    try:
        documents = Documents.read_copy(database, settled=manifest["database_sha256"] is not None)
    except PAMError as error:
        yield str(error)
        return
    try:
        yield from _contents(folder, manifest, documents)
        yield from kept.damaged(documents, folder)
    except PAMError as error:
        yield str(error)
    finally:
        documents.close()


def _contents(folder: Path, manifest: dict[str, Any], documents: Documents) -> Iterator[str]:
    """What is wrong inside a database that can be opened."""
    documents.database.check_structure()
    wrong = [line for _, line in damaged(documents.database)]
    yield from wrong[:NAMED]
    if len(wrong) > NAMED:
        yield f"and {len(wrong) - NAMED:,} more memories"
    documents.memories.find({}, None)  # metadata that are no JSON
    for name in ENCODERS:
        if documents.settings.get(name) is not None and documents.settings.weights(name) is None:
            yield f"the weights of the {name} are missing"
    dim, rows, associated = int(manifest["dim"]), documents.memories.rows(), documents.memories.associated
    model = documents.settings.get("model")
    predictor = None if model is None else read_predictor(folder, model, dim)
    if predictor is None and associated:
        yield "there are association vectors, but no weights that made them"
    if predictor is not None and len(rows) and not associated:
        yield "there are weights, but no association vectors"
    far: list[int] = []
    for part in parts(len(rows)):
        width = predictor.config.width if predictor is not None and associated else 0
        vectors, associations = documents.memories.stored(rows[part], dim, width)
        if predictor is not None and associations is not None:
            distance = np.abs(predict(predictor, vectors) - associations)[:, :dim].max(axis=1)
            far += rows[part][(distance > CLOSE) | _no_code(associations[:, dim:])].tolist()
    if far:
        yield f"{len(far):,} association vectors are not f and a code of their memory, the first in row {far[0]}"


def _manifest(folder: Path) -> dict[str, Any] | str:
    """The manifest, or what is wrong with it."""
    try:
        return read_manifest(folder)
    except IndexFormatError as error:
        return str(error)


def _rebuild(folder: Path) -> Iterator[str]:
    """Writes the folder anew from what can be read; the caller holds the lock."""
    manifest = _manifest(folder)
    known = {} if isinstance(manifest, str) else manifest
    database = _database(folder, known)
    try:
        documents, dim, lost = salvage(database, known.get("dim"))
    except sqlite3.DatabaseError as error:
        raise IndexFormatError(
            f"Nothing can be read from {database} ({error}).", "a database", "Restore the folder from a copy."
        ) from error
    with documents.closed_on_error():
        if not dim:
            raise IndexFormatError(f"No memory in {database} is whole.", "at least one", "Restore it from a copy.")
        backend = _backend(known)
        predictor, words = _refit(folder, documents, dim)
        kept = database.rename(database.with_name(f"damaged-{database.name}"))
        try:
            snapshot.write_files(folder, None, new_manifest(dim, backend), documents, predictor)
        except BaseException:
            kept.rename(database)
            raise
        if len(documents.trajectories):
            yield "trajectories have no checksum of their own: compare them with a copy if there is one"
        yield from (f"lost: {line}" for line in lost)
        yield from words
        yield f"kept {len(documents.memories):,} memories and {len(documents.trajectories):,} trajectories"
        yield f"the damaged database is kept as {kept.name}"
    documents.close()


def _refit(folder: Path, documents: Documents, dim: int) -> tuple[Predictor | None, list[str]]:
    """f from vectors and weights; of the episode codes what is sound. Without weights the index is not fitted."""
    model = documents.settings.get("model")
    if model is None:
        with documents.transaction():
            documents.memories.clear_associations()
        return None, []
    try:
        predictor = read_predictor(folder, model, dim)
    except PAMError as error:
        with documents.transaction():
            documents.settings.remove("model")
            documents.memories.clear_associations()
        return None, [f"lost: the weights ({error.got}) They cannot be rebuilt: call fit() again."]
    rows = documents.memories.rows()
    lost = 0
    with documents.transaction():
        for part in parts(len(rows)):
            _, vectors = documents.memories.vectors_of(rows[part], dim)
            blobs = documents.memories.association_blobs(rows[part])
            codes = _sound_codes(blobs, dim, predictor.config.code)
            lost += int(np.isnan(codes).any(axis=1).sum())
            associations = with_codes(predict(predictor, vectors), np.nan_to_num(codes))
            documents.memories.set_associations(rows[part], associations)
    words = ["association vectors computed anew from vectors and weights"]
    if lost:
        words.append(f"lost: the episode codes of {lost:,} memories. They are learnt: call fit() again.")
    return predictor, words


def _sound_codes(blobs: list[bytes | None], dim: int, code: int) -> Float32:
    """The codes in stored association vectors, (n, code); NaN for one that cannot be a code."""
    codes = np.full((len(blobs), code), np.nan, np.float32)
    for at, blob in enumerate(blobs):
        if blob is not None and len(blob) == 4 * (dim + code):
            codes[at] = np.frombuffer(blob, "<f4")[dim:]
    codes[_no_code(codes)] = np.nan
    return codes


def _no_code(codes: Float32) -> Bools:
    """(n,) which are neither of length 1 nor zeros."""
    length = np.linalg.norm(codes, axis=1)
    wrong: Bools = ~(np.minimum(length, np.abs(length - 1)) <= CLOSE)
    return wrong


def _database(folder: Path, manifest: dict[str, Any]) -> Path:
    """The database that the manifest names; without a manifest, the one that was changed last."""
    if manifest and (folder / str(manifest["database"])).is_file():
        return folder / str(manifest["database"])
    found = sorted(folder.glob("memories-*.sqlite"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise IndexFormatError(f"{folder} holds no database.", "memories-*.sqlite", "Restore it from a copy.")
    return found[-1]


def _backend(manifest: dict[str, Any]) -> str:
    backend = str(manifest.get("backend", "faiss"))
    try:
        make_backend(backend, 1)
    except InvalidInput:
        return "faiss"
    return backend
