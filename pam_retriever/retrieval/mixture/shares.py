"""Shares of use as features: ``log(1 + share / 0.01)``.

A softmax over a weighted sum of them is a product of experts, in which a source that knows nothing leaves the others
alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pam_retriever.types import Float32

Floats = npt.NDArray[np.floating]

SMALL_SHARE = 0.01


def grown(values: np.ndarray, size: int, fill: float = 0) -> np.ndarray:
    """The values, with as many more at the end as it takes to be ``size``."""
    if len(values) == size:
        return values
    return np.concatenate([values, np.full(size - len(values), fill, values.dtype)])


def log_share(share: Floats) -> Float32:
    """Shares as features: 0 for nothing, 4.6 for all."""
    feature: Float32 = np.log1p(np.maximum(share, 0) / SMALL_SHARE).astype(np.float32)
    return feature
