"""The device and the precision of a training."""

from __future__ import annotations

import torch

from pam_retriever.errors import InvalidInput
from pam_retriever.training.config import FitConfig


def choose_device(device: str) -> torch.device:
    """Returns the torch device of a name.

    Raises:
        InvalidInput: the name is unknown, or this machine has no such device.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen).item()  # "meta" has no numbers
    except (RuntimeError, AssertionError) as error:  # torch raises either
        raise InvalidInput(
            f"Got device={device!r}, which cannot be used here ({str(error).splitlines()[0]}).",
            "'auto', 'cpu' or a CUDA device of this machine",
            "Use 'auto'.",
        ) from error
    return chosen


def uses_bfloat16(config: FitConfig, device: torch.device) -> bool:
    """Returns whether to train in bfloat16 on a device."""
    if config.precision != "auto":
        return config.precision == "bfloat16"
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    # without AMX tiles a CPU multiplies float32 faster (docs/how/training.md)
    return bool(torch.cpu._is_amx_tile_supported())
