"""The memories in Milvus: one collection per generation; each entity has all data of a memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pymilvus import DataType

from pam_retriever.engines.local_copy import LocalCopy
from pam_retriever.engines.milvus.calls import Calls
from pam_retriever.engines.milvus.client import MAX_BYTES, text
from pam_retriever.engines.milvus.filters import EXACT, MOST_TAGS, NAME, tags_of
from pam_retriever.engines.milvus.keys import MilvusSelected
from pam_retriever.engines.milvus.postings import Postings
from pam_retriever.errors import InvalidInput
from pam_retriever.model.keys import make_keys
from pam_retriever.store.columns import number_rows
from pam_retriever.store.storing import NewMemories
from pam_retriever.types import Float32, Int64, Record

FIELDS = {
    "id": text(),
    "text": text(nullable=True),
    "metadata": text(),  # as given
    "entries": (DataType.JSON, {}),  # numbers, for ranges
    "tags": (DataType.ARRAY, {"element_type": DataType.VARCHAR, "max_capacity": MOST_TAGS + 1, "max_length": 64}),
    "version": (DataType.INT64, {}),  # of its last write
}
CONTENTS = ["row", "id", "text", "metadata"]


class MilvusMemories:
    """The memories of one index; see ``EngineMemories``.

    Args:
        calls: the calls to Milvus.
        dim: length of the vectors.

    Attributes:
        local_copy: feedback, times and mentions of the memories; the database sets it.
        changes: number of writes by this process, also in failed transactions.
    """

    def __init__(self, calls: Calls, dim: int) -> None:
        self._calls, self._milvus, self._dim = calls, calls.connection, dim
        self._postings = Postings(self)
        self.local_copy: LocalCopy
        self.changes = 0

    def collection(self, generation: int | None = None) -> str:
        """Returns the name of the collection of a generation; None for the current one."""
        return f"{self._milvus.prefix}_{self._calls.state.generation if generation is None else generation}"

    def make(self, generation: int, width: int | None, index: Mapping[str, Any]) -> None:
        """Creates the collection of a generation; its keys have ``width``, None before ``fit``."""
        vectors = {"vector": {"dim": self._dim, "metric": "COSINE", **index}}
        if width is not None:
            vectors["key"] = {"dim": width, "metric": "IP", **index}
        self._milvus.create(self.collection(generation), "row", FIELDS, vectors)

    def __len__(self) -> int:
        return self._calls.state.memories

    @property
    def words_version(self) -> int:
        return self._calls.state.texts

    def written_since(self, version: int) -> Int64 | None:
        """See ``Memories.written_since``. Returns None: writes of other processes are not recorded."""
        return np.empty(0, np.int64) if version == self.words_version else None

    def words_since(self, version: int) -> None:
        """See ``Memories.words_since``. Returns None: writes of other processes are not recorded."""

    @property
    def words_known(self) -> int:
        """Returns the last ``words_version`` that will not be undone."""
        return min(self._calls.state.texts, self._calls.committed)

    @property
    def last_row(self) -> int:
        return self._calls.state.last_row

    def _all(self, fields: Sequence[str], expression: str = "row >= 0") -> list[dict[str, Any]]:
        return self._milvus.query(self.collection(), expression, fields)

    def rows(self) -> Int64:
        return np.sort(np.array([found["row"] for found in self._all(["row"])], np.int64))

    def ids(self) -> dict[int, str]:
        """Returns row -> id of all memories."""
        return {found["row"]: found["id"] for found in self._all(["row", "id"])}

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        found = self._milvus.query_in(self.collection(), "id", [id for id in ids if id], ["row", "id"])
        return {one["id"]: one["row"] for one in found}

    # ---- writing

    def upsert(self, new: NewMemories, associations: Float32 | None) -> Int64:
        assert new.observed is None, "no encoder makes vectors in an engine"
        check_contents(new.ids, new.texts, new.metadatas)
        state, known = self._calls.state, self.rows_of(new.ids)
        rows, state.last_row = number_rows(new.ids, known, state.last_row)
        state.texts = state.version
        state.memories += len(rows) - len(known)
        entities = [
            _entity(row, id, text, metadata, state.version)
            for row, id, text, metadata in zip(rows.tolist(), new.ids, new.texts, new.metadatas, strict=True)
        ]
        keys = None if associations is None else make_keys(new.vectors, associations)
        self.put(self.collection(), entities, new.vectors, keys)
        self.local_copy.written(rows, state.version)
        self.changes += 1
        return rows

    def put(self, collection: str, entities: list[dict[str, Any]], vectors: Float32, keys: Float32 | None) -> None:
        """Stores entities with vectors and, after ``fit``, keys."""
        for at, entity in enumerate(entities):
            entity["vector"] = vectors[at]
            if keys is not None:
                entity["key"] = keys[at]
        self._milvus.upsert(collection, entities)

    def remove(self, rows: Int64) -> None:
        """Removes memories by row; their steps are ignored from then on."""
        state = self._calls.state
        state.texts = state.logged_from = state.version
        self.local_copy.forget(rows)
        self.changes += 1
        found = self._milvus.get(self.collection(), rows.tolist(), ["row"])
        state.memories -= len(found)
        self._milvus.delete_in(self.collection(), "row", rows.tolist())

    # ---- reading

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        found = self._milvus.query_in(self.collection(), "id", [id for id in ids if id], [*CONTENTS, "vector"])
        return {record.id: record for record in self._records(found)}

    def find(self, where: Mapping[str, object], limit: int | None, offset: int = 0) -> list[Record]:
        rows = np.asarray(self.rows_where(where))[offset:][:limit]
        found = self._milvus.get(self.collection(), rows.tolist(), [*CONTENTS, "vector"])
        return self._records(sorted(found, key=lambda one: int(one["row"])))

    def _records(self, found: list[dict[str, Any]]) -> list[Record]:
        return self.local_copy.records(
            (one["row"], one["id"], np.array(one["vector"], np.float32), one["text"], one["metadata"]) for one in found
        )

    def contents(self, rows: Int64) -> dict[int, tuple[str, str | None, str]]:
        """Returns row -> (id, text, metadata as JSON).

        Raises:
            Interrupted: another process removed some of them meanwhile.
        """
        found = self._milvus.get_all(self.collection(), np.unique(rows).tolist(), CONTENTS)
        return {one["row"]: (one["id"], one["text"], one["metadata"]) for one in found}

    def rows_where(self, where: Mapping[str, object]) -> MilvusSelected:
        """Returns the rows whose metadata satisfy a filter, as a selection that is evaluated when it is used."""
        return MilvusSelected(self._milvus, self.collection(), self.local_copy.condition(where))

    def all_vectors(self, dim: int) -> tuple[Int64, Float32]:
        del dim
        found = sorted(self._all(["row", "vector"]), key=lambda one: int(one["row"]))
        return np.array([one["row"] for one in found], np.int64), _vectors(found, self._dim)

    def entities(self, collection: str, expression: str) -> tuple[list[dict[str, Any]], Float32]:
        """Returns whole entities without vectors and keys, and their vectors."""
        found = self._milvus.query(collection, expression, [*CONTENTS, "version", "vector"])
        made = [_entity(one["row"], one["id"], one["text"], one["metadata"], one["version"]) for one in found]
        return made, _vectors(found, self._dim)

    # ---- words

    def positions(self, term: str, column: str, most: int) -> tuple[Int64, Int64]:
        return self._postings.positions(term, column, most)

    def held(self, terms: Sequence[str]) -> list[str]:
        return self._postings.held(terms)

    def lengths(self) -> tuple[Int64, Int64]:
        return self._postings.lengths()

    def texts_since(self, version: int) -> list[tuple[int, str | None, str]]:
        """Returns row, text and metadata of the memories written after a version."""
        found = self._all(["row", "text", "metadata"], f"version > {version}")
        return [(one["row"], one["text"], one["metadata"]) for one in found]

    def metadatas(self, key: str) -> list[tuple[int, str, str]]:
        found = self._milvus.get(
            self.collection(), np.asarray(self.rows_where({key: {"$exists": True}})).tolist(), CONTENTS
        )
        return [(one["row"], one["id"], one["metadata"]) for one in found]


def check_contents(ids: Sequence[str], texts: Sequence[str | None], metadatas: Sequence[str]) -> None:
    """Checks that Milvus can hold the contents.

    Raises:
        InvalidInput: a string has more than 65,535 bytes.
    """
    for name, values in (("ids", ids), ("texts", texts), ("metadatas", metadatas)):
        for at, value in enumerate(values):
            if value is not None and len(value.encode()) > MAX_BYTES:
                raise InvalidInput(
                    f"{name}[{at}] has {len(value.encode()):,} bytes.",
                    f"at most {MAX_BYTES:,} in Milvus",
                    "Shorten it.",
                )


def _entity(row: int, id: str, text: str | None, metadata: str, version: int) -> dict[str, Any]:
    entries = {  # operands of ranges are smaller than ``EXACT``
        key: min(max(value, -EXACT), EXACT)
        for key, value in json.loads(metadata).items()
        if NAME.fullmatch(key) and type(value) in (int, float)
    }
    return {
        "row": row,
        "id": id,
        "text": text,
        "metadata": metadata,
        "entries": entries,
        "tags": tags_of(metadata),
        "version": version,
    }


def _vectors(found: list[dict[str, Any]], dim: int) -> Float32:
    return np.array([one["vector"] for one in found], np.float32).reshape(len(found), dim)
