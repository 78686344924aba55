"""Checks of the files beside a database, done before SQLite opens it, because SQLite acts on them.

A rollback journal (``-journal``) replaces the contents of the database when it is opened, and may name a
super-journal anywhere on the disk, which SQLite then deletes. A write-ahead log (``-wal``) adds contents. The checksum
of the database covers neither. So a closed database may have only the files that a reader leaves: an empty log and its
index (``-shm``), which SQLite creates again.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pam_retriever.errors import IndexFormatError
from pam_retriever.store.faults import explained

OWN = ("manifest.json", "memories-", "predictor-", "ann-", "keys-", "writer.lock", "damaged-", "tenants-")
SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # ends a journal that names one; sqlite.org/fileformat2.html 4.2


def check_links(folder: Path) -> set[str]:
    """Raises an error if a file of an index is a link: a write to a link changes a file elsewhere. Returns all names.

    Raises:
        IndexFormatError: a file is a link.
    """
    names = set()
    with explained(folder), os.scandir(folder) as found:
        for entry in found:
            names.add(entry.name)
            if entry.name.startswith(OWN) and entry.is_symlink():
                raise IndexFormatError(
                    f"{entry.path} is a link.",
                    "files of the index itself",
                    "Put the file that it leads to in its place.",
                )
    return names


def holds_log(database: Path) -> bool:
    """Whether a database has a write-ahead log with contents."""
    log = database.with_name(f"{database.name}-wal")
    return log.exists() and log.stat().st_size > 0


def check_companions(database: Path, sealed: bool) -> None:
    """Raises an error if there is a journal or log beside a database that this library did not write.

    Args:
        database: the file.
        sealed: whether the database has a checksum, which ``close`` writes.

    Raises:
        IndexFormatError: there is such a file.
        StorageError: a file cannot be read.
    """
    for end in ("-journal", "-wal", "-shm"):
        name = f"{database}{end}"  # mostly there is no such file, and a path takes longer than the look for it
        with explained(database):
            try:
                found = os.lstat(name)
            except FileNotFoundError:
                continue
        if not stat.S_ISREG(found.st_mode):
            raise IndexFormatError(f"{name} is no plain file.", "a journal that SQLite wrote", "Remove it.")
        if sealed and (end == "-journal" or (end == "-wal" and found.st_size)):
            raise IndexFormatError(
                f"{name} lies beside a database that was closed, and would change it.",
                "a closed database without such files",
                "If the folder is a stranger's, do not trust it; else move that file away, or restore the folder.",
            )
        if end == "-journal":
            _check_journal(Path(name), found.st_size)


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
