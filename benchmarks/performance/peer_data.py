"""The data of ``peers``: every process draws the same rows and questions from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
GROUPS, PARTS = 50, 100  # a group has 2 % of the rows; half of the parts have 50 %
KINDS = ("no filter", "a filter of 2 %", "a filter of 50 %")


@dataclass(frozen=True)
class Rows:
    """n rows to store.

    Attributes:
        vectors: (n, dim).
        ids: distinct.
        texts: random words.
        metadatas: two numbers each.
    """

    vectors: Float32
    ids: list[str]
    texts: list[str]
    metadatas: list[dict[str, int]]


@dataclass(frozen=True)
class RangeFilter:
    """A filter ``first <= metadata[key] < end``, and the rows that match it.

    Attributes:
        positions: positions of the matching rows, in the order of adding.
        count: number of all rows.
        few: whether so few rows match that a list of them is the fastest selector for FAISS.
    """

    key: str
    first: int
    end: int
    positions: npt.NDArray[np.int64]
    count: int

    @property
    def few(self) -> bool:
        return len(self.positions) < self.count / 10

    @cached_property
    def bits(self) -> npt.NDArray[np.uint8]:
        """Returns the positions as a bitmap."""
        there = np.zeros(self.count, bool)
        there[self.positions] = True
        return np.packbits(there, bitorder="little")


class World:
    """Rows of random vectors with a text of nine words, and questions.

    Args:
        count: number of rows.
        dim: length of the vectors.
        seed: seed of all random draws.
    """

    def __init__(self, count: int, dim: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.vectors = random.standard_normal((count, dim), np.float32)
        self.groups, self.parts = random.integers(0, GROUPS, count), random.integers(0, PARTS, count)
        self._random, self._lengths = random, np.linalg.norm(self.vectors, axis=1)

    def rows(self, start: int, end: int) -> Rows:
        """Returns the rows from ``start`` up to ``end``, exclusive."""
        at = range(start, min(end, len(self.vectors)))
        return Rows(
            self.vectors[start:end],
            [f"memory-{n}" for n in at],
            [f"room {n % 20}, moment {n}: what was seen and heard there" for n in at],
            [{"group": int(self.groups[n]), "part": int(self.parts[n])} for n in at],
        )

    def queries(self, count: int) -> Float32:
        """Returns (count, dim) noisy views of rows."""
        chosen = self._random.integers(0, len(self.vectors), count)
        noise = self._random.standard_normal((count, self.vectors.shape[1]), np.float32)
        return self.vectors[chosen] + noise

    def filter_of(self, kind: str) -> RangeFilter | None:
        """Returns a filter of a kind, with new random values."""
        if kind == KINDS[0]:
            return None
        if kind == KINDS[1]:
            key, first, size, values = "group", int(self._random.integers(0, GROUPS)), 1, self.groups
        else:
            key, first, size, values = "part", int(self._random.integers(0, PARTS // 2)), PARTS // 2, self.parts
        positions = np.flatnonzero((values >= first) & (values < first + size))
        return RangeFilter(key, first, first + size, positions, len(values))

    def exact(self, query: Float32, k: int, bounds: RangeFilter | None) -> list[str]:
        """Returns the ids of the nearest rows by cosine."""
        scores = (self.vectors @ query) / self._lengths
        positions = np.arange(len(scores)) if bounds is None else bounds.positions
        return [f"memory-{at}" for at in positions[np.argsort(-scores[positions], kind="stable")[:k]].tolist()]
