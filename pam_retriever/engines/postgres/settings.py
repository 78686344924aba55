"""Settings and weights, and the documents of ``engines.local_copy``, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from pam_retriever.engines.local_copy import Document
from pam_retriever.engines.postgres.connection import Connections
from pam_retriever.filters.stored import to_json
from pam_retriever.store.columns import from_json


class PostgresSettings:
    """Settings of the index; see ``store.database.Settings``.

    Args:
        database: the connections to the database.
    """

    def __init__(self, database: Connections) -> None:
        self._database = database

    def get(self, key: str) -> object:
        found = self._database.fetch("SELECT value FROM settings WHERE key = %s", [key])
        return from_json(found[0][0], f"The setting {key!r}") if found else None

    def all(self, prefix: str = "") -> dict[str, object]:
        found = self._database.fetch("SELECT key, value FROM settings ORDER BY key")
        return {key: from_json(value, f"The setting {key!r}") for key, value in found if key.startswith(prefix)}

    def set(self, key: str, value: object) -> None:
        self._database.fetch(
            "INSERT INTO settings VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            [key, to_json(value)],
        )

    def remove(self, key: str) -> None:
        self._database.fetch("DELETE FROM settings WHERE key = %s", [key])
        self._database.fetch("DELETE FROM weights WHERE name = %s", [key])

    def weights(self, name: str) -> bytes | None:
        found = self._database.fetch("SELECT safetensors FROM weights WHERE name = %s", [name])
        return bytes(found[0][0]) if found else None

    def set_weights(self, name: str, safetensors: bytes) -> None:
        self._database.fetch(
            "INSERT INTO weights VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET safetensors = excluded.safetensors",
            [name, safetensors],
        )


class PostgresDocuments:
    """Documents in their own table; see ``engines.local_copy.Documents``.

    Args:
        database: the connections to the database.
    """

    def __init__(self, database: Connections) -> None:
        self._database = database

    def since(self, version: int) -> list[Document]:
        there = "data IS NOT NULL" if version < 0 else "version > %s"
        return self._database.fetch(f"SELECT kind, key, data FROM kept WHERE {there}", [version] * (version >= 0))

    def put(self, documents: Sequence[Document]) -> None:
        version = self._database.state.version
        self._database.run_many(
            "INSERT INTO kept (kind, key, data, version) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (kind, key) DO UPDATE SET data = excluded.data, version = excluded.version",
            [(*document, version) for document in documents],
        )
