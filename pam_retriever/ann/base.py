"""The contracts of an index for nearest neighbours: one to read, and one to write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from pam_retriever.ann.graph import Graph
from pam_retriever.ann.selection import Rows
from pam_retriever.types import Float32, Int64

AT_ONCE = 100_000  # keys that are read, or moved, at once


class Chunked(Protocol):
    """What gives any slice of an array (n, width): the array itself, or what reads it when it is asked."""

    def __getitem__(self, chunk: slice) -> Float32:
        """The rows of the array in ``chunk``."""


def chunks(count: int, size: int = AT_ONCE) -> Iterator[slice]:
    """Slices that cover ``count`` things, ``size`` at a time."""
    return (slice(at, min(at + size, count)) for at in range(0, count, size))


class AnnIndex(Protocol):
    """Finds the keys with the largest inner product. It can only be read.

    A row is a number that the database hands out once; an index neither makes nor reuses rows.
    A row that was removed never comes back from a search.
    """

    @property
    def description(self) -> str:
        """What it is now: kind and code, and why if that was left to it."""

    def __len__(self) -> int:
        """How many rows are stored."""

    def keys(self, rows: Int64) -> Float32:
        """(n, width) the stored keys of ``rows``, all of which are stored."""

    def search(self, queries: Float32, k: int, allowed: Rows | None = None) -> tuple[Float32, Int64]:
        """The ``k`` best rows of each query, best first.

        Args:
            queries: (Q, width).
            k: at least 1.
            allowed: sorted rows to choose from; None for all.

        Returns:
            Scores and rows, both (Q, min(k, number to choose from)). Places that an approximate
            search could not fill hold -inf and row -1.
        """


class WritableAnnIndex(AnnIndex, Protocol):
    """An index whose keys lie in this process."""

    @property
    def compressed(self) -> bool:
        """Whether memory holds codes in place of keys."""

    @property
    def answers_for_first(self) -> bool:
        """Whether the first numbers of keys are found by it as well as by an index of them alone."""

    @property
    def rows(self) -> Int64:
        """(n,) what is stored, sorted."""

    @property
    def files(self) -> AnnFiles | None:
        """Its files in a folder; None where it has none, and is quick to build anew."""

    @property
    def graph(self) -> Graph | None:
        """What takes long to build and holds no keys; None where there is no such thing, or ``files`` has it."""

    def rebuild_with_graph(self, graph: Graph, rows: Int64, keys: Chunked) -> None:
        """As ``rebuild``, with the edges of an index that was built before.

        Args:
            graph: which may be anything.
            rows: (n,) those of the graph, sorted.
            keys: of them (n, width).

        Raises:
            ValueError: the graph is none, or none of so many keys; call ``rebuild`` then.
        """

    def rebuild(self, rows: Int64, keys: Chunked) -> None:
        """Replaces everything by ``rows`` (n,) and their ``keys`` (n, width).

        They are read chunk by chunk, in the order and the size of ``chunks``, and before that perhaps a sample.
        """

    def add(self, rows: Int64, keys: Float32) -> None:
        """Stores ``keys`` (n, width) under ``rows`` (n,), replacing rows that are there."""

    def remove(self, rows: Int64) -> None:
        """Removes ``rows``; one that is not stored is ignored."""

    def reserve_disk(self, count: int) -> None:
        """Has the disk take ``count`` more keys, if they are to be written to one.

        Raises:
            StorageError: it does not.
        """


class AnnFiles(Protocol):
    """The files of an index that is slow to build."""

    @property
    def name(self) -> str:
        """With which their names begin."""

    def erase_removed(self) -> None:
        """Overwrites what was removed, in memory and in the file that is written as keys come.

        Raises:
            StorageError: the disk does not take it.
        """

    def save(self, folder: Path) -> dict[str, Any]:
        """Writes them to the folder of the index; returns what ``restore_backend`` needs to know."""
