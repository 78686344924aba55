"""Generations of keys: a new one is computed while calls use the current one; one transaction switches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from pam_retriever.engines.base import Associate
from pam_retriever.engines.postgres.connection import Connections
from pam_retriever.engines.postgres.faults import explained, interrupted
from pam_retriever.engines.postgres.keys import Column
from pam_retriever.engines.postgres.memories import PostgresMemories
from pam_retriever.engines.postgres.vectors import pack, storage_for
from pam_retriever.errors import EngineUnavailable
from pam_retriever.model.keys import make_keys
from pam_retriever.types import Float32, Int64

MAKING = 7_240_219  # with the number: the lock during the creation of a generation
AT_ONCE = 10_000  # memories
INDEXED_FROM = 20_000  # memories; a smaller number is scanned exactly in milliseconds
MAX_REMOVALS = 1_000_000  # number of versions
MAX_INDEXED = 2_000  # pgvector's limit for an HNSW index over "vector"


class PostgresGeneration:
    """A table of keys that no call reads yet; see ``Generation``.

    Args:
        connections: connections to the tables of the index.
        memories: the memories of the index.
        width: length of a key.
    """

    def __init__(self, connections: Connections, memories: PostgresMemories, width: int) -> None:
        self._connections, self._memories = connections, memories
        self._own = connections.connect()  # a separate connection, so that nobody waits for it
        with self._explained():
            self._drop_abandoned()
            self.number = int(
                self._own.execute(
                    "INSERT INTO generations DEFAULT VALUES RETURNING number, pg_advisory_lock(%s, number::int)",
                    [MAKING],
                ).fetchall()[0][0]
            )
            self.column = Column(f"keys_{self.number}", "key", width, cosine=False)
            self._run("CREATE TABLE {} (row bigint PRIMARY KEY, key vector({}))", self.column.table, width)
            self._run(f"ALTER TABLE {{}} ALTER COLUMN key SET STORAGE {storage_for(width)}", self.column.table)

    def fill(self, rows: Int64, vectors: Float32, associate: Associate) -> None:
        statement = sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(sql.Identifier(self.column.table))
        with self._explained(), self._own.cursor() as cursor:
            for start in range(0, len(rows), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                keys = pack(make_keys(vectors[some], associate(rows[some], vectors[some])))
                with cursor.copy(statement) as copy:
                    copy.set_types(("int8", "vector"))
                    for pair in zip(rows[some].tolist(), keys, strict=True):
                        copy.write_row(pair)
            if len(rows) >= INDEXED_FROM:
                build_index(self._own, self.column)
            self._run("ANALYZE {}", self.column.table)

    def is_gone(self) -> bool:
        return False  # its lock is held: nobody drops it

    def catch_up(self, version: int, associate: Associate) -> None:
        rows, vectors = self._memories.vectors_since(version)
        if len(rows):
            self._memories.set_keys(self.number, rows, make_keys(vectors, associate(rows, vectors)))
        self._connections.fetch(f"DELETE FROM {self.column.table} WHERE row NOT IN (SELECT row FROM memories)")

    def switch(self) -> None:
        state = self._connections.state
        replace_generation(self._connections, self.number)
        # a process that has not called since then reads all steps again
        for table in ("removals", "writers"):
            self._connections.fetch(f"DELETE FROM {table} WHERE version < %s", [state.version - MAX_REMOVALS])
        state.logged_from = max(state.logged_from, state.version - MAX_REMOVALS)

    def close(self) -> None:
        with suppress(EngineUnavailable), self._explained():  # the next fit drops a table that stays
            self._drop_abandoned()
        self._own.close()

    def _drop_abandoned(self) -> None:
        """Drops tables whose creator is gone, and those that were replaced before the last switch."""
        abandoned = self._own.execute(
            "DELETE FROM generations WHERE number < (SELECT coalesce(max(number), 0) FROM generations WHERE replaced) "
            "AND replaced OR NOT replaced AND number != (SELECT generation FROM state) "
            "AND pg_try_advisory_lock(%s, number::int) RETURNING number",
            [MAKING],
        ).fetchall()
        for (number,) in abandoned:
            self._run("DROP TABLE IF EXISTS {}", f"keys_{number}")

    def _run(self, statement: str, table: str, *numbers: int) -> None:
        values = [sql.Identifier(table), *(sql.Literal(number) for number in numbers)]
        self._own.execute(sql.SQL(statement).format(*values))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with explained(self._connections.location):
                yield
        except EngineUnavailable as error:
            raise interrupted(self._connections.location) from error


def replace_generation(connections: Connections, number: int) -> None:
    """Inside a transaction: makes another generation current; 0 for none."""
    state = connections.state
    connections.fetch("UPDATE generations SET replaced = true WHERE number = %s", [state.generation])
    state.generation, state.model = number, state.version


def drop_replaced(connection: psycopg.Connection[Any]) -> None:
    """Drops the tables of all replaced generations. Fails a call that began before the replacement."""
    with connection.transaction():
        for (number,) in connection.execute("DELETE FROM generations WHERE replaced RETURNING number").fetchall():
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(f"keys_{number}")))


def build_index(connection: psycopg.Connection[Any], column: Column) -> None:
    """Creates an HNSW index over a column, if pgvector supports its width."""
    if column.width > MAX_INDEXED:
        return
    operators = "vector_cosine_ops" if column.cosine else "vector_ip_ops"
    connection.execute(
        sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING hnsw ({} {})").format(
            sql.Identifier(column.index), sql.Identifier(column.table), sql.Identifier(column.name), sql.SQL(operators)
        )
    )
