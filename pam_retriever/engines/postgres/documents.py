"""Documents in PostgreSQL: see ``engines.kept.Documents``."""

from __future__ import annotations

from collections.abc import Sequence

from pam_retriever.engines.kept import Document
from pam_retriever.engines.postgres.connection import Connections


class PostgresDocuments:
    """Documents in their own table.

    Args:
        database: with the table.
    """

    def __init__(self, database: Connections) -> None:
        self._database = database

    def since(self, version: int) -> list[Document]:
        """Returns the documents written after a version; for a version below 0, all stored ones."""
        there = "data IS NOT NULL" if version < 0 else "version > %s"
        return self._database.fetch(f"SELECT kind, key, data FROM kept WHERE {there}", [version] * (version >= 0))

    def put(self, documents: Sequence[Document]) -> None:
        """Stores documents, and replaces those of the same kind and key."""
        version = self._database.state.version
        self._database.run_many(
            "INSERT INTO kept (kind, key, data, version) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (kind, key) DO UPDATE SET data = excluded.data, version = excluded.version",
            [(*document, version) for document in documents],
        )
