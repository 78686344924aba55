"""The folder of an index: a manifest, one SQLite database, and the predictor's weights.

    manifest.json              format version, dimension, which database, its checksum
    memories-<name>.sqlite     records, vectors, trajectories, settings
    predictor-<name>.safetensors

A file is written under a new name, fsynced, and only then named by what is replaced
atomically: the database by the manifest, the weights by a setting in the database. So at
every moment the manifest leads to one complete index.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from pam_retriever import __about__
from pam_retriever.errors import IndexFormatError, InvalidInput
from pam_retriever.predictor import Predictor, PredictorConfig
from pam_retriever.storage.documents import Documents

FORMAT = "pam-retriever-index"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
MANIFEST_LIMIT = 1_000_000  # bytes; a larger one is not ours


def new_manifest(dim: int, backend: str) -> dict[str, Any]:
    """The manifest of an index that has no database yet."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __about__.__version__,
        "dim": dim,
        "metric": "cosine",
        "backend": backend,
        "database": f"memories-{uuid.uuid4().hex[:8]}.sqlite",
        "database_sha256": None,  # only for a database that is not being written to
    }


def read_manifest(folder: Path) -> dict[str, Any]:
    """Reads and checks a manifest.

    Raises:
        IndexFormatError: there is none, it is not ours, or its format is newer.
    """
    path = folder / MANIFEST
    try:
        if path.stat().st_size > MANIFEST_LIMIT:
            raise ValueError(f"{path.stat().st_size} bytes")
        manifest = json.loads(path.read_text("utf-8"))
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise ValueError(f"no {FORMAT!r} in it")
    except FileNotFoundError:
        raise IndexFormatError(f"{folder} holds no {MANIFEST}.", "the folder of an index", "Check the path.") from None
    except (ValueError, RecursionError) as error:
        raise IndexFormatError(
            f"{path} is not a manifest ({error}).", "the manifest of an index", "Restore it from a copy."
        ) from error
    version = manifest.get("format_version")
    if not isinstance(version, int) or version < 1 or version > FORMAT_VERSION:
        raise IndexFormatError(
            f"{folder} has format version {version!r}, written by version "
            f"{manifest.get('library_version')!r} of this library.",
            f"format version 1 to {FORMAT_VERSION}",
            "Upgrade pam-retriever to read it.",
        )
    name, dim = manifest.get("database"), manifest.get("dim")
    if not isinstance(name, str) or Path(name).name != name or not isinstance(dim, int) or dim < 1:
        raise IndexFormatError(
            f"{path} names the database {name!r} and the dimension {dim!r}.",
            "a file in the same folder and a whole number",
            "Restore the manifest from a copy.",
        )
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Replaces the manifest atomically."""
    _write_atomically(folder / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())


def check_database(folder: Path, manifest: dict[str, Any]) -> Path:
    """The path of the database, after comparing its checksum.

    Raises:
        IndexFormatError: it is missing or differs from what was saved.
    """
    path = folder / str(manifest["database"])
    _check_file(path, manifest.get("database_sha256"))
    return path


def create_folder(folder: Path, manifest: dict[str, Any]) -> None:
    """Makes the folder of an empty index, whole or not at all; an empty folder may be there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as made:
        inside = Path(made) / "index"
        inside.mkdir()
        Documents(inside / str(manifest["database"])).close()
        write_manifest(inside, manifest)
        if folder.exists():
            folder.rmdir()  # empty: Windows does not replace folders
        inside.replace(folder)
    _sync(folder.parent)


def open_database(folder: Path, manifest: dict[str, Any]) -> Documents:
    """Opens the database of a manifest to write to it.

    Raises:
        IndexFormatError: the database is missing, or differs from what was saved.
        IndexLocked: another process has it open.
    """
    path = check_database(folder, manifest)
    if manifest["database_sha256"] is not None:
        # from now on it changes; said before SQLite touches it, so that a kill in between leaves no false alarm
        manifest["database_sha256"] = None
        write_manifest(folder, manifest)
    return Documents(path)


