"""Uncompressed keys in one array: the same as FAISS's flat index, in NumPy, and as fast.

So an index of up to 100,000 memories, which is scanned, does not need FAISS. The prefixes of the keys may lie in a
separate block. A query for prefixes then reads only that block, and the prefixes are stored once.
"""

from __future__ import annotations

import numpy as np

from pam_retriever.types import Float32, Int64

GROWTH = 2.5  # unused room takes no memory: the system assigns pages when they are written


class FlatKeys:
    """Keys (n, width) by position, with the method names of FAISS's indexes.

    Args:
        width: length of a key.
        capacity: number of keys to reserve room for.
        first: length of the prefix that lies in a separate block; 0 for none.
    """

    is_trained = True

    def __init__(self, width: int, capacity: int = 0, first: int = 0) -> None:
        self._cuts = [first] if 0 < first < width else []
        widths = np.diff([0, *self._cuts, width]).tolist()
        self._blocks: list[Float32] = [np.empty((capacity, part), np.float32) for part in widths]
        self.ntotal, self.code_size = 0, 4 * width

    @property
    def blocks(self) -> tuple[Float32, ...]:
        """All keys as blocks (n, part of the width), without a copy."""
        return tuple(block[: self.ntotal] for block in self._blocks)

    def add(self, keys: Float32) -> None:
        """Appends keys (m, width)."""
        count, parts = self.ntotal + len(keys), np.split(keys, self._cuts, axis=1)
        for at, (block, part) in enumerate(zip(self._blocks, parts, strict=True)):
            if count > len(block):
                grown = np.empty((max(count, int(GROWTH * len(block))), block.shape[1]), np.float32)
                grown[: self.ntotal] = block[: self.ntotal]
                self._blocks[at] = block = grown
            block[self.ntotal : count] = part
        self.ntotal = count

    def remove(self, positions: Int64) -> None:
        """Deletes the keys at ``positions``; later keys move up."""
        self._blocks = [np.delete(block, positions, axis=0) for block in self.blocks]
        self.ntotal = len(self._blocks[0])

    def reconstruct_batch(self, positions: Int64) -> Float32:
        """Returns copies of the keys at ``positions``."""
        if len(self._blocks) == 1:
            keys: Float32 = self._blocks[0].take(positions, axis=0)  # faster than an index
            return keys
        return np.concatenate([block.take(positions, axis=0) for block in self._blocks], axis=1)
