"""The table of memories: id, text, metadata, vector, association vector, and observation."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.errors import IndexFormatError, counted
from pam_retriever.mentions.sql import page_cache
from pam_retriever.store.columns import checksum, from_blobs, from_json, number_rows, to_blobs
from pam_retriever.store.learnt import REPLACED
from pam_retriever.store.sqlite import words
from pam_retriever.store.sqlite.connection import Connection
from pam_retriever.store.sqlite.feedback import remove_requests_of
from pam_retriever.store.sqlite.metadata_index import SEGMENT, MetadataIndex
from pam_retriever.store.sqlite.settings import SQLiteSettings
from pam_retriever.store.sqlite.times import SQLiteTimes
from pam_retriever.store.sqlite.write_log import WriteLog
from pam_retriever.store.storing import NewMemories
from pam_retriever.types import Float32, Int64, Record
from pam_retriever.validation import selects_all

ROWS_AT_ONCE = 1_000_000  # read as one string
VECTORS_AT_ONCE = 256  # in a statement: SQLite copies them first, into memory that then stays in the processor's cache
BULK, CACHE = 1_000, 16 << 10  # memories in a call from which SQLite keeps more pages in memory, and KiB of these
FEW = 32  # parameters, half of the time of a list in JSON on a new connection
MAX_CHANGED = 1_000  # memories whose words are read again one by one


class SQLiteMemories:
    """The memories of one index; see ``store.database.Memories``.

    Args:
        connection: connection to the database.
        settings: the settings of the same database.

    """

    def __init__(self, connection: Connection, settings: SQLiteSettings) -> None:
        self._connection, self._settings, self._times = connection, settings, SQLiteTimes(connection, settings)
        self._log = WriteLog()
        self._metadata: MetadataIndex | None = None  # created by the first filter
        self._changed: set[int] = set()  # rows written, or about to be, since the metadata index was made

    @property
    def words_version(self) -> int:
        return self._log.version

    def __len__(self) -> int:
        count: int = self._connection.fetch("SELECT count(*) FROM memories")[0][0]
        return count

    def rows(self) -> Int64:
        blocks, last = [np.empty(0, np.int64)], -1
        # one string for many rows: Python numbers take four times as long
        while found := self._connection.fetch(
            "SELECT group_concat(row) FROM (SELECT row FROM memories WHERE row > ? ORDER BY row LIMIT ?)",
            [last, ROWS_AT_ONCE],
        )[0][0]:
            blocks.append(np.sort(np.fromstring(found, np.int64, sep=",")))
            last = int(blocks[-1][-1])
            if len(blocks[-1]) < ROWS_AT_ONCE:
                break
        return np.concatenate(blocks)

    def stored_among(self, rows: Int64) -> Int64:
        """Returns those of different, sorted ``rows`` that are stored, sorted."""
        inside, values = _inside(rows)
        found = self._connection.fetch(f"SELECT row FROM memories WHERE row {inside} ORDER BY row", values)
        return np.array([row for (row,) in found], np.int64)

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        found = self._connection.fetch(
            "SELECT id, row FROM memories WHERE id IN (SELECT value FROM json_each(?))", [_listed(ids)]
        )
        return dict(found)

    def upsert(self, new: NewMemories, associations: Float32 | None) -> Int64:
        self._log.begin()
        known = self.rows_of(new.ids)
        last = self._connection.fetch("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'memories'")[0][0]
        rows, _ = number_rows(new.ids, known, last)
        if known:
            self._settings.set(words.REMOVED, True)
        self._log.end(rows)
        contents = new.ids, new.texts, new.metadatas
        listed, stored = rows.tolist(), to_blobs(new.vectors)
        if known:
            self._count_replaced(dict(zip(new.ids, stored, strict=True)))
        self._note_changed(listed)
        self._connection.changes.rows.update(listed)
        vectors: dict[str, Sequence[Any]] = {"row": listed, "vector": stored}
        if associations is not None:
            vectors["association"] = to_blobs(associations)
        with page_cache(self._connection, CACHE) if len(rows) >= BULK else nullcontext():
            self._connection.insert_many(
                "INSERT INTO memories (row, id, text, metadata, checksum)",
                [listed, *contents, [*map(checksum, *contents, stored)]],
                "ON CONFLICT (row) "
                "DO UPDATE SET text = excluded.text, metadata = excluded.metadata, checksum = excluded.checksum",
            )
            self._connection.insert_many(
                f"INSERT OR REPLACE INTO vectors ({', '.join(vectors)})", [*vectors.values()], most=VECTORS_AT_ONCE
            )
        self._connection.run_many("DELETE FROM observations WHERE row = ?", ((row,) for row in known.values()))
        if new.observed is not None:
            self._connection.run_many(
                "INSERT INTO observations VALUES (?, ?, ?)",
                zip(listed, new.observed, map(zlib.crc32, new.observed), strict=True),
            )
        return rows

    def _count_replaced(self, vectors: Mapping[str, bytearray]) -> None:
        """Counts a write that is about to replace the vectors of experienced memories, given by id, with others."""
        found = self._connection.fetch(
            "SELECT id, vector FROM memories JOIN vectors USING (row) WHERE id IN (SELECT value FROM json_each(?)) "
            "AND EXISTS (SELECT 1 FROM steps WHERE steps.row = memories.row)",
            [_listed(list(vectors))],
        )
        if any(vector != vectors[id] for id, vector in found):
            before = self._settings.get(REPLACED)
            self._settings.set(REPLACED, 1 + (before if isinstance(before, int) else 0))

    def remove(self, rows: Int64) -> None:
        """Removes memories by row, their steps, and trajectories that have no step left."""
        self._log.begin()
        self._log.end(rows)
        self._note_changed(rows.tolist())
        self._connection.changes.rows.update(rows.tolist())
        if len(rows):
            self._settings.set(words.REMOVED, True)
        listed = json.dumps(rows.tolist())
        experienced = self._connection.fetch(
            "SELECT DISTINCT trajectory FROM steps WHERE row IN (SELECT value FROM json_each(?))", [listed]
        )
        remove_requests_of(self._connection, rows)
        self._connection.fetch("DELETE FROM memories WHERE row IN (SELECT value FROM json_each(?))", [listed])
        self._connection.run_many(
            "DELETE FROM trajectories WHERE trajectory = ?1 AND NOT EXISTS (SELECT 1 FROM steps WHERE trajectory = ?1)",
            experienced,
        )

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        found = self._connection.fetch(
            "SELECT row, id, vector, text, metadata FROM memories JOIN vectors USING (row) "
            "WHERE id IN (SELECT value FROM json_each(?))",
            [_listed(ids)],
        )
        return {record.id: record for record in self._records(found)}

    def find(self, where: Mapping[str, object], limit: int | None, offset: int = 0) -> list[Record]:
        rows = None if selects_all(where) else json.dumps(np.asarray(self.rows_where(where)).tolist())
        found = self._connection.fetch(
            "SELECT row, id, vector, text, metadata FROM memories JOIN vectors USING (row) "
            f"WHERE {'1' if rows is None else 'row IN (SELECT value FROM json_each(?))'} "
            "ORDER BY row LIMIT ? OFFSET ?",
            [*([] if rows is None else [rows]), -1 if limit is None else limit, offset],
        )
        return self._records(found)

    def _records(self, found: list[Any]) -> list[Record]:
        """Returns columns as records, with their times."""
        times = self._times.moments(np.array([row for row, *_ in found], np.int64))
        return [_record(id, vector, text, metadata, times.get(row)) for row, id, vector, text, metadata in found]

    def contents(self, rows: Int64) -> dict[int, tuple[str, str | None, str]]:
        parameters: list[object] = rows.tolist()
        chosen = ", ".join("?" * len(parameters))
        if len(parameters) > FEW:
            chosen, parameters = "SELECT value FROM json_each(?)", [str(parameters)]  # the same as JSON
        found = self._connection.fetch(
            f"SELECT row, id, text, metadata FROM memories WHERE row IN ({chosen})", parameters
        )
        return {row: (id, text, metadata) for row, id, text, metadata in found}

    def rows_where(self, where: Mapping[str, object]) -> Rows:
        return self.metadata().matching(where, self._times.rows_of)

    def metadata(self) -> MetadataIndex:
        """The index of the metadata of all stored memories.

        Raises:
            IndexFormatError: the metadata are damaged.
        """
        with self._connection.alone() as uncommitted:
            index, changed = self._metadata, np.array(sorted(self._changed), np.int64)
            if index is None:
                index = MetadataIndex.of(self._metadatas())
            elif len(changed):
                found = self._connection.fetch(
                    "SELECT row, metadata FROM memories WHERE row IN (SELECT value FROM json_each(?)) ORDER BY row",
                    [json.dumps(changed.tolist())],
                )
                rows = np.array([row for row, _ in found], np.int64)
                index = index.written(changed, rows, [metadata for _, metadata in found])
            if not uncommitted:  # a write that may still be rolled back is read again
                self._metadata = index
                self._changed.clear()
        return index

    def _metadatas(self) -> Iterator[tuple[Int64, list[str]]]:
        """Yields all rows, sorted, and their metadata, in parts."""
        last = -1
        while found := self._connection.fetch(
            "SELECT row, metadata FROM memories WHERE row > ? ORDER BY row LIMIT ?", [last, SEGMENT]
        ):
            yield np.array([row for row, _ in found], np.int64), [metadata for _, metadata in found]
            last = found[-1][0]

    def follow(self, rows: Int64 | None) -> None:
        """Drops copies of these rows, or of all rows, which another process wrote."""
        with self._connection.alone():
            self._log.begin()
            if rows is None:
                self._metadata = None
            else:
                self._log.end(rows)
                self._note_changed(rows.tolist())

    def written_since(self, version: int) -> Int64 | None:
        return self._log.since(version)

    def _note_changed(self, rows: list[int]) -> None:
        """Inside a transaction: marks rows whose metadata have to be read again, even after a rollback."""
        if self._metadata is not None:
            self._changed.update(rows)

    # ---- vectors

    def all_vectors(self, dim: int) -> tuple[Int64, Float32]:
        found = self._connection.fetch("SELECT row, vector FROM vectors ORDER BY row")
        return np.array([row for row, _ in found], np.int64), from_blobs([vector for _, vector in found], dim)

    @property
    def associated(self) -> bool:
        """Whether there are association vectors."""
        found = self._connection.fetch("SELECT EXISTS (SELECT 1 FROM vectors WHERE association IS NOT NULL)")
        return bool(found[0][0])

    def stored(self, rows: Int64, dim: int, width: int) -> tuple[Float32, Float32 | None]:
        """Returns the vectors (n, dim) and association vectors (n, width) of sorted ``rows``; None for a width of 0.

        Raises:
            IndexFormatError: a vector is missing.
        """
        inside, values = _inside(rows)
        found = self._connection.fetch(
            f"SELECT vector, association FROM vectors WHERE row {inside} ORDER BY row", values
        )
        if len(found) != len(rows):
            raise IndexFormatError(
                f"The database holds {counted(len(rows), 'memory')}, but {counted(len(found), 'vector')} of them.",
                "a vector of each",
                "Restore the folder from a copy, or run pam-retriever repair on it.",
            )
        vectors = from_blobs([vector for vector, _ in found], dim)
        return vectors, from_blobs([association for _, association in found], width) if width else None

    def vectors_of(self, rows: Int64, dim: int) -> tuple[Int64, Float32]:
        """Returns the stored rows among sorted ``rows``, and their vectors."""
        inside, values = _inside(rows)
        found = self._connection.fetch(f"SELECT row, vector FROM vectors WHERE row {inside} ORDER BY row", values)
        return np.array([row for row, _ in found], np.int64), from_blobs([vector for _, vector in found], dim)

    def set_associations(self, rows: Int64, associations: Float32) -> None:
        self._connection.run_many(
            "UPDATE vectors SET association = ? WHERE row = ?",
            zip(to_blobs(associations), rows.tolist(), strict=True),
        )

    def association_blobs(self, rows: Int64) -> list[bytes | None]:
        """Returns the association vectors of sorted, stored ``rows`` as bytes of any length."""
        inside, values = _inside(rows)
        found = self._connection.fetch(f"SELECT association FROM vectors WHERE row {inside} ORDER BY row", values)
        return [blob for (blob,) in found]

    def clear_associations(self) -> None:
        """Removes all association vectors. The memories are then as before ``fit``."""
        self._connection.changes.everything = True
        self._connection.fetch("UPDATE vectors SET association = NULL")

    def set_vectors(self, rows: Int64, vectors: Float32) -> None:
        """Replaces the vectors (n, d) of stored memories."""
        listed, stored, contents = rows.tolist(), to_blobs(vectors), self.contents(rows)
        self._connection.changes.everything = True
        self._connection.run_many("UPDATE vectors SET vector = ? WHERE row = ?", zip(stored, listed, strict=True))
        self._connection.run_many(
            "UPDATE memories SET checksum = ? WHERE row = ?",
            ((checksum(*contents[row], vector), row) for row, vector in zip(listed, stored, strict=True)),
        )

    def observations(self, rows: Int64) -> dict[int, bytes]:
        """Returns row -> observation, for the rows that have one."""
        found = self._connection.fetch(
            "SELECT row, observed FROM observations WHERE row IN (SELECT value FROM json_each(?))",
            [json.dumps(rows.tolist())],
        )
        return dict(found)

    def rows_without_observations(self) -> list[tuple[int, str]]:
        """Returns (row, id) of the memories that were added as vectors."""
        return self._connection.fetch(
            "SELECT row, id FROM memories WHERE row NOT IN (SELECT row FROM observations) ORDER BY row"
        )

    # ---- words

    @property
    def last_row(self) -> int:
        last: int = self._connection.fetch("SELECT coalesce(max(row), 0) FROM memories")[0][0]
        return last

    def positions(self, term: str, column: str, most: int) -> tuple[Int64, Int64]:
        self._connection.ensure(words.VOCABULARY)
        return words.positions(self._connection.fetch, term, column, most)

    def held(self, terms: Sequence[str]) -> list[str]:
        self._connection.ensure(words.VOCABULARY)
        return words.held(self._connection.fetch, terms)

    def lengths(self) -> tuple[Int64, Int64]:
        return words.lengths(self._connection.fetch)

    def words_since(self, version: int) -> words.ChangedWords | None:
        rows = self.written_since(version)
        if rows is None or len(rows) > MAX_CHANGED:
            return None
        return words.changed(self._connection.fetch, rows)


def _listed(ids: Sequence[str]) -> str:
    """Returns ids as an array for ``json_each``, without ids that contain a NUL: SQLite reads only up to the NUL."""
    return json.dumps([id for id in ids if "\x00" not in id])


def _record(id: str, vector: bytes, text: str | None, metadata: str, time: float | datetime | None) -> Record:
    found = from_json(metadata, f"The metadata of {id!r}")
    return Record(id, np.frombuffer(vector, "<f4").copy(), text, found, time)


def _inside(rows: Int64) -> tuple[str, list[object]]:
    """Returns the SQL condition that a row is one of different, sorted ``rows``, and its parameters."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:  # without a gap: a third of the time
        return "BETWEEN ? AND ?", [int(rows[0]), int(rows[-1])]
    return "IN (SELECT value FROM json_each(?))", [str(rows.tolist())]  # the same as JSON
