"""Records, vectors and trajectories in one SQLite database, in memory or in a file.

SQLite is the single source of truth: what a committed transaction wrote is what the index is.
Everything in memory (the ANN indexes) is derived from it and can be rebuilt.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pam_retriever.errors import IndexFormatError
from pam_retriever.filters import compile_filter, to_json
from pam_retriever.storage import words
from pam_retriever.storage.database import Database, Mode
from pam_retriever.types import Evidence, Float32, Int64, Record, Times

SCHEMA = """
CREATE TABLE memories (
    row INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused
    id TEXT NOT NULL UNIQUE,
    text TEXT,
    metadata TEXT NOT NULL,
    checksum INTEGER NOT NULL   -- CRC-32 of id, text, metadata and vector
);
CREATE TABLE vectors (
    row INTEGER PRIMARY KEY REFERENCES memories ON DELETE CASCADE,
    vector BLOB NOT NULL,       -- float32, as it was added
    association BLOB            -- float32, f(vector) and its episode code; NULL before fit
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
CREATE TABLE observations (  -- what an encoder made the vector of
    row INTEGER PRIMARY KEY REFERENCES memories ON DELETE CASCADE,
    observed BLOB NOT NULL,
    checksum INTEGER NOT NULL   -- CRC-32
);
CREATE TABLE weights (  -- of the encoder and the outward predictor
    name TEXT PRIMARY KEY,
    safetensors BLOB NOT NULL,
    checksum INTEGER NOT NULL   -- CRC-32
);
"""

WRONG = {
    "memories": "typeof(id) != 'text' OR typeof(text) NOT IN ('text', 'null') OR typeof(metadata) != 'text' "
    "OR typeof(checksum) != 'integer' OR row NOT IN (SELECT row FROM vectors)",
    "vectors": "typeof(vector) != 'blob' OR typeof(association) NOT IN ('blob', 'null') "
    "OR row < 1 OR row NOT IN (SELECT row FROM memories)",
    "trajectories": "typeof(id) != 'text'",
    "steps": "typeof(trajectory) != 'integer' OR typeof(position) != 'integer' OR typeof(row) != 'integer' "
    "OR typeof(timestamp) NOT IN ('real', 'null') OR typeof(salience) NOT IN ('real', 'null')",
    "settings": "typeof(key) != 'text' OR typeof(value) != 'text'",
    "observations": "typeof(observed) != 'blob' OR typeof(checksum) != 'integer' "
    "OR row NOT IN (SELECT row FROM memories)",
    "weights": "typeof(name) != 'text' OR typeof(safetensors) != 'blob' OR typeof(checksum) != 'integer'",
}


@dataclass(frozen=True)
class Step:
    """One experienced state of a trajectory, as it is stored."""

    row: int
    timestamp: float | None
    salience: float | None


class Documents(Database):
    """The records, vectors and trajectories of one index.

    Args:
        path: the file, or None to keep them in memory.
        mode: as for ``Database``.

    Raises:
        IndexFormatError: the file is damaged, or not such a database.
        StorageError: the disk or its permissions are in the way.
    """

    def __init__(self, path: Path | None = None, mode: Mode = "create") -> None:
        # counted up by every write, also one that is rolled back: what was read before may be stale
        self.words_version = 0
        super().__init__(path, (*SCHEMA.split(";\n"), *words.SCHEMA), mode)
        with self.closed_on_error():
            self.fetch(words.VOCABULARY)
            if mode != "create":
                self.check_types()

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Closes the database if what is inside fails."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    # ---- memories

    def __len__(self) -> int:
        count: int = self.fetch("SELECT count(*) FROM memories")[0][0]
        return count

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of those ids that are stored."""
        found = self.fetch(
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
        observed: Sequence[bytes] | None = None,
    ) -> Int64:
        """Stores memories, replacing those whose id is there; returns their rows (n,)."""
        self.words_version += 1
        known = self.rows_of(ids)
        last = self.fetch("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'memories'")[0][0]
        rows = np.empty(len(ids), np.int64)
        for place, id in enumerate(ids):
            row = known.get(id)
            if row is None:
                row = last = last + 1
            rows[place] = row
        listed, stored = rows.tolist(), _blobs(vectors)
        self.run_many(
            "INSERT INTO memories (row, id, text, metadata, checksum) VALUES (?, ?, ?, ?, ?) ON CONFLICT (row) "
            "DO UPDATE SET text = excluded.text, metadata = excluded.metadata, checksum = excluded.checksum",
            zip(listed, ids, texts, metadatas, map(checksum, ids, texts, metadatas, stored), strict=True),
        )
        blobs = [None] * len(ids) if associations is None else _blobs(associations)
        self.run_many(
            "INSERT OR REPLACE INTO vectors (row, vector, association) VALUES (?, ?, ?)",
            zip(listed, stored, blobs, strict=True),
        )
        self.run_many("DELETE FROM observations WHERE row = ?", ((row,) for row in known.values()))
        if observed is not None:
            self.run_many(
                "INSERT INTO observations VALUES (?, ?, ?)",
                zip(listed, observed, map(zlib.crc32, observed), strict=True),
            )
        return rows

    def delete(self, ids: Sequence[str]) -> Int64:
        """Removes memories and their steps; returns the rows that were there."""
        self.words_version += 1
        rows = np.array(sorted(self.rows_of(ids).values()), np.int64)
        self.run_many("DELETE FROM memories WHERE row = ?", ((r,) for r in rows.tolist()))
        return rows

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        found = self.fetch(
            "SELECT id, vector, text, metadata FROM memories JOIN vectors USING (row) "
            "WHERE id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(ids))],
        )
        return {columns[0]: _record(*columns) for columns in found}

    def find(self, where: Mapping[str, Any], limit: int | None) -> list[Record]:
        """Records whose metadata satisfy a filter, in the order of adding."""
        condition, parameters = compile_filter(where)
        found = self.fetch(
            "SELECT id, vector, text, metadata FROM memories JOIN vectors USING (row) "
            f"WHERE {condition} ORDER BY row LIMIT ?",
            [*parameters, -1 if limit is None else limit],
        )
        return [_record(*columns) for columns in found]

    def contents(self, rows: Int64) -> dict[int, tuple[str, str | None, str]]:
        """row -> (id, text, metadata as JSON), for the rows that are stored."""
        found = self.fetch(
            "SELECT row, id, text, metadata FROM memories WHERE row IN (SELECT value FROM json_each(?))",
            [json.dumps(np.unique(rows).tolist())],
        )
        return {row: (id, text, metadata) for row, id, text, metadata in found}

    def rows_where(self, where: Mapping[str, Any]) -> Int64:
        """The rows whose metadata satisfy a filter, sorted."""
        condition, parameters = compile_filter(where)
        found = self.fetch(
            f"SELECT row FROM memories WHERE {condition} ORDER BY row",
            parameters,
        )
        return np.array([row for (row,) in found], np.int64)

    def all_vectors(self, dim: int) -> tuple[Int64, Float32, Float32 | None]:
        """Every row, its vector, and its association vector if the index was fitted."""
        found = self.fetch("SELECT row, vector, association FROM vectors ORDER BY row")
        rows = np.array([row for row, _, _ in found], np.int64)
        vectors = _from_blobs([vector for _, vector, _ in found], dim)
        if all(association is None for _, _, association in found):
            return rows, vectors, None
        return rows, vectors, _from_blobs([association for _, _, association in found], len(found[0][2] or b"") // 4)

    def vectors_of(self, rows: Int64, dim: int) -> tuple[Int64, Float32]:
        """Those of ``rows`` that are stored, sorted, and their vectors."""
        found = self.fetch(
            "SELECT row, vector FROM vectors WHERE row IN (SELECT value FROM json_each(?)) ORDER BY row",
            [json.dumps(rows.tolist())],
        )
        return np.array([row for row, _ in found], np.int64), _from_blobs([vector for _, vector in found], dim)

    def set_associations(self, rows: Int64, associations: Float32) -> None:
        self.run_many(
            "UPDATE vectors SET association = ? WHERE row = ?",
            zip(_blobs(associations), rows.tolist(), strict=True),
        )

    def set_vectors(self, rows: Int64, vectors: Float32) -> None:
        """Replaces the vectors (n, d) of stored memories."""
        listed, stored, contents = rows.tolist(), _blobs(vectors), self.contents(rows)
        self.run_many("UPDATE vectors SET vector = ? WHERE row = ?", zip(stored, listed, strict=True))
        self.run_many(
            "UPDATE memories SET checksum = ? WHERE row = ?",
            ((checksum(*contents[row], vector), row) for row, vector in zip(listed, stored, strict=True)),
        )

    def observations(self, rows: Int64) -> dict[int, bytes]:
        """row -> what its vector was encoded from, for the rows that have it."""
        found = self.fetch(
            "SELECT row, observed FROM observations WHERE row IN (SELECT value FROM json_each(?))",
            [json.dumps(rows.tolist())],
        )
        return dict(found)

    def rows_without_observations(self) -> list[tuple[int, str]]:
        """(row, id) of the memories that were added as vectors."""
        return self.fetch("SELECT row, id FROM memories WHERE row NOT IN (SELECT row FROM observations) ORDER BY row")

    # ---- trajectories

    def put_trajectory(self, id: str, steps: Sequence[Step | None]) -> tuple[int, int | None]:
        """Stores a trajectory, replacing the one with that id; None leaves a position empty.

        Returns:
            Its number, and the number of the one that it replaces.
        """
        replaced = self.fetch("SELECT trajectory FROM trajectories WHERE id = ?", [id])
        self.fetch("DELETE FROM trajectories WHERE id = ?", [id])
        number = self.insert("INSERT INTO trajectories (id) VALUES (?)", [id])
        self.run_many(
            "INSERT INTO steps (trajectory, position, row, timestamp, salience) VALUES (?, ?, ?, ?, ?)",
            [(number, at, step.row, step.timestamp, step.salience) for at, step in enumerate(steps) if step],
        )
        return number, replaced[0][0] if replaced else None

    def last_trajectory(self) -> int:
        """The highest number that a trajectory ever had; 0 before the first."""
        found = self.fetch("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'trajectories'")
        return int(found[0][0])

    def count_trajectories(self) -> int:
        count: int = self.fetch("SELECT count(*) FROM trajectories")[0][0]
        return count

    def experienced(self, without: Sequence[str] = ()) -> tuple[Int64, Int64, Int64, Float32]:
        """All steps in order, but those of the named trajectories.

        Returns:
            Rows, trajectories, positions and salience (1 where none was given), (S,) each.
        """
        found = self.fetch(
            "SELECT row, trajectory, position, coalesce(salience, 1) FROM steps "
            "WHERE trajectory NOT IN (SELECT trajectory FROM trajectories "
            "WHERE id IN (SELECT value FROM json_each(?))) ORDER BY trajectory, position",
            [to_json(list(without))],
        )
        rows, trajectories, positions, salience = zip(*found, strict=True) if found else ((), (), (), ())
        return (
            np.array(rows, np.int64),
            np.array(trajectories, np.int64),
            np.array(positions, np.int64),
            np.array(salience, np.float32),
        )

    def groups(self, group_by: str, order_by: str | None) -> list[tuple[int, str, Any, str, Any]]:
        """(row, id, group, kind of order, order) of each memory that has ``group_by``, in order."""
        return self.fetch(
            "SELECT row, memories.id, g.value, o.type, o.value FROM memories "
            "JOIN json_each(metadata) AS g ON g.key = ? "
            "LEFT JOIN json_each(metadata) AS o ON o.key = ? "
            "ORDER BY g.type, g.value, o.type, o.value, row",  # without order_by, o is NULL throughout
            [group_by, order_by],
        )

    def meetings(self, cues: Int64, window: int) -> dict[int, list[Evidence]]:
        """hit row -> the occasions on which it met one of ``cues``, nearest first."""
        found = self.fetch(
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

    # ---- words

    @property
    def last_row(self) -> int:
        """The largest row that is stored, 0 if there is none."""
        last: int = self.fetch("SELECT coalesce(max(row), 0) FROM memories")[0][0]
        return last

    def places(self, term: str, column: str, most: int) -> tuple[Int64, Int64]:
        """The rows whose "text" or "labels" hold a term, and how often; see ``words``."""
        return words.places(self.fetch, term, column, most)

    def lengths(self) -> tuple[Int64, Int64]:
        """The rows that have a text, and its length in characters."""
        return words.lengths(self.fetch)

    # ---- times, familiarity, forgetting

    def forget(self, rows: Int64) -> None:
        """Removes memories by row, their steps, and trajectories of which less than two steps are left."""
        self.words_version += 1
        self.run_many("DELETE FROM memories WHERE row = ?", ((row,) for row in rows.tolist()))
        self.fetch(
            "DELETE FROM trajectories WHERE trajectory NOT IN "
            "(SELECT trajectory FROM steps GROUP BY trajectory HAVING count(*) > 1)"
        )

    def shrink(self) -> None:
        """Gives the space of what was removed back to the file system."""
        self.fetch("VACUUM")
        self.fetch("PRAGMA wal_checkpoint(TRUNCATE)")

    def experienced_when(self) -> Times:
        """(S,) the timestamp of every step, NaN for none, in the order of ``experienced``."""
        found = self.fetch("SELECT timestamp FROM steps ORDER BY trajectory, position")
        return np.array([time for (time,) in found], np.float64)  # None becomes NaN

    def newest_time(self) -> float | None:
        """The latest timestamp of any step, or None."""
        newest: float | None = self.fetch("SELECT max(timestamp) FROM steps")[0][0]
        return newest

    def last_times(self, rows: Int64) -> Times:
        """(n,) when each of ``rows`` was experienced last, NaN for none."""
        found = self.fetch(
            "SELECT (SELECT max(timestamp) FROM steps WHERE row = value) FROM json_each(?) ORDER BY key",
            [json.dumps(rows.tolist())],
        )
        return np.array([time for (time,) in found], np.float64)

    def rows(self) -> Int64:
        """All rows, sorted."""
        found = self.fetch("SELECT row FROM memories ORDER BY row")
        return np.array([row for (row,) in found], np.int64)

    def experienced_often(self, rows: Int64) -> tuple[Int64, int]:
        """How often each of ``rows`` (n,) was experienced, and how many steps there are in all."""
        total: int = self.fetch("SELECT count(*) FROM steps")[0][0]
        found = self.fetch(
            "SELECT value, (SELECT count(*) FROM steps WHERE row = value) FROM json_each(?) ORDER BY key",
            [json.dumps(rows.tolist())],
        )
        return np.array([count for _, count in found], np.int64), total

    # ---- settings and copies

    def setting(self, key: str) -> Any:
        found = self.fetch("SELECT value FROM settings WHERE key = ?", [key])
        return from_json(found[0][0], f"The setting {key!r}") if found else None

    def set_setting(self, key: str, value: Any) -> None:
        self.fetch("INSERT OR REPLACE INTO settings VALUES (?, ?)", [key, to_json(value)])

    def weights(self, name: str) -> bytes | None:
        """The weights of the encoder or the outward predictor.

        Raises:
            IndexFormatError: they are not what was stored.
        """
        found = self.fetch("SELECT safetensors, checksum FROM weights WHERE name = ?", [name])
        if found and zlib.crc32(found[0][0]) != found[0][1]:
            raise IndexFormatError(
                f"The weights of the {name} are not what was stored: their checksum differs.",
                "what was stored",
                "Restore the folder from a copy, or run pam-retriever repair on it.",
            )
        return found[0][0] if found else None

    def set_weights(self, name: str, safetensors: bytes) -> None:
        values = [name, safetensors, zlib.crc32(safetensors)]
        self.fetch("INSERT OR REPLACE INTO weights VALUES (?, ?, ?)", values)

    @classmethod
    def read_copy(cls, path: Path, settled: bool) -> Documents:
        """A database in memory with the contents of a file, which is left as it is; see ``copy_from``."""
        documents = cls()
        with documents.closed_on_error():
            documents.copy_from(path, settled)
            documents.check_types()
        return documents

    # ---- damage

    def check_types(self) -> None:
        """Refuses what SQLite would store but this library never writes: a cheap scan, without the contents.

        Raises:
            IndexFormatError: a column holds values of another type.
        """
        for table, wrong in WRONG.items():
            if self.fetch(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1"):
                raise IndexFormatError(
                    f"The table {table} holds a wrong type or a row without its other half.",
                    "what add() stored",
                    "Restore it from a copy.",
                )

    def damaged(self) -> Iterator[tuple[int, str]]:
        """The memories that do not hold what was stored: the row of each, and what is wrong with it."""
        last = 0
        while found := self.fetch(
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

    def check_records(self) -> None:
        """Compares every memory with its checksum.

        Raises:
            IndexFormatError: naming the first that differs.
        """
        for _, wrong in self.damaged():
            raise IndexFormatError(
                f"{self._path or 'The database'}: {wrong}.",
                "what add() stored",
                "Restore the folder from a copy, or run pam-retriever repair on it.",
            )


def checksum(id: str, text: str | None, metadata: str, vector: bytes) -> int:
    """CRC-32 of a memory; the lengths of its parts are in it, so that none can borrow from the next."""
    contents = to_json([id, text, metadata])
    return zlib.crc32(vector, zlib.crc32(contents.encode()))


def _record(id: str, vector: bytes, text: str | None, metadata: str) -> Record:
    found = from_json(metadata, f"The metadata of {id!r}")
    return Record(id, np.frombuffer(vector, "<f4").copy(), text, found)


def from_json(text: str, what: str) -> Any:
    """What is stored as JSON.

    Raises:
        IndexFormatError: it is damaged.
    """
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise IndexFormatError(
            f"{what} is damaged ({error}).", "JSON", "Run pam-retriever check on the folder."
        ) from error


def _blobs(vectors: Float32) -> list[bytes]:
    """The rows as little-endian bytes; slicing one buffer is faster than a call a row."""
    buffer = np.ascontiguousarray(vectors, "<f4").tobytes()
    size = 4 * vectors.shape[1]
    return [buffer[at : at + size] for at in range(0, len(buffer), size)]


def _from_blobs(blobs: list[bytes], dim: int) -> Float32:
    if not all(isinstance(blob, bytes) and len(blob) == 4 * dim for blob in blobs):
        raise IndexFormatError(
            "The database holds a vector of another length than the index.",
            f"{dim} float32 numbers in each",
            "Run pam-retriever check on the folder.",
        )
    array: Float32 = np.frombuffer(b"".join(blobs), "<f4").reshape(len(blobs), dim).astype(np.float32, copy=False)
    if not np.isfinite(array).all() or not array.any(axis=1).all():
        raise IndexFormatError(
            "The database holds a vector that is all zeros, NaN or infinite.",
            "vectors with a direction",
            "Run pam-retriever check on the folder.",
        )
    return array
