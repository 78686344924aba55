"""The target encoder: a slow copy of the encoder that is trained (pam.tex section 3.1)."""

from __future__ import annotations

import copy

import torch
from torch import nn


def make_target(encoder: nn.Module) -> nn.Module:
    """A copy that no gradient reaches."""
    return copy.deepcopy(encoder).requires_grad_(False).eval()


@torch.no_grad()
def follow(target: nn.Module, encoder: nn.Module, momentum: float) -> None:
    """target <- momentum * target + (1 - momentum) * encoder, for weights; buffers are copied."""
    slow, fast = list(target.parameters()), list(encoder.parameters())
    torch._foreach_lerp_(slow, fast, 1 - momentum)  # type: ignore[no-untyped-call]
    for kept, now in zip(target.buffers(), encoder.buffers(), strict=True):
        kept.copy_(now)
