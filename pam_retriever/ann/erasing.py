"""Overwrites removed keys in an index of FAISS. FAISS itself only hides them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pam_retriever.types import Bools


def erase_codes(index: Any, alive: Bools) -> None:
    """Overwrites or drops the codes of positions that are not ``alive``. Searches find the others as before.

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


def _codes(index: Any) -> Any:
    """Returns the codes (n, bytes) of a flat index without a copy."""
    import faiss

    flat = faiss.rev_swig_ptr(index.codes.data(), index.codes.size())
    return flat.reshape(-1, index.code_size)
