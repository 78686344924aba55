"""Records, vectors, trajectories and settings of one index in PostgreSQL."""

from __future__ import annotations

from contextlib import AbstractContextManager

from psycopg import sql

from pam_retriever.engines.postgres.connection import Connections
from pam_retriever.engines.postgres.documents import PostgresDocuments
from pam_retriever.engines.postgres.faults import explained
from pam_retriever.engines.postgres.generations import INDEXED_FROM, PostgresGeneration, build_index
from pam_retriever.engines.postgres.keys import Column, PostgresKeys
from pam_retriever.engines.postgres.memories import PostgresMemories
from pam_retriever.engines.postgres.settings import PostgresSettings
from pam_retriever.engines.postgres.trajectories import PostgresTrajectories
from pam_retriever.engines.state import State
from pam_retriever.engines.tables import EngineTables


class PostgresDatabase(EngineTables):
    """See ``EngineDatabase``, and look-ups over what is stored.

    Args:
        connections: to existing tables.
        dim: length of the vectors.

    Attributes:
        connections: transactions and snapshots.
        dim: length of the vectors.
        settings: the other stored values.
        similar: the look-ups over p.
    """

    def __init__(self, connections: Connections, dim: int) -> None:
        self.memories: PostgresMemories = PostgresMemories(connections, dim)
        super().__init__(self.memories, PostgresDocuments(connections))
        self.trajectories = PostgresTrajectories(connections, self.memories)
        self.connections, self.dim = connections, dim
        self.settings = PostgresSettings(connections)
        self._vectors = Column("memories", "vector", dim, cosine=True)
        self.similar = PostgresKeys(connections, self._vectors)
        self._indexed = False

    @property
    def place(self) -> str:
        """A description of the location, without a password."""
        return self.connections.place

    @property
    def state(self) -> State:
        """The state that every call reads first."""
        return self.connections.state

    def reading(self) -> AbstractContextManager[State]:
        """Reads one snapshot inside."""
        return self.connections.reading()

    def _writing(self) -> AbstractContextManager[State]:
        return self.connections.transaction(self.began)

    def associative(self, generation: int, width: int) -> PostgresKeys:
        """Returns the look-ups over the keys of a generation."""
        return PostgresKeys(self.connections, Column(f"keys_{generation}", "key", width, cosine=False))

    def erase_removed(self) -> tuple[list[str], list[str]]:
        """Rewrites every table: ``VACUUM`` alone leaves the bytes of a removed row in its page.

        Raises:
            StorageError: another process uses a table for too long.
        """
        with explained(self.connections.place), self.connections.connect() as connection:
            tables = [
                name
                for (name,) in connection.execute(
                    "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
                ).fetchall()
            ]
            for name in tables:
                connection.execute(sql.SQL("VACUUM FULL {}").format(sql.Identifier(name)))
        return [f"table {name}" for name in tables], [
            "the server's write-ahead log, its backups and its replicas, as long as it holds on to them"
        ]

    def index_vectors(self) -> None:
        """Creates the HNSW index over p, if there are enough memories. Others may read meanwhile."""
        if self._indexed or len(self.memories) < INDEXED_FROM:
            return
        self.connections.retried(self._build_index)
        self._indexed = True

    def _build_index(self) -> None:
        with self.connections.connect() as connection:
            build_index(connection, self._vectors)

    # ---- generations

    def begin_generation(self, width: int) -> PostgresGeneration:
        """Creates a table for keys of this width, which no call reads yet."""
        return PostgresGeneration(self.connections, self.memories, width)

    def close(self) -> None:
        """Closes all connections."""
        self.connections.close()
