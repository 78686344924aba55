"""Memories, trajectories and settings in one SQLite database, in memory or in a file.

SQLite is the single source of truth: what a committed transaction wrote is what the index is.
Everything in memory (the ANN indexes) is derived from it and can be rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pam_retriever.store import words
from pam_retriever.store.connection import Connection, Mode
from pam_retriever.store.damage import check_types
from pam_retriever.store.feedback import SQLiteFeedback
from pam_retriever.store.kept_mentions import KeptMentions
from pam_retriever.store.memories import SQLiteMemories
from pam_retriever.store.schema import OLDER, SCHEMA
from pam_retriever.store.settings import SQLiteSettings
from pam_retriever.store.times import SQLiteTimes
from pam_retriever.store.trajectories import SQLiteTrajectories
from pam_retriever.store.verification import Copy, Verification
from pam_retriever.types import Int64


class SQLiteDatabase:
    """The memories, trajectories and settings of one index.

    Args:
        path: the file, or None to keep them in memory.
        mode: as for ``Connection``.
        sha256: of the file, to be verified later, by ``verify`` or ``verify_meanwhile``; None for a file that was.
        checked: its contents were checked by who has it open.
        before_change, resting: as for ``Connection``.

    Attributes:
        connection: to the file: its transactions and copies.
        memories: what is stored.
        trajectories: in which they were experienced.
        feedback: requests, and what served them.
        times: when memories were.
        settings: what else the index keeps.
        mentions: which texts name which memories.
        noted: sets that take in the rows of memories which are written from now on.

    Raises:
        IndexFormatError: the file is damaged, or not such a database.
        StorageError: the disk or its permissions are in the way.
    """

    DERIVED = "ann"  # the setting that names an index that is cached beside the database; see ``ann_cache``
    GRAPH = "graph"  # the setting that names graphs that are kept; see ``graph_cache``

    def __init__(
        self,
        path: Path | None = None,
        mode: Mode = "create",
        sha256: str | None = None,
        checked: bool = False,
        before_change: Callable[[], object] = lambda: None,
        resting: bool = False,
    ) -> None:
        self._verification = None if path is None or sha256 is None else Verification(path, sha256, _types_of(path))
        self.connection = Connection(path, SCHEMA, mode, OLDER, before_change, resting)
        self.memories = SQLiteMemories(self.connection)
        self.trajectories = SQLiteTrajectories(self.connection)
        self.feedback = SQLiteFeedback(self.connection)
        self.times = SQLiteTimes(self.connection)
        self.settings = SQLiteSettings(self.connection)
        self.mentions = KeptMentions(self.connection, self.settings)
        self.noted: list[set[int]] = []
        with self.closed_on_error():
            self.connection.add_own(words.VOCABULARY)
            if mode != "create" and self._verification is None and not checked:
                check_types(self.connection)

    def verify(self) -> None:
        """Verifies a file that was not yet.

        Raises:
            IndexFormatError: it is damaged.
        """
        if self._verification is not None:
            self._verification.now()
            self._verification = None

    def verify_meanwhile(self, copies: Sequence[Copy]) -> Verification | None:
        """Begins to verify a file that was not yet, and what was made of it; until then the file itself stays still."""
        if self._verification is not None:
            self.connection.keep_file_still(True)
            self._verification.begin(copies, lambda: self.connection.keep_file_still(False))
        return self._verification

    def finish_verifying(self) -> None:
        """Waits until the file is verified.

        Raises:
            IndexFormatError: it is damaged.
        """
        if self._verification is not None:
            self._verification.finish()

    @classmethod
    def read_copy(cls, path: Path, settled: bool) -> SQLiteDatabase:
        """A database in memory with the contents of a file, which is left as it is; see ``copy_from``."""
        database = cls()
        with database.closed_on_error():
            database.connection.copy_from(path, settled)
            check_types(database.connection)
        return database

    def snapshot(self) -> SQLiteDatabase:
        """All of it as it is now, whatever is written later, to be closed. Nobody may write meanwhile."""
        path = self.connection.path
        if path is not None:
            return SQLiteDatabase(path, "read", checked=True)
        copy = SQLiteDatabase()
        with copy.closed_on_error():
            copy.connection.copy_open(self.connection)
        return copy

    @property
    def sharded(self) -> SQLiteDatabase:
        """Itself: a training can read it shard by shard."""
        return self

    @property
    def read_only(self) -> bool:
        """Whether it was opened to read."""
        return self.connection.read_only

    def check_writable(self) -> None:
        """Raises ReadOnlyIndex for a database that was opened to read."""
        self.connection.check_writable()

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Closes the database if what is inside fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is committed together, or not at all; see ``Connection.transaction``."""
        with self.connection.transaction():
            self.settings.remove(self.DERIVED)  # an index that was kept is not one of what is stored any more
            yield
            for rows in self.noted:  # before the commit: what is noted too much is read again
                rows.update(self.connection.changes.rows)

    def forget(self, rows: Int64) -> None:
        """Removes memories by row, their steps, and trajectories of which nothing is left."""
        self.mentions.forget(rows)
        self.memories.remove(rows)
        self.trajectories.remove_empty()

    def erase_removed(self) -> None:
        """Overwrites what was removed and is still in the file: words, and names of trajectories without a step.

        Cells of tables are overwritten as they are removed (``secure_delete``).
        """
        with self.connection.transaction():
            words.erase_removed(self.connection.fetch)
            self.mentions.erase_removed()
            self.connection.fetch("DELETE FROM trajectories WHERE trajectory NOT IN (SELECT trajectory FROM steps)")

    @property
    def holds_removed(self) -> bool:
        """Whether there may be something for ``erase_removed``."""
        return bool(self.settings.get(words.REMOVED))

    def shrink(self) -> bool:
        """Gives the space of what was removed back to the file system; False if a reader still needs the journal."""
        self.finish_verifying()
        self.connection.fetch("VACUUM")
        busy: int = self.connection.fetch("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        return not busy

    def close(self) -> None:
        if self._verification is not None:
            self._verification.stop()
        self.connection.close()


def _types_of(path: Path) -> Callable[[], None]:
    """The check of the types in a file, in a connection of its own: the others go on meanwhile."""

    def check() -> None:
        connection = Connection(path, SCHEMA, "read", OLDER)
        try:
            check_types(connection)
        finally:
            connection.close()

    return check
