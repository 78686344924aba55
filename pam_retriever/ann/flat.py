"""Uncompressed keys in one array: the same as FAISS's flat index, in NumPy, and as fast.

So an index of up to 100,000 memories, which is scanned, does not need FAISS. The prefixes of the keys may lie in a
separate block. A query for prefixes then reads only that block, and the prefixes are stored once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.types import Float32, Int64

GROWTH = 2.5  # unused room takes no memory: the system assigns pages when they are written


@dataclass(frozen=True)
class Compared:
    """A vector that was compared with all keys.

    Attributes:
        query: (width,) the vector.
        squared: the square of its length.
        products: (n,) its products with the keys.
    """

    query: Float32
    squared: float
    products: Float32

    def cosine(self, other: Float32) -> float:
        """Returns the cosine with another vector."""
        lengths = np.sqrt(self.squared * float(other @ other))
        return abs(float(self.query @ other)) / max(float(lengths), 1e-30)


class FlatKeys:
    """Keys (n, width) by position, with the method names of FAISS's indexes.

    Args:
        width: length of a key.
        capacity: number of keys to reserve room for.
        first: length of the prefix that lies in a separate block; 0 for none.

    Attributes:
        ntotal: the number of keys.
        code_size: bytes per key.
        compared: the vector that was last compared with all prefixes; None after a change of the keys.
    """

    is_trained = True

    def __init__(self, width: int, capacity: int = 0, first: int = 0) -> None:
        self._cuts = [first] if 0 < first < width else []
        widths = [first, width - first] if self._cuts else [width]
        self._blocks: list[Float32] = [np.empty((capacity, part), np.float32) for part in widths]
        self.ntotal, self.code_size = 0, 4 * width
        self.compared: Compared | None = None
        self._longest, self._measured = [0.0] * len(widths), 0

    @property
    def blocks(self) -> tuple[Float32, ...]:
        """All keys as blocks (n, part of the width), without a copy."""
        return tuple(block[: self.ntotal] for block in self._blocks)

    @property
    def longest(self) -> list[float]:
        """The length of the longest key in each block, or more."""
        if self._measured < (count := self.ntotal):
            new = (block[self._measured : count] for block in self._blocks)
            squares = [float(np.einsum("nd,nd->n", some, some).max()) for some in new]
            self._longest = [max(old, square**0.5) for old, square in zip(self._longest, squares, strict=True)]
            self._measured = count
        return self._longest

    def note(self, query: Float32, products: Float32) -> None:
        """Remembers the products (n,) of the first block with a query, for the next query."""
        squared = float(query @ query)
        self.compared = Compared(query.copy(), squared, products) if squared > 0 else None

    def add(self, keys: Float32) -> None:
        """Appends keys (m, width)."""
        count, parts = self.ntotal + len(keys), np.split(keys, self._cuts, axis=1)
        for at, (block, part) in enumerate(zip(self._blocks, parts, strict=True)):
            if count > len(block):
                grown = np.empty((max(count, int(GROWTH * len(block))), block.shape[1]), np.float32)
                grown[: self.ntotal] = block[: self.ntotal]
                self._blocks[at] = block = grown
            block[self.ntotal : count] = part
        self.ntotal, self.compared = count, None

    def remove(self, positions: Int64) -> None:
        """Deletes the keys at ``positions``; later keys move up."""
        self._blocks = [np.delete(block, positions, axis=0) for block in self.blocks]
        self.ntotal, self.compared = len(self._blocks[0]), None
        self._measured -= int((positions < self._measured).sum())

    def reconstruct_batch(self, positions: Int64) -> Float32:
        """Returns copies of the keys at ``positions``."""
        if len(self._blocks) == 1:
            keys: Float32 = self._blocks[0].take(positions, axis=0)  # faster than an index
            return keys
        return np.concatenate([block.take(positions, axis=0) for block in self._blocks], axis=1)
