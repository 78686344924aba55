"""The odds of memories for a query, as shares: of the best by an ANN index, and of others one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.ann import AnnIndex
from pam_retriever.model.scoring import BEST
from pam_retriever.retrieval.first_mentions import Part
from pam_retriever.types import Float32, Int64

PAIRS_AT_ONCE = 16_384  # pairs whose keys are fetched at once


@dataclass(frozen=True)
class Odds:
    """Converts the log odds of memories for Q queries to shares.

    Attributes:
        peak: (Q,) the log odds of the best memory.
        mass: (Q,) the sum of the odds of all memories, in units of the best one's.
        lead: (Q,) the log odds of the best memory minus the log odds of the last of the ``BEST`` memories.
    """

    peak: Float32
    mass: Float32
    lead: Float32

    def shares(self, scores: Float32, query: Int64) -> Float32:
        """Returns the shares (E,) of memories with these log odds (E,), each for one query."""
        # above the peak only if an approximate search missed the memory
        odds = np.exp(np.minimum(scores - self.peak[query], 0))
        share: Float32 = np.minimum(odds / self.mass[query], 1).astype(np.float32)
        return share


def share_out(found: tuple[Float32, Int64], own: Int64, outside: Float32, count: int) -> tuple[Odds, Part]:
    """Returns the odds of Q queries, and the shares of the memories ``found`` for each, best first.

    Args:
        found: (Q, n) log odds of the best memories, falling, and their rows; at least 64 if there are as many.
        own: (Q,) the row of each query that is a stored memory, which is not an answer.
        outside: (Q,) log odds of memories that are not among the best.
        count: number of memories from which these were chosen.
    """
    scores, rows = found
    scores = np.where((rows >= 0) & (rows != own[:, None]), scores, -np.inf)
    best = scores[:, :BEST]  # independent of the pool, because shares must not depend on it
    peak = best.max(axis=1, initial=-1e30)
    lowest = np.where(np.isfinite(best), best, peak[:, None]).min(axis=1, initial=np.inf)
    beyond = np.exp(np.minimum(np.minimum(outside, lowest) - peak, 0))
    mass = np.exp(best - peak[:, None]).sum(axis=1) + np.float32(max(count - BEST, 0)) * beyond
    odds = Odds(peak, np.maximum(mass, 1e-30), np.maximum(peak - lowest, 0))
    query, position = np.nonzero(np.isfinite(scores))
    return odds, (query, rows[query, position], odds.shares(scores[query, position], query))


def products_of(queries: Float32, query: Int64, backend: AnnIndex, row: Int64) -> Float32:
    """Returns the inner product (E,) of each pair of a query and a stored row, in blocks that fit into memory."""
    products = np.empty(len(row), np.float32)
    for start in range(0, len(row), PAIRS_AT_ONCE):
        some = slice(start, start + PAIRS_AT_ONCE)
        products[some] = np.einsum("ed,ed->e", queries[query[some]], backend.keys(row[some]))
    return products
