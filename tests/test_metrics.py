"""Metrics equal values computed by hand and by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from benchmarks import metrics
from benchmarks.recall.calibration import reliability
from pam_retriever.types import Hit


def test_metrics_on_a_ranking_worked_out_by_hand():
    scores = np.array([[0.1, 0.9, 0.5, 0.7, 0.3]])
    ranked = metrics.top(scores, 3)[0]
    assert ranked.tolist() == [1, 3, 2]
    relevant = np.array([3, 4])
    assert metrics.precision(ranked, relevant) == pytest.approx(1 / 3)
    assert metrics.recall(ranked, relevant) == 0.5
    assert metrics.reciprocal_rank(scores[0], relevant) == 0.5
    assert metrics.reciprocal_rank(np.array([0.5, 0.5, 0.5, 0.1]), np.array([0, 1])) == 0.5, "one tie is irrelevant"
    assert metrics.specificity(ranked, relevant, np.array([1, 2])) == pytest.approx(1 / 3)
    assert metrics.specificity(ranked, np.array([4]), np.array([0])) is None


def test_auc_is_the_mann_whitney_statistic_with_ties():
    random = np.random.default_rng(0)
    positive, negative = random.integers(0, 9, 40).astype(float), random.integers(0, 9, 70).astype(float)
    expected = mannwhitneyu(positive, negative).statistic / (40 * 70)
    assert metrics.auc(positive, negative) == pytest.approx(expected)


def test_reliability_counts_what_was_said_against_what_was():
    """Reliability compares the stated confidence with the share of hits that were actually experienced."""
    hits = [
        Hit(str(row), 1.0, None, {}, 1.0, confidence=sure) for row, sure in ((1, 0.95), (2, 0.95), (3, 0.05), (4, 0.05))
    ]
    found = reliability(np.array([0]), [hits], [np.array([1, 3])])
    assert found["hits"] == [2, 0, 0, 0, 0, 0, 0, 0, 0, 2]
    assert found["experienced"][0] == found["experienced"][9] == 0.5
    assert found["ECE"] == pytest.approx(0.45)
