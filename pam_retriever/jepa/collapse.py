"""Collapse, the failure in which an encoder maps everything to one point: measures and a loss term."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def effective_rank(states: Tensor) -> float:
    """RankMe: the exponential of the entropy of the singular values of the states (n, d).

    Garrido et al., "RankMe", ICML 2023, after Roy and Vetterli 2007. 1 when all states point the same way, at most d.
    """
    values = torch.linalg.svdvals(states.double())
    share = values / values.sum().clamp_min(1e-12)
    return float(torch.exp(-(share * (share + 1e-12).log()).sum()))


@torch.no_grad()
def spread(states: Tensor) -> float:
    """The mean over dimensions of the standard deviation of the unit-length states (n, d), times sqrt(d).

    1 for states in all directions, 0 if all are the same.
    """
    unit = torch.nn.functional.normalize(states.float(), dim=-1)
    return float(unit.std(dim=0).mean() * states.shape[1] ** 0.5)


def variance_loss(states: Tensor) -> Tensor:
    """VICReg's variance term: the shortfall of the deviation of each dimension over (B, d) below 1.

    Bardes et al., "VICReg", ICLR 2022.
    """
    return torch.relu(1 - torch.sqrt(states.var(dim=0) + 1e-4)).mean()
