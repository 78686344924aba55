"""Erasure: memories leave every file and table that the index writes, at once."""

from __future__ import annotations

from dataclasses import dataclass

from pam_retriever.store.base import Store
from pam_retriever.store.faults import after_commit


@dataclass(frozen=True)
class ErasureReport:
    """What ``erase`` removed, and what it could not.

    Attributes:
        memories: how many memories were removed: ids, texts, metadata, vectors, words and association vectors.
        trajectories: how many trajectories went with their names, because no step of them was left.
        feedback: how many requests went, because they had used nothing else.
        overwritten: where: files, tables, or memory.
        remaining: what may still hold some of it, and what to do; empty for nothing that the index knows of.
        learnt: whether the weights were trained on what was erased, now or before: they may still know something of
            it until ``fit(from_scratch=True)``.
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
            f"ErasureReport({self.memories:,} memories, {self.trajectories:,} trajectories, {self.feedback:,} requests "
            f"removed from {', '.join(self.overwritten)}{weights}{remaining})"
        )


def erase(store: Store, ids: list[str]) -> ErasureReport:
    """Deletes memories, and overwrites what their storage held; see ``PredictiveAssociativeIndex.erase``."""
    before = _counts(store)
    memories = store.delete(ids)
    with after_commit("The deletion is stored already; files may still hold bytes of it.", "Then call erase again."):
        overwritten, remaining = store.erase_removed()
    trajectories, feedback = (old - new for old, new in zip(before, _counts(store), strict=True))
    learnt = store.predictor is not None and bool(store.database.settings.get("forgotten"))
    return ErasureReport(memories, trajectories, feedback, tuple(overwritten), tuple(remaining), learnt)


def _counts(store: Store) -> tuple[int, int]:
    """How many trajectories and requests there are."""
    feedback = store.database.feedback
    return len(store.database.trajectories), 0 if feedback is None else len(feedback)
