"""Step 4: what the predictor is trained on. Pure functions of tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def info_nce(predicted: Tensor, associates: Tensor, temperature: float) -> Tensor:
    """The paper's loss: InfoNCE over cosine similarity, in-batch negatives (pam.tex 4.3).

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
    scores: Tensor,
    rows: Tensor,
    columns: Tensor,
    weights: Tensor,
    temperature: float,
    bank_size: int,
    own: Tensor | None = None,
) -> Tensor:
    """InfoNCE with every associate as a positive, each against all non-associates.

    For a positive with score s the term is softplus(log(1 + bank / batch * sum(exp(negatives))) - s):
    the cross-entropy of picking it out of the whole bank, whose negatives the batch samples. The 1 is
    a candidate that means "nothing", with score 0: it draws associates up where a small
    world has no negatives. Positives do not compete with each other, which InfoNCE would have them do.

    Args:
        scores: (A, B) of A cues against the B memories of the batch, not yet divided by the temperature.
        rows: (E,) int64 cues of the positives.
        columns: (E,) int64 associates, so that ``scores[rows, columns]`` are the positives.
        weights: (E,) how much each positive counts.
        temperature: divides the scores.
        bank_size: how many memories the batch was drawn from.
        own: (A,) int64 the column of each cue itself, which is no negative; None: A = B in the same order.

    Returns:
        The weighted mean over the positives, a scalar.
    """
    logits = scores / temperature
    positive = logits[rows, columns]  # (E,)
    if own is None:
        own = torch.arange(len(logits), device=logits.device)
    excluded = torch.zeros_like(logits, dtype=torch.bool)
    excluded[torch.arange(len(logits), device=logits.device), own] = True
    excluded[rows, columns] = True
    # not -inf: a cue without negatives would get NaN gradients
    negatives = logits.masked_fill(excluded, -1e30).logsumexp(-1)  # (A,)
    negatives = negatives + math.log(max(bank_size / logits.shape[1], 1.0))
    against = torch.logaddexp(negatives, torch.zeros_like(negatives))
    losses = F.softplus(against[rows] - positive)
    return (losses * weights).sum() / weights.sum().clamp_min(1e-12)
