"""A database in an engine: the common part of PostgreSQL and Milvus."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from pam_retriever.ann import AnnIndex
from pam_retriever.engines.base import EngineMemories, EngineTrajectories, Generation, State
from pam_retriever.engines.local_copy import Documents, LocalCopy
from pam_retriever.experience.feedback import LEARNT_REQUESTS
from pam_retriever.filters.stored import to_json
from pam_retriever.mentions.names import check_unchanged
from pam_retriever.store.columns import checksum, to_blobs
from pam_retriever.store.database import Settings
from pam_retriever.store.learnt import NEXT
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.types import Int64


class Calls(Protocol):
    """The calls to one index in an engine.

    Attributes:
        location: a description of the location, without a password.
    """

    location: str

    @property
    def state(self) -> State:
        """The state that every call reads first."""

    @property
    def inside(self) -> bool:
        """Whether this thread is inside a call."""

    def reading(self) -> AbstractContextManager[State]:
        """Reads a consistent snapshot inside, as far as the engine supports it."""

    def close(self) -> None:
        """Closes all connections."""


class EngineDatabase(ABC):
    """The tables or collections of one index in an engine; see ``store.database.Database``.

    Args:
        calls: the calls to the engine.
        memories: the stored memories.
        trajectories: the trajectories of the memories.
        settings: the other stored values.
        documents: documents with feedback, times and mentions.
        similar: the ANN index over p in the engine.
        dim: length of the vectors.

    Attributes:
        location: a description of the location, without a password.
        local_copy: feedback, times and mentions.
        began: called at the start of a transaction, with its new state.
        committed: called after the end of a transaction.
    """

    sharded: SQLiteDatabase | None = None

    def __init__(
        self,
        calls: Calls,
        memories: EngineMemories,
        trajectories: EngineTrajectories,
        settings: Settings,
        documents: Documents,
        similar: AnnIndex,
        dim: int,
    ) -> None:
        self._calls, self.location, self.dim, self.similar = calls, calls.location, dim, similar
        self.memories, self.trajectories, self.settings = memories, trajectories, settings
        self.local_copy = memories.local_copy = LocalCopy(documents, memories)
        self.feedback, self.times = self.local_copy.feedback, self.local_copy.times
        self.mentions = self.local_copy.mentions
        self.began: Callable[[State], None] = lambda _: None
        self.committed: Callable[[State], None] = lambda _: None

    @property
    def state(self) -> State:
        """The state that every call reads first."""
        return self._calls.state

    def reading(self) -> AbstractContextManager[State]:
        """Reads a consistent snapshot inside, as far as the engine supports it."""
        return self._calls.reading()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits all writes of the block together, if the engine supports it."""
        check_unchanged(self._calls.inside)
        with ExitStack() as copied, self._writing() as state:  # the copy is committed last, because it cannot fail
            copied.enter_context(self.local_copy.transaction())
            self._mend()
            yield
            self.local_copy.store()
        self.committed(state)

    def _mend(self) -> None:  # noqa: B027 - nothing, if failed calls leave nothing behind
        """At the start of a transaction: removes the changes that a failed call left in the copy."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[State]:
        """Runs a transaction of the engine; calls ``began`` first."""

    @abstractmethod
    def associative(self, generation: int, width: int) -> AnnIndex:
        """Returns the ANN index over the keys (n, width) of a generation."""

    @abstractmethod
    def begin_generation(self, width: int) -> Generation:
        """Creates a generation for keys of this width. No call reads it before ``switch``."""

    @abstractmethod
    def discard_keys(self) -> None:
        """Inside a transaction: makes an index without keys the current generation."""

    @abstractmethod
    def erase_removed(self) -> tuple[list[str], list[str]]:
        """Requests that the engine overwrites or drops removed rows.

        Returns:
            The overwritten places, and the places that may still hold removed data.
        """

    def index_vectors(self) -> None:  # noqa: B027 - nothing, if the engine builds it itself
        """Builds the engine's index over p, if there are enough memories. Others may read meanwhile."""

    def forget(self, rows: Int64) -> None:
        self.mentions.forget(rows)
        self.memories.remove(rows)
        self.trajectories.remove_empty()

    def snapshot(self, associative: AnnIndex | None = None) -> SQLiteDatabase:
        """Returns a copy of the whole index in memory; rows and numbers stay the same.

        Args:
            associative: ANN index over the keys [p ; f(p) ; e(p)]; None: the copy has no association vectors.
        """
        copy = SQLiteDatabase()
        with copy.closed_on_error(), copy.transaction():
            run_many = copy.connection.run_many
            last = [("memories", self.memories.last_row), ("trajectories", self.trajectories.last_number())]
            run_many("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", last)  # no number is used again
            rows, vectors = self.memories.all_vectors(self.dim)
            blobs, listed, contents = to_blobs(vectors), rows.tolist(), self.memories.contents(rows)
            run_many(
                "INSERT INTO memories (row, id, text, metadata, checksum) VALUES (?, ?, ?, ?, ?)",
                (
                    (row, *contents[row], checksum(*contents[row], blob))
                    for row, blob in zip(listed, blobs, strict=True)
                ),
            )
            predicted = [None] * len(rows) if associative is None else to_blobs(associative.keys(rows)[:, self.dim :])
            run_many("INSERT INTO vectors VALUES (?, ?, ?)", zip(listed, blobs, predicted, strict=True))
            run_many("INSERT INTO trajectories (trajectory, id) VALUES (?, ?)", self.trajectories.named())
            run_many(
                "INSERT INTO steps (trajectory, position, row, timestamp, salience) VALUES (?, ?, ?, ?, ?)",
                self.trajectories.steps(),
            )
            run_many(
                "INSERT INTO settings VALUES (?, ?)",
                ((key, to_json(value)) for key, value in self.settings.all().items()),
            )
            for name in (NEXT, LEARNT_REQUESTS):
                if (packed := self.settings.weights(name)) is not None:
                    copy.settings.set_weights(name, packed)
            self.local_copy.copy_to(copy)
        return copy

    def check_writable(self) -> None:  # noqa: B027
        """Does nothing: the server checks the permission at each write."""

    def close(self) -> None:
        self._calls.close()
