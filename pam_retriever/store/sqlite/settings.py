"""Settings as JSON, and the weights of the encoder and the outward predictor."""

from __future__ import annotations

import zlib
from collections.abc import Container

from pam_retriever.errors import IndexFormatError
from pam_retriever.filters.stored import to_json
from pam_retriever.store.columns import from_json
from pam_retriever.store.sqlite.changes import ENCODERS, PUT_SETTING
from pam_retriever.store.sqlite.connection import MOST_VERSIONS, Connection

UNREAD = -1  # the version before the first read
SETTINGS = "FROM settings WHERE rowid > 0"  # the rows below hold the log of changes


class SQLiteSettings:
    """The settings and weights of one index; see ``store.database.Settings``.

    Args:
        connection: connection to the database.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # the values of a version, as stored; and whether they are all, so that another key has none
        self._read: tuple[int, dict[str, str | None], bool] = UNREAD, {}, False

    @property
    def read_only(self) -> bool:
        """Whether the settings are read-only."""
        return self._connection.read_only

    def get(self, key: str) -> object:
        stored = self._stored(key)
        return None if stored is None else from_json(stored, f"The setting {key!r}")

    def _stored(self, key: str) -> str | None:
        """Returns a setting as stored; reads it from the database unless it is known to be as it was."""
        connection, changes = self._connection, self._connection.changes
        version, (of, known, complete) = connection.known_version, self._read
        # the values before the last transaction that began; what it changed is in ``changes`` before it is written
        follows = connection.path is not None and changes.version == of % MOST_VERSIONS + 1
        if version is None:  # inside a transaction, or a reader
            if connection.path is None or changes.version < 0 or key in changes.settings:
                return self._fetched(key)
            if not follows:
                self._read = changes.version - 1, (known := {}), (complete := False)
            complete = complete and not changes.settings
        elif of == UNREAD:  # one statement takes less time than one for each of ten keys
            self._read = version, (known := dict(self._connection.fetch(f"SELECT key, value {SETTINGS}"))), True
            return known.get(key)
        elif version != of:
            follows = follows and version == changes.version
            known = {name: value for name, value in known.copy().items() if name not in changes.settings and follows}
            complete = complete and follows and not changes.settings
            self._read = version, known, complete
        if key not in known and not complete:
            stored = self._fetched(key)
            if version is None and key in changes.settings:  # another thread is changing it, and may not commit
                return stored
            known[key] = stored
        return known.get(key)

    def _fetched(self, key: str) -> str | None:
        found = self._connection.fetch("SELECT value FROM settings WHERE key = ?", [key])
        return found[0][0] if found else None

    def set(self, key: str, value: object) -> None:
        self._connection.changes.settings.add(key)
        self._connection.fetch(PUT_SETTING, [key, to_json(value)])

    def all(self, prefix: str = "", without: Container[str] = ()) -> dict[str, object]:
        """Returns every setting whose key begins with ``prefix``, except ``without`` and the log of changes."""
        found = self._connection.fetch(f"SELECT key, value {SETTINGS} ORDER BY key")
        wanted = ((key, value) for key, value in found if key.startswith(prefix) and key not in without)
        return {key: from_json(value, f"The setting {key!r}") for key, value in wanted}

    def remove(self, key: str) -> None:
        self._connection.changes.settings.add(key)
        self._connection.fetch("DELETE FROM settings WHERE key = ?", [key])
        self._connection.fetch("DELETE FROM weights WHERE name = ?", [key])

    def weights(self, name: str) -> bytes | None:
        """Returns the weights of the encoder or the outward predictor.

        Raises:
            IndexFormatError: the weights are damaged.
        """
        found = self._connection.fetch("SELECT safetensors, checksum FROM weights WHERE name = ?", [name])
        if found and zlib.crc32(found[0][0]) != found[0][1]:
            raise IndexFormatError(
                f"The weights of the {name} are damaged: their checksum differs.",
                "the stored data",
                "Restore the folder from a copy, or run pam-retriever repair on it.",
            )
        return found[0][0] if found else None

    def set_weights(self, name: str, safetensors: bytes) -> None:
        values = [name, safetensors, zlib.crc32(safetensors)]
        if name in ENCODERS:  # all vectors are of its space
            self._connection.changes.everything = True
        self._connection.fetch("INSERT OR REPLACE INTO weights VALUES (?, ?, ?)", values)
