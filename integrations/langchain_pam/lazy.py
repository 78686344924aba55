"""An index that is made when the first vectors come, since only they tell its dimension."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from langchain_core.documents import Document

from pam_retriever import InvalidInput, PredictiveAssociativeIndex


class LazyIndex:
    """Holds the index of a store.

    Args:
        index: one that is there already.
        path: folder of a durable one, which is opened if it is there and else made later.

    Attributes:
        index: None until there is one.

    Raises:
        InvalidInput: both were given.
    """

    def __init__(self, index: PredictiveAssociativeIndex | None, path: str | Path | None) -> None:
        if index is not None and path is not None:
            raise InvalidInput("Got both index and path.", "one of them", "An index that was opened has its own path.")
        self._lock = threading.Lock()
        self._path = None if path is None else Path(path)
        self.index = index
        if self._path is not None and self._path.is_dir() and any(self._path.iterdir()):
            self.index = PredictiveAssociativeIndex.open(self._path)

    def add(self, documents: dict[str, Document], vectors: Sequence[Sequence[float]]) -> None:
        """Stores documents by id with their vectors, replacing those whose id is there.

        Raises:
            InvalidInput: nothing was stored.
        """
        if len(vectors) != len(documents):
            raise InvalidInput(
                f"The embedder returned {len(vectors)} vectors for {len(documents)} texts.",
                "one vector a text",
                "Check the embedder.",
            )
        with self._lock:  # of two threads that come first, one makes the index
            if self.index is None:
                self.index = self._make(documents, vectors)
                return
        _add(self.index, documents, vectors)

    def _make(self, documents: dict[str, Document], vectors: Sequence[Sequence[float]]) -> PredictiveAssociativeIndex:
        """A new index with its first documents; if it refuses them, nothing fixes the dimension."""
        index = PredictiveAssociativeIndex(len(vectors[0]))
        _add(index, documents, vectors)
        if self._path is None:
            return index
        index.save(self._path)
        return PredictiveAssociativeIndex.open(self._path)


def _add(index: PredictiveAssociativeIndex, documents: dict[str, Document], vectors: Sequence[Sequence[float]]) -> None:
    pages = documents.values()
    index.add(vectors, list(documents), [page.page_content for page in pages], [page.metadata for page in pages])
