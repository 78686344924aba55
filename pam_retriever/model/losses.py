"""Step 4: what the predictor is trained on. Pure functions of tensors."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F


def info_nce(predicted: Tensor, associates: Tensor, temperature: float) -> Tensor:
    """The paper's loss: InfoNCE over cosine similarity, in-batch negatives (Dury 4.3).

    Args:
        predicted: (B, d) f of the anchors.
        associates: (B, d); row i is an associate of anchor i, the other rows are its negatives.
        temperature: divides the cosines.

    Returns:
        The mean over the batch, a scalar.
    """
    cosine = F.normalize(predicted, dim=-1) @ F.normalize(associates, dim=-1).T  # (B, B)
    return F.cross_entropy(cosine / temperature, torch.arange(len(cosine), device=cosine.device))


def multi_positive_info_nce(
    logits: Tensor, rows: Tensor, columns: Tensor, weights: Tensor, bank_size: int, own: Tensor | None = None
) -> Tensor:
    """InfoNCE with every associate as a positive, each against all non-associates.

    For a positive with score s the term is softplus(log(1 + bank / batch * sum(exp(negatives))) - s):
    the cross-entropy of picking it out of the whole bank, whose negatives the batch samples. The 1 is
    a candidate that means "nothing", with score 0: it draws associates up where a small
    world has no negatives. Positives do not compete with each other, which InfoNCE would have them do.

    Args:
        logits: (A, B) scores of A cues against the B memories of the batch, divided by the temperature.
        rows: (E,) int64 cues of the positives.
        columns: (E,) int64 associates, so that ``logits[rows, columns]`` are the positives, each once.
        weights: (E,) how much each positive counts.
        bank_size: how many memories the batch was drawn from.
        own: (A,) int64 the column of each cue itself, which is no negative; None: A = B in the same order.

    Returns:
        The weighted mean over the positives, a scalar; 0 if there are none.
    """
    if not len(rows):  # a batch of memories that were each experienced alone
        return logits.sum() * 0
    own = torch.arange(len(logits), device=logits.device) if own is None else own
    positive, negatives = cast("Any", _Sides).apply(logits.float(), rows, columns, own)  # (E,), (A,)
    negatives = negatives + math.log(max(bank_size / logits.shape[1], 1.0))
    against = torch.logaddexp(negatives, torch.zeros_like(negatives))
    losses = F.softplus(against[rows] - positive)
    return (losses * weights).sum() / weights.sum().clamp_min(1e-12)


class _Sides(torch.autograd.Function):
    """The positives (E,) among the logits (A, B), and log(sum(exp(.))) over the others of each row but its own (A,).

    The whole matrix is read and written as few times as can be: elementwise work on it takes as long as
    the products of the network otherwise.
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
