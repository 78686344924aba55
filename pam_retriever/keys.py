"""The keys of a bank, read part by part: an ANN index is built from them without all being in memory."""

from __future__ import annotations

import numpy as np

from pam_retriever.backends import Backend, Parts
from pam_retriever.channels import make_keys
from pam_retriever.codes import Codes, with_codes
from pam_retriever.distributed import in_shards
from pam_retriever.prediction import predict
from pam_retriever.predictor import Predictor
from pam_retriever.readwrite import ReadWriteLock
from pam_retriever.storage.documents import Documents
from pam_retriever.types import Float32, Int64


class StoredKeys:
    """The keys that the database has: [p ; f(p) ; e(p)], or [p] before ``fit``.

    Args:
        documents: the database.
        rows: (n,) sorted, all of which are stored.
        dim: d.
        width: of an association vector; 0 before ``fit``.
    """

    def __init__(self, documents: Documents, rows: Int64, dim: int, width: int) -> None:
        self._documents, self._rows, self._dim, self._width = documents, rows, dim, width

    def __getitem__(self, part: slice) -> Float32:
        return make_keys(*self._documents.memories.stored(self._rows[part], self._dim, self._width))


class StoredVectors:
    """The vectors of memories, some of which may be deleted while they are read: those are zeros.

    Args:
        documents: the database.
        lock: of the bank, held while a part is read.
        rows: (n,) sorted.
        dim: d.
    """

    def __init__(self, documents: Documents, lock: ReadWriteLock, rows: Int64, dim: int) -> None:
        self._documents, self._lock, self._rows, self._dim = documents, lock, rows, dim

    def __getitem__(self, part: slice) -> Float32:
        rows = self._rows[part]
        with self._lock.shared():
            stored, found = self._documents.memories.vectors_of(rows, self._dim)
        if len(stored) == len(rows):
            return found
        vectors = np.zeros((len(rows), self._dim), np.float32)
        vectors[np.isin(rows, stored)] = found
        return vectors


class NewKeys:
    """Keys under a predictor that has yet to take over, made as they are read.

    Args:
        vectors: (n, d) an array, or what reads one part by part.
        predictor: f; None for keys [p].
        codes: (n, code) the episode codes, or what reads them part by part; None for none.
        together: all processes read the same parts, and each predicts its share. A sample (a slice with a step)
            is read by the one that builds, and predicted by it alone.
    """

    def __init__(
        self, vectors: Parts, predictor: Predictor | None, codes: Parts | None = None, together: bool = False
    ) -> None:
        self._vectors, self._predictor, self._codes, self._together = vectors, predictor, codes, together

    def __getitem__(self, part: slice) -> Float32:
        vectors, predictor = self._vectors[part], self._predictor
        if predictor is None:
            return make_keys(vectors, None)
        if self._together and part.step is None:
            predicted = in_shards(lambda some: predict(predictor, some), vectors)
        else:
            predicted = predict(predictor, vectors)
        return make_keys(vectors, predicted if self._codes is None else with_codes(predicted, self._codes[part]))


class LearntCodes:
    """The codes of memories, as a training found them.

    Args:
        codes: of all.
        rows: (n,) of which.
    """

    def __init__(self, codes: Codes, rows: Int64) -> None:
        self._codes, self._rows = codes, rows

    def __getitem__(self, part: slice) -> Float32:
        return self._codes.of(self._rows[part])


class FirstNumbers:
    """The keys [p] of an index over whole keys.

    Args:
        whole: over [p ; f(p) ; e(p)].
        rows: (n,) all of which are stored in it.
        dim: d.
    """

    def __init__(self, whole: Backend, rows: Int64, dim: int) -> None:
        self._whole, self._rows, self._dim = whole, rows, dim

    def __getitem__(self, part: slice) -> Float32:
        return self._whole.keys(self._rows[part])[:, : self._dim]
