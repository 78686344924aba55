"""Nearest-neighbour indexes behind one contract (``base.py``)."""

from pathlib import Path
from typing import Any

from pam_retriever.ann.base import AnnIndex, Chunked, WritableAnnIndex, chunks
from pam_retriever.ann.exact import ExactBackend
from pam_retriever.ann.faiss import FaissBackend
from pam_retriever.ann.graph import Graph
from pam_retriever.ann.prefix_view import OverP, PrefixView
from pam_retriever.errors import InvalidInput


def make_backend(name: str, width: int, folder: Path | None = None, first: int = 0) -> WritableAnnIndex:
    """Creates an index by name.

    Args:
        name: "exact", "faiss" (flat, HNSW or IVF by size), "faiss:flat", "faiss:hnsw" or "faiss:ivf". The suffixes
            ",fp16", ",sq8" and (IVF only) ",pq" compress the keys in memory: for example "faiss:ivf,sq8".
        width: length of a key.
        folder: the folder for the full keys of a compressed index; None for a temporary file.
        first: length of the prefix of a key for which there are separate queries; 0 for none.

    Raises:
        InvalidInput: the name is unknown.
    """
    engine, _, kind = name.partition(":")
    if engine == "exact" and not kind:
        return ExactBackend(width)
    if engine == "faiss":
        return FaissBackend(width, kind or "auto", folder, first)
    raise InvalidInput(
        f"Got backend={name!r}.",
        "'faiss' (chooses by size), 'faiss:flat', 'faiss:hnsw', 'faiss:ivf' or 'exact'",
        "Use 'faiss' if in doubt.",
    )


def restore_backend(
    name: str, width: int, folder: Path, saved: dict[str, Any], read_only: bool
) -> WritableAnnIndex | None:
    """Reads the index that ``AnnFiles.save`` wrote to a folder; returns None for a kind that is never saved.

    Raises:
        OSError, RuntimeError, ValueError, TypeError, KeyError, OverflowError: the index is missing or damaged.
    """
    if not name.startswith("faiss"):
        return None
    made = FaissBackend(width, name.partition(":")[2] or "auto", None if read_only else folder)
    made.restore(folder, saved, read_only)
    return made


__all__ = [
    "AnnIndex",
    "Chunked",
    "ExactBackend",
    "FaissBackend",
    "Graph",
    "OverP",
    "PrefixView",
    "WritableAnnIndex",
    "chunks",
    "make_backend",
    "restore_backend",
]
