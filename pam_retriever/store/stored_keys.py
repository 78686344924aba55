"""The keys of a store, read in chunks, so that an ANN index can be built without all keys in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pam_retriever.ann import AnnIndex, Chunked
from pam_retriever.model.keys import make_keys
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.store.sqlite.memories import SQLiteMemories
from pam_retriever.types import Float32, Int64

Associate = Callable[[Int64, Float32], Float32]
"""Rows (n,) and their vectors (n, d) -> association vectors (n, d + code)."""


class StoredKeys:
    """The keys in the database: [p ; f(p) ; e(p)], or [p] before ``fit``.

    Args:
        memories: memories of the database.
        rows: (n,) sorted, all stored.
        dim: d.
        width: length of an association vector; 0 before ``fit``.
    """

    def __init__(self, memories: SQLiteMemories, rows: Int64, dim: int, width: int) -> None:
        self._memories, self._rows, self._dim, self._width = memories, rows, dim, width

    def __getitem__(self, chunk: slice) -> Float32:
        return make_keys(*self._memories.stored(self._rows[chunk], self._dim, self._width))


class StoredVectors:
    """The vectors of memories. Zeros for a memory that is deleted before it is read.

    Args:
        memories: memories of the database.
        lock: lock of the store, held while a chunk is read.
        rows: (n,) sorted.
        dim: d.
    """

    def __init__(self, memories: SQLiteMemories, lock: ReadWriteLock, rows: Int64, dim: int) -> None:
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
    """Keys whose association vectors are computed while they are read.

    Args:
        rows: (n,).
        vectors: (n, d) an array, or a reader of chunks.
        associate: computes the association vectors; None for keys [p].
        sample: computes the association vectors of a sample (a slice with a step) in one process, if several processes
            share ``associate``; None to use ``associate``.
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
        whole: the index over whole keys.
        rows: (n,) rows, all stored in that index.
        dim: d.
    """

    def __init__(self, whole: AnnIndex, rows: Int64, dim: int) -> None:
        self._whole, self._rows, self._dim = whole, rows, dim

    def __getitem__(self, chunk: slice) -> Float32:
        return self._whole.keys(self._rows[chunk])[:, : self._dim]
