"""The connection to Milvus. Every operation is idempotent, so operations can be repeated after a lost connection."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import grpc
from pymilvus import DataType, MilvusClient, MilvusException

from pam_retriever.errors import EngineUnavailable, IndexClosed, Interrupted, StorageError
from pam_retriever.locks import Mutex

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between attempts
AT_ONCE = 1_000  # entities per message
MAX_BYTES = 65_535  # per string or JSON value
LOST = ("unavailable", "connect", "closed channel", "deadline", "timeout", "not ready")
T = TypeVar("T")
# Milvus Lite has no timestamps for iterators, and pymilvus logs a line for each
logging.getLogger("pymilvus.client.iterator.query_iterator").setLevel(logging.ERROR)
Row = dict[str, Any]


class Connection:
    """A client of Milvus that reconnects after a lost connection.

    Args:
        uri: a file for Milvus Lite, or "http://host:port".
        token: "user:password" or a token.
        prefix: prefix of the names of the collections.
        patience: seconds for which the client tries to reconnect.

    Attributes:
        location: a description of the location.
        wrote: whether entities were stored or removed, or may have been, since somebody set it to False.
    """

    def __init__(self, uri: str, token: str, prefix: str, patience: float) -> None:
        self._uri, self._token, self._patience = uri, token, patience
        self.prefix, self.location = prefix, f"Milvus at {uri}, prefix {prefix!r}"
        self._mutex = Mutex()
        self._closed = self.wrote = False
        self._client: MilvusClient | None = self._connect()

    def _connect(self) -> MilvusClient:
        try:
            return MilvusClient(self._uri, token=self._token, timeout=self._patience)
        except (MilvusException, grpc.RpcError, OSError) as error:
            raise EngineUnavailable(
                f"{self.location} cannot be reached ({_words(error)}).",
                "a server that runs, or a file that no other process has open",
                "Start it, or check the URI.",
            ) from error

    def run(self, operation: Callable[[MilvusClient], T]) -> T:
        """Returns the result of ``operation``; repeats it while the server is away, within the patience.

        Raises:
            EngineUnavailable: the server was away for longer than the patience.
            StorageError: the server refused the operation.
        """
        until, pause = time.monotonic() + self._patience, FIRST_PAUSE
        while True:
            try:
                return operation(self._connected())
            except EngineUnavailable:
                if time.monotonic() + pause > until:
                    raise
            except (MilvusException, grpc.RpcError, ValueError) as error:
                if not _is_lost(error):
                    raise StorageError(
                        f"{self.location}: {_words(error)}.", "a server that takes it", "See its log."
                    ) from error
                if time.monotonic() + pause > until:
                    raise EngineUnavailable(
                        f"{self.location} cannot be reached ({_words(error)}).", "a server that runs", "Start it."
                    ) from error
                with self._mutex:
                    self._client = None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _connected(self) -> MilvusClient:
        if self._closed:
            raise IndexClosed("The index is closed.", "an open index", "Make or open it again.")
        with self._mutex:
            if self._client is None:
                self._client = self._connect()
            return self._client

    # ---- operations

    def upsert(self, collection: str, entities: list[Row]) -> None:
        """Stores entities and replaces those with the same key."""
        self.wrote = True
        for start in range(0, len(entities), AT_ONCE):
            some = entities[start : start + AT_ONCE]
            self.run(lambda client, some=some: client.upsert(collection, some))  # type: ignore[misc]

    def delete(self, collection: str, expression: str) -> None:
        """Removes the entities that satisfy an expression."""
        self.wrote = True
        self.run(lambda client: client.delete(collection, filter=expression))

    def query(self, collection: str, expression: str, fields: Sequence[str]) -> list[Row]:
        """Returns all entities that satisfy an expression, sorted by key; their number is not limited."""

        def ask(client: MilvusClient) -> list[Row]:
            iterator = client.query_iterator(
                collection, batch_size=AT_ONCE, filter=expression, output_fields=list(fields)
            )
            found: list[Row] = []
            while batch := iterator.next():
                found += batch
            iterator.close()
            return found

        return self.run(ask)

    def query_few(self, collection: str, expression: str, fields: Sequence[str]) -> list[Row]:
        """Returns the entities that satisfy an expression, up to a few thousand."""
        return list(self.run(lambda client: client.query(collection, filter=expression, output_fields=list(fields))))

    def get(self, collection: str, keys: Sequence[int], fields: Sequence[str]) -> list[Row]:
        """Returns the entities with these primary keys, in any order."""
        found: list[Row] = []
        for start in range(0, len(keys), AT_ONCE):
            some = list(keys[start : start + AT_ONCE])
            found += self.run(
                lambda client, some=some: client.get(collection, ids=some, output_fields=list(fields))  # type: ignore[misc]
            )
        return found

    def get_all(self, collection: str, keys: Sequence[int], fields: Sequence[str]) -> list[Row]:
        """Returns the entities with these distinct primary keys, which this call has seen, in any order.

        Raises:
            Interrupted: another process removed some of them meanwhile.
        """
        found = self.get(collection, keys, fields)
        if len(found) < len(keys):
            raise Interrupted(
                f"Another process removed memories in {self.location} during this call.", "them", "Call again."
            )
        return found

    def query_in(self, collection: str, name: str, values: Sequence[Any], fields: Sequence[str]) -> list[Row]:
        """Returns the entities whose field ``name`` has one of ``values``."""
        found: list[Row] = []
        for start in range(0, len(values), AT_ONCE):
            found += self.query_few(collection, f"{name} in {listed(values[start : start + AT_ONCE])}", fields)
        return found

    def delete_in(self, collection: str, name: str, values: Sequence[Any]) -> None:
        """Removes the entities whose field ``name`` has one of ``values``."""
        for start in range(0, len(values), AT_ONCE):
            self.delete(collection, f"{name} in {listed(values[start : start + AT_ONCE])}")

    def create(self, collection: str, key: str, fields: dict[str, Any], vectors: dict[str, Row]) -> None:
        """Creates a collection, unless it exists.

        Args:
            collection: its name.
            key: name of the primary key, a number.
            fields: name -> type and its parameters.
            vectors: name -> dim, metric, index and parameters of the index.
        """

        def make(client: MilvusClient) -> None:
            if client.has_collection(collection):
                client.load_collection(collection)
                return
            schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field(key, DataType.INT64, is_primary=True)
            for name, (kind, parameters) in fields.items():
                schema.add_field(name, kind, **parameters)
            indexes = MilvusClient.prepare_index_params()
            for name, vector in vectors.items():
                schema.add_field(name, DataType.FLOAT_VECTOR, dim=vector["dim"])
                indexes.add_index(
                    name, index_type=vector["index"], metric_type=vector["metric"], params=vector["params"]
                )
            client.create_collection(collection, schema=schema, consistency_level="Strong")
            client.create_index(collection, indexes, sync=False)  # empty: there is nothing to wait for
            client.load_collection(collection)

        self.run(make)

    def drop(self, collection: str) -> None:
        """Drops a collection, if it exists."""
        self.run(lambda client: client.drop_collection(collection))

    def compact(self, collection: str) -> None:
        """Starts to rewrite the remaining entities of a collection to new segments."""

        def begin(client: MilvusClient) -> None:
            client.flush(collection)
            client.compact(collection)

        self.run(begin)

    def collections(self) -> Iterator[str]:
        """Returns the collections with the prefix."""
        return (name for name in self.run(lambda client: client.list_collections()) if name.startswith(self.prefix))

    def close(self) -> None:
        """Closes the connection."""
        self._closed = True
        with self._mutex:
            client, self._client = self._client, None
        if client is not None:
            client.close()


def text(nullable: bool = False) -> tuple[Any, Row]:
    """Returns the type of a string."""
    return DataType.VARCHAR, {"max_length": MAX_BYTES, "nullable": nullable}


def listed(values: Sequence[Any]) -> str:
    """Returns strings, or integers, as a list in the syntax of an expression."""
    return "[" + ", ".join(quoted(value) if isinstance(value, str) else str(int(value)) for value in values) + "]"


def quoted(value: str) -> str:
    """Returns a string as a literal in an expression."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _is_lost(error: Exception) -> bool:
    words = _words(error).lower()
    return isinstance(error, grpc.RpcError) or any(word in words for word in LOST)


def _words(error: Exception) -> str:
    words = getattr(error, "message", None) or str(error) or type(error).__name__
    return str(words).strip().splitlines()[0]
