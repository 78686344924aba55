"""A view that no write changes, for long computations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from pam_retriever.ann import make_backend
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.store.base import Store
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.store.view import View

FLAT = "faiss:flat"  # exact, and needs no training


@contextmanager
def frozen(store: Store, lock: ReadWriteLock) -> Iterator[View]:
    """Yields a view of the current contents, without the predictor. Others read and write the store meanwhile.

    Args:
        store: the store.
        lock: of the store. It is held only while the view is created.
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
