"""What a database in an engine can do beside the contract of ``store.database``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from pam_retriever.ann import AnnIndex
from pam_retriever.engines.state import State
from pam_retriever.store.database import (
    Database,
    FeedbackTable,
    KeptMentions,
    Memories,
    ShardedDatabase,
    Steps,
    TimesTable,
    Trajectories,
)
from pam_retriever.types import Float32, Int64

Associate = Callable[[Int64, Float32], Float32]
"""Rows (n,) and their vectors (n, d) -> association vectors (n, d + code)."""


class EngineMemories(Memories, Protocol):
    """Memories in an engine."""

    def metadatas(self, key: str) -> list[tuple[int, str, str]]:
        """(row, id, metadata as JSON) of each memory whose metadata have a key, or more."""


class EngineTrajectories(Trajectories, Protocol):
    """Trajectories in an engine, which other processes change as well."""

    def experienced_since(self, number: int, grown: Sequence[int] = ()) -> Steps:
        """The steps of the trajectories numbered above ``number``, and of those of ``grown`` that are there."""

    def removed_since(self, version: int) -> tuple[Int64, Int64]:
        """The rows of the memories, and the numbers of the trajectories, that were removed or grew after a version."""

    def named(self) -> list[tuple[int, str]]:
        """The number and the id of each trajectory."""

    def steps(self) -> list[tuple[int, int, int, float | None, float | None]]:
        """Trajectory, position, row, timestamp and salience of each step."""


class Generation(Protocol):
    """Keys of all memories that no call reads yet.

    Attributes:
        number: its own.
    """

    number: int

    def fill(self, rows: Int64, vectors: Float32, associate: Associate) -> None:
        """Puts in the keys of memories, (n,) and (n, d). Others read and write the index meanwhile."""

    def catch_up(self, version: int, associate: Associate) -> None:
        """Inside a transaction: brings keys that were filled in at a version up to now."""

    def switch(self) -> None:
        """Inside a transaction: from its end on, calls read this generation."""

    def close(self) -> None:
        """Ends the making of it: it is in use by now, or is dropped."""


class EngineDatabase(Database, Protocol):
    """The tables or collections of one index in an engine.

    Attributes:
        began: called at the start of a transaction, with the state as it will be.
        committed: called after its end.
    """

    began: Callable[[State], None]
    committed: Callable[[State], None]

    @property
    def memories(self) -> EngineMemories:
        """The memories."""

    @property
    def trajectories(self) -> EngineTrajectories:
        """The trajectories of the memories."""

    @property
    def place(self) -> str:
        """Where it is, in words and without a password."""

    @property
    def dim(self) -> int:
        """Length of the vectors."""

    @property
    def state(self) -> State:
        """What every call reads first."""

    @property
    def similar(self) -> AnnIndex:
        """Look-ups over p."""

    def associative(self, generation: int, width: int) -> AnnIndex:
        """Look-ups over the keys (n, width) of a generation."""

    def reading(self) -> AbstractContextManager[State]:
        """All that is read inside is of one moment, as far as the engine can do that."""

    def begin_generation(self, width: int) -> Generation:
        """A place for keys of that width."""

    def erase_removed(self) -> tuple[list[str], list[str]]:
        """Asks the engine to overwrite or drop removed rows; returns where, and what it does not promise."""

    def index_vectors(self) -> None:
        """Builds the engine's own index over p, where there are enough memories for one. Others may read meanwhile."""


class EngineTables:
    """What PostgreSQL and Milvus have in common as an ``EngineDatabase``."""

    feedback: FeedbackTable | None = None  # not stored in engines yet
    times: TimesTable | None = None  # nor these
    mentions: KeptMentions | None = None
    sharded: ShardedDatabase | None = None

    def __init__(self) -> None:
        self.began: Callable[[State], None] = lambda _: None
        self.committed: Callable[[State], None] = lambda _: None

    def snapshot(self) -> Database:
        """Of feedback alone has anybody asked for one."""
        raise NotImplementedError("no feedback is stored in engines")

    def check_writable(self) -> None:
        """Whether the user may write, the server says when it is asked to."""
