"""Records, vectors, trajectories and settings of one index in Milvus."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

from pam_retriever.engines.base import Associate, State
from pam_retriever.engines.milvus.calls import Calls
from pam_retriever.engines.milvus.documents import MilvusDocuments
from pam_retriever.engines.milvus.keys import MilvusKeys
from pam_retriever.engines.milvus.memories import MilvusMemories
from pam_retriever.engines.milvus.trajectories import MilvusTrajectories
from pam_retriever.engines.tables import EngineDatabase
from pam_retriever.errors import EngineUnavailable, IndexLocked, Interrupted, StorageError
from pam_retriever.model.keys import make_keys
from pam_retriever.types import Float32, Int64

FLAT_UP_TO = 20_000  # memories; a smaller number is scanned exactly in milliseconds
FLAT = {"index": "FLAT", "params": {}}
HNSW = {"index": "HNSW", "params": {"M": 32, "efConstruction": 100}}
AT_ONCE = 10_000  # memories
FAR = 10**9  # the largest step from one number of a generation to the next
NO_VECTORS: Float32 = np.empty((0, 0), np.float32)


class MilvusGeneration:
    """A collection with all memories and new keys, which no call reads yet; see ``Generation``.

    Args:
        database: the database of the index.
        number: number of the generation.
        width: length of a key; None for no keys.
    """

    def __init__(self, database: MilvusDatabase, number: int, width: int | None) -> None:
        self._database, self.number = database, number
        self._memories = database.stored
        self._replaces = self._memories.collection(database.state.generation)
        self._collection = self._memories.collection(number)
        self._milvus = database.calls.connection
        index = FLAT if len(self._memories) <= FLAT_UP_TO else HNSW
        self._memories.make(number, width, index)

    def fill(self, rows: Int64, vectors: Float32, associate: Associate | None) -> None:
        """Copies the memories, with association vectors from ``associate``, or without keys.

        Raises:
            Interrupted: another process dropped the collection meanwhile.
        """
        try:
            for start in range(0, len(rows), AT_ONCE):
                first, last = rows[start], rows[min(start + AT_ONCE, len(rows)) - 1]
                self._copy(f"row >= {first} and row <= {last}", associate)
        except StorageError as error:
            if self.is_gone():
                raise self._gone() from error
            raise
        del vectors  # read again together with the records

    def is_gone(self) -> bool:
        return self._collection not in self._milvus.collections()

    def _gone(self) -> Interrupted:
        return Interrupted(
            f"Another process dropped the new keys of this fit in {self._database.location} again and again.",
            "no erase() and no other fit() beside a fit()",
            "Fit again after them.",
        )

    def catch_up(self, version: int, associate: Associate) -> None:
        if self.is_gone():  # from here on nobody can drop it: that is done in transactions alone
            raise self._gone()
        previous = self._memories.collection(self._database.calls.state.previous)
        if previous != self._replaces:  # another process replaced it since this generation began
            self._replaces, version = previous, -1
        self._copy(f"version > {version}", associate)
        now = {one["row"] for one in self._milvus.query(self._replaces, "row >= 0", ["row"])}
        copied = {one["row"] for one in self._milvus.query(self._collection, "row >= 0", ["row"])}
        self._milvus.delete_in(self._collection, "row", sorted(copied - now))

    def switch(self) -> None:
        state = self._database.calls.state
        state.previous, state.generation, state.model = state.generation, self.number, state.version

    def _copy(self, expression: str, associate: Associate | None) -> None:
        """Copies some memories from the previous generation."""
        entities, vectors = self._memories.entities(self._replaces, expression)
        if entities:
            rows = np.array([entity["row"] for entity in entities], np.int64)
            keys = None if associate is None else make_keys(vectors, associate(rows, vectors))
            self._memories.put(self._collection, entities, vectors, keys)

    def close(self) -> None:
        """Drops all generations except the current one and the previous one, which running calls may read."""
        with suppress(EngineUnavailable, IndexLocked):  # the next fit drops a collection that stays
            if self.is_gone():
                return  # drop no collection of another process that makes its own again, too
            with self._database.transaction():
                state = self._database.calls.state
                self._database.drop_generations(state.generation, state.previous)


class MilvusDatabase(EngineDatabase):
    """See ``EngineDatabase``.

    Args:
        calls: the calls to Milvus.
        dim: length of the vectors.

    Attributes:
        calls: the calls to Milvus.
        stored: the memories.
    """

    def __init__(self, calls: Calls, dim: int) -> None:
        self.calls, self.stored = calls, MilvusMemories(calls, dim)
        self._trajectories = MilvusTrajectories(calls, self.stored)
        super().__init__(
            calls,
            self.stored,
            self._trajectories,
            calls.settings,
            MilvusDocuments(calls),
            MilvusKeys(calls, self.stored.collection, "vector", dim),
            dim,
        )

    @contextmanager
    def _writing(self) -> Iterator[State]:
        try:
            with self.calls.transaction(self._begin, self._recount) as state:
                yield state
        except BaseException:
            self._trajectories.read_again()  # the version of this call will be that of another
            raise

    def _recount(self) -> None:
        """Counts what a failed call left, so that no number of it is used again; all processes then read it."""
        state, rows = self.calls.state, self.memories.rows()
        state.memories, state.last_row = len(rows), max(state.last_row, int(rows.max(initial=0)))
        state.last_trajectory = max([state.last_trajectory, *self.trajectories.numbers()])
        state.logged_from = state.version

    def _begin(self, state: State) -> None:
        self.began(state)
        if self.calls.state.since:
            self.local_copy.follow(state.version - 1)

    def _mend(self) -> None:
        if self.calls.state.since:
            self.local_copy.forget(np.setdiff1d(self.local_copy.memories, self.memories.rows()))

    def associative(self, generation: int, width: int) -> MilvusKeys:
        name = self.stored.collection(generation)
        return MilvusKeys(self.calls, lambda: name, "key", width)

    def drop_generations(self, *kept: int) -> None:
        """Inside a transaction: drops the collections of all generations but these, with their models.

        Outside, another process could make one of them the current one meanwhile.
        """
        for name in self.calls.connection.collections():
            number = name.rpartition("_")[2]
            if number.isdigit() and int(number) not in kept:
                self.calls.connection.drop(name)
                self.calls.settings.remove_generation(int(number))

    def begin_generation(self, width: int | None) -> MilvusGeneration:
        numbers = [name.rpartition("_")[2] for name in self.calls.connection.collections()]
        used = max((int(number) for number in numbers if number.isdigit()), default=0)
        # not the next number: another process may take it, too, or may have dropped a collection that is being filled
        return MilvusGeneration(self, max(used, self.state.generation) + 1 + secrets.randbelow(FAR), width)

    def discard_keys(self) -> None:
        made = self.begin_generation(None)
        made.fill(self.memories.rows(), NO_VECTORS, None)
        made.switch()

    def erase_removed(self) -> tuple[list[str], list[str]]:
        """Removes the rest of removed data, and requests that Milvus rewrites its segments later.

        Names of trajectories without steps, and replaced generations: they still have removed memories.
        """
        with self.transaction():
            self.trajectories.remove_empty()
            self.drop_generations(self.state.generation)
        names = sorted(self.calls.connection.collections())
        for name in names:
            self.calls.connection.compact(name)
        return [f"collection {name}" for name in names], [
            "segments of Milvus that wait for its compaction and garbage collection, its log, and its backups"
        ]
