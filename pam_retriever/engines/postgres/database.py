"""Records, vectors, trajectories and settings of one index in PostgreSQL."""

from __future__ import annotations

from contextlib import AbstractContextManager

from psycopg import sql

from pam_retriever.engines.base import State
from pam_retriever.engines.postgres.connection import Connections
from pam_retriever.engines.postgres.faults import explained
from pam_retriever.engines.postgres.generations import (
    INDEXED_FROM,
    PostgresGeneration,
    build_index,
    drop_replaced,
    replace_generation,
)
from pam_retriever.engines.postgres.keys import Column, PostgresKeys
from pam_retriever.engines.postgres.memories import PostgresMemories
from pam_retriever.engines.postgres.settings import PostgresDocuments, PostgresSettings
from pam_retriever.engines.postgres.trajectories import PostgresTrajectories
from pam_retriever.engines.tables import EngineDatabase


class PostgresDatabase(EngineDatabase):
    """See ``EngineDatabase``.

    Args:
        connections: connections to existing tables.
        dim: length of the vectors.

    Attributes:
        connections: transactions and snapshots.
        stored: the memories.
    """

    def __init__(self, connections: Connections, dim: int) -> None:
        self._vectors = Column("memories", "vector", dim, cosine=True)
        self.connections, self.stored, self._indexed = connections, PostgresMemories(connections, dim), False
        super().__init__(
            connections,
            self.stored,
            PostgresTrajectories(connections, self.stored),
            PostgresSettings(connections),
            PostgresDocuments(connections),
            PostgresKeys(connections, self._vectors),
            dim,
        )

    def _writing(self) -> AbstractContextManager[State]:
        return self.connections.transaction(self.began)

    def associative(self, generation: int, width: int) -> PostgresKeys:
        return PostgresKeys(self.connections, Column(f"keys_{generation}", "key", width, cosine=False))

    def begin_generation(self, width: int) -> PostgresGeneration:
        return PostgresGeneration(self.connections, self.stored, width)

    def discard_keys(self) -> None:
        replace_generation(self.connections, 0)

    def erase_removed(self) -> tuple[list[str], list[str]]:
        """Rewrites every table: ``VACUUM`` alone leaves the bytes of a removed row in its page.

        A replaced table of keys is dropped: it still has those of removed memories.

        Raises:
            StorageError: another process uses a table for too long.
        """
        with explained(self.location), self.connections.connect() as connection:
            drop_replaced(connection)
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
        if self._indexed or len(self.memories) < INDEXED_FROM:
            return
        self.connections.retried(self._build_index)
        self._indexed = True

    def _build_index(self) -> None:
        with self.connections.connect() as connection:
            build_index(connection, self._vectors)
