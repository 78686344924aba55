"""Reads the sound rows of a damaged database."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pam_retriever.errors import counted
from pam_retriever.limits import MAX_WEIGHT
from pam_retriever.store.columns import checksum
from pam_retriever.store.folder.companions import holds_log
from pam_retriever.store.sqlite.changes import ENCODERS, ranges_of
from pam_retriever.store.sqlite.copying import uri_of
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.pages import page_size_of

MEMORIES = (
    "SELECT row, id, text, metadata, checksum, vector, association FROM memories JOIN vectors USING (row) "
    "WHERE row BETWEEN ? AND ? ORDER BY row"
)
STEPS = (
    "SELECT trajectory, position, row, timestamp, salience FROM steps "
    "WHERE trajectory BETWEEN ? AND ? ORDER BY trajectory, position"
)
TRAJECTORIES = "SELECT trajectory, id FROM trajectories WHERE trajectory BETWEEN ? AND ?"
OBSERVATIONS = "SELECT row, observed, checksum FROM observations WHERE row BETWEEN ? AND ?"
SETTINGS = "SELECT key, value FROM settings WHERE rowid BETWEEN ? AND ?"
WEIGHTS = "SELECT name, safetensors, checksum FROM weights WHERE rowid BETWEEN ? AND ?"
REQUESTS = "SELECT number, id, text, metadata, vector, timestamp, checksum FROM feedback WHERE number BETWEEN ? AND ?"
USES = "SELECT feedback, row, weight FROM uses WHERE feedback BETWEEN ? AND ?"
TIMES = "SELECT row, given, handed, zone FROM times WHERE row BETWEEN ? AND ?"
CHUNK = 256
GUESS = 1_000_000  # rows to try if the file cannot say how many there are


def salvage(path: Path, dim: int | None) -> tuple[SQLiteDatabase, int, list[str]]:
    """Returns a database in memory with the sound memories of a damaged file. Association vectors are copied unchecked.

    Args:
        path: the file, which is not changed.
        dim: dimension of the index; None for the dimension of the first memory.

    Returns:
        The database, the dimension (0 for none) and a line for each loss.

    Raises:
        sqlite3.DatabaseError: nothing can be read.
    """
    mode = "ro" if holds_log(path) else "ro&immutable=1"  # so SQLite creates no file beside it
    source = sqlite3.connect(uri_of(path, mode), uri=True)
    source.text_factory = bytes  # text that is not UTF-8 is damage of one row, and must not end the query
    lost: list[str] = []
    database = SQLiteDatabase(page_size=page_size_of(path))
    try:
        source.execute("SELECT count(*) FROM sqlite_master").fetchall()
        with database.transaction():
            dim = _copy_memories(source, database, dim, lost)
            _copy_trajectories(source, database, lost)
            _copy_feedback(source, database, dim, lost)
            for key, value in _rows(source, SETTINGS, _last(source, "settings"), lost):
                _copy_setting(database, key, value, lost)
            _copy_observations(source, database, lost)
            _copy_times(source, database, lost)
            _copy_weights(source, database, lost)
            database.mentions.build()
    finally:
        source.close()
    return database, dim or 0, lost


def _copy_memories(
    source: sqlite3.Connection, database: SQLiteDatabase, dim: int | None, lost: list[str]
) -> int | None:
    seen: set[str] = set()
    for row, id, text, metadata, expected, vector, associated in _rows(
        source, MEMORIES, _last(source, "memories"), lost
    ):
        try:
            name, words = str(id, "utf-8"), None if text is None else str(text, "utf-8")
            stored = str(metadata, "utf-8")
            whole = checksum(name, words, stored, vector) == expected and name not in seen
        except (TypeError, ValueError):
            whole = False
        if whole and (dim is None or len(vector) == 4 * dim):
            dim = len(vector) // 4
            seen.add(name)
            values = [row, name, words, stored, expected]
            database.connection.fetch(
                "INSERT INTO memories (row, id, text, metadata, checksum) VALUES (?, ?, ?, ?, ?)", values
            )
            blob = associated if isinstance(associated, bytes) else None
            database.connection.fetch("INSERT INTO vectors VALUES (?, ?, ?)", [row, vector, blob])
        else:
            lost.append(f"memory {id!r} (row {row}): it is not what was stored")
    return dim


def _copy_trajectories(source: sqlite3.Connection, database: SQLiteDatabase, lost: list[str]) -> None:
    last = _last(source, "trajectories")
    for number, id in _rows(source, TRAJECTORIES, last, lost):
        try:
            database.connection.fetch(
                "INSERT INTO trajectories (trajectory, id) VALUES (?, ?)", [number, str(id, "utf-8")]
            )
        except (sqlite3.IntegrityError, TypeError, ValueError):
            lost.append(f"trajectory {id!r}: it is not what was stored")
    for step in _rows(source, STEPS, last, lost):
        try:
            whole = all(number is None or isinstance(number, float) for number in step[3:])
            if whole:
                database.connection.fetch("INSERT INTO steps VALUES (?, ?, ?, ?, ?)", step)
        except (sqlite3.IntegrityError, sqlite3.InterfaceError):
            whole = False
        if not whole:
            what = "it is not what was stored, or its memory or trajectory is lost"
            lost.append(f"step {step[1]} of trajectory number {step[0]}: {what}")


def _copy_feedback(source: sqlite3.Connection, database: SQLiteDatabase, dim: int | None, lost: list[str]) -> None:
    """Copies requests and uses. As in a deletion, a request goes with the last memory that served it."""
    if not _has(source, "feedback"):
        return
    last = _last(source, "feedback")
    kept = _copy_requests(source, database, dim, last, lost)
    served, left = set[int](), set[int]()
    for number, row, weight in _rows(source, USES, last, lost):
        if number not in kept:
            continue
        if not isinstance(weight, float) or not abs(weight) <= MAX_WEIGHT:
            lost.append(f"the use of row {row} by request number {number}: its weight is {weight!r}")
            continue
        try:
            database.connection.fetch("INSERT INTO uses VALUES (?, ?, ?)", [number, row, weight])
        except (sqlite3.IntegrityError, sqlite3.InterfaceError):
            kept_use = False  # its memory is lost, which is listed
        else:
            kept_use = True
        if weight > 0:
            (left if kept_use else served).add(number)
    named = {number for (number,) in database.connection.fetch("SELECT DISTINCT feedback FROM uses")}
    gone = sorted((served - left) | (kept - named))
    database.connection.run_many("DELETE FROM feedback WHERE number = ?", ([number] for number in gone))
    if gone:
        lost.append(f"{counted(len(gone), 'request')}: only lost memories served {'it' if len(gone) == 1 else 'them'}")


def _copy_requests(
    source: sqlite3.Connection, database: SQLiteDatabase, dim: int | None, last: int, lost: list[str]
) -> set[int]:
    """Copies requests without their uses; returns their numbers."""
    kept: set[int] = set()
    for number, id, text, metadata, vector, time, expected in _rows(source, REQUESTS, last, lost):
        try:
            words = None if text is None else str(text, "utf-8")
            request = [number, str(id, "utf-8"), words, str(metadata, "utf-8"), vector, time, expected]
            whole = checksum(request[1], words, request[3], vector) == expected and len(vector) == 4 * (dim or 0)
            if whole and (time is None or isinstance(time, float)):
                database.connection.fetch("INSERT INTO feedback VALUES (?, ?, ?, ?, ?, ?, ?)", request)
                kept.add(number)
        except (sqlite3.IntegrityError, TypeError, ValueError):
            pass  # counted as lost below
        if number not in kept:
            lost.append(f"request {_shown(id)}: it is not what was stored")
    return kept


def _shown(id: Any) -> str:
    """Returns an id for a message; damage may have made it anything."""
    return repr(str(id, "utf-8", "replace") if isinstance(id, bytes) else id)


def _has(source: sqlite3.Connection, table: str) -> bool:
    """Returns whether there is such a table: older formats have fewer."""
    return bool(source.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [table]).fetchall())


def _copy_setting(database: SQLiteDatabase, key: Any, value: Any, lost: list[str]) -> None:
    derived = SQLiteDatabase.ANN, SQLiteDatabase.OLD_ANN, SQLiteDatabase.GRAPH
    if key in [name.encode() for name in derived]:
        return  # derived from rows that may be lost
    try:
        database.settings.set(str(key, "utf-8"), json.loads(value))
    except (TypeError, ValueError, RecursionError):
        lost.append(f"the setting {_shown(key)}: fit, or the call that set it, sets it again")


def _copy_observations(source: sqlite3.Connection, database: SQLiteDatabase, lost: list[str]) -> None:
    for row, observed, expected in _rows(source, OBSERVATIONS, _last(source, "memories"), lost):
        try:
            whole = zlib.crc32(observed) == expected
            if whole:
                database.connection.fetch("INSERT INTO observations VALUES (?, ?, ?)", [row, observed, expected])
        except (sqlite3.IntegrityError, TypeError):
            whole = False
        if not whole:
            lost.append(f"the observation of row {row}: it is not what was stored, or its memory is lost")


def _copy_times(source: sqlite3.Connection, database: SQLiteDatabase, lost: list[str]) -> None:
    """Copies the times of memories."""
    if not _has(source, "times"):
        return
    for row, given, handed, zone in _rows(source, TIMES, _last(source, "memories"), lost):
        times = [time for time in (given, handed) if time is not None]
        whole = bool(times) and all(isinstance(time, float) for time in times) and isinstance(zone, int)
        try:
            if whole:
                database.connection.fetch("INSERT INTO times VALUES (?, ?, ?, ?)", [row, given, handed, zone])
        except sqlite3.IntegrityError:
            whole = False
        if not whole:
            lost.append(f"the time of row {row}: it is not what was stored, or its memory is lost")


def _copy_weights(source: sqlite3.Connection, database: SQLiteDatabase, lost: list[str]) -> None:
    for name, packed, expected in _rows(source, WEIGHTS, _last(source, "weights"), lost):
        try:
            module = str(name, "utf-8")
            if zlib.crc32(packed) == expected:
                database.settings.set_weights(module, packed)
            elif module not in ENCODERS and database.settings.get(module) is not None:
                database.settings.remove(module)  # it says nothing without them
                lost.append(f"the setting {module!r} and its weights: call fit() again")
        except (TypeError, ValueError):
            continue  # counted as lost below
    for name in ENCODERS:
        if database.settings.get(name) is not None and database.settings.weights(name) is None:
            database.settings.remove(name)
            lost.append(f"the weights of the {name}: the index is now without")


def _rows(source: sqlite3.Connection, sql: str, last: int, lost: list[str]) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of a query between two numbers. If a range cannot be read, reads its numbers one by one."""
    start, unreadable = 0, set[int]()
    while start <= last:
        try:
            found = source.execute(sql, [start, min(start + CHUNK - 1, last)]).fetchall()
        except sqlite3.DatabaseError:
            found = []
            for number in range(start, min(start + CHUNK, last + 1)):
                try:
                    found += source.execute(sql, [number, number]).fetchall()
                except sqlite3.DatabaseError:
                    unreadable.add(number)
        yield from found
        start += CHUNK
        if not found and start <= last:
            start, last = _next(source, sql, start, last)
    for first, end in ranges_of(unreadable):  # may be as many as ``GUESS``
        lost.append(f"{f'number {first}' if first == end else f'numbers {first} to {end}'} of {_table_of(sql)[0]}")


