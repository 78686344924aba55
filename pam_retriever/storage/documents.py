"""Records, vectors and trajectories in one SQLite database, in memory or in a file.

SQLite is the single source of truth: what a committed transaction wrote is what the index is.
Everything in memory (the ANN indexes) is derived from it and can be rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pam_retriever.storage import words
from pam_retriever.storage.damage import check_types
from pam_retriever.storage.database import Database, Mode
from pam_retriever.storage.memories import Memories
from pam_retriever.storage.schema import SCHEMA
from pam_retriever.storage.settings import Settings
from pam_retriever.storage.trajectories import Trajectories
from pam_retriever.storage.verification import Copy, Verification
from pam_retriever.types import Int64


class Documents:
    """The records, vectors and trajectories of one index.

    Args:
        path: the file, or None to keep them in memory.
        mode: as for ``Database``.
        sha256: of the file, to be verified later, by ``verify`` or ``verify_meanwhile``; None for a file that was.

    Attributes:
        database: the file, its transactions and copies.
        memories: what is stored.
        trajectories: in which they were experienced.
        settings: what else the index keeps.

    Raises:
        IndexFormatError: the file is damaged, or not such a database.
        StorageError: the disk or its permissions are in the way.
    """

    DERIVED = "ann"  # the setting that names an index that is kept beside the database; see ``kept``

    def __init__(self, path: Path | None = None, mode: Mode = "create", sha256: str | None = None) -> None:
        self._verification = None if path is None or sha256 is None else Verification(path, sha256, _types_of(path))
        self.database = Database(path, SCHEMA, mode)
        self.memories = Memories(self.database)
        self.trajectories = Trajectories(self.database)
        self.settings = Settings(self.database)
        with self.closed_on_error():
            self.database.fetch(words.VOCABULARY)
            if mode != "create" and self._verification is None:
                check_types(self.database)

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
            self.database.keep_file_still(True)
            self._verification.begin(copies, lambda: self.database.keep_file_still(False))
        return self._verification

    def finish_verifying(self) -> None:
        """Waits until the file is verified.

        Raises:
            IndexFormatError: it is damaged.
        """
        if self._verification is not None:
            self._verification.finish()

    @classmethod
    def read_copy(cls, path: Path, settled: bool) -> Documents:
        """A database in memory with the contents of a file, which is left as it is; see ``copy_from``."""
        documents = cls()
        with documents.closed_on_error():
            documents.database.copy_from(path, settled)
            check_types(documents.database)
        return documents

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
        """All that is written inside is committed together, or not at all; see ``Database.transaction``."""
        with self.database.transaction():
            self.settings.remove(self.DERIVED)  # an index that was kept is not one of what is stored any more
            yield

    def forget(self, rows: Int64) -> None:
        """Removes memories by row, their steps, and trajectories of which less than two steps are left."""
        self.memories.remove(rows)
        self.trajectories.remove_short()

    def shrink(self) -> None:
        """Gives the space of what was removed back to the file system."""
        self.finish_verifying()
        self.database.fetch("VACUUM")
        self.database.fetch("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        if self._verification is not None:
            self._verification.stop()
        self.database.close()


def _types_of(path: Path) -> Callable[[], None]:
    """The check of the types in a file, in a connection of its own: the others go on meanwhile."""

    def check() -> None:
        database = Database(path, SCHEMA, "read")
        try:
            check_types(database)
        finally:
            database.close()

    return check
