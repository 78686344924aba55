"""MilvusBackend: the location of an index in Milvus."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pam_retriever.errors import IndexFormatError, InvalidInput, MissingExtra, StorageError
from pam_retriever.validation import check_positive

if TYPE_CHECKING:
    from pam_retriever.store.base import Store

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
FORMAT = 3  # 2 added feedback, times and mentions; 3 names in all scripts
LEAST = (2, 5)  # needed for nullable fields, array_contains_any, and several vectors per entity
MAX_DIM = 16_000  # Milvus allows 32,768 numbers, and a key [p ; f(p) ; e(p)] has two vectors and a code


class MilvusBackend:
    """Stores an index in Milvus: ``PredictiveAssociativeIndex(dim, backend=MilvusBackend("memories.db"))``.

    A file is Milvus Lite, which only one process can open. Any number of processes can use a server, and one at a time
    can write. Milvus has no transactions: docs/reference/engines.md describes the consequences.

    Args:
        uri: a path that ends in ".db", or "http://host:port".
        token: "user:password" or a token of the server.
        prefix: prefix of the names of the index's collections; different for each index.
        patience: seconds for which a call tries to restore a lost connection before it fails.

    Raises:
        InvalidInput: an argument is invalid.
        MissingExtra: pymilvus, or milvus-lite for a file, is not installed.
    """

    name = "milvus"

    def __init__(self, uri: str | Path, token: str = "", prefix: str = "pam", patience: float = 30.0) -> None:
        uri = str(uri)
        remote = "://" in uri
        if not remote and not uri.endswith(".db"):
            raise InvalidInput(f"Got uri={uri!r}.", "a path that ends in .db, or http://host:port", "Check it.")
        if not isinstance(prefix, str) or not NAME.fullmatch(prefix):
            raise InvalidInput(f"Got prefix={prefix!r}.", "letters, digits and _", "For example 'pam'.")
        for package in ("pymilvus", *(() if remote else ("milvus_lite",))):
            if find_spec(package) is None:
                raise MissingExtra(package, "milvus", "MilvusBackend")
        self._uri, self._token, self.prefix = uri, token, prefix
        self._patience = check_positive("patience", patience)

    def __repr__(self) -> str:
        return f"MilvusBackend({self._uri!r}, prefix={self.prefix!r})"

    def open_store(self, dim: int | None) -> Store:
        """Opens the index; creates it if it does not exist.

        Raises:
            EngineUnavailable, InvalidInput, StorageError, IndexFormatError: the message explains the cause.
        """
        from pam_retriever.engines.milvus.calls import Calls  # the extra is needed from here on
        from pam_retriever.engines.milvus.client import Connection
        from pam_retriever.engines.milvus.database import FLAT, MilvusDatabase
        from pam_retriever.engines.store import EngineStore

        if dim is not None and dim > MAX_DIM:
            raise InvalidInput(f"Got dim={dim} for Milvus.", f"at most {MAX_DIM:,}", "Use shorter vectors.")
        connection = Connection(self._uri, self._token, self.prefix, self._patience)
        try:
            _check_version(connection.run(lambda client: str(client.get_server_version())), connection.location)
            calls = Calls(connection)
            stored = calls.settings.read("$index")
            dim = _agreed(stored, dim, connection.location)
            database = MilvusDatabase(calls, dim)
            if calls.settings.read("$state") is None:
                calls.make()
                database.stored.make(0, None, FLAT)
            store = EngineStore(self.name, database)
            if stored is not None and stored != f"{FORMAT} {dim}":
                with database.transaction():
                    database.mentions.search_again()
            if stored != f"{FORMAT} {dim}":
                calls.settings.write("$index", f"{FORMAT} {dim}")  # written last: from here on the index exists
        except BaseException:
            connection.close()
            raise
        return store


def _check_version(found: str, location: str) -> None:
    numbers = re.findall(r"\d+", found)
    if tuple(map(int, numbers[:2])) < LEAST:
        least = ".".join(map(str, LEAST))
        raise StorageError(f"{location} is version {found}.", f"{least} or later", "Upgrade it.")


def _agreed(stored: str | None, dim: int | None, location: str) -> int:
    """Returns the dimension of the existing or new index, after a check that both given values agree."""
    if stored is None:
        if dim is None:
            raise InvalidInput(f"There is no index in {location}.", "dim for a new one", "Pass dim=...")
        return dim
    number, stored_dim = stored.split()
    if not 1 <= int(number) <= FORMAT:
        raise IndexFormatError(f"{location} has format {number}.", f"{FORMAT}", "Upgrade pam-retriever.")
    if dim not in (None, int(stored_dim)):
        raise InvalidInput(
            f"Got dim={dim} for the index in {location}.",
            f"{stored_dim}, its dimension",
            "Leave dim out, or choose another prefix.",
        )
    return int(stored_dim)