def _table_of(sql: str) -> tuple[str, str]:
    """Returns the table of a query, and the column of its numbers."""
    table, column = re.findall(r" (?:FROM|WHERE) (\w+)", sql)
    return table, column


def _next(source: sqlite3.Connection, sql: str, start: int, last: int) -> tuple[int, int]:
    """Returns the next number and the end of the search: numbers may be far apart, also because of damage."""
    table, column = _table_of(sql)
    try:
        (found,) = source.execute(
            f"SELECT min({column}) FROM {table} WHERE {column} >= ?",  # noqa: S608 - constant names
            [start],
        ).fetchone()
    except sqlite3.DatabaseError:
        return start, min(last, start + GUESS)
    return last + 1 if found is None else found, last


def _last(source: sqlite3.Connection, table: str) -> int:
    """Returns the largest number of a row of the table, or a larger one: that of a row which it had."""
    numbers, default = [], 0
    for query in (f"max(rowid) FROM {table}", f"seq FROM sqlite_sequence WHERE name = '{table}'"):  # constant names
        try:
            numbers += [int(number) for (number,) in source.execute(f"SELECT {query}") if number is not None]
        except (sqlite3.DatabaseError, ValueError, OverflowError):  # damage in one of the two leaves the other
            default = GUESS
    return min(max(numbers, default=default), 2**63 - 1)
