"""Records, vectors, trajectories and settings of one index in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from pam_retriever.channels import make_keys
from pam_retriever.engines.postgres.connection import Connections
from pam_retriever.engines.postgres.faults import explained
from pam_retriever.engines.postgres.generations import INDEXED_FROM, Generation, build_index
from pam_retriever.engines.postgres.keys import Column, PostgresKeys
from pam_retriever.engines.postgres.memories import PostgresMemories
from pam_retriever.engines.postgres.settings import PostgresSettings
from pam_retriever.engines.postgres.trajectories import PostgresTrajectories
from pam_retriever.engines.state import State
from pam_retriever.types import Float32, Int64


class PostgresDocuments:
    """The contract of ``storage.documents``, and look-ups over what is stored.

    Args:
        database: connections to tables that are there.
        dim: length of the vectors.

    Attributes:
        database: transactions and snapshots.
        memories: what is stored.
        trajectories: in which they were experienced.
        settings: what else the index keeps.
        similar: over p.
        began: called at the start of a transaction, with the state as it will be.
        committed: called after its end.
    """

    def __init__(self, database: Connections, dim: int) -> None:
        self.database, self._dim = database, dim
        self.memories = PostgresMemories(database, dim)
        self.trajectories = PostgresTrajectories(database, self.memories)
        self.settings = PostgresSettings(database)
        self._vectors = Column("memories", "vector", dim, cosine=True)
        self.similar = PostgresKeys(database, self._vectors)
        self._indexed = False
        self.began: Callable[[State], None] = lambda _: None
        self.committed: Callable[[State], None] = lambda _: None

    @property
    def state(self) -> State:
        """What every call reads first."""
        return self.database.state

    def reading(self) -> AbstractContextManager[State]:
        """All that is read inside is of one moment."""
        return self.database.reading()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is committed together, or not at all."""
        with self.database.transaction(self.began) as state:
            yield
        self.committed(state)

    def associative(self, generation: int, width: int) -> PostgresKeys:
        """Look-ups over the keys of a generation."""
        return PostgresKeys(self.database, Column(f"keys_{generation}", "key", width, cosine=False))

    def forget(self, rows: Int64) -> None:
        """Removes memories by row, their steps, and trajectories of which less than two steps are left."""
        self.memories.remove(rows)
        self.trajectories.remove_short()

    def index_vectors(self) -> None:
        """Makes the HNSW index over p, once there are enough memories for one. Others may read meanwhile."""
        if self._indexed or len(self.memories) < INDEXED_FROM:
            return
        with explained(self.database.place), self.database.connect() as connection:
            build_index(connection, self._vectors)
        self._indexed = True

    # ---- generations

    def begin_generation(self, width: int) -> Generation:
        """A table for keys of that width, which nobody reads yet."""
        return Generation(self.database, width)

    def catch_up(self, generation: Generation, version: int, associate: Callable[[Int64, Float32], Float32]) -> None:
        """Inside a transaction: brings a generation that was filled at a version up to now."""
        table = generation.column.table
        rows, vectors = self.memories.vectors_since(version)
        if len(rows):
            self.memories.set_keys(generation.number, rows, make_keys(vectors, associate(rows, vectors)))
        self.database.fetch(f"DELETE FROM {table} WHERE row NOT IN (SELECT row FROM memories)")

    def switch(self, generation: Generation) -> None:
        """Inside a transaction: from its end on, calls read this generation."""
        state = self.state
        self.database.fetch("UPDATE generations SET replaced = true WHERE number = %s", [state.generation])
        state.generation, state.model = generation.number, state.version
        # whoever has not called since then reads all steps anew
        for table in ("removals", "writers"):
            self.database.fetch(f"DELETE FROM {table} WHERE version < %s", [state.version - KEPT_REMOVALS])
        state.logged_from = max(state.logged_from, state.version - KEPT_REMOVALS)

    def close(self) -> None:
        """Closes all connections."""
        self.database.close()


KEPT_REMOVALS = 1_000_000  # versions
