"""Helpers for FAISS's indexes: search parameters, access to their keys, and erasure of removed keys."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any

import numpy as np

from pam_retriever.ann.cells import map_cells
from pam_retriever.ann.factory import Choice
from pam_retriever.ann.flat import FlatKeys
from pam_retriever.ann.vector_file import VectorFile
from pam_retriever.types import Bools, Float32, Int64


def empty_index(choice: Choice, width: int) -> Any:
    """Returns an index of FAISS without keys."""
    import faiss

    return faiss.index_factory(width, choice.factory, faiss.METRIC_INNER_PRODUCT)


def bytes_of(index: Any) -> int:
    """Returns the bytes of a flat, HNSW or IVF index in memory."""
    if isinstance(index, FlatKeys):
        return index.ntotal * index.code_size
    import faiss

    if isinstance(index, faiss.IndexHNSW):
        graph = 4 * index.hnsw.neighbors.size() + 8 * index.hnsw.offsets.size()
        return int(index.ntotal * faiss.downcast_index(index.storage).code_size + graph)
    if not isinstance(index, faiss.IndexIVF):
        return int(index.ntotal * index.code_size)
    # beside its code, a key has a number, and a place in the map of cells; centres that a graph has are copied
    copies = 2 if isinstance(faiss.downcast_index(index.quantizer), faiss.IndexHNSW) else 1
    return int(index.ntotal * (index.code_size + 16) + copies * 4 * index.nlist * index.d)


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
        index.set_direct_map_type(faiss.DirectMap.NoMap)  # FAISS removes nothing from an index with a map
        index.remove_ids(faiss.IDSelectorBatch(dead))
        index.ntotal = count  # the next key gets the position after the last, as before
        _clear_ends(index)
        map_cells(index)
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


def _clear_ends(index: Any) -> None:
    """Clears the codes after the last of each cell, if cells store codes in blocks.

    FAISS (1.15) adds a code by setting bits of its place in a block, and leaves those of a removed code there.
    """
    import faiss

    lists = faiss.downcast_InvertedLists(index.invlists)
    if not isinstance(lists, faiss.BlockInvertedLists):
        return
    packer, none = lists.packer, np.zeros(lists.packer.code_size, np.uint8)
    for cell in range(index.nlist):
        blocks, in_last = divmod(lists.list_size(cell), lists.n_per_block)
        if in_last:
            codes = faiss.rev_swig_ptr(lists.get_codes(cell), (blocks + 1) * lists.block_size)
            for place in range(in_last, lists.n_per_block):
                packer.pack_1(none, place, codes[-lists.block_size :][None])


def search_parameters(wide: int, selector: Any = None) -> Any:
    """Returns the parameters of FAISS for a search of width ``wide`` in HNSW, or in a flat index (0)."""
    import faiss

    if wide:
        return faiss.SearchParametersHNSW(sel=selector, efSearch=wide)
    return None if selector is None else faiss.SearchParameters(sel=selector)


cached_parameters = lru_cache(search_parameters)  # creating the parameters takes a tenth of a short search


def graph_keys(index: Any) -> Float32:
    """Returns the keys (n, width) of an uncompressed HNSW index without a copy."""
    import faiss

    storage = faiss.downcast_index(index.storage)
    count = int(storage.ntotal)
    keys: Float32 = faiss.rev_swig_ptr(storage.get_xb(), count * storage.d).reshape(count, storage.d)
    return keys


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


def _use_one_thread() -> None:
    """In a forked child: makes FAISS search and build in one thread; see ``model.forked_threads``."""
    use = getattr(sys.modules.get("faiss"), "omp_set_num_threads", None)
    if use is not None:
        use(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_use_one_thread)


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
