"""A view: the state of an index that a query reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pam_retriever.ann import AnnIndex, make_backend
from pam_retriever.errors import NotFitted
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.model.keys import Channels
from pam_retriever.store.database import Database
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.types import Calibration, Direction, Float32

if TYPE_CHECKING:
    from pam_retriever.store.base import Store

FIRST_WINDOW = 5  # before the first ``fit``
FLAT = "faiss:flat"  # exact, and needs no training


@dataclass(frozen=True)
class View:
    """A consistent state of an index. Retrieval reads views only.

    Attributes:
        dim: d, length of the vectors.
        database: the database.
        similar: ANN index over p, (d,).
        associative: ANN index over [p ; f(p) ; e(p)], (2d + code,); None before ``fit``.
        links: the graph of memories that were experienced together.
        predictor: f; None before ``fit``.
        calibration: weights of the default recall, calibrated by ``fit``; None before it.
        window: tau of the last ``fit``.
    """

    dim: int
    database: Database
    similar: AnnIndex
    associative: AnnIndex | None
    links: CooccurrenceGraph
    predictor: PredictorWeights | None
    calibration: Calibration | None
    window: int

    def predict(self, points: Float32) -> Float32:
        """Returns f of points (n, d): (n, d + code), of unit length, with zeros as codes.

        Raises:
            NotFitted: before ``fit``.
        """
        if self.predictor is None:
            raise NotFitted("There is no predictor yet.", "a fitted index", "Call fit(trajectories) first.")
        return self.predictor(points)

    def towards(self, direction: Direction | None) -> View:
        """Returns a view whose links lead only after, or only before, a memory; for both directions itself."""
        return self if direction is None else replace(self, links=self.links.towards(direction))

    def index_of(self, channels: Channels) -> AnnIndex:
        """Returns the ANN index whose keys ``channels`` needs."""
        return self.associative if channels.association and self.associative is not None else self.similar


@contextmanager
def frozen(store: Store, lock: ReadWriteLock) -> Iterator[View]:
    """Yields a view of the current contents, without the predictor. Others read and write the store meanwhile.

    Args:
        store: the store.
        lock: lock of the store. It is held only while the view is created.
    """
    with ExitStack() as opened:
        with lock.shared():
            dim, window, database = store.dim, store.window, store.database.snapshot()
            opened.callback(database.close)
        rows, vectors = database.memories.all_vectors(dim)
        similar = make_backend(FLAT, dim)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        similar.rebuild(rows, vectors / np.maximum(lengths, np.float32(1e-12)))
        links = CooccurrenceGraph(*database.trajectories.experienced())
        yield View(dim, database, similar, None, links, None, None, window)
