"""What PostgreSQL and Milvus have in common as a database of an index."""

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
        documents: where feedback, times and mentions are.

    Attributes:
        kept: feedback, times and mentions.
        memories: what is stored.
        trajectories: in which they were experienced.
        settings: what else the index keeps.
        dim: length of the vectors.
        began: called at the start of a transaction, with the state as it will be.
        committed: called after its end.
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
        """Requests, and what served them."""
        return self.kept.feedback

    @property
    def times(self) -> TimesTable:
        """When memories were."""
        return self.kept.times

    @property
    def mentions(self) -> KeptMentions:
        """Which texts name which memories."""
        return self.kept.mentions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is committed together, as far as the engine can do that."""
        with ExitStack() as copied, self._writing() as state:  # the copy is committed last: nothing fails there
            copied.enter_context(self.kept.transaction())
            self._mend()
            yield
            self.kept.store()
        self.committed(state)

    def _mend(self) -> None:  # noqa: B027 - nothing, if failed calls leave nothing behind
        """At the start of a transaction: removes what a failed call left behind in the copy."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[State]:
        """A transaction of the engine, begun by ``began``."""

    def forget(self, rows: Int64) -> None:
        """Removes memories by row, their steps, and trajectories of which nothing is left."""
        self.mentions.forget(rows)
        self.memories.remove(rows)
        self.trajectories.remove_empty()

    def snapshot(self) -> SQLiteDatabase:
        """A copy of all of it in memory."""
        return copy_of(self, None)

    def check_writable(self) -> None:  # noqa: B027
        """Whether the user may write, the server says when it is asked to."""
