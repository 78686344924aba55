"""The state of an index in an engine, and contracts of its parts that extend those of ``store.database``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pam_retriever.engines.local_copy import LocalCopy
from pam_retriever.store.database import Memories, Steps, Trajectories
from pam_retriever.types import Float32, Int64

Associate = Callable[[Int64, Float32], Float32]
"""Rows (n,) and their vectors (n, d) -> association vectors (n, d + code)."""


@dataclass
class State:
    """The row of counters that every call reads first.

    Attributes:
        version: increases with every transaction that writes.
        model: the version of the last change of predictor, encoder or calibration.
        texts: the version of the last change of a memory.
        logged_from: the first version whose removals are still recorded.
        generation: the number of the table with the keys; 0 before ``fit``.
        memories: number of memories.
        last_row: the highest row that any memory ever had.
        last_trajectory: the highest number that any trajectory ever had.
    """

    version: int
    model: int
    texts: int
    logged_from: int
    generation: int
    memories: int
    last_row: int
    last_trajectory: int


class EngineMemories(Memories, Protocol):
    """Memories in an engine.

    Attributes:
        local_copy: feedback, times and mentions; it receives every write and removal.
    """

    local_copy: LocalCopy

    def metadatas(self, key: str) -> list[tuple[int, str, str]]:
        """Returns (row, id, metadata as JSON) of each memory whose metadata have a key, or of more memories."""


class EngineTrajectories(Trajectories, Protocol):
    """Trajectories in an engine. Other processes may change them."""

    def experienced_since(self, number: int, grown: Sequence[int] = ()) -> Steps:
        """Returns the steps of the trajectories with numbers above ``number``, and of the stored ones in ``grown``."""

    def removed_since(self, version: int) -> tuple[Int64, Int64]:
        """Returns rows of memories, and numbers of trajectories, that were removed or grew after a version."""

    def named(self) -> list[tuple[int, str]]:
        """Returns the number and the id of each trajectory."""

    def steps(self) -> list[tuple[int, int, int, float | None, float | None]]:
        """Returns trajectory, position, row, timestamp and salience of each step."""


class Generation(Protocol):
    """New keys of all memories, which no call reads yet.

    Attributes:
        number: number of the generation.
    """

    number: int

    def is_gone(self) -> bool:
        """Whether another process dropped it; it is to be made again then."""

    def fill(self, rows: Int64, vectors: Float32, associate: Associate) -> None:
        """Adds the keys of memories with ``rows`` (n,) and vectors (n, d). Others may use the index meanwhile."""

    def catch_up(self, version: int, associate: Associate) -> None:
        """Inside a transaction: updates keys that were computed at an earlier version."""

    def switch(self) -> None:
        """Inside a transaction: makes this generation current. Calls read it after the commit."""

    def close(self) -> None:
        """Ends the creation of the generation. Drops it unless ``switch`` was committed."""
