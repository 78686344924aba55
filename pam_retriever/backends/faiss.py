"""FAISS in memory: flat, HNSW or IVF, by name or by size.

Rows are kept apart from FAISS's own positions, so that every index type gets the same promises:
a removed row never comes back, a replaced row has only its new key, and no row is renumbered.
"""

from __future__ import annotations

from typing import Any, Literal

import faiss
import numpy as np

from pam_retriever.backends.scan import WORTH_IT_FROM, scan
from pam_retriever.errors import InvalidInput
from pam_retriever.types import Float32, Int64

Kind = Literal["auto", "flat", "hnsw", "ivf"]

# Sizes at which "auto" changes its mind: a scan of 100,000 keys still takes milliseconds, and
# above a million the HNSW graph costs more memory and building time than it saves.
FLAT_UP_TO = 100_000
HNSW_UP_TO = 1_000_000
IVF_FROM = 1_600  # fewer keys cannot train sqrt(n) cells with FAISS's 39 keys a cell

HNSW_NEIGHBOURS, HNSW_BUILD, HNSW_SEARCH = 32, 100, 128
IVF_PROBED_SHARE = 0.15
SCAN_UP_TO = 10_000  # a filter that leaves this few is answered exactly, by scanning them
DENSE_SPAN = 1_000_000  # rows up to so far apart, and four times as many as there are, are numbered in a table
DEAD_SHARE = 0.25  # when HNSW and IVF are rebuilt without the removed rows


