"""An index that is made when the first vectors come, since only they tell its dimension."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
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
        array = np.asarray(vectors, np.float32)
        if self.index is not None:
            _add(self.index, documents, array)
            return
        with self._lock:  # of two threads that come first, one makes the index
            if self.index is None:
                self.index = self._make(documents, array)
            else:
                _add(self.index, documents, array)

    def _make(self, documents: dict[str, Document], vectors: np.ndarray) -> PredictiveAssociativeIndex:
        """A new index with its first documents; one that refuses them is not kept."""
        dim = vectors.shape[1]
        if self._path is None:
            index = PredictiveAssociativeIndex(dim)
        else:
            index = PredictiveAssociativeIndex.open(self._path, dim)
        try:
            _add(index, documents, vectors)
        except BaseException:
            index.close()
            raise
        return index


def _add(index: PredictiveAssociativeIndex, documents: dict[str, Document], vectors: np.ndarray) -> None:
    pages = documents.values()
    index.add(vectors, list(documents), [page.page_content for page in pages], [page.metadata for page in pages])
