"""Brute force in NumPy: the reference for the tests of all other backends."""

from __future__ import annotations

import numpy as np

from pam_retriever.ann.base import Chunked, read_keys
from pam_retriever.ann.graph import Graph
from pam_retriever.ann.selection import Rows
from pam_retriever.errors import counted
from pam_retriever.types import Float32, Int64


class ExactBackend:
    """Scores every row exactly, without an index. For small sets of memories and for tests."""

    kind = description = "exact"
    answers_for_first, files, graph = False, None, None

    def __init__(self, width: int) -> None:
        self._rows: Int64 = np.empty(0, np.int64)  # sorted
        self._keys: Float32 = np.empty((0, width), np.float32)

    @property
    def rows(self) -> Int64:
        return self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"ExactBackend({counted(len(self), 'row')} of {self._keys.shape[1]})"

    def rebuild(self, rows: Int64, keys: Chunked) -> None:
        order = np.argsort(rows)
        self._rows, self._keys = rows[order], read_keys(keys, slice(0, len(rows)), self._keys.shape[1])[order]

    def rebuild_with_graph(self, graph: Graph, rows: Int64, keys: Chunked) -> None:  # noqa: ARG002
        raise ValueError("brute force needs no graph")

    def add(self, rows: Int64, keys: Float32) -> None:
        mask = ~np.isin(self._rows, rows)
        self.rebuild(np.concatenate([self._rows[mask], rows]), np.concatenate([self._keys[mask], keys]))

    def remove(self, rows: Int64) -> None:
        mask = ~np.isin(self._rows, rows)
        self._rows, self._keys = self._rows[mask], self._keys[mask]

    def reserve_disk(self, count: int) -> None:
        """Does nothing: keys are only in memory."""

    def keys(self, rows: Int64) -> Float32:
        return self._keys[np.searchsorted(self._rows, rows)]

    def search(self, queries: Float32, k: int, allowed: Rows | None = None) -> tuple[Float32, Int64]:
        rows, keys = self._choose_from(allowed)
        scores = queries @ keys.T
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, best, axis=1), rows[best]

    def _choose_from(self, allowed: Rows | None) -> tuple[Int64, Float32]:
        if allowed is None:
            return self._rows, self._keys
        inside = np.isin(self._rows, allowed)
        return self._rows[inside], self._keys[inside]
