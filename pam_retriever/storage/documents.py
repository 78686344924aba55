"""Records, vectors and trajectories in one SQLite database, in memory or in a file.

SQLite is the single source of truth: what a committed transaction wrote is what the index is.
Everything in memory (the ANN indexes) is derived from it and can be rebuilt.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pam_retriever.errors import IndexFormatError, IndexLocked
from pam_retriever.filters import compile_filter, to_json
from pam_retriever.types import Evidence, Float32, Int64, Record, Times

SCHEMA = """
CREATE TABLE memories (
    row INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
    id TEXT NOT NULL UNIQUE,
    text TEXT,
    metadata TEXT NOT NULL
);
CREATE TABLE vectors (
    row INTEGER PRIMARY KEY REFERENCES memories ON DELETE CASCADE,
    vector BLOB NOT NULL,       -- float32, as it was added
    association BLOB            -- float32, f(vector) at unit length; NULL before fit
);
CREATE TABLE trajectories (
    trajectory INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE
);
CREATE TABLE steps (
    trajectory INTEGER NOT NULL REFERENCES trajectories ON DELETE CASCADE,
    position INTEGER NOT NULL,
    row INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE,
    timestamp REAL,
    salience REAL,
    PRIMARY KEY (trajectory, position)
) WITHOUT ROWID;
CREATE INDEX steps_of_memory ON steps (row);
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Step:
    """One experienced state of a trajectory, as it is stored."""

    row: int
    timestamp: float | None
    salience: float | None


