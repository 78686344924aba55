"""The index of a store and of its tenants."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from llama_index_pam.persistence import is_filled
from pam_retriever import PredictiveAssociativeIndex

if TYPE_CHECKING:
    from llama_index_pam.vector_store import PAMVectorStore


class WholeIndex:
    """An index that is created with the first node, with the dimension of its embedding.

    Args: those of ``PAMVectorStore``.

    Attributes:
        index: None before the first node.
        making: a lock, held while the index is created.
        tenants: the stores of tenants, by name.
    """

    def __init__(
        self, index: PredictiveAssociativeIndex | None, path: str | None, backend: str, read_only: bool
    ) -> None:
        self.index, self._path, self._backend = index, path, backend
        self.making = threading.RLock()
        self.tenants: WeakValueDictionary[str, PAMVectorStore] = WeakValueDictionary()
        if path is not None and (read_only or is_filled(path)):
            self.index = PredictiveAssociativeIndex.open(path, read_only=read_only)

    def new(self, dim: int) -> PredictiveAssociativeIndex:
        """Returns a new index in memory, which the store does not use yet."""
        return PredictiveAssociativeIndex(dim, self._backend)

    def keep(self, index: PredictiveAssociativeIndex) -> PredictiveAssociativeIndex:
        """Makes this index the index of the store; saves it first if the store has a folder."""
        if self._path is not None:
            index.save(self._path)
            index = PredictiveAssociativeIndex.open(self._path)
        self.index = index
        return index
