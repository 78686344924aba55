"""Shares of use as features: ``log(1 + share / 0.01)``.

A softmax over a weighted sum of these features is a product of experts. A source without information has feature 0, and
does not change the product.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pam_retriever.types import Float32

Floats = npt.NDArray[np.floating]

SMALL_SHARE = 0.01


def grown(values: np.ndarray, size: int, fill: float = 0) -> np.ndarray:
    """Returns the values, extended to length ``size``."""
    if len(values) == size:
        return values
    return np.concatenate([values, np.full(size - len(values), fill, values.dtype)])


def log_share(share: Floats) -> Float32:
    """Returns shares as features: 0 for share 0, 4.6 for share 1."""
    feature: Float32 = np.log1p(np.maximum(share, 0) / SMALL_SHARE).astype(np.float32)
    return feature
