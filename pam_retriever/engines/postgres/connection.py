"""Connections to PostgreSQL: one snapshot or one transaction per call, retried if that is safe."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo, sql

from pam_retriever.engines.base import State
from pam_retriever.engines.postgres.faults import explained, interrupted
from pam_retriever.engines.postgres.vectors import adapt_vectors
from pam_retriever.errors import EngineUnavailable, IndexClosed
from pam_retriever.locks import Mutex

IDLE = 8  # connections kept open for later calls
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between attempts to connect
LOCKED_FOR, IDLE_FOR = "120s", "600s"  # maximum wait for another writer; maximum idle time of a transaction
EF_SEARCH = 200  # pgvector's default of 40 finds too few candidates

# a commit is on the server's disk
SETTINGS = """
SELECT set_config('search_path', quote_ident(%s) || ', ' || current_setting('search_path'), false),
    set_config('lock_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false),
    set_config('hnsw.ef_search', %s, false), set_config('jit', 'off', false), set_config('synchronous_commit',
        CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
        false)
"""
T = TypeVar("T")


NAMES = [field.name for field in fields(State)]


@dataclass
class _Call:
    """The current call of a thread."""

    connection: psycopg.Connection[Any]
    state: State
    writing: bool


class Connections:
    """Connections to the tables of one index.

    Args:
        dsn: DSN of the database.
        namespace: the schema of the tables.
        patience: seconds for which a call tries to reconnect.

    Attributes:
        location: a description of the location.
    """

    def __init__(self, dsn: str, namespace: str, patience: float) -> None:
        self._dsn, self._namespace, self._patience = dsn, namespace, patience
        self._idle: list[psycopg.Connection[Any]] = []
        self._mutex = Mutex()
        self._local = threading.local()
        self._closed = False
        self._me = uuid.uuid4()
        self.location = _location(dsn, namespace)

    # ---- calls

    @property
    def state(self) -> State:
        """The state for the call of this thread."""
        call = self._call
        if call is not None:
            return call.state
        with self.reading() as state:
            return state

    @property
    def inside(self) -> bool:
        """Whether this thread is inside a call."""
        return self._call is not None

    @contextmanager
    def reading(self) -> Iterator[State]:
        """Uses one snapshot for all reads of the block."""
        if self._call is not None:
            yield self._call.state
            return
        call = self._local.call = self.retried(lambda: self._begin(writing=False))
        try:
            yield call.state
        finally:
            self._local.call = None
            self._end(call, "COMMIT")

    @contextmanager
    def transaction(self, began: Callable[[State], None]) -> Iterator[State]:
        """Commits all writes of the block together, or none; transactions run one after the other.

        Args:
            began: called with the new state before any write.

        Raises:
            Interrupted: the connection was lost, and nothing was written. The call can be repeated.
        """
        if self.inside:
            raise RuntimeError("a call that reads cannot write")
        call = self._local.call = self.retried(lambda: self._begin(writing=True))
        try:
            began(call.state)
            yield call.state
            self.fetch(
                f"UPDATE state SET {', '.join(f'{name} = %s' for name in NAMES)}",
                [getattr(call.state, name) for name in NAMES],
            )
            self.fetch(
                "INSERT INTO writers VALUES (%s, %s) ON CONFLICT (process) DO UPDATE SET version = excluded.version",
                [self._me, call.state.version],
            )
        except BaseException:
            self._local.call = None
            self._end(call, "ROLLBACK")
            raise
        self._local.call = None
        self._commit(call)

    def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Runs one statement in the call of this thread, or in a new one; returns all rows."""
        call = self._call
        if call is None:  # nothing else was read, so a later snapshot is fine after a loss
            return self.retried(lambda: self._fetch_alone(statement, parameters))
        while True:
            try:
                with explained(self.location):
                    cursor = call.connection.execute(statement.encode(), parameters or None, binary=True)
                    return cursor.fetchall() if cursor.description else []
            except EngineUnavailable as error:
                if call.writing:
                    raise interrupted(self.location) from error
                self._resume(call, error)

    def _fetch_alone(self, statement: str, parameters: Sequence[Any]) -> list[Any]:
        with self.reading():
            return self.fetch(statement, parameters)

    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Runs one statement per row of parameters, inside a transaction."""
        with self._writing() as connection, connection.cursor() as cursor:
            cursor.executemany(statement.encode(), rows)

    def copy(self, table: str, types: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Appends rows to a table inside a transaction, with COPY."""
        statement = sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(sql.Identifier(table))
        with self._writing() as connection, connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def _writing(self) -> Iterator[psycopg.Connection[Any]]:
        call = self._call
        assert call is not None and call.writing
        try:
            with explained(self.location):
                yield call.connection
        except EngineUnavailable as error:
            raise interrupted(self.location) from error

    def close(self) -> None:
        """Closes all connections."""
        self._closed = True
        self._drop_idle()

    # ---- connections

    def connect(self) -> psycopg.Connection[Any]:
        """Opens a new connection, outside all calls.

        Raises:
            EngineUnavailable, InvalidInput: the server cannot be reached, or refuses the login.
        """
        with explained(self.location):
            connection = psycopg.connect(self._dsn, autocommit=True)
            try:
                connection.execute(SETTINGS, [self._namespace, LOCKED_FOR, IDLE_FOR, str(EF_SEARCH)])
                adapt_vectors(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def retried(self, attempt: Callable[[], T]) -> T:
        """Returns the result of ``attempt``; repeats it while the server is away, within the patience."""
        until, pause = time.monotonic() + self._patience, FIRST_PAUSE
        while True:
            try:
                with explained(self.location):
                    return attempt()
            except EngineUnavailable:
                if time.monotonic() + pause > until:
                    raise
                self._drop_idle()  # idle connections are lost, too
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    @property
    def _call(self) -> _Call | None:
        call: _Call | None = getattr(self._local, "call", None)
        return call

    def _begin(self, writing: bool) -> _Call:
        """Begins a transaction; returns it with its state."""
        if self._closed:
            raise IndexClosed("The index is closed.", "an open index", "Make or open it again.")
        with self._mutex:
            connection = self._idle.pop() if self._idle else None
        connection = connection or self.connect()
        kind = "READ COMMITTED" if writing else "REPEATABLE READ READ ONLY"
        lock = "FOR UPDATE" if writing else ""
        try:
            # one message for both statements
            cursor = connection.execute(
                f"BEGIN ISOLATION LEVEL {kind}; SELECT {', '.join(NAMES)} FROM state {lock}".encode()
            )
            cursor.nextset()
            state = State(*map(int, cursor.fetchall()[0]))
        except BaseException:
            connection.close()
            raise
        if writing:
            state.version += 1
        return _Call(connection, state, writing)

    def _end(self, call: _Call, how: str) -> None:
        """Ends a transaction; keeps a sound connection for later calls."""
        try:
            if not call.connection.closed:
                call.connection.execute(how.encode())
        except psycopg.Error:  # nothing was written, or the rollback happens with the disconnect
            call.connection.close()
        self._give_back(call.connection)

    def _give_back(self, connection: psycopg.Connection[Any]) -> None:
        with self._mutex:
            if not connection.closed and not self._closed and len(self._idle) < IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _drop_idle(self) -> None:
        with self._mutex:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _resume(self, call: _Call, error: EngineUnavailable) -> None:
        """Continues a reading call over a new connection, if its snapshot would be the same."""
        fresh = self.retried(lambda: self._begin(writing=False))
        if fresh.state.version != call.state.version:
            self._end(fresh, "COMMIT")
            raise interrupted(self.location) from error
        call.connection = fresh.connection

    def _commit(self, call: _Call) -> None:
        """Commits a transaction; if the server's answer is lost, checks whether it was committed."""
        try:
            with explained(self.location):
                call.connection.execute("COMMIT")
        except EngineUnavailable as error:
            try:
                committed = self.retried(lambda: self._was_committed(call.state.version))
            except EngineUnavailable as still:
                raise EngineUnavailable(
                    f"{self.location} was lost during a commit and stays away ({still.got}).",
                    "a server that says whether the call was stored; it was wholly or not at all",
                    "Call again: what is there already is replaced by the same.",
                ) from error
            if not committed:
                raise interrupted(self.location) from error
        self._give_back(call.connection)

    def _was_committed(self, version: int) -> bool:
        """Returns whether this process has written this version.

        PostgreSQL's transaction number does not show this: after a crash it may be reused.
        """
        with self.connect() as connection, connection.transaction():
            # waits for the transaction, which the server may still end if it has not noticed the loss
            connection.execute("SELECT 1 FROM state FOR UPDATE")
            found = connection.execute("SELECT version FROM writers WHERE process = %s", [self._me]).fetchall()
        return bool(found and found[0][0] == version)


def _location(dsn: str, namespace: str) -> str:
    """Returns a description of the location, without a password."""
    try:
        known = conninfo.conninfo_to_dict(dsn)
    except psycopg.Error:
        return "PostgreSQL"
    where = f"{known.get('host') or 'localhost'}:{known.get('port') or 5432}/{known.get('dbname') or ''}"
    return f"PostgreSQL at {where}, schema {namespace!r}"
