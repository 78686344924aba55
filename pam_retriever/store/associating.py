"""The association vectors of memories that are about to be stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pam_retriever.model.episode_embeddings import with_codes
from pam_retriever.types import Float32

if TYPE_CHECKING:
    from pam_retriever.store.base import Store


def predict(store: Store, vectors: Float32) -> Float32 | None:
    """Returns what the predictor makes of vectors (n, dim); None before ``fit``."""
    return None if store.predictor is None else store.predictor(vectors)


def associate(store: Store, ids: Sequence[str], vectors: Float32) -> Float32 | None:
    """Returns the association vectors (n, dim + code) of memories; None before ``fit``."""
    return with_codes_of_replaced(store, ids, predict(store, vectors))


def with_codes_of_replaced(store: Store, ids: Sequence[str], predicted: Float32 | None) -> Float32 | None:
    """Returns the vectors; a memory that replaces a stored memory gets the episode code of that memory."""
    if predicted is None or store.predictor is None or not store.predictor.config.code:
        return predicted
    if not (replaced := store.database.memories.rows_of(ids)):
        return predicted
    rows, position = np.unique(np.array([replaced.get(id, -1) for id in ids], np.int64), return_inverse=True)
    codes = np.zeros((len(rows), store.predictor.config.code), np.float32)
    codes[rows >= 0] = store.codes_of(rows[rows >= 0])
    return with_codes(predicted, codes[position])
