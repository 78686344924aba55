"""The memories: id, text, metadata, vector, association vector, and what an encoder made the vector of."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pam_retriever.errors import IndexFormatError
from pam_retriever.filters import compile_filter
from pam_retriever.storage import words
from pam_retriever.storage.columns import checksum, from_blobs, from_json, number_rows, to_blobs
from pam_retriever.storage.database import Database
from pam_retriever.types import Float32, Int64, Record

ROWS_AT_ONCE = 1_000_000  # as Python's own numbers


class Memories:
    """The memories of one index.

    Args:
        database: where they are.

    Attributes:
        words_version: counted up by every write, also one that is rolled back: what was read before may be stale.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.words_version = 0

    def __len__(self) -> int:
        count: int = self._database.fetch("SELECT count(*) FROM memories")[0][0]
        return count

    def rows(self) -> Int64:
        """All rows, sorted."""
        blocks, last = [np.empty(0, np.int64)], -1
        while found := self._database.fetch(
            "SELECT row FROM memories WHERE row > ? ORDER BY row LIMIT ?", [last, ROWS_AT_ONCE]
        ):
            blocks.append(np.array(found, np.int64)[:, 0])
            last = found[-1][0]
        return np.concatenate(blocks)

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of those ids that are stored."""
        found = self._database.fetch(
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
        last = self._database.fetch("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'memories'")[0][0]
        rows, _ = number_rows(ids, known, last)
        listed, stored = rows.tolist(), to_blobs(vectors)
        self._database.run_many(
            "INSERT INTO memories (row, id, text, metadata, checksum) VALUES (?, ?, ?, ?, ?) ON CONFLICT (row) "
            "DO UPDATE SET text = excluded.text, metadata = excluded.metadata, checksum = excluded.checksum",
            zip(listed, ids, texts, metadatas, map(checksum, ids, texts, metadatas, stored), strict=True),
        )
        blobs = [None] * len(ids) if associations is None else to_blobs(associations)
        self._database.run_many(
            "INSERT OR REPLACE INTO vectors (row, vector, association) VALUES (?, ?, ?)",
            zip(listed, stored, blobs, strict=True),
        )
        self._database.run_many("DELETE FROM observations WHERE row = ?", ((row,) for row in known.values()))
        if observed is not None:
            self._database.run_many(
                "INSERT INTO observations VALUES (?, ?, ?)",
                zip(listed, observed, map(zlib.crc32, observed), strict=True),
            )
        return rows

    def remove(self, rows: Int64) -> None:
        """Removes memories by row, and their steps."""
        self.words_version += 1
        self._database.run_many("DELETE FROM memories WHERE row = ?", ((row,) for row in rows.tolist()))

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        found = self._database.fetch(
            "SELECT id, vector, text, metadata FROM memories JOIN vectors USING (row) "
            "WHERE id IN (SELECT value FROM json_each(?))",
            [json.dumps(list(ids))],
        )
        return {columns[0]: _record(*columns) for columns in found}

    def find(self, where: Mapping[str, Any], limit: int | None) -> list[Record]:
        """Records whose metadata satisfy a filter, in the order of adding."""
        condition, parameters = compile_filter(where)
        found = self._database.fetch(
            "SELECT id, vector, text, metadata FROM memories JOIN vectors USING (row) "
            f"WHERE {condition} ORDER BY row LIMIT ?",
            [*parameters, -1 if limit is None else limit],
        )
        return [_record(*columns) for columns in found]

    def contents(self, rows: Int64) -> dict[int, tuple[str, str | None, str]]:
        """row -> (id, text, metadata as JSON), for the rows that are stored."""
        found = self._database.fetch(
            "SELECT row, id, text, metadata FROM memories WHERE row IN (SELECT value FROM json_each(?))",
            [json.dumps(np.unique(rows).tolist())],
        )
        return {row: (id, text, metadata) for row, id, text, metadata in found}

    def rows_where(self, where: Mapping[str, Any]) -> Int64:
        """The rows whose metadata satisfy a filter, sorted."""
        condition, parameters = compile_filter(where)
        found = self._database.fetch(
            f"SELECT row FROM memories WHERE {condition} ORDER BY row",
            parameters,
        )
        return np.array([row for (row,) in found], np.int64)

    # ---- vectors

    def all_vectors(self, dim: int) -> tuple[Int64, Float32]:
        """Every row, and its vector."""
        found = self._database.fetch("SELECT row, vector FROM vectors ORDER BY row")
        return np.array([row for row, _ in found], np.int64), from_blobs([vector for _, vector in found], dim)

    @property
    def associated(self) -> bool:
        """Whether there are association vectors."""
        found = self._database.fetch("SELECT EXISTS (SELECT 1 FROM vectors WHERE association IS NOT NULL)")
        return bool(found[0][0])

    def stored(self, rows: Int64, dim: int, width: int) -> tuple[Float32, Float32 | None]:
        """The vectors (n, dim) of sorted ``rows``, and their association vectors (n, width); None for a width of 0.

        Raises:
            IndexFormatError: one of them is missing.
        """
        found = self._database.fetch(
            "SELECT vector, association FROM vectors WHERE row IN (SELECT value FROM json_each(?)) ORDER BY row",
            [json.dumps(rows.tolist())],
        )
        if len(found) != len(rows):
            raise IndexFormatError(
                f"The database holds {len(rows)} memories, but {len(found)} vectors of them.",
                "a vector of each",
                "Restore the folder from a copy, or run pam-retriever repair on it.",
            )
        vectors = from_blobs([vector for vector, _ in found], dim)
        return vectors, from_blobs([association for _, association in found], width) if width else None

    def vectors_of(self, rows: Int64, dim: int) -> tuple[Int64, Float32]:
        """Those of ``rows`` that are stored, sorted, and their vectors."""
        found = self._database.fetch(
            "SELECT row, vector FROM vectors WHERE row IN (SELECT value FROM json_each(?)) ORDER BY row",
            [json.dumps(rows.tolist())],
        )
        return np.array([row for row, _ in found], np.int64), from_blobs([vector for _, vector in found], dim)

    def set_associations(self, rows: Int64, associations: Float32) -> None:
        self._database.run_many(
            "UPDATE vectors SET association = ? WHERE row = ?",
            zip(to_blobs(associations), rows.tolist(), strict=True),
        )

    def association_blobs(self, rows: Int64) -> list[bytes | None]:
        """Association vectors of sorted, stored ``rows`` as they are, whatever their length."""
        found = self._database.fetch(
            "SELECT association FROM vectors WHERE row IN (SELECT value FROM json_each(?)) ORDER BY row",
            [json.dumps(rows.tolist())],
        )
        return [blob for (blob,) in found]

    def clear_associations(self) -> None:
        """Takes all association vectors away, as before ``fit``."""
        self._database.fetch("UPDATE vectors SET association = NULL")

    def set_vectors(self, rows: Int64, vectors: Float32) -> None:
        """Replaces the vectors (n, d) of stored memories."""
        listed, stored, contents = rows.tolist(), to_blobs(vectors), self.contents(rows)
        self._database.run_many("UPDATE vectors SET vector = ? WHERE row = ?", zip(stored, listed, strict=True))
        self._database.run_many(
            "UPDATE memories SET checksum = ? WHERE row = ?",
            ((checksum(*contents[row], vector), row) for row, vector in zip(listed, stored, strict=True)),
        )

    def observations(self, rows: Int64) -> dict[int, bytes]:
        """row -> what its vector was encoded from, for the rows that have it."""
        found = self._database.fetch(
            "SELECT row, observed FROM observations WHERE row IN (SELECT value FROM json_each(?))",
            [json.dumps(rows.tolist())],
        )
        return dict(found)

    def rows_without_observations(self) -> list[tuple[int, str]]:
        """(row, id) of the memories that were added as vectors."""
        return self._database.fetch(
            "SELECT row, id FROM memories WHERE row NOT IN (SELECT row FROM observations) ORDER BY row"
        )

    # ---- words

    @property
    def last_row(self) -> int:
        """The largest row that is stored, 0 if there is none."""
        last: int = self._database.fetch("SELECT coalesce(max(row), 0) FROM memories")[0][0]
        return last

    def places(self, term: str, column: str, most: int) -> tuple[Int64, Int64]:
        """The rows whose "text" or "labels" hold a term, and how often; see ``words``."""
        return words.places(self._database.fetch, term, column, most)

    def lengths(self) -> tuple[Int64, Int64]:
        """The rows that have a text, and its length in characters."""
        return words.lengths(self._database.fetch)


def _record(id: str, vector: bytes, text: str | None, metadata: str) -> Record:
    found = from_json(metadata, f"The metadata of {id!r}")
    return Record(id, np.frombuffer(vector, "<f4").copy(), text, found)
