"""The memories in PostgreSQL: see ``store.database.Memories``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pam_retriever.engines.local_copy import LocalCopy
from pam_retriever.engines.postgres.connection import Connections
from pam_retriever.engines.postgres.filters import PostgresCompiler
from pam_retriever.engines.postgres.keys import Selected
from pam_retriever.engines.postgres.vectors import pack, unpack
from pam_retriever.engines.words import WordCounter
from pam_retriever.errors import InvalidInput
from pam_retriever.filters.conditions import key_path
from pam_retriever.model.keys import make_keys
from pam_retriever.store.columns import number_rows
from pam_retriever.store.storing import NewMemories
from pam_retriever.types import Float32, Int64, Record

MAX_ID_BYTES = 2_600  # limit of a B-tree page


class PostgresMemories:
    """The memories of one index; see ``EngineMemories``.

    Args:
        database: the connections to the database.
        dim: length of the vectors.

    Attributes:
        local_copy: feedback, times and mentions of the memories; the database sets it.
    """

    def __init__(self, database: Connections, dim: int) -> None:
        self._database, self._dim = database, dim
        self._count_words = WordCounter()
        self.local_copy: LocalCopy

    def __len__(self) -> int:
        return self._database.state.memories

    @property
    def words_version(self) -> int:
        return self._database.state.texts

    def written_since(self, version: int) -> Int64 | None:
        """See ``Memories.written_since``. Returns None: writes of other processes are not recorded."""
        return np.empty(0, np.int64) if version == self.words_version else None

    def words_since(self, version: int) -> None:
        """See ``Memories.words_since``. Returns None: writes of other processes are not recorded."""

    @property
    def last_row(self) -> int:
        return self._database.state.last_row

    def rows(self) -> Int64:
        return _numbers(self._database.fetch("SELECT row FROM memories ORDER BY row"))

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        # no stored id has a NUL, and PostgreSQL refuses it in any text
        storable = [id for id in ids if "\x00" not in id]
        return dict(self._database.fetch("SELECT id, row FROM memories WHERE id = ANY(%s::text[])", [storable]))

    # ---- writing

    def upsert(self, new: NewMemories, associations: Float32 | None) -> Int64:
        assert new.observed is None, "no encoder makes vectors in an engine"
        check_contents(new.ids, new.texts)
        state, known = self._database.state, self.rows_of(new.ids)
        rows, state.last_row = number_rows(new.ids, known, state.last_row)
        listed, contents = rows.tolist(), (new.texts, new.metadatas)
        state.memories += len(rows) - len(known)
        state.texts = state.version
        self._database.run_many(
            "INSERT INTO memories (row, id, text, metadata, vector, version) VALUES (%s, %s, %s, %s, %s, %s) "
            "ON CONFLICT (row) DO UPDATE SET text = excluded.text, metadata = excluded.metadata, "
            "vector = excluded.vector, version = excluded.version",
            zip(listed, new.ids, *contents, pack(new.vectors), [state.version] * len(listed), strict=True),
        )
        self.count_words(listed, *contents, again=list(known.values()))
        if state.generation and associations is not None:
            self.set_keys(state.generation, rows, make_keys(new.vectors, associations))
        self.local_copy.written(rows, state.version)
        return rows

    def count_words(
        self, rows: Sequence[int], texts: Sequence[str | None], metadatas: Sequence[str], again: list[int]
    ) -> None:
        """Stores the words of memories with ``rows``; replaces those of the rows that are counted ``again``."""
        self._database.fetch("DELETE FROM words WHERE row = ANY(%s::bigint[])", [again])
        words = self._count_words(rows, texts, metadatas)
        self._database.copy("words", ("text", "bool", "int8", "int4"), words)

    def set_keys(self, generation: int, rows: Int64, keys: Float32) -> None:
        """Stores the keys (n, width) of memories; replaces existing keys."""
        self._database.run_many(
            f"INSERT INTO keys_{generation} (row, key) VALUES (%s, %s) "
            "ON CONFLICT (row) DO UPDATE SET key = excluded.key",
            zip(rows.tolist(), pack(keys), strict=True),
        )

    def remove(self, rows: Int64) -> None:
        state, listed = self._database.state, rows.tolist()
        state.texts = state.version
        self.local_copy.forget(rows)
        tables = ["words", *([f"keys_{state.generation}"] if state.generation else [])]
        for table in tables:
            self._database.fetch(f"DELETE FROM {table} WHERE row = ANY(%s::bigint[])", [listed])
        gone = self._database.fetch("DELETE FROM memories WHERE row = ANY(%s::bigint[]) RETURNING row", [listed])
        state.memories -= len(gone)
        self._database.run_many(
            "INSERT INTO removals (version, memory) VALUES (%s, %s)", [(state.version, row) for (row,) in gone]
        )

    # ---- reading

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        storable = [id for id in ids if "\x00" not in id]
        found = self._database.fetch(
            "SELECT row, id, vector, text, metadata FROM memories WHERE id = ANY(%s::text[])", [storable]
        )
        return {record.id: record for record in self._records(found)}

    def find(self, where: Mapping[str, object], limit: int | None, offset: int = 0) -> list[Record]:
        selected = self.rows_where(where)
        found = self._database.fetch(
            f"SELECT row, id, vector, text, metadata FROM memories WHERE {selected.condition} "
            "ORDER BY row LIMIT %s OFFSET %s",
            [*selected.parameters, limit, offset],
        )
        return self._records(found)

    def _records(self, found: list[tuple[int, str, bytes, str | None, str]]) -> list[Record]:
        return self.local_copy.records(
            (row, id, unpack([vector], self._dim)[0], text, metadata) for row, id, vector, text, metadata in found
        )

    def contents(self, rows: Int64) -> dict[int, tuple[str, str | None, str]]:
        found = self._database.fetch(
            "SELECT row, id, text, metadata FROM memories WHERE row = ANY(%s::bigint[])", [np.unique(rows).tolist()]
        )
        return {row: (id, text, metadata) for row, id, text, metadata in found}

    def rows_where(self, where: Mapping[str, object]) -> Selected:
        """Returns the rows whose metadata satisfy a filter, as a selection that is evaluated when it is used."""
        return Selected(self._database, *PostgresCompiler().compile(self.local_copy.condition(where)))

    def all_vectors(self, dim: int) -> tuple[Int64, Float32]:
        found = self._database.fetch("SELECT row, vector FROM memories ORDER BY row")
        return _with_vectors(found, dim)

    def vectors_since(self, version: int) -> tuple[Int64, Float32]:
        """Returns the rows written after a version, sorted, and their vectors."""
        found = self._database.fetch("SELECT row, vector FROM memories WHERE version > %s ORDER BY row", [version])
        return _with_vectors(found, self._dim)

    # ---- words

    def positions(self, term: str, column: str, most: int) -> tuple[Int64, Int64]:
        found = self._database.fetch(
            "SELECT row, times FROM words WHERE term = %s AND label = %s ORDER BY row LIMIT %s",
            [term, column == "labels", most],
        )
        return _numbers([(row,) for row, _ in found]), _numbers([(times,) for _, times in found])

    def held(self, terms: Sequence[str]) -> list[str]:
        found = self._database.fetch("SELECT DISTINCT term FROM words WHERE term = ANY(%s)", [list(terms)])
        return [term for (term,) in found]

    def lengths(self) -> tuple[Int64, Int64]:
        found = self._database.fetch("SELECT row, char_length(text) FROM memories WHERE text IS NOT NULL")
        return _numbers([(row,) for row, _ in found]), _numbers([(length,) for _, length in found])

    def metadatas(self, key: str) -> list[tuple[int, str, str]]:
        keys = [key, key_path(key)[0]]
        return self._database.fetch("SELECT row, id, metadata FROM memories WHERE entries ?| %s", [keys])


def check_contents(ids: Sequence[str], texts: Sequence[str | None]) -> None:
    """Checks that PostgreSQL can hold the contents.

    Raises:
        InvalidInput: an id is too long for the index, or a text has a NUL.
    """
    for id in ids:
        if len(id.encode()) > MAX_ID_BYTES:
            raise InvalidInput(
                f"The id {id[:50]!r}... has {len(id.encode()):,} bytes.",
                f"at most {MAX_ID_BYTES:,} in PostgreSQL",
                "Shorten it.",
            )
    for at, text in enumerate(texts):
        if text is not None and "\x00" in text:
            raise InvalidInput(f"texts[{at}] holds a NUL character.", "text without, in PostgreSQL", "Remove it.")


def _numbers(found: list[tuple[int]]) -> Int64:
    return np.array([number for (number,) in found], np.int64)


def _with_vectors(found: list[tuple[int, bytes]], dim: int) -> tuple[Int64, Float32]:
    return _numbers([(row,) for row, _ in found]), unpack([vector for _, vector in found], dim)
