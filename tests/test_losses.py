"""Losses equal the results of plain Python loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pam_retriever.model.losses import info_nce, multi_positive_info_nce


def test_info_nce_is_the_mean_negative_log_share_of_the_own_associate():
    torch.manual_seed(0)
    predicted, associates = torch.randn(5, 3), torch.randn(5, 3)
    expected = 0.0
    for i in range(5):
        terms = [math.exp(float(torch.cosine_similarity(predicted[i], associates[j], dim=0)) / 0.1) for j in range(5)]
        expected -= math.log(terms[i] / sum(terms)) / 5
    assert float(info_nce(predicted, associates, 0.1)) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("bank", [6, 600])
def test_multi_positive_info_nce_sets_each_positive_against_all_negatives(bank):
    torch.manual_seed(0)
    scores = torch.randn(6, 6)
    rows, columns, weights = [0, 0, 2, 5], [1, 4, 3, 0], [1.0, 0.5, 2.0, 1.0]
    pairs = set(zip(rows, columns, strict=True))
    total = 0.0
    for row, column, weight in zip(rows, columns, weights, strict=True):
        negatives = [math.exp(float(scores[row, j]) / 0.5) for j in range(6) if j != row and (row, j) not in pairs]
        against = math.log(1 + bank / 6 * sum(negatives))
        total += weight * math.log1p(math.exp(against - float(scores[row, column]) / 0.5))
    found = multi_positive_info_nce(
        scores / 0.5, torch.tensor(rows), torch.tensor(columns), torch.tensor(weights), bank_size=bank
    )
    assert float(found) == pytest.approx(total / sum(weights), rel=1e-5)


def test_without_negatives_associates_are_still_drawn_together():
    scores = torch.zeros(2, 2, requires_grad=True)
    loss = multi_positive_info_nce(scores, torch.tensor([0, 1]), torch.tensor([1, 0]), torch.ones(2), bank_size=2)
    loss.backward()
    assert scores.grad is not None
    assert np.isfinite(scores.grad.numpy()).all()
    assert (scores.grad[[0, 1], [1, 0]] < 0).all()


def test_the_gradient_is_that_of_the_value():
    """The gradient of the loss equals finite differences."""
    logits = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    rows, columns, own = torch.tensor([0, 0, 2, 3]), torch.tensor([1, 4, 3, 0]), torch.tensor([0, 1, 2, 4])
    weights = torch.tensor([1.0, 0.5, 2.0, 1.0])

    def loss(given):
        return multi_positive_info_nce(given, rows, columns, weights, 50, own)

    assert torch.autograd.gradcheck(loss, (logits,), eps=1e-2, atol=1e-2, rtol=1e-2, nondet_tol=0)


def test_a_batch_without_positives_or_without_memories_has_no_loss():
    nobody = torch.zeros(0, dtype=torch.int64)
    for count in (0, 3):
        logits = torch.ones(count, count, requires_grad=True)
        loss = multi_positive_info_nce(logits, nobody, nobody, torch.zeros(0), bank_size=9)
        loss.backward()
        assert float(loss) == 0
        assert not logits.grad.any()
