"""What lies beside a database in its folder, looked at before SQLite is: SQLite obeys it.

A rollback journal (``-journal``) replaces the contents of the database when it is opened, and may name a
super-journal anywhere on the disk, which SQLite then deletes. A write-ahead log (``-wal``) adds contents. Neither is
in the checksum of the database. So a database that was closed has none: what a reader leaves, an empty log and its
index (``-shm``), which SQLite makes anew, is all that there may be.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pam_retriever.errors import IndexFormatError
from pam_retriever.store.faults import explained

OWN = ("manifest.json", "memories-", "predictor-", "ann-", "keys-", "writer.lock", "damaged-", "tenants-")
SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # ends a journal that names one; sqlite.org/fileformat2.html 4.2


def check_links(folder: Path) -> None:
    """Refuses links among the files of an index: what is written to one is written elsewhere.

    Raises:
        IndexFormatError: there is one.
    """
    with explained(folder), os.scandir(folder) as found:
        for entry in found:
            if entry.name.startswith(OWN) and entry.is_symlink():
                raise IndexFormatError(
                    f"{entry.path} is a link.",
                    "files of the index itself",
                    "Put the file that it leads to in its place.",
                )


def check_companions(database: Path, sealed: bool) -> None:
    """Refuses what SQLite would obey beside a database, and this library did not leave there.

    Args:
        database: the file.
        sealed: it has a checksum, so it was closed.

    Raises:
        IndexFormatError: it has a companion that it cannot have.
        StorageError: one cannot be read.
    """
    for end in ("-journal", "-wal", "-shm"):
        path = database.with_name(f"{database.name}{end}")
        with explained(path):
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                continue
        if not stat.S_ISREG(found.st_mode):
            raise IndexFormatError(f"{path} is no plain file.", "a journal that SQLite wrote", "Remove it.")
        if sealed and (end == "-journal" or (end == "-wal" and found.st_size)):
            raise IndexFormatError(
                f"{path} lies beside a database that was closed, and would change it.",
                "a database with nothing to be applied to it",
                "If the folder is a stranger's, do not trust it; else move that file away, or restore the folder.",
            )
        if end == "-journal":
            _check_journal(path, found.st_size)


def _check_journal(path: Path, size: int) -> None:
    with explained(path), path.open("rb") as file:
        file.seek(max(0, size - len(SUPER_JOURNAL)))
        names_another = file.read() == SUPER_JOURNAL
    if names_another:
        raise IndexFormatError(
            f"{path} names a file that SQLite would delete.",
            "the journal of one database: an index never has another",
            "Do not trust the folder. Restore it from a copy.",
        )
