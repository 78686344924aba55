"""One SQLite connection: durable, shared by threads, with errors that say what to do."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from pam_retriever.errors import IndexFormatError, ReadOnlyIndex, StorageError
from pam_retriever.store import handles
from pam_retriever.store.changes import Changes, store_changes
from pam_retriever.store.faults import explained
from pam_retriever.store.forking import never_free, tell_of_forks
from pam_retriever.store.tables import SCHEMA_OF, plain, schema_of

Mode = Literal["create", "write", "read", "follow"]
URI_MODES = {"create": "rwc", "write": "rw", "read": "ro", "follow": "ro"}
JOURNAL_PAGES = 1000  # after which SQLite moves them into the file: its own default
MOST_VERSIONS = 2**31 - 1  # after which they begin again: SQLite keeps 32 bits
# rows; SQLite before 3.32 takes 999 parameters, later ones 32,766
MOST_IN_A_STATEMENT = 128 if sqlite3.sqlite_version_info < (3, 32) else 4096
LOCK_SECONDS = 5.0  # how long to wait for SQLite's own short locks


class Connection:
    """A database of the given schema, in memory or in a file.

    A file in mode "read" or "follow" is seen as it was when it was opened, whatever its writer does, until
    ``renew_snapshot`` or ``close``. In mode "follow" it may also be let go in between.

    Args:
        path: the file, None for one in memory.
        schema: SQL statements that make it. Another schema in the file is refused: it is what a
            stranger's file could smuggle triggers in with.
        older: schemas of earlier versions, each the beginning of ``schema``. A file that has one gets what is
            missing: in the file, or, in mode "read", in empty tables beside it.
        mode: "create" makes the file, "write" needs it to be there, "read" and "follow" leave it as it is.
        before_change: called before each transaction, and before anything else that changes the file.
        resting: of a file in mode "write" that nobody else writes to, and that has no journal: until the first
            transaction SQLite reads it as it stands. Opening and closing it touches nothing then.

    Attributes:
        changes: what the transaction that is under way, or was the last, has written.
        mode: as given, or as of ``forbid_writing``.

    Raises:
        IndexFormatError: the file is damaged, or not such a database.
        StorageError: the disk or its permissions are in the way.
    """

    def __init__(
        self,
        path: Path | None,
        schema: Sequence[str],
        mode: Mode = "create",
        older: Sequence[Sequence[str]] = (),
        before_change: Callable[[], object] = lambda: None,
        resting: bool = False,
    ) -> None:
        self._before_change, self._resting, self._own = before_change, resting, list[str]()
        self.path, self._schema, self.mode, self.read_only = path, schema, mode, mode in ("read", "follow")
        self._older = older
        # Python shares prepared statements between threads, so a statement runs to its end before the next
        self._mutex = threading.RLock()
        self._inode: tuple[int, int] | None = None
        self._closed, self._changes = False, 0
        self.changes = Changes()
        self._sqlite = self._connect()
        self._letting_go: weakref.finalize[..., Connection] | None = None
        tell_of_forks(self)
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        target = ":memory:"
        if self.path is not None:
            target = (
                f"{self.path.absolute().as_uri()}?mode={'ro&immutable=1' if self._resting else URI_MODES[self.mode]}"
            )
        with explained(self.path):
            return sqlite3.connect(
                target, isolation_level=None, check_same_thread=False, timeout=LOCK_SECONDS, uri=self.path is not None
            )

    def _prepare(self) -> None:
        if self.path is not None:
            with explained(self.path):
                self._inode = _inode(self.path)
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
        self.fetch("PRAGMA trusted_schema = ON")  # they are our own triggers: SQLite lets no other write to FTS5

    def _set_up(self) -> None:
        """Says to SQLite how it has to work."""
        self.fetch("PRAGMA trusted_schema = OFF")  # a file's own triggers and views run nothing
        self.fetch("PRAGMA cell_size_check = ON")
        self.fetch("PRAGMA foreign_keys = ON")
        if self.path is None or self.read_only or self._resting:
            return
        self.fetch("PRAGMA secure_delete = ON")  # what is deleted is overwritten, whatever SQLite was built for
        if self.fetch("PRAGMA journal_mode")[0][0] != "wal":
            self._before_change()
            self.fetch("PRAGMA journal_mode = WAL")
        self.fetch("PRAGMA synchronous = FULL")  # a commit is on disk before the call returns
        self.fetch("PRAGMA fullfsync = ON")  # on macOS fsync alone leaves it in the drive's cache

    def _close_when_dropped(self) -> None:
        """A connection that nobody has any more, and nobody closed."""
        assert self._inode is not None
        self._letting_go = weakref.finalize(self, _close, self._sqlite, self._inode)
        self._letting_go.atexit = False

    def _wake(self) -> None:
        """Inside the mutex: opens a resting file again, to be written to."""
        resting, let_go = self._sqlite, self._letting_go
        self._resting = False
        try:
            self._sqlite = self._connect()
            self._set_up()
            for statement in ("PRAGMA trusted_schema = ON", *self._own):
                self.fetch(statement)
        except BaseException:
            self._sqlite, self._resting = resting, True
            raise
        self._close_when_dropped()
        if let_go is not None:
            let_go.detach()
        resting.close()

    def add_own(self, statement: str) -> None:
        """Makes what belongs to this connection, and to no file, such as a view of a table."""
        self.fetch(statement)
        self._own.append(statement)

    def check_schema(self) -> None:
        """Refuses a database with other tables, or anything beside them; brings an older one up to date.

        Raises:
            IndexFormatError: it has.
        """
        there = plain(tuple(self.fetch(SCHEMA_OF)))
        if there == schema_of(self._schema):
            return
        older = next((schema for schema in self._older if there == schema_of(schema)), None)
        if older is None:
            raise IndexFormatError(
                f"{self.path or 'The database'} has other tables than an index.",
                "a database that this version of the library wrote",
                "Restore it from a copy.",
            )
        missing = self._schema[len(older) :]
        if self.read_only:
            for statement in missing:
                if statement.lstrip().startswith("CREATE TABLE"):
                    self.fetch(statement.replace("CREATE TABLE", "CREATE TEMP TABLE", 1))
            return
        with self.transaction():
            for statement in missing:
                self.fetch(statement)

    def check_structure(self) -> None:
        """Reads every page.

        Raises:
            IndexFormatError: SQLite finds damage in the file.
        """
        found = [row[0] for row in self.fetch("PRAGMA integrity_check(1)") if row[0] != "ok"]
        found += [f"a step or vector without its memory in {row[0]}" for row in self.fetch("PRAGMA foreign_key_check")]
        if found:
            raise IndexFormatError(
                f"{self.path or 'The database'} is damaged ({found[0]}).",
                "the database that was written",
                "Restore the folder from a copy, or run pam-retriever repair on it.",
            )

    # ---- statements

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Runs one statement; returns all of its rows."""
        with self._mutex, explained(self.path):
            return self._sqlite.execute(sql, parameters).fetchall()

    def insert(self, sql: str, parameters: Sequence[Any]) -> int:
        """Runs one INSERT; returns the number of its row."""
        with self._mutex, explained(self.path):
            return int(self._sqlite.execute(sql, parameters).lastrowid or 0)

    def run_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Runs one statement for each row of parameters."""
        with self._mutex, explained(self.path):
            self._sqlite.executemany(sql, rows)

    def insert_many(self, before: str, rows: Iterable[Sequence[Any]], after: str = "") -> None:
        """Runs ``before VALUES (...), (...), ... after`` for rows of parameters of one length, many in a statement.

        FTS5 writes what it holds at the beginning of each statement that a trigger makes it part of: row by row, each
        text would be a segment of its own, to be merged with the others.
        """
        left = list(rows)
        with self._mutex, explained(self.path):
            at, some = 0, MOST_IN_A_STATEMENT
            while at < len(left):
                while some > len(left) - at:  # powers of two: few statements, which SQLite keeps prepared
                    some //= 2
                one = f"({', '.join('?' * len(left[at]))})"
                sql = f"{before} VALUES {', '.join([one] * some)} {after}"
                self._sqlite.execute(sql, list(chain.from_iterable(left[at : at + some])))
                at += some

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is committed together, or not at all.

        Raises:
            ReadOnlyIndex: the database was opened to read.
            StorageError: the disk is full, or the file is gone.
        """
        self.check_writable()
        with self._mutex:
            self.check_there()
            self._before_change()
            if self._resting:
                self._wake()
            self.changes = Changes()
            try:
                if self._sqlite.in_transaction:  # one that was interrupted while it was rolled back
                    self.fetch("ROLLBACK")
                self.fetch("BEGIN IMMEDIATE")
                self.fetch(f"PRAGMA user_version = {self.version % MOST_VERSIONS + 1}")
                yield
                self.check_there()
                if self.path is not None:  # nobody else reads what is in memory
                    store_changes(self.fetch, self.version, self.changes)
                self.fetch("COMMIT")
            except BaseException:
                if self._sqlite.in_transaction:
                    self.fetch("ROLLBACK")
                raise

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """No other thread reads or writes meanwhile. Gives whether this one is inside a transaction that it writes."""
        with self._mutex:
            yield self._sqlite.in_transaction and not self.read_only

    @property
    def version(self) -> int:
        """How many transactions were committed, in the file itself: what was read before may be stale since."""
        return int(self.fetch("PRAGMA user_version")[0][0])

    def check_writable(self) -> None:
        """Raises ReadOnlyIndex for a database that was opened to read."""
        if self.read_only:
            raise ReadOnlyIndex(
                f"The index at {self.path and self.path.parent} was opened with read_only=True.",
                "an index that may be changed",
                "open() it without read_only, or load() a copy into memory.",
            )

    def forbid_writing(self, mode: Mode) -> None:
        """From now on every change is refused, as in mode "read" or "follow"."""
        self.read_only, self.mode = True, mode

    def check_there(self) -> None:
        """A file that was removed or replaced still takes writes, and loses them.

        Raises:
            StorageError: that happened.
        """
        if self.path is None:
            return
        try:
            same = _inode(self.path) == self._inode
        except FileNotFoundError:
            same = False
        if not same:
            raise StorageError(
                f"{self.path} was removed, moved or replaced while it was open.",
                "the file that was opened",
                "Restore it and open the index again, or save() this one to another folder.",
            )

    # ---- snapshots and copies

    def renew_snapshot(self) -> None:
        """Of a database that is read: from here on the file is seen as it is now."""
        with self._mutex:
            self.end_snapshot()
            self.fetch("BEGIN")
            self.fetch("PRAGMA user_version")

    def end_snapshot(self) -> None:
        """Of a database that is read: until the next snapshot each statement sees the file as it is at that time."""
        with self._mutex:
            if self._sqlite.in_transaction:
                self.fetch("COMMIT")

    def copy_to(self, path: Path) -> None:
        """Writes a compact copy to a file that is not there yet: of the snapshot, where one is read."""
        with self._mutex, explained(path):
            if not self._sqlite.in_transaction:
                self.fetch("VACUUM INTO ?", [str(path)])
                return
            with closing(sqlite3.connect(path, isolation_level=None)) as copy:
                self._sqlite.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
                copy.execute("VACUUM")

    def copy_from(self, path: Path, settled: bool) -> None:
        """Replaces everything by the contents of a file, which is left as it is.

        Args:
            path: the file.
            settled: nobody writes to it, and it has no journal.

        Raises:
            IndexFormatError: the file is damaged, or not such a database.
        """
        with explained(path):
            uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if settled else ''}"
            source = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS)
            try:
                source.backup(self._sqlite)
            finally:
                source.close()
        self.check_schema()

    def copy_open(self, other: Connection) -> None:
        """Replaces everything by what another connection sees now."""
        with other._mutex:
            other._sqlite.backup(self._sqlite)
        self.check_schema()

    def settle(self) -> bool:
        """Moves all that was committed into the file itself; False if a reader still needs the journal."""
        self.fetch("PRAGMA busy_timeout = 0")  # readers may stay as long as they like
        return self.path is not None and self.fetch("PRAGMA wal_checkpoint(TRUNCATE)")[0][0] == 0

    @property
    def changed(self) -> bool:
        """Whether anything was written through this connection."""
        return (self._changes if self._closed else self._sqlite.total_changes) != 0

    def keep_file_still(self, still: bool) -> None:
        """Has what is committed stay in the journal, so that the file itself does not change; or no longer."""
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
        self._mutex, self._closed = threading.RLock(), True
        if self._letting_go is not None:
            self._letting_go.detach()
        if still:
            self._sqlite.close()
        else:
            never_free(self._sqlite)  # another thread is inside for good


def _close(sqlite: sqlite3.Connection, inode: tuple[int, int] | None) -> None:
    sqlite.close()
    if inode is not None:
        handles.disconnected(inode)


def _inode(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
