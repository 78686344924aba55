"""Keys as they are, one after the other: what FAISS's flat index is, in NumPy, and as fast.

So that an index of up to 100,000 memories, which is scanned, needs no FAISS.
"""

from __future__ import annotations

import numpy as np

from pam_retriever.types import Float32, Int64

GROWTH = 1.5


class FlatKeys:
    """(n, width) keys by place; the names are those of FAISS's indexes.

    Args:
        width: length of a key.
        capacity: how many to make room for.
    """

    is_trained = True

    def __init__(self, width: int, capacity: int = 0) -> None:
        self._keys: Float32 = np.empty((capacity, width), np.float32)
        self.ntotal, self.code_size = 0, 4 * width

    @property
    def stored(self) -> Float32:
        """All keys, not copied."""
        return self._keys[: self.ntotal]

    def add(self, keys: Float32) -> None:
        """Appends (m, width)."""
        count = self.ntotal + len(keys)
        if count > len(self._keys):
            grown = np.empty((max(count, int(GROWTH * len(self._keys))), self._keys.shape[1]), np.float32)
            grown[: self.ntotal] = self.stored
            self._keys = grown
        self._keys[self.ntotal : count] = keys
        self.ntotal = count

    def remove(self, places: Int64) -> None:
        """Deletes what is at ``places``, and the others move up."""
        self._keys = np.delete(self.stored, places, axis=0)
        self.ntotal = len(self._keys)

    def reconstruct_batch(self, places: Int64) -> Float32:
        """The keys at ``places``, copied."""
        return self._keys[places]
