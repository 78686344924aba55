"""FAISS: flat, HNSW or IVF, with keys as they are or compressed, by name or by size.

Rows are kept apart from FAISS's own places, so that every index type gets the same promises: a removed row never
comes back, a replaced row has only its new key, and no row is renumbered. A compressed index finds candidates, which
are ranked again by the full keys of a memory-mapped file: the scores are exact, whatever the code.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from pam_retriever.backends.base import AT_ONCE, Parts, parts
from pam_retriever.backends.choice import Choice, choose, read_kind
from pam_retriever.backends.keyfile import KeyFile
from pam_retriever.backends.places import Places
from pam_retriever.backends.scan import WORTH_IT_FROM, scan
from pam_retriever.types import Float32, Int64

log = logging.getLogger(__name__)

HNSW_BUILD, HNSW_SEARCH = 100, 128
IVF_PROBED_SHARE = 0.15
# times the square root of the cells of a compressed index, which has more of them, and at most (docs/scaling.md)
PROBED, MOST_PROBED = 2.5, 80
SCAN_UP_TO = 10_000  # a filter that leaves this few is answered exactly, by scanning them
DEAD_SHARE = 0.25  # when HNSW and IVF are rebuilt without the removed rows
TRAINED_ON, SAMPLED = 40, 100_000  # keys a cell, and in all at least, that cells and quantisers are trained on
CLUSTERING_ROUNDS = 5  # more move no recall that was measured (docs/scaling.md)
# how many candidates a code needs, as a multiple of k and a number besides, to lose under 1 % of recall@10
CANDIDATES = {"": (1, 0), "fp16": (1, 8), "sq8": (2, 32), "pq": (8, 160)}


class FaissBackend:
    """Inner-product search with FAISS.

    Args:
        width: length of a key.
        kind: "flat" (exact), "hnsw", "ivf", or "auto" by size; with ",fp16", ",sq8" or ",pq" (ivf only) to
            compress the keys in memory and keep the full ones on disk. See ``choice``.
        folder: for the full keys of a compressed index; None for a temporary file.

    Attributes:
        width: length of a key.
        kind: "flat", "hnsw" or "ivf": what it is now.
        choice: the same with its code, and why.
        probed: how many of IVF's cells are looked through for a query; more find more and take longer. None: by size.

    Raises:
        InvalidInput: for any other kind.
    """

    def __init__(self, width: int, kind: str = "auto", folder: Path | None = None) -> None:
        self._wanted, self._wanted_code = read_kind(kind)
        self.width, self._folder = width, folder
        self.probed: int | None = None
        self._index: Any
        self._places: Places
        self._full: KeyFile | None
        self._centres: Any  # of IVF's cells, to be scanned; None where FAISS does that itself
        self.choice = choose(self._wanted, self._wanted_code, 0, width)
        self._reset(0)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        code = f", {self.choice.code}" if self.choice.code else ""
        return f"FaissBackend({len(self):,} rows of {self.width}, {self.kind}{code}: {self.choice.reason})"

    @property
    def kind(self) -> str:
        return self.choice.kind

    @property
    def bytes(self) -> int:
        """What keys and places take in memory; the full keys of a compressed index are on disk."""
        graph = 0
        if self.kind == "hnsw":
            graph = 4 * self._index.hnsw.neighbors.size() + 8 * self._index.hnsw.offsets.size()
        codes = int(self._index.ntotal) * (self._code_size() + (8 if self.kind == "ivf" else 0))
        centres = (1 if self._centres is None else 2) * 4 * self.choice.cells * self.width
        return codes + int(graph) + centres + self._places.bytes

    def _code_size(self) -> int:
        index = faiss.downcast_index(self._index.storage) if self.kind == "hnsw" else self._index
        return int(index.code_size)

    def rebuild(self, rows: Int64, keys: Parts) -> None:
        count = len(rows)
        self._reset(count)
        if count <= AT_ONCE:
            keys = keys[0:count]  # an array from here on: read once, for training and adding
        if count and not self._index.is_trained:
            self._train(keys, count)
        for part in parts(count):
            self._append(rows[part], keys[part])

    def _train(self, keys: Parts, count: int) -> None:
        """Finds the cells and the quantiser by a sample of ``count`` keys."""
        step = max(1 if count <= AT_ONCE else 2, count // sample_size(self.choice))
        if self.kind == "ivf":
            clustering = faiss.extract_index_ivf(self._index)
            clustering.cp.niter, clustering.cp.min_points_per_centroid = CLUSTERING_ROUNDS, 1
        self._index.train(np.ascontiguousarray(keys[0:count:step], np.float32))
        self._centres = scanned_centres(self._index)

    def add(self, rows: Int64, keys: Float32) -> None:
        if not len(rows):
            return
        self.remove(rows)
        after = len(self) + len(rows)
        wanted = choose(self._wanted, self._wanted_code, after, self.width)
        outgrown = (self.choice.code or self.kind == "ivf") and after > 4 * self._trained_for
        if (wanted.kind, wanted.code) != (self.kind, self.choice.code) or outgrown:
            self._rebuild_with(rows, np.ascontiguousarray(keys, np.float32))
        else:
            self._append(rows, np.ascontiguousarray(keys, np.float32))

    def make_room(self, count: int) -> None:
        """Has the disk take ``count`` more full keys, if there are any.

        Raises:
            StorageError: it does not.
        """
        if self._full is not None:
            self._full.make_room(count)

    def remove(self, rows: Int64) -> None:
        places = self._places.of(rows)
        places = places[places >= 0]
        if not len(places):
            return
        if self._is_plain:
            self._index.remove_ids(faiss.IDSelectorBatch(places))
            self._places.drop(places)
            return
        self._places.empty(places)
        if self._places.dead > DEAD_SHARE * len(self._places.rows):
            self._rebuild_with(np.empty(0, np.int64), np.empty((0, self.width), np.float32))

    def keys(self, rows: Int64) -> Float32:
        return self._keys_at(self._places.of(rows))

    def search(self, queries: Float32, k: int, allowed: Int64 | None = None) -> tuple[Float32, Int64]:
        queries = np.ascontiguousarray(queries, np.float32)
        if allowed is not None:
            allowed = allowed[self._places.of(allowed) >= 0]
            k = min(k, len(allowed))
            if len(allowed) <= max(SCAN_UP_TO, 0 if self._full else len(self) // 5):
                return self._scan(queries, k, allowed)
        k = min(k, len(self))
        if k == 0:
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        if self._is_plain and allowed is None and len(queries) >= WORTH_IT_FROM:
            scores, places = scan(queries, self._flat_keys(), k)
            return scores, self._places.rows[places]
        times, more = CANDIDATES[self.choice.code]
        candidates = min(times * k + more, len(self._places.rows))
        scores, places = self._look_up(queries, candidates, self._parameters(candidates, allowed))
        if self._full is not None:
            scores, places = self._ranked(queries, places, k)
        if places[:, -1].min(initial=0) < 0:  # what is missing comes last
            found = places >= 0
            return np.where(found, scores, -np.inf), np.where(found, self._places.rows[places], -1)
        return scores, self._places.rows[places]

    def _look_up(self, queries: Float32, k: int, parameters: Any) -> tuple[Float32, Int64]:
        if self._centres is None:
            scores, places = self._index.search(queries, k, params=parameters)
            return scores, places
        nearness, cells = self._centres.search(queries, parameters.nprobe)
        scores, places = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        pointers = [faiss.swig_ptr(array) for array in (cells, nearness, scores, places)]
        self._index.search_preassigned_c(len(queries), faiss.swig_ptr(queries), k, *pointers, False, parameters)
        return scores, places

    def _ranked(self, queries: Float32, places: Int64, k: int) -> tuple[Float32, Int64]:
        """The ``k`` best of the candidates (Q, n) by the full keys, read where they are; -1 after the last."""
        assert self._full is not None
        count, candidates = places.shape
        scores, found = np.empty((count, k), np.float32), np.empty((count, k), np.int64)
        pointers = [faiss.swig_ptr(array) for array in (queries, self._full.mapped, np.ascontiguousarray(places))]
        sizes = self.width, count, len(self._full), candidates, k
        # the stride is named because FAISS takes a wrong one for a batch unless it is (seen with 1.15)
        faiss.knn_inner_products_by_idx(*pointers, *sizes, faiss.swig_ptr(scores), faiss.swig_ptr(found), candidates)
        return scores, found

    def _scan(self, queries: Float32, k: int, allowed: Int64) -> tuple[Float32, Int64]:
        if k == 0:
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        scores, places = faiss.knn(queries, self.keys(allowed), k, metric=faiss.METRIC_INNER_PRODUCT)
        return scores, allowed[places]

    @property
    def _is_plain(self) -> bool:
        """Flat and uncompressed: exact, and the one kind that can drop a place."""
        return self.kind == "flat" and not self.choice.code

    def _flat_keys(self) -> Float32:
        """(n, width) the keys where FAISS keeps them, not copied."""
        count = int(self._index.ntotal)
        keys: Float32 = faiss.rev_swig_ptr(self._index.get_xb(), count * self.width)
        return keys.reshape(count, self.width)

    def _keys_at(self, places: Int64) -> Float32:
        keys: Float32 = self._index.reconstruct_batch(places) if self._full is None else self._full[places]
        return keys

    def _parameters(self, k: int, allowed: Int64 | None) -> Any:
        """FAISS's search parameters: how wide to look, and which places may be found."""
        selector = None
        if allowed is not None or self._places.dead:
            mask = self._places.alive()
            if allowed is not None:
                mask = np.zeros(len(mask), bool)
                mask[self._places.of(allowed)] = True
            selector = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        if self.kind == "flat":
            return faiss.SearchParameters(sel=selector) if selector is not None else None
        wide = max(HNSW_SEARCH, 2 * k) if self.kind == "hnsw" else self._probed()
        return kept_parameters(self.kind, wide) if selector is None else search_parameters(self.kind, wide, selector)

    def _probed(self) -> int:
        if self.probed:
            return self.probed
        cells = self.choice.cells
        return max(4, int(min(PROBED * cells**0.5, MOST_PROBED) if self.choice.code else IVF_PROBED_SHARE * cells))

    def _reset(self, size: int) -> None:
        """An empty index of the kind that fits ``size`` rows."""
        choice = choose(self._wanted, self._wanted_code, size, self.width)
        if (choice.kind, choice.code) != (self.kind, self.choice.code):
            log.info("%s keys of %s: %s, because %s", f"{size:,}", self.width, choice.factory, choice.reason)
        self.choice, self._trained_for = choice, size
        self._places = Places()
        self._index = faiss.index_factory(self.width, choice.factory, faiss.METRIC_INNER_PRODUCT)
        self._full = KeyFile(self.width, self._folder) if choice.code else None
        self._centres = None
        if self.kind == "hnsw":
            self._index.hnsw.efConstruction = HNSW_BUILD
        elif self.kind == "ivf" and not choice.code:
            self._index.set_direct_map_type(faiss.DirectMap.Array)

    # ---- on disk

    @property
    def name(self) -> str | None:
        """Of its files in the folder; None where it has none."""
        full = None if self._full is None else self._full.name
        return None if full is None else full.removesuffix(".f32").replace("keys", "ann")

    def save(self, folder: Path) -> dict[str, Any]:
        """Writes a compressed index beside its full keys, where they are; returns what ``restore`` needs to know."""
        assert self._full is not None and self.name is not None
        name = self.name
        faiss.write_index(self._index, str(folder / f"{name}.faiss"))
        np.save(folder / f"{name}.rows.npy", self._places.rows)
        self._full.keep()
        return {
            "name": name,
            "width": self.width,
            "keys": len(self._full),
            "keys_checksum": self._full.checksum,
            "choice": asdict(self.choice),
            "trained_for": self._trained_for,
        }

    def restore(self, folder: Path, saved: dict[str, Any], read_only: bool) -> None:
        """Takes over what ``save`` wrote; the codes are read into memory, the full keys are mapped.

        Raises:
            OSError, RuntimeError, ValueError, TypeError, KeyError: it is not there, or not what was saved.
        """
        name, keys = str(saved["name"]), int(saved["keys"])
        rows = np.load(folder / f"{name}.rows.npy", allow_pickle=False)
        index = faiss.read_index(str(folder / f"{name}.faiss"))
        if saved["width"] != self.width or not len(rows) == index.ntotal == keys:
            raise ValueError(f"{name} does not hold what was saved")
        full, checksum = f"{name.replace('ann', 'keys')}.f32", int(saved["keys_checksum"])
        self._full = KeyFile(self.width, folder, full, keys, checksum, read_only)
        self._index, self._places, self.choice = index, Places(rows), Choice(**saved["choice"])
        self._centres = scanned_centres(index)
        self._trained_for = int(saved["trained_for"])

    def _append(self, rows: Int64, keys: Float32) -> None:
        if not len(rows):
            return
        keys = np.ascontiguousarray(keys, np.float32)
        self._index.add(keys)
        if self._full is not None:
            self._full.append(keys)
        self._places.append(rows)

    def _rebuild_with(self, rows: Int64, keys: Float32) -> None:
        """Builds it anew, of what is stored and more, without the removed; never all keys in memory at once."""
        stored = self._places.stored()
        old = _Old(self._index, self._full, stored, keys)
        self.rebuild(np.concatenate([self._places.rows[stored], rows]), old)


