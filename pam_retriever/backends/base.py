"""The contract of a vector backend: rows and keys in, scores and rows out."""

from __future__ import annotations

from typing import Protocol

from pam_retriever.types import Float32, Int64


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

    def rebuild(self, rows: Int64, keys: Float32) -> None:
        """Replaces everything by ``rows`` (n,) and their ``keys`` (n, width)."""

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
