"""The contracts of a nearest-neighbour index: one for reading, one for writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pam_retriever.ann.graph import Graph
from pam_retriever.ann.selection import Rows
from pam_retriever.types import Float32, Int64

AT_ONCE = 1_000  # keys per read or move: they stay in the processor's cache, in memory that each read uses again


class Chunked(Protocol):
    """A source of slices of an array (n, width): the array itself, or a reader."""

    def __getitem__(self, chunk: slice) -> Float32:
        """Returns the rows of the array in ``chunk``."""


def chunks(count: int) -> Iterator[slice]:
    """Yields slices that cover ``count`` items, ``AT_ONCE`` at a time.

    The processes of a distributed fit compute keys together, so all indexes read them in these slices.
    """
    return (slice(at, min(at + AT_ONCE, count)) for at in range(0, count, AT_ONCE))


def read_keys(keys: Chunked, part: slice, width: int) -> Float32:
    """Returns keys (n, width) that are read in ``chunks``."""
    if isinstance(keys, np.ndarray):
        return np.asarray(keys[part], np.float32)
    whole = np.empty((part.stop - part.start, width), np.float32)
    for chunk in chunks(len(whole)):
        whole[chunk] = keys[part.start + chunk.start : part.start + chunk.stop]
    return whole


class AnnIndex(Protocol):
    """Finds the keys with the largest inner product; read-only.

    The database assigns each row number once. An index neither creates nor reuses row numbers. A search never returns a
    removed row.
    """

    @property
    def description(self) -> str:
        """Kind and compression of the index, with the reason if they were chosen automatically."""

    def __len__(self) -> int:
        """The number of stored rows."""

    def keys(self, rows: Int64) -> Float32:
        """Returns the keys (n, width) of ``rows``, all of which are stored."""

    def search(self, queries: Float32, k: int, allowed: Rows | None = None) -> tuple[Float32, Int64]:
        """Returns the ``k`` best rows of each query, best first.

        Args:
            queries: (Q, width).
            k: number of rows per query, at least 1.
            allowed: sorted rows to choose from; None for all.

        Returns:
            Scores and rows, both (Q, min(k, number of candidates)). An approximate search may find fewer: the rest is
            -inf and row -1.
        """


class WritableAnnIndex(AnnIndex, Protocol):
    """An index with keys in this process, which can be changed."""

    @property
    def answers_for_first(self) -> bool:
        """Whether a search by the prefixes of keys is as good as in a separate index over the prefixes."""

    @property
    def rows(self) -> Int64:
        """The stored rows (n,), sorted."""

    @property
    def files(self) -> AnnFiles | None:
        """The files of the index in a folder; None if it has none and is fast to build."""

    @property
    def graph(self) -> Graph | None:
        """The edges of the index, without keys; None if there are none, or if ``files`` contains them."""

    def rebuild_with_graph(self, graph: Graph, rows: Int64, keys: Chunked) -> None:
        """Like ``rebuild``, with the edges of an index that was built before.

        Args:
            graph: the edges; may be invalid.
            rows: (n,) the rows of the graph, sorted.
            keys: (n, width) the keys of these rows.

        Raises:
            ValueError: the graph is invalid, or does not fit the keys. Call ``rebuild`` then.
        """

    def rebuild(self, rows: Int64, keys: Chunked) -> None:
        """Replaces all contents by ``rows`` (n,) and their ``keys`` (n, width).

        Reads the keys in the chunks of ``chunks``, in order. It may read a sample before.
        """

    def add(self, rows: Int64, keys: Float32) -> None:
        """Stores ``keys`` (n, width) under ``rows`` (n,), and replaces rows that are stored."""

    def remove(self, rows: Int64) -> None:
        """Removes ``rows``; ignores rows that are not stored."""

    def reserve_disk(self, count: int) -> None:
        """Reserves disk space for ``count`` more keys, if keys are written to a disk.

        Raises:
            StorageError: the disk has no space.
        """


class AnnFiles(Protocol):
    """The files of an index that is slow to build."""

    @property
    def full(self) -> str:
        """The name of the file that grows with new keys. ``save`` keeps it, and writes all others."""

    @property
    def holds_removed(self) -> bool:
        """Whether it holds removed keys, which ``erase_removed`` overwrites."""

    def erase_removed(self) -> None:
        """Overwrites removed keys, in memory and in the file ``full``.

        Raises:
            StorageError: the disk cannot be written.
        """

    def save(self, folder: Path, name: str) -> dict[str, Any]:
        """Writes files named ``name`` and an end, beside ``full``; returns the arguments of ``restore_backend``."""
