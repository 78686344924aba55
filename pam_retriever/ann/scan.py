"""An exact scan: the largest inner products, by matrix products alone.

One product gives the scores of a chunk of queries. The maxima of blocks of 64 give a lower bound of the k-th best
score. Only scores above this bound are sorted. Among equal scores the lower row comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from pam_retriever.types import Float32, Int64

BLOCK = 64
SCORES_AT_ONCE = 8_000_000  # 32 MB
GATHERED = 100_000  # numbers of keys: 400 kB
MOST = 0.6  # of the keys
FEW = 4  # queries
IN_CACHE = 16_000_000  # bytes of keys that fit into the caches of a processor


def scan(
    queries: Float32, blocks: Sequence[Float32], rows: Int64, k: int, places: Int64 | None = None
) -> tuple[Float32, Int64]:
    """Returns the ``k`` largest inner products of each query, best first.

    Args:
        queries: (Q, width).
        blocks: (n, part of the width) each, the numbers of the keys from the first to the last.
        rows: (n,) of the keys.
        k: at least 1, and at most n, or as many as there are ``places``.
        places: (m,) rising, the keys to search; None for all.

    Returns:
        Scores and rows, both (Q, k).
    """
    scores, found = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    rows = rows if places is None else rows[places]
    step = max(1, SCORES_AT_ONCE // len(blocks[0]))
    for start in range(0, len(queries), step):
        chunk = slice(start, start + step)
        scores[chunk], found[chunk] = _best(_sums(queries[chunk], blocks, places), rows, k)
    return scores, found


def _sums(queries: Float32, blocks: Sequence[Float32], places: Int64 | None) -> Float32:
    """Returns inner products (Q, m) with keys in blocks. Does not read a block for which all queries are zero."""
    ends = [0, *accumulate(block.shape[1] for block in blocks)]
    parts = [(queries[:, start:end], block) for start, end, block in zip(ends, ends[1:], blocks, strict=False)]
    asked = [(part, block) for part, block in parts if part.any()] or parts[:1]
    read = sum(block.nbytes for _, block in asked)
    sums = _products(*asked[0], places, read)
    for part, block in asked[1:]:
        sums += _products(part, block, places, read)
    return sums


def _products(queries: Float32, keys: Float32, places: Int64 | None, read: int) -> Float32:
    """Returns inner products (Q, m) with the keys at ``places``, None for all, in a scan that reads this many bytes.

    Few keys are copied into a buffer that stays in the cache, so that each key is read from memory once. For most of
    the keys, the products with all keys are faster.
    """
    if places is None:
        return _with_all(queries, keys, read)
    if len(places) > MOST * len(keys):
        return _with_all(queries, keys, read)[:, places]
    products = np.empty((len(queries), len(places)), np.float32)
    gathered = np.empty((max(1, GATHERED // keys.shape[1]), keys.shape[1]), np.float32)
    for start in range(0, len(places), len(gathered)):
        at = places[start : start + len(gathered)]
        block = np.take(keys, at, axis=0, out=gathered[: len(at)], mode="clip")
        np.matmul(queries, block.T, out=products[:, start : start + len(at)])
    return products


def _with_all(queries: Float32, keys: Float32, read: int) -> Float32:
    """Returns inner products (Q, n) with all keys.

    For few queries and keys outside the cache, one dot product per key takes half the time of OpenBLAS's matrix-vector
    product.
    """
    if len(queries) <= FEW and read > IN_CACHE and hasattr(np, "vecdot"):
        return np.stack([np.vecdot(keys, query) for query in queries])
    return queries @ keys.T


def _best(scores: Float32, rows: Int64, k: int) -> tuple[Float32, Int64]:
    """Returns the ``k`` best of scores (Q, n)."""
    above = np.flatnonzero(scores >= _bound(scores, k)[:, None])  # one index is faster to find than a pair
    query, place = np.divmod(above, scores.shape[1])
    value, row = scores[query, place], rows[place]
    order = np.lexsort((row, -value, query))
    first = np.searchsorted(query, np.arange(len(scores)))  # ``order`` is grouped by query, as ``query`` is
    best = order[first[:, None] + np.arange(k)]
    return value[best], row[best]


def _bound(scores: Float32, k: int) -> Float32:
    """Returns a bound (Q,) that at least ``k`` of the scores (Q, n) of each query reach, and few more."""
    blocks = scores.shape[1] // BLOCK
    if blocks >= 2 * k:  # a block holds every ``blocks``-th score: NumPy compares along the long axis faster
        scores = scores[:, : blocks * BLOCK].reshape(len(scores), BLOCK, blocks).max(axis=1)
    at = scores.shape[1] - k
    bound: Float32 = np.partition(scores, at, axis=1)[:, at]
    return bound
