"""The contract of a vector backend: rows and keys in, scores and rows out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from pam_retriever.types import Float32, Int64

AT_ONCE = 100_000  # keys that are read, or moved, at once


class Parts(Protocol):
    """What gives any part of an array (n, width): the array itself, or what reads it when it is asked."""

    def __getitem__(self, part: slice) -> Float32:
        """The rows of the array in ``part``."""


def parts(count: int, size: int = AT_ONCE) -> Iterator[slice]:
    """Slices that cover ``count`` things, ``size`` at a time."""
    return (slice(at, min(at + size, count)) for at in range(0, count, size))


class Backend(Protocol):
    """Finds the keys with the largest inner product.

    A row is a number that the index hands out once; a backend neither makes nor reuses rows.
    A row that was removed never comes back from a search.
    """

    @property
    def kind(self) -> str:
        """What it is now: "exact", "flat", "hnsw", "ivf", or an engine's name."""

    def __len__(self) -> int:
        """How many rows are stored."""

    def rebuild(self, rows: Int64, keys: Parts) -> None:
        """Replaces everything by ``rows`` (n,) and their ``keys`` (n, width).

        They are read part by part, in the order and the size of ``parts``, and before that perhaps a sample.
        """

    def add(self, rows: Int64, keys: Float32) -> None:
        """Stores ``keys`` (n, width) under ``rows`` (n,), replacing rows that are there."""

    def remove(self, rows: Int64) -> None:
        """Forgets ``rows``; one that is not stored is ignored."""

    def keys(self, rows: Int64) -> Float32:
        """(n, width) the stored keys of ``rows``, all of which are stored."""

    def search(self, queries: Float32, k: int, allowed: Int64 | None = None) -> tuple[Float32, Int64]:
        """The ``k`` best rows of each query, best first.

        Args:
            queries: (Q, width).
            k: at least 1.
            allowed: sorted rows to choose from; None for all.

        Returns:
            Scores and rows, both (Q, min(k, number to choose from)). Places that an approximate
            search could not fill hold -inf and row -1.
        """
