"""An exact scan: the largest inner products, by matrix products alone.

The maxima of groups of scores give a lower bound of the k-th best score. Only scores above this bound are sorted. Among
equal scores the lower row comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from pam_retriever.types import Float32, Int64

FEW = 4  # up to this many queries, the keys are read in place
SOME, AT_ONCE = 64, 2_000_000  # up to this many queries and scores, the scores of all keys are compared at once
COPIED = 1_024  # keys that are copied at once, for some queries: a part of the cache of one core
GROUP = 64  # scores per maximum, for few queries
GROUP_OF_TILE = 32  # scores per maximum, for many queries
TILE, TOGETHER = 4_096, 1_024  # keys and queries whose scores stay in the cache: 16 MB
LOWER_BOUNDS = 8_000_000  # most lower bounds of the best scores in memory at once
GATHERED = 100_000  # size of the buffer for few keys, in numbers: 400 kB
MOST, MOST_OF_ONE = 0.6, 0.3  # from this share of the keys on, the products with all keys are faster; for one query
IN_CACHE = 6_000_000  # bytes of keys that stay in the caches of a processor that others use, too
READ_AGAIN = 1_600_000  # bytes of keys that each of a few queries reads from the cache of one core

Part = tuple[Float32, Float32]
"""A part of the queries, (Q, part of the width), and the block of keys that it is compared with."""


def scan(
    queries: Float32, blocks: Sequence[Float32], rows: Int64, k: int, positions: Int64 | None = None
) -> tuple[Float32, Int64]:
    """Returns the ``k`` largest inner products of each query, best first.

    Args:
        queries: (Q, width).
        blocks: (n, part of the width) each, the numbers of the keys from the first to the last.
        rows: (n,) the rows of the keys.
        k: number of rows per query, from 1 to the number of keys to search.
        positions: (m,) rising, the keys to search; None for all.

    Returns:
        Scores and rows, both (Q, k).
    """
    rows = rows if positions is None else rows[positions]
    if len(queries) <= FEW:
        return best(_sums(_parts(queries, blocks), positions), rows, k)
    if len(queries) <= SOME and len(queries) * len(rows) <= AT_ONCE:
        return _best_of_some(_parts(queries, blocks), rows, k, positions)
    scores, found = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    step = min(TOGETHER, max(1, LOWER_BOUNDS // k))
    for start in range(0, len(queries), step):
        chunk = slice(start, start + step)
        scores[chunk], found[chunk] = _best_by_tiles(_parts(queries[chunk], blocks), rows, k, positions)
    return scores, found


def _parts(queries: Float32, blocks: Sequence[Float32]) -> list[Part]:
    """Returns the parts of queries (Q, width) with their blocks, without blocks for which all queries are zero."""
    ends = [0, *accumulate(block.shape[1] for block in blocks)]
    parts = [(queries[:, start:end], block) for start, end, block in zip(ends, ends[1:], blocks, strict=False)]
    return [(part, block) for part, block in parts if part.any()] or parts[:1]


# ---- few queries: the scores of all keys at once


def _sums(parts: list[Part], positions: Int64 | None) -> Float32:
    """Returns inner products (Q, m) with keys in blocks."""
    read = sum(block.nbytes for _, block in parts)
    sums = _products(*parts[0], positions, read)
    for part, block in parts[1:]:
        sums += _products(part, block, positions, read)
    return sums


def _products(queries: Float32, keys: Float32, positions: Int64 | None, read: int) -> Float32:
    """Returns inner products (Q, m) with the keys at ``positions``, None for all, in a scan that reads this many bytes.

    Few keys are copied into a buffer that stays in the cache, so that each key is read from memory once. For most of
    the keys, the products with all keys are faster.
    """
    if positions is None:
        return _with_all(queries, keys, read)
    if len(positions) > (MOST_OF_ONE if len(queries) == 1 else MOST) * len(keys):
        return _with_all(queries, keys, read)[:, positions]
    products = np.empty((len(queries), len(positions)), np.float32)
    gathered = np.empty((max(1, GATHERED // keys.shape[1]), keys.shape[1]), np.float32)
    for start in range(0, len(positions), len(gathered)):
        at = positions[start : start + len(gathered)]
        block = np.take(keys, at, axis=0, out=gathered[: len(at)], mode="clip")
        np.matmul(queries, block.T, out=products[:, start : start + len(at)])
    return products


def _with_all(queries: Float32, keys: Float32, read: int) -> Float32:
    """Returns inner products (Q, n) with all keys."""
    return few_products(queries, keys) if read > IN_CACHE else queries @ keys.T


def few_products(queries: Float32, keys: Float32) -> Float32:
    """Returns inner products (Q, n) of few queries.

    For keys outside the cache, one dot product per key takes half the time of OpenBLAS's matrix-vector product. Several
    queries read a part of the keys that stays in the cache.
    """
    if not hasattr(np, "vecdot"):
        return queries @ keys.T
    products = np.empty((len(queries), len(keys)), np.float32)
    step = max(1, len(keys) if len(queries) == 1 else READ_AGAIN // (4 * keys.shape[1]))
    for start in range(0, len(keys), step):
        for query, its in zip(queries, products, strict=True):
            np.vecdot(keys[start : start + step], query, out=its[start : start + step])
    return products


def best(scores: Float32, rows: Int64, k: int) -> tuple[Float32, Int64]:
    """Returns the ``k`` best of scores (Q, n)."""
    above = np.flatnonzero(scores >= bounds(scores.T, k)[:, None])  # one index is faster to find than a pair
    query, position = np.divmod(above, scores.shape[1])
    return _sorted(scores[query, position], rows[position], query, len(scores), k)


def bounds(scores: Float32, k: int, size: int = GROUP) -> Float32:
    """Returns a bound (Q,) that at least ``k`` of the scores (n, Q) of each query reach, and few more.

    It is the ``k``-th largest maximum of groups of ``size`` scores, or of fewer, so that there are enough groups.
    """
    size = min(size, len(scores) // (2 * k))
    if size > 1:  # a group holds every ``groups``-th score: NumPy compares along the long axis faster
        groups = len(scores) // size
        scores = scores[: groups * size].reshape(size, groups, -1).max(axis=0)
    at = len(scores) - k
    bound: Float32 = np.partition(scores, at, axis=0)[at]
    return bound


# ---- some queries: matrix products with a part of the keys at a time, then one comparison


def _best_of_some(parts: list[Part], rows: Int64, k: int, positions: Int64 | None) -> tuple[Float32, Int64]:
    """Returns the ``k`` best for up to ``SOME`` queries."""
    queries = np.concatenate([part for part, _ in parts], axis=1).T  # (width, Q)
    scores = np.empty((len(rows), queries.shape[1]), np.float32)
    tiled = len(rows) // TILE * TILE
    edges = [*range(0, tiled, COPIED), tiled, len(rows)]  # a last product of few keys would be rounded in another way
    keys = np.empty((max(min(COPIED, tiled), len(rows) - tiled), len(queries)), np.float32)
    for at in map(slice, edges, edges[1:]):
        tile = _tile(parts, at if positions is None else positions[at], keys[: at.stop - at.start])
        np.matmul(tile, queries, out=scores[at])
    above = np.flatnonzero(scores >= bounds(scores, k, GROUP_OF_TILE))
    position, query = np.divmod(above, scores.shape[1])
    return _sorted(scores.reshape(-1)[above], rows[position], query, scores.shape[1], k)


# ---- many queries: one tile of keys at a time


def _best_by_tiles(parts: list[Part], rows: Int64, k: int, positions: Int64 | None) -> tuple[Float32, Int64]:
    """Returns the ``k`` best for up to ``TOGETHER`` queries. The scores of a tile are compared while they are cached.

    The bound of each query rises from tile to tile: it is the ``k``-th largest maximum of the groups.
    """
    queries = np.concatenate([part for part, _ in parts], axis=1).T  # (width, Q)
    height = min(TILE, -(-len(rows) // GROUP_OF_TILE) * GROUP_OF_TILE)
    group = GROUP_OF_TILE if height // GROUP_OF_TILE >= k else 1
    keys = np.empty((height, len(queries)), np.float32)
    scores = np.full((height, queries.shape[1]), -np.inf, np.float32)
    grouped = scores.reshape(group, height // group, -1)  # a group holds every ``height // group``-th score
    best = np.full((k, queries.shape[1]), -np.inf, np.float32)  # the best maxima; the first row is the bound
    found: list[tuple[Int64, Int64, Float32]] = []
    for start in range(0, len(rows), height):
        at = slice(start, min(start + height, len(rows)))
        size = at.stop - start
        np.matmul(_tile(parts, at if positions is None else positions[at], keys[:size]), queries, out=scores[:size])
        scores[size:] = -np.inf
        maxima = grouped.max(axis=0)
        best = np.partition(np.concatenate([best, maxima]), -k, axis=0)[-k:]
        position, query = np.nonzero(maxima >= best[0])
        values = grouped[:, position, query]
        member, pair = np.nonzero(values >= best[0][query])
        found.append((query[pair], start + member * (height // group) + position[pair], values[member, pair]))
    query, position, value = (np.concatenate(columns) for columns in zip(*found, strict=True))
    above = (value >= best[0][query]) & (position < len(rows))
    query, position, value = query[above], position[above], value[above]
    return _sorted(value, rows[position], query, queries.shape[1], k)


def _tile(parts: list[Part], at: slice | Int64, keys: Float32) -> Float32:
    """Returns the keys at some positions, with all their parts side by side; copies them to ``keys`` if necessary."""
    if len(parts) == 1 and isinstance(at, slice):
        return parts[0][1][at]
    start = 0
    for part, block in parts:
        end = start + part.shape[1]
        keys[:, start:end] = block[at]
        start = end
    return keys


def _sorted(value: Float32, row: Int64, query: Int64, count: int, k: int) -> tuple[Float32, Int64]:
    """Returns the ``k`` best (count, k) of scores (E,), each of a row for a query, at least ``k`` for each query."""
    order = np.lexsort((row, -value, query))
    first = np.searchsorted(query[order], np.arange(count))
    best = order[first[:, None] + np.arange(k)]
    return value[best], row[best]
