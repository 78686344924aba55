"""Ranking metrics over a matrix of scores. Every function takes one query's row of scores or ranks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Rows = npt.NDArray[np.int64]


def top(scores: Array, k: int) -> Rows:
    """(Q, k) columns of the largest scores, best first, of (Q, N)."""
    some = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def precision(ranked: Rows, relevant: Rows) -> float:
    """The share of ``ranked`` that is relevant: Association Precision@k (pam.tex 4.4)."""
    return float(np.isin(ranked, relevant).mean())


def recall(ranked: Rows, relevant: Rows) -> float:
    """The share of the relevant that is ranked: (Cross-Boundary) Recall@k."""
    return float(np.isin(relevant, ranked).mean())


def reciprocal_rank(scores: Array, relevant: Rows) -> float:
    """1 / rank of the best relevant column; ties with irrelevant ones are counted against it."""
    ahead = scores >= scores[relevant].max()
    ahead[relevant] = False
    return 1.0 / float(1 + ahead.sum())


def auc(positive: Array, negative: Array) -> float:
    """Wilcoxon-Mann-Whitney: P(positive > negative) + P(equal) / 2."""
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left")
    not_above = np.searchsorted(ordered, positive, side="right")
    return float((below + not_above).mean() / 2 / len(negative))


def specificity(ranked: Rows, relevant: Rows, distractors: Rows) -> float | None:
    """Relevant among relevant and distractors ranked; None where there are neither."""
    hits, misses = np.isin(ranked, relevant).sum(), np.isin(ranked, distractors).sum()
    return float(hits / (hits + misses)) if hits + misses else None
