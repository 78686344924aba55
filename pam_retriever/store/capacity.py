"""The capacity of a store, and the choice of the memories that it deletes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.experience.strength import Steps, adapted_half_life, strengths, weakest
from pam_retriever.store.database import Database, Settings
from pam_retriever.types import Int64

SLACK = 1.1  # a bounded index may exceed its capacity by this factor before memories are deleted


@dataclass(frozen=True)
class Capacity:
    """The setting "capacity".

    Attributes:
        memories: number of memories to keep.
        half_life: half-life of experiences; see ``prune``.
    """

    memories: int
    half_life: float | Literal["auto"] | None

    @classmethod
    def read(cls, settings: Settings) -> Capacity | None:
        """Reads the capacity of an index; None if it has no bound."""
        stored = cast("dict[str, Any] | None", settings.get("capacity"))
        return None if stored is None else cls(stored["memories"], stored["half_life"])

    @staticmethod
    def write(settings: Settings, memories: int | None, half_life: float | Literal["auto"] | None) -> None:
        """Sets or removes the bound of an index, inside a transaction."""
        settings.set("capacity", None if memories is None else {"memories": memories, "half_life": half_life})

    def outgrown_by(self, memories: int) -> bool:
        """Whether this number of memories exceeds the capacity by more than the factor ``SLACK``."""
        return memories > SLACK * self.memories


def to_forget(
    database: Database, keep: int, half_life: float | Literal["auto"] | None, window: int
) -> tuple[Int64, Int64]:
    """Returns all rows, sorted, and the rows to delete: all but the ``keep`` strongest memories."""
    stored = database.memories.rows()
    if len(stored) <= keep:
        return stored, stored[:0]
    rows, trajectories, positions, salience = database.trajectories.experienced()
    experience = Experience(np.searchsorted(stored, rows), trajectories, positions)
    steps = Steps(experience, database.trajectories.experienced_when(), salience)
    if half_life == "auto":
        half_life = adapted_half_life(steps, len(stored), keep, window)
    now = database.trajectories.newest_time() or 0.0
    return stored, stored[weakest(strengths(steps, len(stored), now, half_life), keep)]
