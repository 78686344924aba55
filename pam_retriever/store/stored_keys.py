"""The keys of a store, read chunk by chunk: an ANN index is built from them without all being in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pam_retriever.ann import AnnIndex, Chunked
from pam_retriever.model.keys import make_keys
from pam_retriever.store.database import ShardedMemories
from pam_retriever.store.memories import SQLiteMemories
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.types import Float32, Int64

Associate = Callable[[Int64, Float32], Float32]
"""Rows (n,) and their vectors (n, d) -> association vectors (n, d + code)."""


class StoredKeys:
    """The keys that the database has: [p ; f(p) ; e(p)], or [p] before ``fit``.

    Args:
        memories: of the database.
        rows: (n,) sorted, all of which are stored.
        dim: d.
        width: of an association vector; 0 before ``fit``.
    """

    def __init__(self, memories: SQLiteMemories, rows: Int64, dim: int, width: int) -> None:
        self._memories, self._rows, self._dim, self._width = memories, rows, dim, width

    def __getitem__(self, chunk: slice) -> Float32:
        return make_keys(*self._memories.stored(self._rows[chunk], self._dim, self._width))


class StoredVectors:
    """The vectors of memories, some of which may be deleted while they are read: those are zeros.

    Args:
        memories: of the database.
        lock: of the store, held while a chunk is read.
        rows: (n,) sorted.
        dim: d.
    """

    def __init__(self, memories: ShardedMemories, lock: ReadWriteLock, rows: Int64, dim: int) -> None:
        self._memories, self._lock, self._rows, self._dim = memories, lock, rows, dim

    def __getitem__(self, chunk: slice) -> Float32:
        rows = self._rows[chunk]
        with self._lock.shared():
            stored, found = self._memories.vectors_of(rows, self._dim)
        if len(stored) == len(rows):
            return found
        vectors = np.zeros((len(rows), self._dim), np.float32)
        vectors[np.isin(rows, stored)] = found
        return vectors


class NewKeys:
    """Keys whose association vectors are made as they are read.

    Args:
        rows: (n,).
        vectors: (n, d) an array, or what reads one chunk by chunk.
        associate: makes the association vectors; None for keys [p].
        sample: makes those of a sample (a slice with a step), which the one process reads that builds, where
            ``associate`` is shared among several; None for the same.
    """

    def __init__(
        self, rows: Int64, vectors: Chunked, associate: Associate | None, sample: Associate | None = None
    ) -> None:
        self._rows, self._vectors, self._associate, self._sample = rows, vectors, associate, sample

    def __getitem__(self, chunk: slice) -> Float32:
        vectors = self._vectors[chunk]
        associate = self._associate if chunk.step is None else self._sample or self._associate
        return make_keys(vectors, None if associate is None else associate(self._rows[chunk], vectors))


class PrefixKeys:
    """The keys [p] of an index over whole keys.

    Args:
        whole: over whole keys.
        rows: (n,) all of which are stored in it.
        dim: d.
    """

    def __init__(self, whole: AnnIndex, rows: Int64, dim: int) -> None:
        self._whole, self._rows, self._dim = whole, rows, dim

    def __getitem__(self, chunk: slice) -> Float32:
        return self._whole.keys(self._rows[chunk])[:, : self._dim]
