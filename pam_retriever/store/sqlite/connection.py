"""One SQLite connection: durable, shared by threads, with errors that name a remedy."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pam_retriever.errors import IndexFormatError, ReadOnlyIndex, StorageError
from pam_retriever.locks import Mutex
from pam_retriever.store.faults import explained
from pam_retriever.store.folder import handles
from pam_retriever.store.folder.forking import never_free, tell_of_forks
from pam_retriever.store.sqlite import words
from pam_retriever.store.sqlite.changes import Changes, store_changes
from pam_retriever.store.sqlite.copying import State, read_copy, state_of, uri_of, write_copy
from pam_retriever.store.sqlite.pages import SMALLEST
from pam_retriever.store.sqlite.tables import SCHEMA_OF, described, plain, schema_of

Mode = Literal["create", "write", "read", "follow"]
URI_MODES = {"create": "rwc", "write": "rw", "read": "ro", "follow": "ro"}
JOURNAL_PAGES = 1000  # SQLite moves the journal into the file after this many pages: its own default
MOST_VERSIONS = 2**31 - 1  # the version restarts after this: SQLite stores 32 bits
# in a statement; SQLite before 3.32 takes 999 parameters, later ones 32,766
MOST_ROWS = 128 if sqlite3.sqlite_version_info < (3, 32) else 4096
KEPT_BITS = 4  # of the number of rows in a statement: Python keeps 128 prepared, which take up to 2.4 MB each
LOCK_SECONDS = 5.0  # how long to wait for SQLite's own short locks


class Connection:
    """A database of the given schema, in memory or in a file.

    Modes "read" and "follow" read a snapshot of the file, taken when it was opened, until ``renew_snapshot`` or
    ``close``. In mode "follow", ``end_snapshot`` may release the snapshot.

    Args:
        path: the file, None for one in memory.
        schema: SQL statements that create the tables. A file with another schema is refused, because its triggers could
            run.
        older: schemas of earlier versions, each with the statements that update it. A file with such a schema is
            updated; in mode "read", missing tables are added as empty temporary tables.
        mode: "create" creates the file, "write" opens an existing one, "read" and "follow" do not change it.
        before_change: called before each transaction and every other change of the file.
        immutable: whether SQLite opens the file as immutable until the first transaction, in mode "write". Opening and
            closing it changes nothing then. Nobody else may write to it, and there must be no journal.
        page_size: bytes per page of a new database; a copy of another needs the page size of that one.

    Attributes:
        changes: the changes of the current transaction, or of the last one.
        mode: the given mode, or the mode that ``forbid_writing`` set.
        outdated: whether a reader found an older schema when it connected.
        known_version: the version, if nobody else can change it; None for a reader, and inside a transaction.

    Raises:
        IndexFormatError: the file is damaged, or not such a database.
        StorageError: the disk is full, or permissions are missing.
    """

    def __init__(
        self,
        path: Path | None,
        schema: Sequence[str],
        mode: Mode = "create",
        older: Sequence[tuple[Sequence[str], Sequence[str]]] = (),
        before_change: Callable[[], object] = lambda: None,
        immutable: bool = False,
        page_size: int = SMALLEST,
    ) -> None:
        self._before_change, self._immutable, self._own = before_change, immutable, list[str]()
        self._page_size = page_size
        self.path, self._schema, self.mode, self.read_only = path, schema, mode, mode in ("read", "follow")
        self._older, self.outdated = older, False
        # Python shares prepared statements between threads, so one statement has to end before the next begins
        self._mutex = Mutex()
        self._inode: handles.Inode | None = None
        self._copied: tuple[Path, State | None] | None = None
        self._closed, self._changes = False, 0
        self.changes = Changes()
        self.known_version: int | None = None
        self._sqlite = self._connect()
        self._letting_go: weakref.finalize[..., Connection] | None = None
        tell_of_forks(self)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        mode = "ro&immutable=1" if self._immutable else URI_MODES[self.mode]
        target = ":memory:" if self.path is None else uri_of(self.path, mode)
        with explained(self.path):
            connection = sqlite3.connect(
                target, isolation_level=None, check_same_thread=False, timeout=LOCK_SECONDS, uri=self.path is not None
            )
        words.set_up(connection)
        return connection

    def _prepare(self) -> None:
        if self.path is not None:
            with explained(self.path):
                self._inode = handles.inode_of(self.path)
                handles.connected(self._inode)
        self._close_when_dropped()
        self._set_up()
        if self.path is not None and self.read_only:
            self.renew_snapshot()
        if self.mode == "create":
            with self.transaction():
                for statement in self._schema:
                    self.fetch(statement)
        self.check_schema()
        self.fetch("PRAGMA trusted_schema = ON")  # our triggers: otherwise SQLite forbids them to write to FTS5

    def _set_up(self) -> None:
        """Sets the pragmas of the connection."""
        self.fetch("PRAGMA trusted_schema = OFF")  # triggers and views of the file cannot run unsafe functions
        self.fetch("PRAGMA cell_size_check = ON")
        self.fetch("PRAGMA foreign_keys = ON")
        if self.mode == "create":
            self.fetch(f"PRAGMA page_size = {self._page_size}")
        if self.path is None or self.read_only or self._immutable:
            return
        self.fetch("PRAGMA secure_delete = ON")  # deleted data are overwritten, whatever the build's default
        if self.fetch("PRAGMA journal_mode")[0][0] != "wal":
            self._before_change()
            self.fetch("PRAGMA journal_mode = WAL")
        self.fetch("PRAGMA synchronous = FULL")  # a commit is on the disk before the call returns
        self.fetch("PRAGMA fullfsync = ON")  # on macOS fsync alone leaves it in the drive's cache

    def _close_when_dropped(self) -> None:
        """Closes the connection when its last owner drops it without ``close``: Python 3.13 warns otherwise."""
        self._letting_go = weakref.finalize(self, _close, self._sqlite, self._inode)
        self._letting_go.atexit = False

    def _wake(self) -> None:
        """Inside the mutex: reopens a resting file for writing."""
        immutable, let_go = self._sqlite, self._letting_go
        self._immutable = False
        try:
            self._sqlite = self._connect()
            self._set_up()
            for statement in ("PRAGMA trusted_schema = ON", *self._own):
                self.fetch(statement)
        except BaseException:
            self._sqlite, self._immutable = immutable, True
            raise
        self._close_when_dropped()
        if let_go is not None:
            let_go.detach()
        immutable.close()

    def ensure(self, statement: str) -> None:
        """Runs a statement that creates an object in this connection only, if it is not there yet."""
        if statement not in self._own:
            with self._mutex:
                self.fetch(statement)
                if self.read_only or not self._sqlite.in_transaction:  # a rollback would remove it
                    self._own.append(statement)

    def check_schema(self) -> None:
        """Checks the tables and triggers of the database; updates the schema of an older version.

        Raises:
            IndexFormatError: the database has other tables or triggers.
        """
        found = tuple(self.fetch(SCHEMA_OF))  # mostly the same with its comments, which are slow to remove
        if found == described(tuple(self._schema)) or plain(found) == schema_of(self._schema):
            return
        update = next((update for schema, update in self._older if plain(found) == schema_of(schema)), None)
        if update is None:
            raise IndexFormatError(
                f"{self.path or 'The database'} has other tables than an index.",
                "a database that this version of the library wrote",
                "Restore it from a copy.",
            )
        if self.read_only:
            self.outdated = True
            for statement in update:
                if statement.lstrip().startswith("CREATE TABLE"):
                    self.fetch(statement.replace("CREATE TABLE", "CREATE TEMP TABLE", 1))
            return
        with self.transaction():
            self.changes.everything = True  # readers keep words of the old index
            for statement in update:
                self.fetch(statement)

    # ---- statements

    def fetch(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Runs one statement; returns all of its rows."""
        with self._mutex, explained(self.path):
            return self._sqlite.execute(sql, parameters).fetchall()

    def insert(self, sql: str, parameters: Sequence[Any]) -> int:
        """Runs one INSERT; returns the number of the new row."""
        with self._mutex, explained(self.path):
            return int(self._sqlite.execute(sql, parameters).lastrowid or 0)

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Runs one statement for each row of parameters."""
        with self._mutex, explained(self.path):
            self._sqlite.executemany(sql, rows)

    def insert_many(self, before: str, columns: list[Sequence[Any]], after: str = "", most: int = MOST_ROWS) -> None:
        """Runs ``before VALUES (...), (...), ... after`` for columns of parameters, many rows in a statement.

        At the beginning of each statement that fires a trigger, FTS5 writes a segment, to be merged later.
        """
        width, count, at = len(columns), len(columns[0]), 0
        parameters: list[Any] = [None] * (width * count)
        for number, column in enumerate(columns):
            parameters[number::width] = column
        with self._mutex, explained(self.path):
            while at < count:
                left = min(most, count - at)
                some = left >> (cut := max(0, left.bit_length() - KEPT_BITS)) << cut
                values = ", ".join([f"({', '.join('?' * width)})"] * some)
                self._sqlite.execute(f"{before} VALUES {values} {after}", parameters[at * width : (at + some) * width])
                at += some

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits all writes of the block together, or none.

        Raises:
            ReadOnlyIndex: the database was opened to read.
            StorageError: the disk is full, or the file is gone.
        """
        self.check_writable()
        with self._mutex:
            self.check_there()
            self._before_change()
            if self._immutable:
                self._wake()
            seen, self.changes, self.known_version = self.known_version, Changes(), None
            try:
                if self._sqlite.in_transaction:  # an interrupt stopped the rollback of an earlier one
                    self.fetch("ROLLBACK")
                self.fetch("BEGIN IMMEDIATE")
                version = self.changes.version = (self.version if seen is None else seen) % MOST_VERSIONS + 1
                self.fetch(f"PRAGMA user_version = {version}")
                yield
                self.check_there()
                if self.path is not None:  # nobody else reads a database in memory
                    store_changes(self.fetch, version, self.changes)
                self.fetch("COMMIT")
                self.known_version = version
            except BaseException:
                if self._sqlite.in_transaction:
                    self.fetch("ROLLBACK")
                raise

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Excludes other threads. Yields whether this thread is inside a write transaction."""
        with self._mutex:
            yield self._sqlite.in_transaction and not self.read_only

    @property
    def version(self) -> int:
        """The number of committed transactions, stored in the file. Copies of an older version may be stale."""
        if (known := self.known_version) is not None:
            return known
        with self._mutex:
            version = int(self.fetch("PRAGMA user_version")[0][0])
            if not self.read_only and not self._sqlite.in_transaction:
                self.known_version = version
        return version

    def check_writable(self) -> None:
        """Raises ReadOnlyIndex for a database that was opened to read."""
        if self.read_only:
            raise ReadOnlyIndex(
                f"The index at {self.path and self.path.parent} was opened with read_only=True.",
                "an index that may be changed",
                "open() it without read_only, or load() a copy into memory.",
            )

    def forbid_writing(self, mode: Mode) -> None:
        """Refuses every change from now on, as in modes "read" and "follow"."""
        self.read_only, self.mode, self.known_version = True, mode, None

    def in_place(self) -> bool:
        """Whether the path leads to the file that was opened; for a copy of a settled file: whether it is as it was."""
        with explained(self.path):
            if self._copied is not None:
                path, state = self._copied
                return state_of(path) == state
            try:
                return self.path is None or handles.inode_of(self.path) == self._inode
            except (FileNotFoundError, NotADirectoryError):
                return False

    def check_there(self) -> None:
        """Checks that the file is still in place: writes to a removed or replaced file would be lost.

        Raises:
            StorageError: the file was removed or replaced, or permissions are missing.
        """
        if self.path is not None and not self.in_place():
            raise StorageError(
                f"{self.path} was removed, moved or replaced while it was open.",
                "the file that was opened",
                "Restore it and open the index again, or save() this one to another folder.",
            )

    # ---- snapshots and copies

    def renew_snapshot(self) -> None:
        """For a reader: takes a new snapshot of the file."""
        with self._mutex:
            self.end_snapshot()
            self.fetch("BEGIN")
            self.fetch("PRAGMA user_version")

    def end_snapshot(self) -> None:
        """For a reader: releases the snapshot. Until the next one each statement sees the current file."""
        with self._mutex:
            if self._sqlite.in_transaction:
                self.fetch("COMMIT")

    def copy_to(self, path: Path) -> None:
        """Writes a compact copy to a new file: of the snapshot, if there is one."""
        with self._mutex, explained(path):
            write_copy(self._sqlite, path)

    def copy_from(self, path: Path, settled: bool) -> None:
        """Replaces the contents by those of a file, which is not changed.

        Args:
            path: the file.
            settled: whether nobody writes to it and it has no journal.

        Raises:
            IndexFormatError: the file is damaged, or not such a database.
        """
        self.known_version = None
        with explained(path):
            self._copied = (path, state_of(path)) if settled else None
            read_copy(path, settled, self._sqlite, LOCK_SECONDS)
        self.check_schema()

    def copy_open(self, other: Connection) -> None:
        """Replaces the contents by the contents that another connection sees now."""
        self.known_version = None
        with other._mutex:
            other._sqlite.backup(self._sqlite)
        self.check_schema()

    def settle(self) -> bool:
        """Moves all commits from the journal into the file; returns False if a reader still needs the journal."""
        self.fetch("PRAGMA busy_timeout = 0")  # do not wait for readers
        return self.path is not None and self.fetch("PRAGMA wal_checkpoint(TRUNCATE)")[0][0] == 0

    @property
    def changed(self) -> bool:
        """Whether this connection has written anything."""
        return (self._changes if self._closed else self._sqlite.total_changes) != 0

    def keep_file_still(self, still: bool) -> None:
        """Keeps commits in the journal, so that the file itself does not change; ``False`` ends this."""
        if not self.read_only:
            self.fetch(f"PRAGMA wal_autocheckpoint = {0 if still else JOURNAL_PAGES}")

    def close(self) -> None:
        with self._mutex:
            if self._closed:
                return
            self._closed, self._changes = True, self._sqlite.total_changes
            if self._letting_go is not None:
                self._letting_go.detach()
            _close(self._sqlite, self._inode)

    # ---- forks, see ``forking``

    def hold_still(self, timeout: float) -> bool:
        return self._mutex.acquire(timeout=timeout)

    def go_on(self) -> None:
        self._mutex.release()

    def in_child(self, still: bool) -> None:
        self._mutex, self._closed = Mutex(), True
        if self._letting_go is not None:
            self._letting_go.detach()
        if still:
            self._sqlite.close()
        else:
            never_free(self._sqlite)  # another thread is inside it and will never leave


def _close(sqlite: sqlite3.Connection, inode: handles.Inode | None) -> None:
    sqlite.close()
    if inode is not None:
        handles.disconnected(inode)
