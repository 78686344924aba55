"""PgVectorBackend: the location of an index in PostgreSQL."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pam_retriever.errors import InvalidInput, MissingExtra
from pam_retriever.validation import check_positive

if TYPE_CHECKING:
    from pam_retriever.store.base import Store

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
MAX_DIM = 7_900  # pgvector allows 16,000 numbers, and a key [p ; f(p) ; e(p)] has two vectors and a code


class PgVectorBackend:
    """Stores an index in PostgreSQL with pgvector: ``PredictiveAssociativeIndex(dim, backend=PgVectorBackend(dsn))``.

    Any number of processes can read and write the index at the same time. It is created if it does not exist.

    Args:
        dsn: for example "postgresql://user:password@host:5432/database".
        schema: the PostgreSQL schema of the index; different for each index in the database.
        patience: seconds for which a call tries to restore a lost connection before it fails.

    Raises:
        InvalidInput: an argument is invalid.
        MissingExtra: psycopg is not installed.
    """

    name = "pgvector"

    def __init__(self, dsn: str, schema: str = "pam", patience: float = 30.0) -> None:
        if not isinstance(dsn, str) or not dsn.strip():
            raise InvalidInput(f"Got dsn={dsn!r}.", "postgresql://user:password@host:port/database", "Pass a DSN.")
        if not isinstance(schema, str) or not NAME.fullmatch(schema):
            raise InvalidInput(f"Got schema={schema!r}.", "lower-case letters, digits and _", "For example 'pam'.")
        if find_spec("psycopg") is None:
            raise MissingExtra("psycopg", "pgvector", "PgVectorBackend")
        self._dsn, self.schema, self._patience = dsn, schema, check_positive("patience", patience)

    def __repr__(self) -> str:
        return f"PgVectorBackend(schema={self.schema!r})"  # a DSN may hold a password

    def open_store(self, dim: int | None) -> Store:
        """Opens the index; creates it if it does not exist.

        Raises:
            EngineUnavailable, InvalidInput, StorageError, IndexFormatError: the message explains the cause.
        """
        from pam_retriever.engines.postgres.connection import Connections  # the extra is needed from here on
        from pam_retriever.engines.postgres.database import PostgresDatabase
        from pam_retriever.engines.postgres.older import update
        from pam_retriever.engines.postgres.schema import prepare
        from pam_retriever.engines.store import EngineStore

        if dim is not None and dim > MAX_DIM:
            raise InvalidInput(f"Got dim={dim} for pgvector.", f"at most {MAX_DIM:,}", "Use shorter vectors.")
        database = Connections(self._dsn, self.schema, self._patience)
        with database.connect() as connection:
            dim = prepare(connection, self.schema, dim, database.location)
        opened = PostgresDatabase(database, dim)
        store = EngineStore(self.name, opened)
        try:
            update(opened)  # after the store has read the names
        except BaseException:
            store.close()
            raise
        return store