class _Old:
    """The keys that an index has at ``places``, and more after them.

    Args:
        index: FAISS's, which has them, unless they are in ``full``.
        full: of a compressed index.
        places: (n,) where.
        more: (m, width).
    """

    def __init__(self, index: Any, full: KeyFile | None, places: Int64, more: Float32) -> None:
        self._index, self._full, self._places, self._more = index, full, places, more

    def __getitem__(self, part: slice) -> Float32:
        count = len(self._places)
        at = np.arange(count + len(self._more))[part]
        places = self._places[at[at < count]]
        old: Float32 = self._index.reconstruct_batch(places) if self._full is None else self._full[places]
        return np.concatenate([old, self._more[at[at >= count] - count]])


def search_parameters(kind: str, wide: int, selector: Any = None) -> Any:
    """FAISS's, for an HNSW or IVF that is searched ``wide``."""
    if kind == "hnsw":
        return faiss.SearchParametersHNSW(sel=selector, efSearch=wide)
    return faiss.SearchParametersIVF(sel=selector, nprobe=wide)


kept_parameters = lru_cache(search_parameters)  # making them would take a tenth of a short search


def scanned_centres(index: Any) -> Any:
    """The centres of the cells that FAISS has a graph over, or None.

    The graph finds the cells of stored keys, which is what adding needs. A query weighs the parts of a key anew, so
    that it lies far from all of them, and the graph may miss its best cells altogether (docs/scaling.md).
    """
    graph = faiss.downcast_index(index.quantizer) if hasattr(index, "quantizer") else None
    if not isinstance(graph, faiss.IndexHNSW):
        return None
    centres = faiss.IndexFlatIP(graph.d)
    centres.add(graph.storage.reconstruct_n(0, int(graph.ntotal)))
    return centres


def sample_size(choice: Choice) -> int:
    """How many keys an index is trained on."""
    return max(TRAINED_ON * choice.cells, SAMPLED)
