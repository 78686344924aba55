"""The common part of the databases in PostgreSQL and Milvus."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from pam_retriever.engines.base import EngineMemories, EngineTrajectories
from pam_retriever.engines.export import copy_of
from pam_retriever.engines.kept import Documents, Kept
from pam_retriever.engines.state import State
from pam_retriever.store.database import FeedbackTable, KeptMentions, Settings, ShardedDatabase, TimesTable
from pam_retriever.store.sqlite_database import SQLiteDatabase
from pam_retriever.types import Int64


class EngineTables(ABC):
    """See ``EngineDatabase``.

    Args:
        memories: of the same index.
        documents: with feedback, times and mentions.

    Attributes:
        kept: feedback, times and mentions.
        memories: the stored memories.
        trajectories: of the memories.
        settings: the other stored values.
        dim: length of the vectors.
        began: called at the start of a transaction, with its new state.
        committed: called after the end of a transaction.
    """

    sharded: ShardedDatabase | None = None
    memories: EngineMemories
    trajectories: EngineTrajectories
    settings: Settings
    dim: int

    def __init__(self, memories: EngineMemories, documents: Documents) -> None:
        self.kept = memories.kept = Kept(documents, memories)
        self.began: Callable[[State], None] = lambda _: None
        self.committed: Callable[[State], None] = lambda _: None

    @property
    def feedback(self) -> FeedbackTable:
        """Requests, and the memories that they used."""
        return self.kept.feedback

    @property
    def times(self) -> TimesTable:
        """The times of memories."""
        return self.kept.times

    @property
    def mentions(self) -> KeptMentions:
        """The mentions of memories in texts."""
        return self.kept.mentions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits all writes of the block together, if the engine supports it."""
        with ExitStack() as copied, self._writing() as state:  # the copy is committed last, because it cannot fail
            copied.enter_context(self.kept.transaction())
            self._mend()
            yield
            self.kept.store()
        self.committed(state)

    def _mend(self) -> None:  # noqa: B027 - nothing, if failed calls leave nothing behind
        """At the start of a transaction: removes what a failed call left behind in the copy."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[State]:
        """Runs a transaction of the engine; calls ``began`` first."""

    def forget(self, rows: Int64) -> None:
        """Removes memories by row, their steps, and trajectories without any step left."""
        self.mentions.forget(rows)
        self.memories.remove(rows)
        self.trajectories.remove_empty()

    def snapshot(self) -> SQLiteDatabase:
        """Returns a copy of everything in memory."""
        return copy_of(self, None)

    def check_writable(self) -> None:  # noqa: B027
        """Does nothing: the server checks the permission at each write."""