def write_snapshot(
    folder: Path, manifest: dict[str, Any], documents: Documents, predictor: Predictor | None, overwrite: bool
) -> None:
    """Saves a whole index.

    Raises:
        InvalidInput: the folder is not empty, and it is no index or ``overwrite`` is False.
    """
    replaced: list[Path] = []
    if folder.exists() and any(folder.iterdir()):
        if not overwrite:
            raise InvalidInput(f"{folder} is not empty.", "a new folder", "Use overwrite=True, or another path.")
        read_manifest(folder)  # refuses to write into a folder of something else
        replaced = [*folder.glob("memories-*.sqlite*"), *folder.glob("predictor-*.safetensors*")]
    folder.mkdir(parents=True, exist_ok=True)
    manifest = new_manifest(manifest["dim"], manifest["backend"])
    database = folder / manifest["database"]
    documents.copy_to(database)
    _sync(database)
    if predictor is not None:
        write_weights(folder, *pack_predictor(predictor))
    manifest["database_sha256"] = _sha256(database)
    write_manifest(folder, manifest)
    kept = documents.setting("model")
    for path in replaced:
        if kept is None or path.name != kept["file"]:
            path.unlink(missing_ok=True)


def pack_predictor(predictor: Predictor) -> tuple[dict[str, Any], bytes]:
    """What a setting has to say of a predictor, and the contents of its file."""
    weights = safetensors.torch.save({k: v.contiguous() for k, v in predictor.state_dict().items()})
    digest = hashlib.sha256(weights).hexdigest()
    return {
        "file": f"predictor-{digest[:12]}.safetensors",
        "sha256": digest,
        "predictor": asdict(predictor.config),
    }, weights


def write_weights(folder: Path, model: dict[str, Any], weights: bytes) -> None:
    """Writes the weights to the file that ``model`` names; they are on the disk on return."""
    _write_atomically(folder / str(model["file"]), weights)


def read_predictor(folder: Path, model: dict[str, Any]) -> Predictor:
    """Reads the weights that the setting ``model`` names.

    Raises:
        IndexFormatError: the file is missing, damaged, or does not fit the configuration.
    """
    name = model["file"]
    if not isinstance(name, str) or Path(name).name != name:
        raise IndexFormatError(f"The weights are named {name!r}.", "a file in the folder", "Restore the index.")
    path = folder / name
    _check_file(path, model["sha256"])
    predictor = Predictor(PredictorConfig(**model["predictor"]), torch.Generator().manual_seed(0))
    try:
        predictor.load_state_dict(safetensors.torch.load(path.read_bytes()))
    except (RuntimeError, safetensors.SafetensorError) as error:
        raise IndexFormatError(
            f"{path} does not hold the weights of this index ({error}).", "the saved weights", "Restore it."
        ) from error
    return predictor.eval()


def remove_other_predictors(folder: Path, keep: str | None) -> None:
    """Deletes weights that no setting names: older ones, or those of a fit that was killed."""
    for path in folder.glob("predictor-*.safetensors*"):
        if path.name != keep:
            path.unlink(missing_ok=True)


def _check_file(path: Path, sha256: str | None) -> None:
    if not path.is_file():
        raise IndexFormatError(f"{path} is missing.", "the file that the index names", "Restore it from a copy.")
    if sha256 is not None and _sha256(path) != sha256:
        raise IndexFormatError(
            f"{path} is damaged: its checksum differs.", f"sha256 {sha256}", "Restore it from a copy."
        )


def _write_atomically(path: Path, contents: bytes) -> None:
    """The file has its old contents or the new ones, never a part; on the disk on return."""
    written = path.with_name(f"{path.name}.new")
    written.write_bytes(contents)
    _sync(written)
    written.replace(path)
    _sync(path.parent)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _sync(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open folders; it keeps their entries itself
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
