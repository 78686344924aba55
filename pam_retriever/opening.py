"""Banks: a new one in memory, one in a folder, and a copy of one in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pam_retriever.backends import make_backend
from pam_retriever.bank import Bank
from pam_retriever.embedding import Embedder
from pam_retriever.engines.bank import EngineBank
from pam_retriever.engines.base import Engine
from pam_retriever.errors import IndexFormatError, InvalidInput
from pam_retriever.jepa.encoder import CompositeEncoder
from pam_retriever.jepa.store import Space
from pam_retriever.limits import MAX_DIM
from pam_retriever.local import LocalBank
from pam_retriever.storage import snapshot
from pam_retriever.storage.documents import Documents
from pam_retriever.storage.manifest import new_manifest, read_manifest
from pam_retriever.validation import check_count


def new_bank(
    dim: int | None, backend: str | Engine, embedder: Embedder | None, encoder: CompositeEncoder | None
) -> Bank:
    """An empty bank in memory, or the one that an engine has.

    Raises:
        InvalidInput: of the arguments.
    """
    space = _space(encoder)
    if not isinstance(backend, str):
        return _engine_bank(dim, backend, embedder, space)
    return LocalBank(Documents(), _new_manifest(_read_dim(dim, space, embedder), backend), space=space)


def _engine_bank(dim: int | None, engine: Engine, embedder: Embedder | None, space: Space | None) -> Bank:
    if not isinstance(engine, Engine):
        raise InvalidInput(f"Got backend={engine!r}.", "a name or an engine", "Use 'faiss' if in doubt.")
    if space is not None:
        raise InvalidInput(
            f"Got an encoder with {engine!r}.",
            "vectors in an engine, or a folder for observations",
            "Encode them before add(), or leave backend out.",
        )
    if dim is None and embedder is not None:
        dim = embedder.dim()
    return EngineBank(engine, None if dim is None else check_count("dim", dim, MAX_DIM))


def open_bank(
    folder: Path,
    dim: int | None,
    backend: str,
    embedder: Embedder | None,
    encoder: CompositeEncoder | None,
    read_only: bool,
) -> Bank:
    """The bank that lives in a folder, which is made if it is not there; see ``PredictiveAssociativeIndex.open``."""
    if not isinstance(backend, str):
        raise InvalidInput(
            f"Got backend={backend!r} for a folder.",
            "the name of a backend",
            "PredictiveAssociativeIndex(dim, backend=...) opens an index in an engine.",
        )
    space = _space(encoder)
    if read_only or (folder.is_dir() and any(folder.iterdir())):
        _check_dim(folder, dim)
    else:
        if dim is None and embedder is None and space is None:
            raise InvalidInput(f"There is no index at {folder}.", "dim for a new one", "Pass dim=...")
        snapshot.create_folder(folder, _new_manifest(_read_dim(dim, space, embedder), backend))
    if read_only:
        return snapshot.view(folder, lambda documents, manifest: _read(folder, documents, manifest, space))
    home = snapshot.Home(folder)
    with home.closed_on_error():
        _check_backend(home.manifest)
        return LocalBank(home.documents, home.manifest, folder, source=folder, home=home, space=space)


def load_bank(folder: Path, encoder: CompositeEncoder | None) -> Bank:
    """A copy in memory of the bank in a folder."""
    space = _space(encoder)
    return snapshot.load(folder, lambda documents, manifest: _read(folder, documents, manifest, space))


def _read(folder: Path, documents: Documents, manifest: dict[str, Any], space: Space | None) -> Bank:
    _check_backend(manifest)
    return LocalBank(documents, manifest, source=folder, space=space)


def _space(encoder: CompositeEncoder | None) -> Space | None:
    return None if encoder is None else Space.of(encoder)


def _read_dim(dim: int | None, space: Space | None, embedder: Embedder | None) -> Any:
    """The dimension of a new index: as given, or that of its encoder or embedder."""
    if space is None:
        if dim is None and embedder is None:
            raise InvalidInput("There is neither dim nor embedder.", "one of them", "Pass dim=...")
        return embedder.dim() if dim is None and embedder is not None else dim
    if dim not in (None, space.encoder.dim):
        raise InvalidInput(f"Got dim={dim} with an encoder.", f"{space.encoder.dim}, its dimension", "Leave dim out.")
    return space.encoder.dim


def _new_manifest(dim: int, backend: str) -> dict[str, Any]:
    make_backend(backend, 1)  # refuses an unknown name
    return new_manifest(check_count("dim", dim, MAX_DIM), backend)


def _check_dim(folder: Path, dim: int | None) -> None:
    manifest = read_manifest(folder)
    if dim is not None and dim != manifest["dim"]:
        raise InvalidInput(
            f"Got dim={dim} for the index at {folder}.", f"{manifest['dim']}, its dimension", "Leave dim out."
        )


def _check_backend(manifest: dict[str, Any]) -> None:
    try:
        make_backend(str(manifest["backend"]), 1)
    except InvalidInput as error:
        raise IndexFormatError(
            f"The manifest has backend={manifest['backend']!r}.", error.expected, "Restore it."
        ) from error
