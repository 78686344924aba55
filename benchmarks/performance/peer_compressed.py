"""Stores of ``peers`` with the compressed index that each recommends for a million rows.

FAISS and LanceDB build it when all rows are there, which ``settle`` does. This library builds it while it adds.
The number of cells that FAISS and LanceDB look into, and how many candidates LanceDB ranks again, were chosen on the
world of seed 1: FAISS finds about as much as this library, LanceDB at least nine tenths of the exact answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.performance.peer_data import RangeFilter, Rows
from benchmarks.performance.peer_stores import STORES, Faiss, Float32, Lance, Ours, PeerStore, unit


class OursCompressed(Ours):
    """This library with "faiss:ivf,sq8", which it chooses itself for more than a million memories."""

    exact = False
    BACKEND = "faiss:ivf,sq8"


class FaissCompressed(Faiss):
    """FAISS's inverted file with 8 bits per number, trained on a sample, in memory.

    Its guide recommends 4 sqrt(n) to 16 sqrt(n) cells up to a million rows, and at least 30 rows per cell for training.
    """

    exact = False
    CELLS, ROWS_PER_CELL = 4_000, 40
    PROBES, PROBES_OF_FEW = 32, 256  # cells to look into; with a filter that leaves few rows

    def open(self, folder: Path, dim: int) -> None:
        import faiss

        self._file, self._faiss, self._dim = folder / "ivf.faiss", faiss, dim
        self._held: list[Float32] = []  # rows that wait for the training
        self._index: Any = faiss.read_index(str(self._file)) if self._file.exists() else None

    def add(self, rows: Rows) -> None:
        vectors = unit(rows.vectors)
        if self._index is not None:
            self._index.add(vectors)
            return
        self._held.append(vectors)
        if sum(map(len, self._held)) >= self.CELLS * self.ROWS_PER_CELL:
            self._train()

    def _train(self) -> None:
        sample = np.concatenate(self._held)
        cells = max(1, min(self.CELLS, len(sample) // self.ROWS_PER_CELL))
        self._index = self._faiss.index_factory(self._dim, f"IVF{cells},SQ8", self._faiss.METRIC_INNER_PRODUCT)
        self._index.train(sample)
        self._index.add(sample)
        self._held = []

    def settle(self) -> None:
        if self._index is None:
            self._train()

    def search(self, query: Float32, k: int, bounds: RangeFilter | None) -> list[str]:
        parameters = self._faiss.SearchParametersIVF(nprobe=self.PROBES)
        if bounds is not None:
            parameters.nprobe = self.PROBES_OF_FEW if bounds.few else self.PROBES
            parameters.sel = self._faiss.IDSelectorBitmap(bounds.bits)
        return [f"memory-{at}" for at in self._index.search(unit(query[None]), k, params=parameters)[1][0].tolist()]

    def batch(self, queries: Float32, k: int) -> list[list[str]]:
        parameters = self._faiss.SearchParametersIVF(nprobe=self.PROBES)
        found = self._index.search(unit(queries), k, params=parameters)[1].tolist()
        return [[f"memory-{at}" for at in row] for row in found]


class LanceCompressed(Lance):
    """LanceDB with IVF_PQ, its default, which its guide recommends for searches with filters."""

    exact = False
    PROBES, REFINE = 50, 30

    def settle(self) -> None:
        super().settle()
        self._table.create_index(metric="cosine", index_type="IVF_PQ")

    def _query(self, queries: Any) -> Any:
        return super()._query(queries).nprobes(self.PROBES).refine_factor(self.REFINE)


COMPRESSED: dict[str, type[PeerStore]] = {
    **STORES,
    "this library": OursCompressed,
    "FAISS": FaissCompressed,
    "LanceDB": LanceCompressed,
}
