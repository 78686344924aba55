"""Helpers for FAISS's indexes: search parameters, access to their keys, and erasure of removed keys."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from pam_retriever.ann.vector_file import VectorFile
from pam_retriever.types import Bools, Float32, Int64


def erase_codes(index: Any, alive: Bools) -> None:
    """Overwrites or drops the codes of positions that are not ``alive``. Searches find the others as before.

    FAISS itself only hides removed keys.

    Args:
        index: a compressed flat, HNSW or IVF index.
        alive: (n,) mask of the positions to keep.
    """
    import faiss

    dead = np.flatnonzero(~alive)
    if not len(dead):
        return
    if isinstance(index, faiss.IndexIVF):
        count = index.ntotal
        index.remove_ids(faiss.IDSelectorBatch(dead))
        index.ntotal = count  # the next key gets the position after the last, as before
        return
    if not isinstance(index, faiss.IndexHNSW):
        _codes(index)[dead] = 0
        return
    # a search still passes through a removed position, so it gets the code of a neighbour
    codes, graph = _codes(faiss.downcast_index(index.storage)), index.hnsw
    neighbours = faiss.vector_to_array(graph.neighbors)
    offsets = faiss.vector_to_array(graph.offsets).astype(np.int64)  # uint64 plus int is a float before NumPy 2
    for position in dead.tolist():
        near = neighbours[offsets[position] : offsets[position] + graph.nb_neighbors(0)]
        near = near[near >= 0]
        near = near[alive[near]]
        codes[position] = codes[near[0]] if len(near) else 0


def search_parameters(kind: str, wide: int, selector: Any = None) -> Any:
    """Returns the parameters of FAISS for a search of width ``wide`` in HNSW or IVF."""
    import faiss

    if kind == "hnsw":
        return faiss.SearchParametersHNSW(sel=selector, efSearch=wide)
    return faiss.SearchParametersIVF(sel=selector, nprobe=wide)


cached_parameters = lru_cache(search_parameters)  # creating the parameters takes a tenth of a short search


def scanned_centres(index: Any) -> Any:
    """Returns the centres of the cells, if FAISS has a graph over them; else None.

    The graph finds the cells of stored keys, when keys are added. A query weights the parts of a key, so it lies far
    from all stored keys, and the graph may miss its best cells (docs/reference/scaling.md).
    """
    import faiss

    graph = faiss.downcast_index(index.quantizer) if hasattr(index, "quantizer") else None
    if not isinstance(graph, faiss.IndexHNSW):
        return None
    centres = faiss.IndexFlatIP(graph.d)
    centres.add(graph.storage.reconstruct_n(0, int(graph.ntotal)))
    return centres


def graph_keys(index: Any) -> Float32:
    """Returns the keys (n, width) of an uncompressed HNSW index without a copy."""
    import faiss

    storage = faiss.downcast_index(index.storage)
    count = int(storage.ntotal)
    keys: Float32 = faiss.rev_swig_ptr(storage.get_xb(), count * storage.d).reshape(count, storage.d)
    return keys


def look_up(index: Any, centres: Any, queries: Float32, k: int, parameters: Any) -> tuple[Float32, Int64]:
    """Returns the scores and positions (Q, k) that FAISS finds; ``centres`` from ``scanned_centres``."""
    if centres is None:
        scores, positions = index.search(queries, k, params=parameters)
        return scores, positions
    import faiss

    nearness, cells = centres.search(queries, parameters.nprobe)
    scores, positions = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    pointers = [faiss.swig_ptr(array) for array in (cells, nearness, scores, positions)]
    index.search_preassigned_c(len(queries), faiss.swig_ptr(queries), k, *pointers, False, parameters)
    return scores, positions


def ranked(full: VectorFile, queries: Float32, positions: Int64, k: int) -> tuple[Float32, Int64]:
    """Returns the ``k`` best of the candidates (Q, n) by the full keys; -1 after the last."""
    import faiss

    count, candidates = positions.shape
    scores, found = np.empty((count, k), np.float32), np.empty((count, k), np.int64)
    pointers = [faiss.swig_ptr(array) for array in (queries, full.mapped, np.ascontiguousarray(positions))]
    sizes = queries.shape[1], count, len(full), candidates, k
    # without an explicit stride FAISS takes a wrong one for a batch (seen with 1.15)
    faiss.knn_inner_products_by_idx(*pointers, *sizes, faiss.swig_ptr(scores), faiss.swig_ptr(found), candidates)
    return scores, found


class OldKeys:
    """The keys of an index at ``positions``, followed by more keys.

    Args:
        index: an index of FAISS with the keys, unless they are in ``full``.
        full: the full keys of a compressed index.
        positions: (n,) the positions of the keys.
        more: (m, width).
    """

    def __init__(self, index: Any, full: VectorFile | None, positions: Int64, more: Float32) -> None:
        self._index, self._full, self._positions, self._more = index, full, positions, more

    def __getitem__(self, part: slice) -> Float32:
        count = len(self._positions)
        at = np.arange(count + len(self._more))[part]
        positions = self._positions[at[at < count]]
        old: Float32 = self._index.reconstruct_batch(positions) if self._full is None else self._full[positions]
        return np.concatenate([old, self._more[at[at >= count] - count]])


def _codes(index: Any) -> Any:
    """Returns the codes (n, bytes) of a flat index without a copy."""
    import faiss

    flat = faiss.rev_swig_ptr(index.codes.data(), index.codes.size())
    return flat.reshape(-1, index.code_size)