class Documents:
    """The database of one index.

    Args:
        path: the file, or None to keep it in memory. A file is created if it is not there, and
            is held exclusively until ``close``.

    Raises:
        IndexLocked: another process holds the file.
        IndexFormatError: the file is not such a database.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._connection = sqlite3.connect(
            str(path) if path else ":memory:", isolation_level=None, check_same_thread=False, timeout=0.5
        )
        try:
            self._prepare()
        except sqlite3.OperationalError as error:
            self._connection.close()
            if "locked" not in str(error):
                raise
            raise IndexLocked(
                f"The index at {path} is open in another process.",
                "one process at a time",
                "Close it there, or load() a copy of a saved index instead of open()ing this one.",
            ) from error
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise IndexFormatError(
                f"{path} is not a readable database ({error}).", "an index's SQLite file", "Restore it."
            ) from error

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA foreign_keys = ON")
        run("PRAGMA locking_mode = EXCLUSIVE")
        if self._path:
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = FULL")  # a commit is on disk before the call returns
        with self.transaction():
            tables = run("SELECT count(*) FROM sqlite_master WHERE name = 'memories'").fetchone()[0]
            if not tables:
                for statement in SCHEMA.split(";\n"):
                    run(statement)

    def close(self) -> None:
        self._connection.close()

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
        """All that is written inside is committed together, or not at all."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    # ---- memories

    def __len__(self) -> int:
        count: int = self._connection.execute("SELECT count(*) FROM memories").fetchone()[0]
        return count

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of those ids that are stored."""
        found = self._connection.execute(
            "SELECT id, row FROM memories WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))]
        )
        return dict(found)

    def upsert(
        self,
        ids: Sequence[str],
        texts: Sequence[str | None],
        metadatas: Sequence[str],
        vectors: Float32,
        associations: Float32 | None,
    ) -> Int64:
        """Stores memories, replacing those whose id is there; returns their rows (n,)."""
        known = self.rows_of(ids)
        last = self._connection.execute(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'memories'"
        ).fetchone()[0]
        rows = np.empty(len(ids), np.int64)
        for place, id in enumerate(ids):
            row = known.get(id)
            if row is None:
                row = last = last + 1
            rows[place] = row
        listed = rows.tolist()
        self._connection.executemany(
            "INSERT INTO memories (row, id, text, metadata) VALUES (?, ?, ?, ?) ON CONFLICT (row) "
            "DO UPDATE SET text = excluded.text, metadata = excluded.metadata",
            zip(listed, ids, texts, metadatas, strict=True),
        )
        blobs = [None] * len(ids) if associations is None else _blobs(associations)
        self._connection.executemany(
            "INSERT OR REPLACE INTO vectors (row, vector, association) VALUES (?, ?, ?)",
            zip(listed, _blobs(vectors), blobs, strict=True),
        )
        return rows

    def delete(self, ids: Sequence[str]) -> Int64:
        """Removes memories and their steps; returns the rows that were there."""
        rows = np.array(sorted(self.rows_of(ids).values()), np.int64)
        self._connection.executemany("DELETE FROM memories WHERE row = ?", ((r,) for r in rows.tolist()))
        return rows

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        found = self._connection.execute(
            "SELECT id, vector, text, metadata FROM memories JOIN vectors USING (row) "
            "WHERE id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(ids))],
        )
        return {columns[0]: _record(*columns) for columns in found}

    def find(self, where: Mapping[str, Any], limit: int | None) -> list[Record]:
        """Records whose metadata satisfy a filter, in the order of adding."""
        condition, parameters = compile_filter(where)
        found = self._connection.execute(
            "SELECT id, vector, text, metadata FROM memories JOIN vectors USING (row) "
            f"WHERE {condition} ORDER BY row LIMIT ?",
            [*parameters, -1 if limit is None else limit],
        )
        return [_record(*columns) for columns in found]

    def contents(self, rows: Int64) -> dict[int, tuple[str, str | None, str]]:
        """row -> (id, text, metadata as JSON), for the rows that are stored."""
        found = self._connection.execute(
            "SELECT row, id, text, metadata FROM memories WHERE row IN (SELECT value FROM json_each(?))",
            [json.dumps(np.unique(rows).tolist())],
        )
        return {row: (id, text, metadata) for row, id, text, metadata in found}

    def rows_where(self, where: Mapping[str, Any]) -> Int64:
        """The rows whose metadata satisfy a filter, sorted."""
        condition, parameters = compile_filter(where)
        found = self._connection.execute(
            f"SELECT row FROM memories WHERE {condition} ORDER BY row",
            parameters,
        )
        return np.array([row for (row,) in found], np.int64)

    def all_vectors(self, dim: int) -> tuple[Int64, Float32, Float32 | None]:
        """Every row, its vector, and its association vector if the index was fitted."""
        found = self._connection.execute("SELECT row, vector, association FROM vectors ORDER BY row").fetchall()
        rows = np.array([row for row, _, _ in found], np.int64)
        vectors = _from_blobs([vector for _, vector, _ in found], dim)
        if not found or found[0][2] is None:
            return rows, vectors, None
        return rows, vectors, _from_blobs([association for _, _, association in found], dim)

    def set_associations(self, rows: Int64, associations: Float32) -> None:
        self._connection.executemany(
            "UPDATE vectors SET association = ? WHERE row = ?",
            zip(_blobs(associations), rows.tolist(), strict=True),
        )

    # ---- trajectories

    def put_trajectory(self, id: str, steps: Sequence[Step | None]) -> None:
        """Stores a trajectory, replacing the one with that id; None leaves a position empty."""
        run = self._connection.execute
        run("DELETE FROM trajectories WHERE id = ?", [id])
        number = run("INSERT INTO trajectories (id) VALUES (?)", [id]).lastrowid
        self._connection.executemany(
            "INSERT INTO steps (trajectory, position, row, timestamp, salience) VALUES (?, ?, ?, ?, ?)",
            [(number, at, step.row, step.timestamp, step.salience) for at, step in enumerate(steps) if step],
        )

    def count_trajectories(self) -> int:
        count: int = self._connection.execute("SELECT count(*) FROM trajectories").fetchone()[0]
        return count

    def experienced(self, without: Sequence[str] = ()) -> tuple[Int64, Int64, Int64, Float32]:
        """All steps in order, but those of the named trajectories.

        Returns:
            Rows, trajectories, positions and salience (1 where none was given), (S,) each.
        """
        found = self._connection.execute(
            "SELECT row, trajectory, position, coalesce(salience, 1) FROM steps "
            "WHERE trajectory NOT IN (SELECT trajectory FROM trajectories "
            "WHERE id IN (SELECT value FROM json_each(?))) ORDER BY trajectory, position",
            [to_json(list(without))],
        ).fetchall()
        rows, trajectories, positions, salience = zip(*found, strict=True) if found else ((), (), (), ())
        return (
            np.array(rows, np.int64),
            np.array(trajectories, np.int64),
            np.array(positions, np.int64),
            np.array(salience, np.float32),
        )

    def groups(self, group_by: str, order_by: str | None) -> list[tuple[int, str, Any, str, Any]]:
        """(row, id, group, kind of order, order) of each memory that has ``group_by``, in order."""
        found = self._connection.execute(
            "SELECT row, memories.id, g.value, o.type, o.value FROM memories "
            "JOIN json_each(metadata) AS g ON g.key = ? "
            "LEFT JOIN json_each(metadata) AS o ON o.key = ? "
            "ORDER BY g.type, g.value, o.type, o.value, row",  # without order_by, o is NULL throughout
            [group_by, order_by],
        )
        return found.fetchall()

    def associates(self, rows: Int64, window: int) -> Int64:
        """The rows experienced at most ``window`` positions from any of ``rows``, sorted."""
        found = self._connection.execute(
            "SELECT DISTINCT b.row FROM steps AS a JOIN steps AS b ON b.trajectory = a.trajectory "
            "AND b.position BETWEEN a.position - ? AND a.position + ? AND b.row != a.row "
            "WHERE a.row IN (SELECT value FROM json_each(?)) ORDER BY b.row",
            [window, window, json.dumps(rows.tolist())],
        )
        return np.array([row for (row,) in found], np.int64)

    def meetings(self, cues: Int64, window: int) -> dict[int, list[Evidence]]:
        """hit row -> the occasions on which it met one of ``cues``, nearest first."""
        found = self._connection.execute(
            "SELECT b.row, t.id, m.id, a.position, b.position FROM steps AS a "
            "JOIN steps AS b ON b.trajectory = a.trajectory "
            "AND b.position BETWEEN a.position - ? AND a.position + ? AND b.row != a.row "
            "JOIN trajectories AS t ON t.trajectory = a.trajectory JOIN memories AS m ON m.row = a.row "
            "WHERE a.row IN (SELECT value FROM json_each(?)) "
            "ORDER BY abs(b.position - a.position), t.trajectory, a.position",
            [window, window, json.dumps(cues.tolist())],
        )
        meetings: dict[int, list[Evidence]] = {}
        for row, trajectory, cue, cue_at, hit_at in found:
            meetings.setdefault(row, []).append(Evidence(trajectory, cue, cue_at, hit_at, hit_at - cue_at))
        return meetings

    # ---- times, familiarity, forgetting

    def forget(self, rows: Int64) -> None:
        """Removes memories by row, their steps, and trajectories of which less than two steps are left."""
        self._connection.executemany("DELETE FROM memories WHERE row = ?", ((row,) for row in rows.tolist()))
        self._connection.execute(
            "DELETE FROM trajectories WHERE trajectory NOT IN "
            "(SELECT trajectory FROM steps GROUP BY trajectory HAVING count(*) > 1)"
        )

    def shrink(self) -> None:
        """Gives the space of what was removed back to the file system."""
        self._connection.execute("VACUUM")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def experienced_when(self) -> Times:
        """(S,) the timestamp of every step, NaN for none, in the order of ``experienced``."""
        found = self._connection.execute("SELECT timestamp FROM steps ORDER BY trajectory, position")
        return np.array([time for (time,) in found], np.float64)  # None becomes NaN

    def newest_time(self) -> float | None:
        """The latest timestamp of any step, or None."""
        newest: float | None = self._connection.execute("SELECT max(timestamp) FROM steps").fetchone()[0]
        return newest

    def last_times(self, rows: Int64) -> Times:
        """(n,) when each of ``rows`` was experienced last, NaN for none."""
        found = self._connection.execute(
            "SELECT (SELECT max(timestamp) FROM steps WHERE row = value) FROM json_each(?) ORDER BY key",
            [json.dumps(rows.tolist())],
        )
        return np.array([time for (time,) in found], np.float64)

    def rows(self) -> Int64:
        """All rows, sorted."""
        found = self._connection.execute("SELECT row FROM memories ORDER BY row")
        return np.array([row for (row,) in found], np.int64)

    def experienced_often(self, rows: Int64) -> tuple[Int64, int]:
        """How often each of ``rows`` (n,) was experienced, and how many steps there are in all."""
        total: int = self._connection.execute("SELECT count(*) FROM steps").fetchone()[0]
        found = self._connection.execute(
            "SELECT value, (SELECT count(*) FROM steps WHERE row = value) FROM json_each(?) ORDER BY key",
            [json.dumps(rows.tolist())],
        )
        return np.array([count for _, count in found], np.int64), total

    # ---- settings and copies

    def setting(self, key: str) -> Any:
        found = self._connection.execute("SELECT value FROM settings WHERE key = ?", [key]).fetchone()
        return json.loads(found[0]) if found else None

    def set_setting(self, key: str, value: Any) -> None:
        self._connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", [key, to_json(value)])

    def copy_to(self, path: Path) -> None:
        """Writes a compact copy of the database to a file that is not there yet."""
        self._connection.execute("VACUUM INTO ?", [str(path)])

    @classmethod
    def read_copy(cls, path: Path) -> Documents:
        """A database in memory with the contents of a file, which is left as it is."""
        documents = cls()
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            source.backup(documents._connection)
        except sqlite3.DatabaseError as error:
            raise IndexFormatError(
                f"{path} is not a readable database ({error}).", "an index's SQLite file", "Restore it."
            ) from error
        finally:
            source.close()
        return documents


def _record(id: str, vector: bytes, text: str | None, metadata: str) -> Record:
    return Record(id, np.frombuffer(vector, "<f4").copy(), text, json.loads(metadata))


def _blobs(vectors: Float32) -> list[bytes]:
    """The rows as little-endian bytes; slicing one buffer is faster than a call a row."""
    buffer = np.ascontiguousarray(vectors, "<f4").tobytes()
    size = 4 * vectors.shape[1]
    return [buffer[at : at + size] for at in range(0, len(buffer), size)]


def _from_blobs(blobs: list[bytes], dim: int) -> Float32:
    array: npt.NDArray[np.float32] = np.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), dim)
    return array.astype(np.float32, copy=False)
