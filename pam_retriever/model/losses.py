"""Step 4: the losses of the predictor, as pure functions of tensors."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F


def info_nce(predicted: Tensor, associates: Tensor, temperature: float) -> Tensor:
    """Returns the paper's loss: InfoNCE over cosine similarity, with in-batch negatives (Dury 4.3).

    Args:
        predicted: (B, d) f of the anchors.
        associates: (B, d); row i is an associate of anchor i, the other rows are its negatives.
        temperature: divides the cosines.

    Returns:
        The mean over the batch; a scalar.
    """
    cosine = F.normalize(predicted, dim=-1) @ F.normalize(associates, dim=-1).T  # (B, B)
    return F.cross_entropy(cosine / temperature, torch.arange(len(cosine), device=cosine.device))


def multi_positive_info_nce(
    logits: Tensor, rows: Tensor, columns: Tensor, weights: Tensor, bank_size: int, own: Tensor | None = None
) -> Tensor:
    """Returns InfoNCE with every associate as a positive, each against all memories that are no associates.

    For a positive with score s the term is softplus(log(1 + memories / batch * sum(exp(negatives))) - s). This is the
    cross-entropy of choosing the positive among all memories; the batch is a sample of the negatives. The 1 is a
    candidate "nothing" with score 0: it raises the scores of associates if a small data set has no negatives. Unlike in
    InfoNCE, positives do not compete with each other.

    Args:
        logits: (A, B) scores of A cues against the B memories of the batch, divided by the temperature.
        rows: (E,) int64 cues of the positives.
        columns: (E,) int64 associates, so that ``logits[rows, columns]`` are the positives, each once.
        weights: (E,) the weights of the positives.
        bank_size: number of memories from which the batch was drawn.
        own: (A,) int64 the column of each cue itself, which is no negative; None: A = B in the same order.

    Returns:
        The weighted mean over the positives, a scalar; 0 if there are none.
    """
    if not len(rows):  # a batch of memories without associates
        return logits.sum() * 0
    own = torch.arange(len(logits), device=logits.device) if own is None else own
    positive, negatives = cast("Any", _Sides).apply(logits.float(), rows, columns, own)  # (E,), (A,)
    negatives = negatives + math.log(max(bank_size / logits.shape[1], 1.0))
    against = torch.logaddexp(negatives, torch.zeros_like(negatives))
    losses = F.softplus(against[rows] - positive)
    return (losses * weights).sum() / weights.sum().clamp_min(1e-12)


class _Sides(torch.autograd.Function):
    """Returns the positives (E,) among the logits (A, B), and per row log(sum(exp(negatives))) (A,).

    The matrix is read and written as few times as possible: elementwise work on it can take as long as the network's
    matrix products.
    """

    @staticmethod
    def forward(context: Any, logits: Tensor, rows: Tensor, columns: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        positive = logits[rows, columns]
        shares = logits.clone()
        shares[rows, columns] = -1e30  # not -inf: a cue without negatives would get NaN gradients
        shares[torch.arange(len(own), device=own.device), own] = -1e30
        most = shares.amax(dim=1, keepdim=True)
        total = shares.sub_(most).exp_().sum(dim=1, keepdim=True)
        context.save_for_backward(shares.div_(total), rows, columns)
        return positive, (total.log() + most)[:, 0]

    @staticmethod
    def backward(context: Any, positive: Tensor, negatives: Tensor) -> tuple[Tensor, None, None, None]:
        shares, rows, columns = context.saved_tensors
        gradient = shares * negatives[:, None]
        gradient[rows, columns] = positive
        return gradient, None, None, None
