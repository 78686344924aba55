"""The tables in PostgreSQL, and the requirements on the server."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from pam_retriever.engines.postgres.faults import explained
from pam_retriever.engines.postgres.filters import NUMBER_OF
from pam_retriever.engines.postgres.vectors import adapt_vectors, storage_for
from pam_retriever.errors import IndexFormatError, InvalidInput, StorageError

FORMAT = 3  # 2 added feedback, times and mentions; 3 has the words of all scripts, and the parts of identifiers
LEAST_POSTGRES = 130000  # the oldest version with which pgvector 0.5 is tested
LEAST_PGVECTOR = (0, 5, 0)  # the first version with HNSW
MAKING = 7_240_219_301  # the lock during the creation of tables

# dim and storage are inserted; everything else is constant
TABLES = (
    """
CREATE TABLE state (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    format int NOT NULL, dim int NOT NULL,
    version bigint NOT NULL, model bigint NOT NULL, texts bigint NOT NULL, logged_from bigint NOT NULL,
    generation bigint NOT NULL,
    memories bigint NOT NULL, last_row bigint NOT NULL, last_trajectory bigint NOT NULL
) WITH (fillfactor = 20)""",
    """
CREATE TABLE memories (
    row bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    text text,
    metadata text NOT NULL,     -- as it was given
    entries jsonb NOT NULL GENERATED ALWAYS AS (metadata::jsonb) STORED,    -- what filters ask
    vector vector({dim}) NOT NULL,
    version bigint NOT NULL     -- at which it was written
)""",
    "ALTER TABLE memories ALTER COLUMN vector SET STORAGE {storage}",
    "CREATE INDEX memories_entries ON memories USING gin (entries jsonb_path_ops)",
    "CREATE INDEX memories_version ON memories (version)",
    """
CREATE TABLE words (term text COLLATE "C", label boolean, row bigint, times int, PRIMARY KEY (term, label, row))""",
    "CREATE INDEX words_row ON words (row)",
    'CREATE TABLE trajectories (trajectory bigint PRIMARY KEY, id text COLLATE "C" NOT NULL UNIQUE)',
    """
CREATE TABLE steps (
    trajectory bigint NOT NULL REFERENCES trajectories ON DELETE CASCADE,
    position int NOT NULL,
    row bigint NOT NULL REFERENCES memories ON DELETE CASCADE,
    timestamp float8,
    salience float8,
    PRIMARY KEY (trajectory, position)
)""",
    "CREATE INDEX steps_row ON steps (row)",
    # removals that other processes have to apply to their links
    "CREATE TABLE removals (version bigint NOT NULL, memory bigint, trajectory bigint)",
    "CREATE INDEX removals_version ON removals (version)",
    # tables of keys: "keys_<number>"; the last replaced one stays, for calls that still read it
    "CREATE TABLE generations (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "replaced bool NOT NULL DEFAULT false)",
    # the last version that each process wrote: shows whether a commit without an answer has happened
    "CREATE TABLE writers (process uuid PRIMARY KEY, version bigint NOT NULL)",
    "CREATE TABLE settings (key text PRIMARY KEY, value text NOT NULL)",
    "CREATE TABLE weights (name text PRIMARY KEY, safetensors bytea NOT NULL)",
    NUMBER_OF,
)
# feedback, times and mentions, since format 2; a removed document has no data
DOCUMENT_TABLE = (
    'CREATE TABLE kept (kind text COLLATE "C", key bigint, version bigint NOT NULL, data text, '
    "PRIMARY KEY (kind, key))",
    "CREATE INDEX kept_version ON kept (version)",
)


def prepare(connection: psycopg.Connection[Any], namespace: str, dim: int | None, location: str) -> int:
    """Checks the server, and creates the tables if they do not exist.

    Args:
        connection: a connection outside a transaction.
        namespace: the schema of the tables.
        dim: dimension of the index; None for the dimension of the tables.
        location: a description of the location.

    Returns:
        The dimension.

    Raises:
        StorageError: the server is too old or lacks pgvector, or the user may not create tables.
        InvalidInput: the tables have another dimension, or there are no tables and no ``dim``.
        IndexFormatError: the tables are of a newer version, or of another program.
    """
    with explained(location):
        if connection.info.server_version < LEAST_POSTGRES:
            raise StorageError(
                f"{location} is PostgreSQL {connection.info.server_version // 10000}.", "13 or later", "Upgrade it."
            )
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [MAKING])
            _check_pgvector(connection, location)
            stored = _stored_dim(connection, namespace, location)
            if stored is None:
                stored = _make(connection, namespace, dim, location)
        if dim is not None and dim != stored:
            raise InvalidInput(
                f"Got dim={dim} for the index in {location}.",
                f"{stored}, its dimension",
                "Leave dim out, or name another schema.",
            )
        adapt_vectors(connection)
        return stored


def _check_pgvector(connection: psycopg.Connection[Any], location: str) -> None:
    available = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchall()
    if not available:
        raise StorageError(
            f"{location} has no pgvector.",
            "a server with the extension 'vector'",
            "Install the package pgvector there.",
        )
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    found = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchall()[0][0]
    if tuple(int(part) for part in found.split(".")[:3]) < LEAST_PGVECTOR:
        least = ".".join(map(str, LEAST_PGVECTOR))
        raise StorageError(
            f"{location} has pgvector {found}.",
            f"{least} or later",
            "Install a newer one, then run ALTER EXTENSION vector UPDATE.",
        )


def _stored_dim(connection: psycopg.Connection[Any], namespace: str, location: str) -> int | None:
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [namespace]).fetchall()
    if not tables:
        return None
    if ("state",) not in tables:
        raise IndexFormatError(
            f"{location} has other tables ({tables[0][0]}).", "a schema only for the index", "Name another schema."
        )
    statement = sql.SQL("SELECT format, dim FROM {}.state").format(sql.Identifier(namespace))
    found, dim = connection.execute(statement).fetchall()[0]
    if found == 1:
        for missing in (*DOCUMENT_TABLE, "UPDATE state SET format = 2"):  # ``older.update`` does the rest
            connection.execute(missing.encode())
    elif not 1 <= found <= FORMAT:
        raise IndexFormatError(f"{location} has format {found}.", f"{FORMAT}", "Upgrade pam-retriever.")
    return int(dim)


def _make(connection: psycopg.Connection[Any], namespace: str, dim: int | None, location: str) -> int:
    if dim is None:
        raise InvalidInput(f"There is no index in {location}.", "dim for a new one", "Pass dim=...")
    connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(namespace)))
    for statement in (*TABLES, *DOCUMENT_TABLE):
        connection.execute(statement.replace("{dim}", str(dim)).replace("{storage}", storage_for(dim)).encode())
    connection.execute(
        "INSERT INTO state (format, dim, version, model, texts, logged_from, generation, memories, last_row, "
        "last_trajectory) VALUES (%s, %s, 0, 0, 0, 0, 0, 0, 0, 0)",
        [FORMAT, dim],
    )
    return dim
