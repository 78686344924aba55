"""Records, vectors, trajectories and settings of one index in Milvus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import numpy as np

from pam_retriever.channels import make_keys
from pam_retriever.engines.milvus.calls import Calls, MilvusState
from pam_retriever.engines.milvus.keys import MilvusKeys
from pam_retriever.engines.milvus.memories import MilvusMemories
from pam_retriever.engines.milvus.trajectories import MilvusTrajectories
from pam_retriever.engines.state import State
from pam_retriever.errors import EngineUnavailable
from pam_retriever.types import Float32, Int64

FLAT_UP_TO = 20_000  # memories; fewer are scanned exactly in milliseconds
FLAT = {"index": "FLAT", "params": {}}
HNSW = {"index": "HNSW", "params": {"M": 32, "efConstruction": 100}}
AT_ONCE = 10_000  # memories

Associate = Callable[[Int64, Float32], Float32]


class Generation:
    """A collection that no call reads yet: all memories, with new keys.

    Args:
        documents: of the index.
        number: of the generation.
        width: of a key.
    """

    def __init__(self, documents: MilvusDocuments, number: int, width: int) -> None:
        self._documents, self.number = documents, number
        self._memories = documents.memories
        self.replaces = documents.state.generation
        self.collection = self._memories.collection(number)
        self._milvus = documents.database.connection
        self._milvus.drop(self.collection)  # what a fit that was killed has left
        index = FLAT if len(self._memories) <= FLAT_UP_TO else HNSW
        self._memories.make(number, width, index)

    def fill(self, rows: Int64, vectors: Float32, associate: Associate) -> None:
        """Copies the memories, with the association vectors that ``associate`` makes."""
        old = self._memories.collection(self.replaces)
        for start in range(0, len(rows), AT_ONCE):
            first, last = rows[start], rows[min(start + AT_ONCE, len(rows)) - 1]
            self.copy(old, f"row >= {first} and row <= {last}", associate)
        del vectors  # read again, with the records that belong to them

    def copy(self, old: str, expression: str, associate: Associate) -> None:
        """Copies some memories from another collection."""
        entities, vectors = self._memories.entities(old, expression)
        if entities:
            rows = np.array([entity["row"] for entity in entities], np.int64)
            self._memories.put(self.collection, entities, vectors, make_keys(vectors, associate(rows, vectors)))

    def close(self) -> None:
        """Ends the making of it: it is in use by now, or is dropped. The one before stays for calls that read it."""
        with suppress(EngineUnavailable):  # what stays is dropped by the next fit
            state = self._documents.state
            for name in self._milvus.collections():
                number = name.rpartition("_")[2]
                if number.isdigit() and int(number) not in (state.generation, state.previous):
                    self._milvus.drop(name)
                    self._documents.settings.remove(f"$weights:predictor@{number}")


class MilvusDocuments:
    """The contract of ``storage.documents``, and look-ups over what is stored.

    Args:
        calls: to where it is.
        dim: length of the vectors.

    Attributes:
        database: the calls.
        memories: what is stored.
        trajectories: in which they were experienced.
        settings: what else the index keeps.
        similar: over p.
        began: called at the start of a transaction, with the state as it will be.
        committed: called after its end.
    """

    def __init__(self, calls: Calls, dim: int) -> None:
        self.database, self.settings = calls, calls.settings
        self.memories = MilvusMemories(calls, dim)
        self.trajectories = MilvusTrajectories(calls, self.memories)
        self.similar = MilvusKeys(calls, self.memories.collection, "vector", dim)
        self.began: Callable[[State], None] = lambda _: None
        self.committed: Callable[[State], None] = lambda _: None

    @property
    def state(self) -> MilvusState:
        """What every call reads first."""
        return self.database.state

    def reading(self) -> AbstractContextManager[State]:
        """All that is read inside goes by one state."""
        return self.database.reading()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is written inside becomes known at its end."""
        with self.database.transaction(self.began, self.memories.count) as state:
            yield
        self.committed(state)

    def associative(self, generation: int, width: int) -> MilvusKeys:
        """Look-ups over the keys of a generation."""
        name = self.memories.collection(generation)
        return MilvusKeys(self.database, lambda: name, "key", width)

    def forget(self, rows: Int64) -> None:
        """Removes memories by row, their steps, and trajectories of which less than two steps are left."""
        self.memories.remove(rows)
        self.trajectories.remove_short()

    def index_vectors(self) -> None:
        """Nothing: the index of a collection is chosen when it is made."""

    # ---- generations

    def begin_generation(self, width: int) -> Generation:
        """A collection for keys of that width, which nobody reads yet."""
        numbers = [name.rpartition("_")[2] for name in self.database.connection.collections()]
        used = max((int(number) for number in numbers if number.isdigit()), default=0)
        return Generation(self, max(used, self.state.generation) + 1, width)

    def switch(self, generation: Generation) -> None:
        """Inside a transaction: from its end on, calls read this generation."""
        state = self.state
        state.previous, state.generation, state.model = state.generation, generation.number, state.version

    def catch_up(self, generation: Generation, version: int, associate: Associate) -> None:
        """Inside a transaction: brings a generation that was filled at a version up to now."""
        connection, old = self.database.connection, self.memories.collection(generation.replaces)
        generation.copy(old, f"version > {version}", associate)
        now = {one["row"] for one in connection.query(old, "row >= 0", ["row"])}
        copied = {one["row"] for one in connection.query(generation.collection, "row >= 0", ["row"])}
        gone = np.array(sorted(copied - now), np.int64)
        for start in range(0, len(gone), 1_000):
            connection.delete(generation.collection, f"row in {gone[start : start + 1_000].tolist()}")

    def close(self) -> None:
        """Closes the connection."""
        self.database.connection.close()
