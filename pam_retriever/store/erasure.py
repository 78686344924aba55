"""Erasure: removes memories from every file and table of the index before the call returns."""

from __future__ import annotations

from dataclasses import dataclass

from pam_retriever.errors import counted
from pam_retriever.store.base import Store
from pam_retriever.store.faults import after_commit
from pam_retriever.store.model_metadata import FORGOTTEN


@dataclass(frozen=True)
class ErasureReport:
    """The result of ``erase``.

    Attributes:
        memories: number of removed memories, with ids, texts, metadata, vectors, words and association vectors.
        trajectories: number of trajectories that were removed with their names, because they had no step left.
        feedback: number of requests that were removed, because only erased memories served them.
        overwritten: the files, tables and memory that were overwritten.
        remaining: places that may still hold erased data, each with a remedy; empty if the index knows of none.
        learnt: whether the weights were ever trained on erased memories. Until ``fit(from_scratch=True)`` the weights
            may still hold information about them. If no trajectory of two steps is left, the weights are gone, too.
    """

    memories: int
    trajectories: int
    feedback: int
    overwritten: tuple[str, ...]
    remaining: tuple[str, ...] = ()
    learnt: bool = False

    def __repr__(self) -> str:
        weights = "; the weights may still know of it: fit(from_scratch=True)" if self.learnt else ""
        remaining = "".join(f"; remaining: {one}" for one in self.remaining)
        return (
            f"ErasureReport({counted(self.memories, 'memory')}, {counted(self.trajectories, 'trajectory')}, "
            f"{counted(self.feedback, 'request')} removed from {', '.join(self.overwritten)}{weights}{remaining})"
        )


def erase(store: Store, ids: list[str], learning: bool) -> ErasureReport:
    """Deletes memories and overwrites their storage; see ``PredictiveAssociativeIndex.erase``.

    Args:
        store: the store of the index.
        ids: of the memories.
        learning: whether a fit is running, whose weights may be trained on these memories, and are stored later.
    """
    before, forgotten = _counts(store), store.database.settings.get(FORGOTTEN)
    memories = store.delete(ids, with_learnt=True)
    with after_commit("The deletion is stored already; files may still hold bytes of it.", "Then call erase again."):
        overwritten, remaining = store.erase_removed()
    trajectories, feedback = (old - new for old, new in zip(before, _counts(store), strict=True))
    now = store.database.settings.get(FORGOTTEN)
    learnt = bool(now) and (store.predictor is not None or (learning and now != forgotten))
    return ErasureReport(memories, trajectories, feedback, tuple(overwritten), tuple(remaining), learnt)


def _counts(store: Store) -> tuple[int, int]:
    """Returns the numbers of trajectories and of requests."""
    return len(store.database.trajectories), len(store.database.feedback)
