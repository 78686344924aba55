"""The optimizers of torch without its compiler, whose import takes longer than many fits."""

from __future__ import annotations

import inspect
from typing import TypeVar

import torch

Kind = TypeVar("Kind", bound=torch.optim.Optimizer)


def _without_compiler(optimizer: type[Kind]) -> type[Kind]:
    """Returns the same optimizer. Torch wraps three of its methods, and each wrapper imports ``torch._dynamo``."""
    methods = {
        "add_param_group": inspect.unwrap(optimizer.add_param_group),
        "zero_grad": inspect.unwrap(optimizer.zero_grad),
        "step": torch.no_grad()(inspect.unwrap(optimizer.step)),
    }
    return type(optimizer.__name__, (optimizer,), methods)


AdamW = _without_compiler(torch.optim.AdamW)
LBFGS = _without_compiler(torch.optim.LBFGS)
