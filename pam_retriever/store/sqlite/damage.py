"""Checks for damage in a database."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

from pam_retriever.errors import IndexFormatError, PAMError
from pam_retriever.store.columns import checksum
from pam_retriever.store.sqlite.changes import ENCODERS
from pam_retriever.store.sqlite.connection import Connection
from pam_retriever.store.sqlite.schema import WRONG

FILLED = f"SELECT {', '.join(f'EXISTS (SELECT 1 FROM {table})' for table in WRONG)}"


# the tables that had rows in the last database that had others: most tenants have rows in the same tables
_usual = (1,) * len(WRONG)


@lru_cache(32)
def _checks(filled: tuple[int, ...]) -> str:
    """Returns one statement with a row for each of these tables that holds a wrong value.

    It has a row of NULL if another table is not empty. SQLite takes longer to compile a check than to look into an
    empty table.
    """
    checks, empty = [], []
    for (table, wrong), there in zip(WRONG.items(), filled, strict=True):
        if there:
            checks.append(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table} WHERE {wrong})")
        else:
            empty.append(f"EXISTS (SELECT 1 FROM {table})")
    if empty:
        checks.append(f"SELECT NULL WHERE {' OR '.join(empty)}")
    return " UNION ALL ".join(checks)


def check_types(database: Connection) -> None:
    """Checks the types of all values: a cheap scan that does not read the contents.

    Raises:
        IndexFormatError: a column holds values of another type.
    """
    global _usual
    found = database.fetch(_checks(_usual))
    if (None,) in found:
        _usual = filled = database.fetch(FILLED)[0]  # another thread may replace the first at any time
        found = database.fetch(_checks(filled))
    for (table,) in found:
        raise IndexFormatError(
            f"The table {table} holds a wrong type or a row without its other half.",
            "the data that add() stored",
            "Restore it from a copy.",
        )


def damaged(database: Connection) -> Iterator[tuple[int, str]]:
    """Returns the row of each memory whose contents differ from its checksum, with a description of the damage."""
    last = 0
    while found := database.fetch(
        "SELECT row, id, text, metadata, memories.checksum, vector, observed, observations.checksum FROM memories "
        "LEFT JOIN vectors USING (row) LEFT JOIN observations USING (row) WHERE row > ? ORDER BY row LIMIT 1000",
        [last],
    ):
        for row, id, text, metadata, expected, vector, observed, sum_observed in found:
            if vector is None:
                yield row, f"memory {id!r} has no vector"
            elif checksum(id, text, metadata, vector) != expected:
                yield row, f"memory {id!r} is not what was stored: its checksum differs"
            if observed is not None and zlib.crc32(observed) != sum_observed:
                yield row, f"the observation of memory {id!r} is not what was stored: its checksum differs"
        last = found[-1][0]


def damaged_requests(database: Connection) -> Iterator[str]:
    """Returns a description of each past request whose contents differ from its checksum."""
    last = 0
    while found := database.fetch(
        "SELECT number, id, text, metadata, vector, checksum FROM feedback WHERE number > ? ORDER BY number LIMIT 1000",
        [last],
    ):
        for _, id, text, metadata, vector, expected in found:
            if checksum(id, text, metadata, vector) != expected:
                yield f"request {id!r} is not what was stored: its checksum differs"
        last = found[-1][0]


def damaged_weights(database: Connection) -> Iterator[str]:
    """Returns a description of the weights that differ from their checksum, besides those of an encoder."""
    for name, packed, expected in database.fetch("SELECT name, safetensors, checksum FROM weights ORDER BY name"):
        if name not in ENCODERS and zlib.crc32(packed) != expected:
            yield f"the weights of the setting {name!r} are not what was stored: their checksum differs"


def check_words(database: Connection) -> None:
    """Checks that FTS5 can read the full-text index: this may fail although every page of the file is sound.

    Raises:
        IndexFormatError: FTS5 cannot read it.
    """
    try:
        database.fetch("SELECT rowid FROM words WHERE words MATCH 'a' LIMIT 1")
    except PAMError as error:
        raise IndexFormatError(
            f"The words in {database.path or 'the database'} cannot be read ({error.got.rstrip('.')}).",
            "an index of the words of all texts",
            "Run pam-retriever repair on the folder: it is made anew from the texts.",
        ) from error


def check_structure(database: Connection) -> None:
    """Checks the structure of every page.

    Raises:
        IndexFormatError: SQLite finds damage in the file.
    """
    found = [row[0] for row in database.fetch("PRAGMA integrity_check(1)") if row[0] != "ok"]
    found += [f"a step or vector without its memory in {row[0]}" for row in database.fetch("PRAGMA foreign_key_check")]
    if found:
        raise IndexFormatError(
            f"{database.path or 'The database'} is damaged ({found[0]}).",
            "the database that was written",
            "Restore the folder from a copy, or run pam-retriever repair on it.",
        )


def check_everything(database: Connection) -> None:
    """Checks every page, and compares every memory and every past request with its checksum.

    Raises:
        IndexFormatError: the file is damaged. The message names the first memory or request that differs.
    """
    check_structure(database)
    check_words(database)
    for wrong in chain((line for _, line in damaged(database)), damaged_requests(database)):
        raise IndexFormatError(
            f"{database.path or 'The database'}: {wrong}.",
            "the data that was stored",
            "Restore the folder from a copy, or run pam-retriever repair on it.",
        )
