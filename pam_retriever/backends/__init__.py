"""Vector backends behind one contract (``base.py``)."""

from pam_retriever.backends.base import Backend
from pam_retriever.backends.exact import ExactBackend
from pam_retriever.backends.faiss import FaissBackend
from pam_retriever.errors import InvalidInput


def make_backend(name: str, width: int) -> Backend:
    """A new backend by name: "exact", "faiss", or "faiss:flat", "faiss:hnsw", "faiss:ivf".

    Raises:
        InvalidInput: for any other name.
    """
    engine, _, kind = name.partition(":")
    if engine == "exact" and not kind:
        return ExactBackend(width)
    if engine == "faiss" and kind in ("", "auto", "flat", "hnsw", "ivf"):
        return FaissBackend(width, kind or "auto")  # type: ignore[arg-type]
    raise InvalidInput(
        f"Got backend={name!r}.",
        "'faiss' (chooses by size), 'faiss:flat', 'faiss:hnsw', 'faiss:ivf' or 'exact'",
        "Use 'faiss' if in doubt.",
    )


__all__ = ["Backend", "ExactBackend", "FaissBackend", "make_backend"]
