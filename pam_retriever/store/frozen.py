"""A view that no write changes, for what takes long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from pam_retriever.ann import make_backend
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.store.base import Store
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.store.view import View

FLAT = "faiss:flat"  # exact, and needs no building


@contextmanager
def frozen(store: Store, lock: ReadWriteLock) -> Iterator[View]:
    """A view of what a store holds now, without its predictor. Others read and write the store meanwhile.

    Args:
        store: the store.
        lock: of it, which is held while the view is begun, and no longer.
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
