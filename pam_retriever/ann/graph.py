"""The edges of an HNSW index as plain arrays, stored without its keys, and checked before FAISS uses them.

FAISS does not check its own files: a wrong number in one makes it read or write outside its memory. So only arrays of
numbers are stored, and each number is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pam_retriever.arrays import starts_of
from pam_retriever.types import Int64

Int32 = npt.NDArray[np.int32]
NOBODY = -1  # an empty slot for a neighbour


@dataclass(frozen=True)
class Graph:
    """The edges of an HNSW index.

    Attributes:
        levels: (n,) int32, number of levels of each position, at least 1.
        neighbours: (m,) int32, by position, and for each position by level.
        rows: (n,) int64, the row at each position, -1 for a removed row.
        entry: the position at which a search begins.
    """

    levels: Int32
    neighbours: Int32
    rows: Int64
    entry: int


def graph_of(index: Any, rows: Int64) -> Graph:
    """Returns the edges of an index of FAISS whose positions hold ``rows``; the arrays are copies."""
    import faiss

    graph = index.hnsw
    levels, neighbours = faiss.vector_to_array(graph.levels), faiss.vector_to_array(graph.neighbors)
    return Graph(levels, neighbours, rows.copy(), int(graph.entry_point))


def check_graph(index: Any, made: Any, rows: Int64) -> None:
    """Raises ValueError unless the edges of an HNSW index, which FAISS read, lead to its positions.

    Args:
        index: the index that FAISS read.
        made: an empty index of the same kind.
        rows: (n,) the row at each position.
    """
    import faiss

    hnsw, new, graph = index.hnsw, made.hnsw, graph_of(index, rows)
    starts, count = _starts(made), index.ntotal
    tables = [
        (faiss.vector_to_array(getattr(hnsw, name)), faiss.vector_to_array(getattr(new, name)))
        for name in ("assign_probas", "cum_nneighbor_per_level")
    ]
    if index.storage.ntotal != count or len(graph.levels) != count or not all(np.array_equal(*two) for two in tables):
        raise ValueError("the graph is of another size")
    _check(graph, starts)
    offsets = starts_of(starts[graph.levels])
    if not np.array_equal(faiss.vector_to_array(hnsw.offsets), offsets) or hnsw.max_level != graph.levels.max() - 1:
        raise ValueError("the neighbours of a place begin at another position")


def _starts(index: Any) -> Int64:
    """Returns where the neighbours on each level start in the list of neighbours of one position."""
    hnsw = index.hnsw
    return np.array([hnsw.cum_nb_neighbors(level) for level in range(hnsw.cum_nneighbor_per_level.size())], np.int64)


def put_graph(index: Any, graph: Graph) -> None:
    """Sets the edges of an empty HNSW index of float32 keys; the keys at all positions are zeros.

    Raises:
        ValueError: the edges are invalid.
    """
    import faiss

    hnsw, count = index.hnsw, len(graph.levels)
    _check(graph, _starts(index))
    faiss.copy_array_to_vector(np.ascontiguousarray(graph.levels, np.int32), hnsw.levels)
    hnsw.prepare_level_tab(count, True)
    faiss.rev_swig_ptr(hnsw.neighbors.data(), hnsw.neighbors.size())[:] = graph.neighbours
    hnsw.entry_point, hnsw.max_level = graph.entry, int(graph.levels.max()) - 1
    storage = faiss.downcast_index(index.storage)
    storage.codes.resize(count * storage.code_size)
    storage.ntotal = index.ntotal = count


def _check(graph: Graph, starts: Int64) -> None:
    """Raises ValueError unless every edge leads to a position that is on the same level.

    Args:
        graph: the edges; may be invalid.
        starts: (most levels + 1,) start of each level among the neighbours of one position.
    """
    levels, neighbours, rows = graph.levels, graph.neighbours, graph.rows
    count, arrays = len(levels), (levels, neighbours, rows)
    types = [array.dtype for array in arrays] == [np.int32, np.int32, np.int64]
    if not types or any(array.ndim != 1 for array in arrays) or not count or len(rows) != count:
        raise ValueError("the arrays do not describe the edges of a graph")
    if levels.min() < 1 or levels.max() >= len(starts) or rows.min() < NOBODY:
        raise ValueError("a level or a row is out of range")
    if len(neighbours) != starts[levels].sum() or neighbours.min() < NOBODY or neighbours.max() >= count:
        raise ValueError("a neighbour is out of range")
    alive = rows[rows >= 0]
    if len(np.unique(alive)) != len(alive):
        raise ValueError("a row is in two places")
    if not 0 <= graph.entry < count or levels[graph.entry] != levels.max():
        raise ValueError("a search cannot begin at the entry of the graph")
    firsts = np.cumsum(starts[levels]) - starts[levels]
    for level in range(1, int(levels.max())):
        positions = np.flatnonzero(levels > level)
        found = neighbours[firsts[positions][:, None] + np.arange(starts[level], starts[level + 1])]
        if (levels[found[found >= 0]] <= level).any():
            raise ValueError("a neighbour is not on the level of its edge")
