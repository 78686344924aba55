"""Ranking metrics. Every function takes one query's row of scores or ranks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Rows = npt.NDArray[np.int64]


def top(scores: Array, k: int) -> Rows:
    """Returns (Q, k) columns of the largest scores of (Q, N), best first."""
    some = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)


def precision(ranked: Rows, relevant: Rows) -> float:
    """Returns the share of ``ranked`` that is relevant: Association Precision@k (pam.tex 4.4)."""
    return float(np.isin(ranked, relevant).mean())


def recall(ranked: Rows, relevant: Rows) -> float:
    """Returns the share of the relevant that is ranked: (Cross-Boundary) Recall@k."""
    return float(np.isin(relevant, ranked).mean())


def reciprocal_rank(scores: Array, relevant: Rows) -> float:
    """Returns 1 / rank of the best relevant column; ties with irrelevant columns count against it."""
    ahead = scores >= scores[relevant].max()
    ahead[relevant] = False
    return 1.0 / float(1 + ahead.sum())


def auc(positive: Array, negative: Array) -> float:
    """Returns the Wilcoxon-Mann-Whitney statistic: P(positive > negative) + P(equal) / 2."""
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left")
    not_above = np.searchsorted(ordered, positive, side="right")
    return float((below + not_above).mean() / 2 / len(negative))


def specificity(ranked: Rows, relevant: Rows, distractors: Rows) -> float | None:
    """Returns the share of the relevant among ranked relevant and distractors; None if neither is ranked."""
    hits, misses = np.isin(ranked, relevant).sum(), np.isin(ranked, distractors).sum()
    return float(hits / (hits + misses)) if hits + misses else None
