"""Vector backends behind one contract (``base.py``)."""

from pathlib import Path

from pam_retriever.backends.base import Backend, Parts, parts
from pam_retriever.backends.exact import ExactBackend
from pam_retriever.backends.faiss import FaissBackend
from pam_retriever.backends.part import FirstPart, describe, share
from pam_retriever.errors import InvalidInput


def make_backend(name: str, width: int, folder: Path | None = None) -> Backend:
    """A new backend by name.

    Args:
        name: "exact", or "faiss" (flat, HNSW or IVF by size), or one of them: "faiss:flat", "faiss:hnsw", "faiss:ivf".
            With ",fp16", ",sq8" or (IVF only) ",pq", keys are compressed in memory, such as "faiss:ivf,sq8".
        width: length of a key.
        folder: for the full keys of a compressed index; None for a temporary file.

    Raises:
        InvalidInput: for any other name.
    """
    engine, _, kind = name.partition(":")
    if engine == "exact" and not kind:
        return ExactBackend(width)
    if engine == "faiss":
        return FaissBackend(width, kind or "auto", folder)
    raise InvalidInput(
        f"Got backend={name!r}.",
        "'faiss' (chooses by size), 'faiss:flat', 'faiss:hnsw', 'faiss:ivf' or 'exact'",
        "Use 'faiss' if in doubt.",
    )


__all__ = [
    "Backend",
    "ExactBackend",
    "FaissBackend",
    "FirstPart",
    "Parts",
    "describe",
    "make_backend",
    "parts",
    "share",
]
