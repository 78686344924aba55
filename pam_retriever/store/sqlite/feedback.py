"""Requests and the memories that served them, in SQLite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from pam_retriever.experience.feedback import Feedback, NewFeedback, PastRequests
from pam_retriever.filters import read_filter
from pam_retriever.filters.stored import to_json
from pam_retriever.store.columns import checksum, from_blobs, from_json, to_blobs
from pam_retriever.store.sqlite.connection import Connection
from pam_retriever.store.sqlite.metadata_index import Segment
from pam_retriever.types import Float32, Int64
from pam_retriever.validation import selects_all


class SQLiteFeedback:
    """The feedback of one index.

    Args:
        connection: connection to the database.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __len__(self) -> int:
        count: int = self._connection.fetch("SELECT count(*) FROM feedback")[0][0]
        return count

    @property
    def version(self) -> int:
        """Changes with every write to the index."""
        return self._connection.version

    def state(self) -> tuple[int, int]:
        """The number of requests and their highest number. It changes when a request is stored or removed."""
        count, last = self._connection.fetch("SELECT count(*), coalesce(max(number), 0) FROM feedback")[0]
        return int(count), int(last)

    def put(self, new: NewFeedback, vectors: Float32, rows: Mapping[str, int]) -> int:
        """Stores requests and replaces those with the same id; returns the number of the first one.

        Args:
            new: n requests.
            vectors: (n, dim) of the requests.
            rows: id -> row, for every memory that the requests name.
        """
        connection, blobs = self._connection, to_blobs(vectors)
        connection.fetch("DELETE FROM feedback WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(new.ids)])
        first = 1 + int(
            connection.fetch("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'feedback'")[0][0]
        )
        numbers = range(first, first + len(new.ids))
        sums = map(checksum, new.ids, new.texts, new.metadatas, blobs)
        connection.run_many(
            "INSERT INTO feedback (number, id, text, metadata, vector, timestamp, checksum) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            zip(numbers, new.ids, new.texts, new.metadatas, blobs, new.timestamps, sums, strict=True),
        )
        connection.run_many(
            "INSERT INTO uses (feedback, row, weight) VALUES (?, ?, ?)",
            (
                (number, rows[id], weight)
                for number, weights in zip(numbers, new.weights, strict=True)
                for id, weight in weights.items()
            ),
        )
        return first

    def arrived(self, after: int) -> int:
        """Returns the number of requests that arrived after the request of that number."""
        count: int = self._connection.fetch("SELECT count(*) FROM feedback WHERE number > ?", [after])[0][0]
        return count

    def requests(
        self, dim: int, where: Mapping[str, object] | None = None, writer: str = "", after: int = 0
    ) -> PastRequests:
        """Returns requests whose metadata satisfy a filter, ordered by time; requests without a time, by arrival.

        Args:
            dim: dimension of their vectors.
            where: metadata filter.
            writer: the metadata key that names the author of a request.
            after: a number; only requests that arrived after this one.
        """
        condition, parameters = self._condition(where or {}, after)
        found = self._connection.fetch(
            "SELECT number, vector, text, timestamp, metadata FROM feedback "
            f"WHERE number > ? AND {condition} ORDER BY timestamp IS NOT NULL, timestamp, number",
            [after, *parameters],
        )
        position = {number: at for at, (number, *_) in enumerate(found)}
        used = self._connection.fetch(
            "SELECT feedback, row, weight FROM uses WHERE feedback > ? ORDER BY feedback, row", [after]
        )
        present = [(position[number], row, weight) for number, row, weight in used if number in position]
        request, rows, weights = zip(*present, strict=True) if present else ((), (), ())
        order = np.argsort(np.array(request, np.int64), kind="stable")
        return PastRequests(
            from_blobs([vector for _, vector, *_ in found], dim) if found else np.empty((0, dim), np.float32),
            [text or "" for _, _, text, *_ in found],
            np.array([time for *_, time, _ in found], np.float64),
            np.array(request, np.int64)[order],
            np.array(rows, np.int64)[order],
            np.array(weights, np.float32)[order],
            [_value(metadata, writer) for *_, metadata in found],
            np.array(list(position), np.int64),
        )

    def find(
        self, where: Mapping[str, object], limit: int | None, offset: int = 0, row: int | None = None
    ) -> list[Feedback]:
        """Returns requests that satisfy a filter, in the order of arrival; with ``row``, only requests that name it."""
        condition, parameters = self._condition(where)
        if row is not None:
            condition += " AND number IN (SELECT feedback FROM uses WHERE row = ?)"
            parameters = [*parameters, row]
        found = self._connection.fetch(
            f"SELECT number, id, vector, text, metadata, timestamp FROM feedback WHERE {condition} "
            "ORDER BY number LIMIT ? OFFSET ?",
            [*parameters, -1 if limit is None else limit, offset],
        )
        used: dict[int, dict[str, float]] = {number: {} for number, *_ in found}
        for number, id, weight in self._connection.fetch(
            "SELECT feedback, memories.id, weight FROM uses JOIN memories USING (row) "
            "WHERE feedback IN (SELECT value FROM json_each(?)) ORDER BY feedback, row",
            [json.dumps(list(used))],
        ):
            used[number][id] = weight
        return [
            Feedback(
                id,
                from_blobs([vector], len(vector) // 4)[0].copy(),
                text,
                used[number],
                _metadata(metadata, id),
                timestamp,
            )
            for number, id, vector, text, metadata, timestamp in found
        ]

    def ids_of(self, where: Mapping[str, object]) -> list[str]:
        """Returns the ids of the requests whose metadata satisfy a filter."""
        condition, parameters = self._condition(where)
        return [id for (id,) in self._connection.fetch(f"SELECT id FROM feedback WHERE {condition}", parameters)]

    def _condition(self, where: Mapping[str, object], after: int = 0) -> tuple[str, list[str | int]]:
        """Returns the SQL that selects the requests whose metadata satisfy a filter, and its parameters."""
        if selects_all(where):
            return "1", []
        found = self._connection.fetch(
            "SELECT number, metadata FROM feedback WHERE number > ? ORDER BY number", [after]
        )
        numbers = np.array([number for number, _ in found], np.int64)
        segment = Segment.of(numbers, [metadata for _, metadata in found])
        matching = segment.matching(read_filter(where))
        return "number IN (SELECT value FROM json_each(?))", [json.dumps(matching.tolist())]

    def remove(self, ids: Sequence[str]) -> int:
        """Removes requests; returns how many were stored."""
        before = len(self)
        self._connection.fetch(
            "DELETE FROM feedback WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))]
        )
        return before - len(self)


def remove_requests_of(connection: Connection, rows: Int64) -> None:
    """Removes the requests that only these memories served, before the memories are removed.

    A trigger removes a request without any memory. It keeps one that also names memories that did not help.
    """
    connection.fetch(
        "DELETE FROM feedback WHERE number IN "
        "(SELECT feedback FROM uses WHERE weight > 0 AND row IN (SELECT value FROM json_each(?1))) AND NOT EXISTS "
        "(SELECT 1 FROM uses WHERE feedback = number AND weight > 0 AND row NOT IN (SELECT value FROM json_each(?1)))",
        [json.dumps(rows.tolist())],
    )


def _value(stored: str, key: str) -> str | None:
    """Returns the value of a key in stored metadata, as JSON; None without the key."""
    if to_json(key) not in stored:
        return None
    metadata = _metadata(stored, "a request")
    return to_json(metadata[key]) if key in metadata else None


def _metadata(stored: str, id: str) -> dict[str, object]:
    metadata: dict[str, object] = from_json(stored, f"The metadata of feedback {id!r}")
    return metadata
