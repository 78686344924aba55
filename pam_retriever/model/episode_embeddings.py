"""Episode embeddings: for every experienced memory a learnt vector, stored in a table.

The predictor f computes associates from p, so it also answers for a cue that was never seen. But no function of p
determines in which experience a memory took part. So each memory has a separate vector, trained to lie near the
vectors of its associates, as in word2vec (Mikolov et al. 2013) and item2vec (Barkan and Koenigstein 2016). The table
needs no network, and is learnt in a few passes. Learning new memories does not change old vectors.
``training/embedding_table.py`` trains the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pam_retriever.types import Float32, Int64


@dataclass(frozen=True)
class EpisodeEmbeddings:
    """The episode embeddings of memories: unit vectors, or zeros for a memory without experience.

    Attributes:
        rows: (n,) sorted rows of stored memories, the first n of ``values``.
        values: (M, code), M >= n.
        positions: positions in ``values`` by id, for memories that are not stored yet.
    """

    rows: Int64
    values: Float32
    positions: dict[str, int] = field(default_factory=dict)

    def of(self, rows: Int64) -> Float32:
        """Returns the embeddings (m, code) of stored rows."""
        position = np.searchsorted(self.rows, rows)
        known = np.take(self.rows, position, mode="clip") == rows if len(self.rows) else np.zeros(len(rows), bool)
        return self._at(np.where(known, position, -1))

    def named(self, ids: Sequence[str]) -> Float32:
        """Returns the embeddings (m, code) of ids."""
        return self._at(np.array([self.positions.get(id, -1) for id in ids], np.int64))

    def _at(self, positions: Int64) -> Float32:
        found = np.zeros((len(positions), self.values.shape[1]), np.float32)
        found[positions >= 0] = self.values[positions[positions >= 0]]
        return found


def with_codes(predicted: Float32, codes: Float32) -> Float32:
    """Returns association vectors (n, d + code): f from ``predicted``, and the embeddings ``codes`` (n, code)."""
    if codes.shape[1]:
        predicted[:, -codes.shape[1] :] = codes
    return predicted
