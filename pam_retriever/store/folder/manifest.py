"""The manifest of an index: format version, dimension, backend, name and checksum of the database."""

from __future__ import annotations

import json
import re
import stat
import uuid
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict, cast

from pam_retriever import __about__
from pam_retriever.errors import IndexFormatError
from pam_retriever.limits import MAX_DIM, MAX_MANIFEST_BYTES
from pam_retriever.store.faults import explained
from pam_retriever.store.folder.files import mode_of, write_atomically
from pam_retriever.store.folder.tenant_names import tenant_at

FORMAT = "pam-retriever-index"
FORMAT_VERSION = 4  # 2 added feedback; 3 has the words of all scripts, 4 the parts of identifiers
MANIFEST = "manifest.json"
DATABASE = re.compile(r"memories-[0-9a-f]{8,64}\.sqlite")
SHA256 = re.compile(r"[0-9a-f]{64}")
TENANTS = re.compile(r"tenants-[0-9a-f]{12}")


class Required(TypedDict):
    """The entries of every ``manifest.json``; see ``docs/reference/guarantees.md``."""

    format: str
    format_version: int
    library_version: str
    dim: int
    metric: str
    backend: str
    database: str
    database_sha256: str | None  # None while a writer has the database open


class Manifest(Required, total=False):
    """All entries of ``manifest.json``."""

    tenants: str  # the folder of the tenants, if there is one


def new_manifest(dim: int, backend: str) -> Manifest:
    """Returns the manifest of an index that has no database yet."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __about__.__version__,
        "dim": dim,
        "metric": "cosine",
        "backend": backend,
        "database": f"memories-{uuid.uuid4().hex[:12]}.sqlite",
        "database_sha256": None,  # only for a database that nobody writes to
    }


def has_manifest(folder: Path) -> bool:
    """Returns whether a folder has a manifest.

    Raises:
        StorageError: the folder cannot be read.
    """
    with explained(folder):
        return mode_of(folder / MANIFEST) != 0


def read_manifest(folder: Path) -> Manifest:
    """Reads and checks a manifest.

    Raises:
        IndexFormatError: the manifest is missing, is no manifest of this library, or has a newer format.
        StorageError: the manifest cannot be read.
    """
    path = folder / MANIFEST
    with explained(path):
        there = stat.S_ISREG(mode_of(path))  # a pipe or a device could be read for ever
    if not there:
        if (tenant := tenant_at(folder)) is not None and not folder.exists():
            raise IndexFormatError(
                f"There is no tenant {tenant!r} at {folder.parent.parent} any more: it or the index was removed.",
                "a tenant that is stored",
                "tenants() of the index lists them.",
            )
        raise IndexFormatError(
            f"{folder} holds no {MANIFEST}." if folder.exists() else f"{folder} does not exist.",
            "the folder of an index",
            "Check the path. open(), save() and pam-retriever fit make such a folder, if it is new or empty.",
        )
    with explained(path), path.open("rb") as file:
        contents = file.read(MAX_MANIFEST_BYTES + 1)
    return parse_manifest(contents, path)


def parse_manifest(contents: bytes, path: Path) -> Manifest:
    """Checks the contents of a manifest; returns a new object each time.

    Args:
        contents: contents of the file.
        path: path of the file, for messages.

    Raises:
        IndexFormatError: it is no manifest of this library, or has a newer format.
    """
    return cast("Manifest", dict(_parse(contents, path)))


@lru_cache(8)  # ``open`` reads the manifest before and after it takes the lock
def _parse(contents: bytes, path: Path) -> dict[str, Any]:
    try:
        if len(contents) > MAX_MANIFEST_BYTES:
            raise ValueError(f"more than {MAX_MANIFEST_BYTES:,} bytes")
        manifest = json.loads(contents.decode("utf-8"))
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise ValueError(f"no {FORMAT!r} in it")
    except (ValueError, RecursionError) as error:
        raise IndexFormatError(
            f"{path} is not a manifest ({error}).",
            "the manifest of an index",
            "Restore it from a copy, or run pam-retriever repair on the folder.",
        ) from error
    version = manifest.get("format_version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise IndexFormatError(
            f"{path.parent} has format version {version!r}, written by version "
            f"{manifest.get('library_version')!r} of this library.",
            f"format version 1 to {FORMAT_VERSION}",
            "Upgrade pam-retriever to read it.",
        )
    for key, right in _expected(manifest).items():
        if not right:
            raise IndexFormatError(
                f"{path} has {str(manifest.get(key))[:100]!r} as {key!r}.",
                "a database in the same folder, its SHA-256 or null, a dimension and a backend",
                "Restore it from a copy, or run pam-retriever repair on the folder.",
            )
    return manifest


def _expected(manifest: dict[str, Any]) -> dict[str, bool]:
    """Returns for each entry whether its value has the right type."""
    dim, sha256 = manifest.get("dim"), manifest.get("database_sha256", "missing")
    unknown = set(manifest) - Manifest.__required_keys__ - Manifest.__optional_keys__
    return {
        "dim": type(dim) is int and 1 <= dim <= MAX_DIM,
        "backend": isinstance(manifest.get("backend"), str),
        "database": DATABASE.fullmatch(str(manifest.get("database"))) is not None,
        "database_sha256": sha256 is None or SHA256.fullmatch(str(sha256)) is not None,
        "tenants": "tenants" not in manifest or TENANTS.fullmatch(str(manifest["tenants"])) is not None,
        **dict.fromkeys(unknown, False),  # a flipped bit in a name would make the entry disappear
    }


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replaces the manifest atomically."""
    write_atomically(folder / MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())
