"""Keys as they are, one after the other: what FAISS's flat index is, in NumPy, and as fast.

So that an index of up to 100,000 memories, which is scanned, needs no FAISS. The first numbers of keys may lie in a
block of their own: who asks for them alone reads nothing else, and they are stored once.
"""

from __future__ import annotations

import numpy as np

from pam_retriever.types import Float32, Int64

GROWTH = 2.5  # room that is not used takes no memory: the system gives pages as they are written


class FlatKeys:
    """(n, width) keys by place; the names are those of FAISS's indexes.

    Args:
        width: length of a key.
        capacity: how many to make room for.
        first: how many numbers of each lie in a block of their own; 0 for none.
    """

    is_trained = True

    def __init__(self, width: int, capacity: int = 0, first: int = 0) -> None:
        self._cuts = [first] if 0 < first < width else []
        widths = np.diff([0, *self._cuts, width]).tolist()
        self._blocks: list[Float32] = [np.empty((capacity, part), np.float32) for part in widths]
        self.ntotal, self.code_size = 0, 4 * width

    @property
    def blocks(self) -> tuple[Float32, ...]:
        """All keys, (n, part of the width) each, not copied."""
        return tuple(block[: self.ntotal] for block in self._blocks)

    def add(self, keys: Float32) -> None:
        """Appends (m, width)."""
        count, parts = self.ntotal + len(keys), np.split(keys, self._cuts, axis=1)
        for at, (block, part) in enumerate(zip(self._blocks, parts, strict=True)):
            if count > len(block):
                grown = np.empty((max(count, int(GROWTH * len(block))), block.shape[1]), np.float32)
                grown[: self.ntotal] = block[: self.ntotal]
                self._blocks[at] = block = grown
            block[self.ntotal : count] = part
        self.ntotal = count

    def remove(self, places: Int64) -> None:
        """Deletes what is at ``places``, and the others move up."""
        self._blocks = [np.delete(block, places, axis=0) for block in self.blocks]
        self.ntotal = len(self._blocks[0])

    def reconstruct_batch(self, places: Int64) -> Float32:
        """The keys at ``places``, copied."""
        if len(self._blocks) == 1:
            keys: Float32 = self._blocks[0][places]
            return keys
        return np.concatenate([block[places] for block in self._blocks], axis=1)
