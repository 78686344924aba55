"""The target encoder: a slow copy of the encoder that is trained (Dury, section 3.1)."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def make_target(encoder: Module) -> Module:
    """Returns a copy without gradients."""
    return copy.deepcopy(encoder).requires_grad_(False).eval()


@torch.no_grad()
def follow(target: nn.Module, encoder: nn.Module, momentum: float) -> None:
    """target <- momentum * target + (1 - momentum) * encoder, for weights; buffers are copied."""
    for slow, fast in zip(target.parameters(), encoder.parameters(), strict=True):
        slow.lerp_(fast, 1 - momentum)
    for buffer, new in zip(target.buffers(), encoder.buffers(), strict=True):
        buffer.copy_(new)