class FaissBackend:
    """Inner-product search with FAISS.

    Args:
        width: length of a key.
        kind: "flat" (exact), "hnsw", "ivf", or "auto": flat up to 100,000 rows,
            HNSW up to a million, IVF above.

    Raises:
        InvalidInput: for any other kind.
    """

    def __init__(self, width: int, kind: Kind = "auto") -> None:
        if kind not in ("auto", "flat", "hnsw", "ivf"):
            raise InvalidInput(
                f"Got the FAISS index kind {kind!r}.",
                "'auto', 'flat', 'hnsw' or 'ivf'",
                "Use 'auto' if in doubt.",
            )
        self._wanted: Kind = kind
        self._width = width
        self._index: Any
        self._rows: Int64  # place in FAISS -> row, -1 if removed
        self._place: Int64  # row - self._first -> place in FAISS, -1 if not stored
        self._sorted: Int64 | None  # the rows in order, where they lie too far apart for a table
        self._first: int
        self._dead: int
        self._reset(0)

    def __len__(self) -> int:
        return len(self._rows) - self._dead

    def __repr__(self) -> str:
        return f"FaissBackend({len(self):,} rows of {self._width}, {self.kind}, asked for {self._wanted})"

    def rebuild(self, rows: Int64, keys: Float32) -> None:
        self._reset(len(rows))
        if len(rows):
            keys = np.ascontiguousarray(keys, np.float32)
            if not self._index.is_trained:
                self._index.train(keys)
            self._append(rows, keys)

    def add(self, rows: Int64, keys: Float32) -> None:
        self.remove(rows)
        after = len(self) + len(rows)
        outgrown = self.kind == "ivf" and after > 4 * self._trained_on
        if self._kind_for(after) != self.kind or outgrown:
            stored = self._rows[self._rows >= 0]
            self.rebuild(np.concatenate([stored, rows]), np.concatenate([self.keys(stored), keys]))
        else:
            self._append(rows, np.ascontiguousarray(keys, np.float32))

    def remove(self, rows: Int64) -> None:
        places = self._places(rows)
        places = places[places >= 0]
        if not len(places):
            return
        if self.kind == "flat":
            self._index.remove_ids(faiss.IDSelectorBatch(places))
            self._rows = np.delete(self._rows, places)
            self._number()
            return
        if self._sorted is None:
            self._place[self._rows[places] - self._first] = -1
        self._rows[places] = -1
        self._dead += len(places)
        if self._dead > DEAD_SHARE * len(self._rows):
            stored = self._rows[self._rows >= 0]
            self.rebuild(stored, self.keys(stored))

    def keys(self, rows: Int64) -> Float32:
        keys: Float32 = self._index.reconstruct_batch(self._places(rows))
        return keys

    def search(self, queries: Float32, k: int, allowed: Int64 | None = None) -> tuple[Float32, Int64]:
        queries = np.ascontiguousarray(queries, np.float32)
        if allowed is not None:
            allowed = allowed[self._places(allowed) >= 0]
            k = min(k, len(allowed))
            if len(allowed) <= max(SCAN_UP_TO, len(self) // 5):
                return self._scan(queries, k, allowed)
        k = min(k, len(self))
        if k == 0:
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        if self.kind == "flat" and allowed is None and len(queries) >= WORTH_IT_FROM:
            scores, places = scan(queries, self._flat_keys(), k)
            return scores, self._rows[places]
        scores, places = self._index.search(queries, k, params=self._parameters(k, allowed))
        found = places >= 0
        return np.where(found, scores, -np.inf), np.where(found, self._rows[places], -1)

    def _scan(self, queries: Float32, k: int, allowed: Int64) -> tuple[Float32, Int64]:
        if k == 0:
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        scores, places = faiss.knn(queries, self.keys(allowed), k, metric=faiss.METRIC_INNER_PRODUCT)
        return scores, allowed[places]

    def _flat_keys(self) -> Float32:
        """(n, width) the keys where FAISS keeps them, not copied."""
        count = int(self._index.ntotal)
        keys: Float32 = faiss.rev_swig_ptr(self._index.get_xb(), count * self._width)
        return keys.reshape(count, self._width)

    def _parameters(self, k: int, allowed: Int64 | None) -> Any:
        """FAISS's search parameters: how wide to look, and which places may be found."""
        selector = None
        if allowed is not None or self._dead:
            mask = self._rows >= 0
            if allowed is not None:
                mask = np.zeros(len(self._rows), bool)
                mask[self._places(allowed)] = True
            selector = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        if self.kind == "hnsw":
            return faiss.SearchParametersHNSW(sel=selector, efSearch=max(HNSW_SEARCH, 2 * k))
        if self.kind == "ivf":
            probed = max(4, int(self._index.nlist * IVF_PROBED_SHARE))
            return faiss.SearchParametersIVF(sel=selector, nprobe=probed)
        return faiss.SearchParameters(sel=selector) if selector is not None else None

    def _kind_for(self, size: int) -> str:
        if self._wanted == "ivf":
            return "ivf" if size >= IVF_FROM else "flat"
        if self._wanted != "auto":
            return self._wanted
        if size <= FLAT_UP_TO:
            return "flat"
        return "hnsw" if size <= HNSW_UP_TO else "ivf"

    def _reset(self, size: int) -> None:
        """An empty index of the kind that fits ``size`` rows."""
        self.kind = self._kind_for(size)
        self._trained_on = size
        self._rows = np.empty(0, np.int64)
        self._dead = 0
        self._number()
        metric = faiss.METRIC_INNER_PRODUCT
        if self.kind == "hnsw":
            self._index = faiss.IndexHNSWFlat(self._width, HNSW_NEIGHBOURS, metric)
            self._index.hnsw.efConstruction = HNSW_BUILD
        elif self.kind == "ivf":
            cells = int(np.sqrt(size))
            self._index = faiss.index_factory(self._width, f"IVF{cells},Flat", metric)
            self._index.set_direct_map_type(faiss.DirectMap.Array)
        else:
            self._index = faiss.IndexFlat(self._width, metric)

    def _append(self, rows: Int64, keys: Float32) -> None:
        first_place = len(self._rows)
        self._index.add(keys)
        self._rows = np.concatenate([self._rows, rows])
        if first_place and self._sorted is None and self._is_dense(rows):
            beyond = int(rows.max()) - self._first + 1 - len(self._place)
            if beyond > 0:
                self._place = np.concatenate([self._place, np.full(beyond, -1, np.int64)])
            self._place[rows - self._first] = np.arange(first_place, len(self._rows))
        else:
            self._number()

    def _number(self) -> None:
        """Makes the inverse of ``_rows``: row - first row -> place, -1 if not stored; sorted rows if far apart."""
        stored = np.flatnonzero(self._rows >= 0)
        rows = self._rows[stored]
        self._first = int(rows.min()) if len(rows) else 0
        if self._is_dense(rows):
            self._sorted = None
            self._place = np.full(int(rows.max()) - self._first + 1 if len(rows) else 0, -1, np.int64)
            self._place[rows - self._first] = stored
        else:
            order = np.argsort(rows)
            self._sorted, self._place = rows[order], stored[order]

    def _is_dense(self, rows: Int64) -> bool:
        """Whether a table over all row numbers up to the last of ``rows`` is no waste."""
        if not len(rows):
            return True
        return int(rows.min()) >= self._first and int(rows.max()) - self._first < DENSE_SPAN + 4 * len(self._rows)

    def _places(self, rows: Int64) -> Int64:
        """(n,) where ``rows`` lie in FAISS, -1 for those that are not stored."""
        if self._sorted is not None:
            at = np.minimum(np.searchsorted(self._sorted, rows), len(self._sorted) - 1)
            places = self._place[at]
            return np.where((self._sorted[at] == rows) & (self._rows[places] == rows), places, -1)
        offsets = rows - self._first
        known = (offsets >= 0) & (offsets < len(self._place))
        places = np.full(len(rows), -1, np.int64)
        places[known] = self._place[offsets[known]]
        return places
