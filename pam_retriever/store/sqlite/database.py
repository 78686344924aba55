"""Memories, trajectories and settings in one SQLite database, in memory or in a file.

SQLite is the single source of truth. Everything in memory (the ANN indexes) is derived from it and can be rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pam_retriever.mentions.names import check_unchanged
from pam_retriever.mentions.store import SQLiteMentions
from pam_retriever.store.faults import explained
from pam_retriever.store.folder.verification import Copy, Verification
from pam_retriever.store.index_mentions import IndexMentions
from pam_retriever.store.sqlite import words
from pam_retriever.store.sqlite.connection import Connection, Mode
from pam_retriever.store.sqlite.damage import check_types
from pam_retriever.store.sqlite.feedback import SQLiteFeedback
from pam_retriever.store.sqlite.memories import SQLiteMemories
from pam_retriever.store.sqlite.pages import SMALLEST, page_size_of
from pam_retriever.store.sqlite.schema import OLDER, SCHEMA
from pam_retriever.store.sqlite.settings import SQLiteSettings
from pam_retriever.store.sqlite.times import SQLiteTimes
from pam_retriever.store.sqlite.trajectories import SQLiteTrajectories
from pam_retriever.types import Int64

VERIFIED_AT_ONCE = 4_000_000  # bytes of a small file


class SQLiteDatabase:
    """The memories, trajectories and settings of one index; see ``store.database.Database``.

    Args:
        path: the file, or None to keep them in memory.
        mode: see ``Connection``.
        sha256: checksum of the file, for ``verify`` or ``verify_meanwhile``; None if the file is verified.
        checked: whether another connection has checked the contents.
        before_change, immutable, page_size: see ``Connection``.

    Attributes:
        connection: connection to the file, for transactions and copies.
        memories: the memories.
        trajectories: the trajectories of the memories.
        feedback: requests, and the memories that served them.
        times: the times of memories.
        settings: the other stored values.
        mentions: the mentions between texts.
        noted: sets that collect the rows of all memories written from now on.

    Raises:
        IndexFormatError: the file is damaged, or not such a database.
        StorageError: the disk is full, or permissions are missing.
    """

    ANN = "ann-saved"  # the setting that names a saved ANN index; see ``ann_cache``
    OLD_ANN = "ann"  # the same in earlier versions, which use it as long as it is there
    GRAPH = "graph"  # the setting that names saved graphs; see ``graph_cache``

    def __init__(
        self,
        path: Path | None = None,
        mode: Mode = "create",
        sha256: str | None = None,
        checked: bool = False,
        before_change: Callable[[], object] = lambda: None,
        immutable: bool = False,
        page_size: int = SMALLEST,
    ) -> None:
        self._verification: Verification | None = None
        self.connection = Connection(path, SCHEMA, mode, OLDER, before_change, immutable, page_size)
        if path is not None and sha256 is not None:
            self._verification = Verification(path, sha256, _types_of(path, self.connection))
        self.settings = SQLiteSettings(self.connection)
        self.memories = SQLiteMemories(self.connection, self.settings)
        self.trajectories = SQLiteTrajectories(self.connection)
        self.feedback = SQLiteFeedback(self.connection)
        self.times = SQLiteTimes(self.connection, self.settings)
        self.mentions = IndexMentions(SQLiteMentions(self.connection), self.settings)
        self.noted: list[set[int]] = []
        with self.closed_on_error():
            if mode != "create" and self._verification is None and not checked:
                check_types(self.connection)

    def verify(self) -> None:
        """Verifies the file if it is not verified yet.

        Raises:
            IndexFormatError: the file is damaged.
        """
        if self._verification is not None:
            self._verification.now()
            self._verification = None

    @property
    def unverified(self) -> bool:
        """Whether the file has a checksum to verify. It has none after a kill, or beside a writer."""
        return self._verification is not None

    def verify_meanwhile(self, copies: Sequence[Copy]) -> None:
        """Starts to verify the file and its derived files in the background. Until the end the file does not change.

        A small file without derived files is verified at once: that takes less time than a thread.

        Raises:
            IndexFormatError: a small file is damaged.
        """
        if not copies and self._verification is not None and self._verification.size <= VERIFIED_AT_ONCE:
            self.verify()
        if self._verification is not None:
            self.connection.keep_file_still(True)
            self._verification.begin(copies, lambda: self.connection.keep_file_still(False))

    def check_verified(self) -> None:
        """Raises IndexFormatError if the check in the background found damage."""
        if self._verification is not None:
            self._verification.check()

    def finish_verifying(self) -> None:
        """Waits until the file is verified.

        Raises:
            IndexFormatError: the file is damaged.
        """
        if self._verification is not None:
            self._verification.finish()

    @classmethod
    def read_copy(cls, path: Path, settled: bool) -> SQLiteDatabase:
        """Returns a database in memory with the contents of a file, which is not changed; see ``copy_from``."""
        with explained(path):
            database = cls(page_size=page_size_of(path))
        with database.closed_on_error():
            database.connection.copy_from(path, settled)
            check_types(database.connection)
        return database

    def snapshot(self) -> SQLiteDatabase:
        path = self.connection.path
        if path is not None:
            return SQLiteDatabase(path, "read", checked=True)
        copy = SQLiteDatabase(page_size=self.connection.fetch("PRAGMA page_size")[0][0])
        with copy.closed_on_error():
            copy.connection.copy_open(self.connection)
        return copy

    @property
    def sharded(self) -> SQLiteDatabase:
        return self

    @property
    def read_only(self) -> bool:
        """Whether the database is read-only."""
        return self.connection.read_only

    def check_writable(self) -> None:
        self.connection.check_writable()

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Closes the database if the block raises."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self.connection.alone() as inside:
            check_unchanged(inside)
        with self.connection.transaction():
            if self.settings.get(self.OLD_ANN) is not None:
                self.settings.remove(self.OLD_ANN)  # an earlier version would not know that it is stale now
            yield
            for rows in self.noted:  # before the commit: superfluous rows are only read again
                rows.update(self.connection.changes.rows)

    def forget(self, rows: Int64) -> None:
        self.mentions.forget(rows)
        self.memories.remove(rows)
        self.trajectories.remove_empty()

    def discard_keys(self) -> None:
        self.memories.clear_associations()

    def erase_removed(self) -> None:
        """Overwrites removed data that are still in the file: words, and names of trajectories without steps.

        SQLite overwrites cells of tables when it removes them (``secure_delete``).
        """
        with self.connection.transaction():
            if words.erase_removed(self.connection.fetch):
                self.settings.remove(words.REMOVED)
            self.mentions.erase_removed()
            self.connection.fetch("DELETE FROM trajectories WHERE trajectory NOT IN (SELECT trajectory FROM steps)")

    @property
    def holds_removed(self) -> bool:
        """Whether ``erase_removed`` may have something to overwrite."""
        return bool(self.settings.get(words.REMOVED))

    def shrink(self) -> bool:
        """Returns the space of removed data to the file system; False if a reader still needs the journal."""
        self.finish_verifying()
        self.connection.fetch("VACUUM")
        busy: int = self.connection.fetch("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
        return not busy

    def close(self) -> None:
        if self._verification is not None:
            self._verification.stop()
        self.connection.close()


def _types_of(path: Path, opened: Connection) -> Callable[[], None]:
    """Returns a function that checks the types in a file, over a separate connection, which blocks no other."""

    def check() -> None:
        if not opened.in_place():  # after a save over the index only the open connection sees the file
            check_types(opened)
            return
        connection = Connection(path, SCHEMA, "read", OLDER)
        try:
            check_types(connection)
        finally:
            connection.close()

    return check
