"""Beside the predictor: an embedding for every memory that was experienced, learnt as a row of a table.

f has to guess from p what belongs to it, so it also answers for a cue that was never seen. Which experience a
memory was part of cannot be guessed, only remembered: no function of p has to be found for it. So each memory
has a vector of its own, drawn to those of its associates, as words and items have in word2vec (Mikolov et al. 2013)
and item2vec (Barkan and Koenigstein 2016). It takes nothing of the network, is learnt in a few passes, and what is
learnt of new memories overwrites nothing of old ones. ``training/embedding_table.py`` learns them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pam_retriever.types import Float32, Int64


@dataclass(frozen=True)
class EpisodeEmbeddings:
    """The episode embeddings of memories: unit vectors, or zeros where nothing was experienced.

    Attributes:
        rows: (n,) sorted rows of stored memories, the first n of ``values``.
        values: (M, code), M >= n.
        places: where among them those named by id are, such as memories that are yet to be stored.
    """

    rows: Int64
    values: Float32
    places: dict[str, int] = field(default_factory=dict)

    def of(self, rows: Int64) -> Float32:
        """Those of stored rows, (m, code)."""
        place = np.searchsorted(self.rows, rows)
        known = np.take(self.rows, place, mode="clip") == rows if len(self.rows) else np.zeros(len(rows), bool)
        return self._at(np.where(known, place, -1))

    def named(self, ids: Sequence[str]) -> Float32:
        """Those of ids, (m, code)."""
        return self._at(np.array([self.places.get(id, -1) for id in ids], np.int64))

    def _at(self, places: Int64) -> Float32:
        found = np.zeros((len(places), self.values.shape[1]), np.float32)
        found[places >= 0] = self.values[places[places >= 0]]
        return found


def with_codes(predicted: Float32, codes: Float32) -> Float32:
    """Association vectors (n, d + code), of which f is filled in, with these embeddings (n, code) in their place."""
    if codes.shape[1]:
        predicted[:, -codes.shape[1] :] = codes
    return predicted
