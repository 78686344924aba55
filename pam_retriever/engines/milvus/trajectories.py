"""The trajectories in Milvus: steps as JSON, a few hundred per entity, and a copy of all of them in SQLite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from pymilvus import DataType

from pam_retriever.engines.milvus.calls import Calls
from pam_retriever.engines.milvus.client import quoted, text
from pam_retriever.engines.milvus.memories import MilvusMemories, check_contents
from pam_retriever.engines.milvus.settings import POINT
from pam_retriever.engines.words import grouped
from pam_retriever.locks import Mutex
from pam_retriever.store.database import Grouped, Step, Steps, TrajectoryEnd
from pam_retriever.store.sqlite.connection import Connection
from pam_retriever.store.sqlite.listing import to_steps
from pam_retriever.store.sqlite.trajectories import SQLiteTrajectories
from pam_retriever.types import Int64

CHUNK, MOST_CHUNKS = 500, 1 << 13  # steps per entity, entities per trajectory
COPY = (
    "CREATE TABLE memories (row INTEGER PRIMARY KEY, id TEXT)",
    "CREATE TABLE trajectories (trajectory INTEGER PRIMARY KEY, id TEXT)",
    "CREATE TABLE steps (trajectory INTEGER, position INTEGER, row INTEGER, timestamp REAL, salience REAL, "
    "PRIMARY KEY (trajectory, position)) WITHOUT ROWID",
    "CREATE INDEX steps_of_memory ON steps (row)",
)
Stored = tuple[int, int, int, float | None, float | None]
"""Trajectory, position, row, timestamp and salience of a step."""


class MilvusTrajectories(SQLiteTrajectories):
    """The trajectories of one index; see ``EngineTrajectories``.

    Reads of all trajectories use a copy of the current version.

    Args:
        calls: the calls to Milvus.
        memories: the memories of the same index.
    """

    def __init__(self, calls: Calls, memories: MilvusMemories) -> None:
        super().__init__(Connection(None, COPY))
        self._calls, self._milvus, self._memories = calls, calls.connection, memories
        self._name = f"{self._milvus.prefix}_trajectories"
        fields = {
            "id": text(),
            "number": (DataType.INT64, {}),
            "chunks": (DataType.INT64, {}),
            "steps": (DataType.JSON, {}),
        }
        self._milvus.create(self._name, "key", fields, {"point": POINT})
        self._mutex = Mutex()  # no thread reads the copy while another one replaces it
        self._copied: int | None = None  # the version of the copy

    def _fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """Runs a query on a copy of the version of this call."""
        version = self._calls.state.version
        with self._mutex:
            if self._copied != version:
                self._copy()
                self._copied = version
            return super()._fetch(sql, parameters)

    def read_again(self) -> None:
        """Replaces the copy at the next query."""
        self._copied = None

    def _copy(self) -> None:
        named, steps = self._read("key >= 0")
        memories = self._memories.ids()
        with self._connection.transaction():
            for table in ("memories", "trajectories", "steps"):
                self._connection.fetch(f"DELETE FROM {table}")
            self._connection.run_many("INSERT INTO memories VALUES (?, ?)", memories.items())
            self._connection.run_many("INSERT INTO trajectories VALUES (?, ?)", named.items())
            stored = (step for step in steps if step[2] in memories)
            self._connection.run_many("INSERT INTO steps VALUES (?, ?, ?, ?, ?)", stored)

    def last_number(self) -> int:
        return self._calls.state.last_trajectory

    def put(self, id: str, steps: Sequence[Step | None]) -> tuple[int, int | None]:
        check_contents([id], [], [])
        state = self._calls.state
        found = self._milvus.query_few(self._name, f"id == {quoted(id)}", ["number"])
        replaced = sorted({one["number"] for one in found})
        number = state.last_trajectory = max(state.last_trajectory, *replaced, 0) + 1
        self._remove([number])  # left by a failed call
        there = [self._packed(at, step) for at, step in enumerate(steps) if step]
        self._put_chunks(id, number, 0, [there[at : at + CHUNK] for at in range(0, len(there), CHUNK)] or [[]])
        if replaced:
            self._remove(replaced)
            state.logged_from = state.version
        return number, replaced[-1] if replaced else None

    def _packed(self, at: int, step: Step) -> list[Any]:
        return [at, step.row, step.timestamp, step.salience, self._calls.state.version]

    def _put_chunks(self, id: str, number: int, first: int, chunks: list[list[list[Any]]]) -> None:
        """Stores chunks of a trajectory. Each records the number of chunks that the trajectory then has at least."""
        self._milvus.upsert(
            self._name,
            [
                {
                    "key": number * MOST_CHUNKS + at,
                    "id": id,
                    "number": number,
                    "chunks": first + len(chunks),
                    "steps": {"steps": chunk},
                    "point": [1, 0],
                }
                for at, chunk in enumerate(chunks, first)
            ],
        )
        self.read_again()

    def extend(self, number: int, first: int, steps: Sequence[Step | None]) -> None:
        """Stores more steps of a trajectory, from position ``first`` on; the cost does not grow with its length."""
        fields = ["key", "id", "steps"]
        newest = number * MOST_CHUNKS + self._chunks(number) - 1
        (chunk,) = self._milvus.get(self._name, [newest], fields)
        # a failed call may have left the same steps
        there = [one for one in chunk["steps"]["steps"] if one[0] < first]
        there += [self._packed(at, step) for at, step in enumerate(steps, first) if step]
        pieces = [there[at : at + CHUNK] for at in range(0, len(there), CHUNK)]
        self._put_chunks(chunk["id"], number, newest % MOST_CHUNKS, pieces)
        self._calls.state.logged_from = self._calls.state.version

    def _chunks(self, number: int) -> int:
        found = self._milvus.query_few(self._name, f"number == {number}", ["key"])
        return len(found)

    def remove(self, numbers: Sequence[int]) -> None:
        self._remove(list(numbers))
        self._calls.state.logged_from = self._calls.state.version

    def _remove(self, numbers: list[int]) -> None:
        if numbers:
            self._milvus.delete_in(self._name, "number", numbers)
            self.read_again()

    def remove_empty(self, numbers: Sequence[int] | None = None) -> None:
        self.read_again()  # memories may have been removed since
        held = {number for (number,) in self._fetch("SELECT DISTINCT trajectory FROM steps")}
        self.remove([number for number in (self.numbers() if numbers is None else numbers) if number not in held])

    # ---- reading, one by one

    def end(self, id: str, timed: bool) -> TrajectoryEnd | None:  # noqa: ARG002 - all steps are read
        found = self._steps_of(f"id == {quoted(id)}", self._calls.committed)
        if found is None:
            return None
        number, steps = found
        times = [step.timestamp for _, step in steps if step.timestamp is not None]
        return TrajectoryEnd(number, steps[-1][0] + 1 if steps else 0, max(times, default=None))

    def end_of(self, number: int) -> int:
        found = self._steps_of(f"number == {number}", self._calls.state.version)
        return found[1][-1][0] + 1 if found and found[1] else 0

    def steps_of(self, id: str) -> list[tuple[int, Step]]:
        found = self._steps_of(f"id == {quoted(id)}", self._calls.committed)
        return found[1] if found else []

    def _steps_of(self, expression: str, version: int) -> tuple[int, list[tuple[int, Step]]] | None:
        """Returns number and steps of one trajectory, without steps of a failed call after ``version``."""
        parts = self._milvus.query(self._name, expression, ["key", "number", "chunks", "steps"])
        whole = [number for number, of in _by_number(parts).items() if len(of) >= of[0]["chunks"]]
        if not whole:
            return None
        own = sorted((part for part in parts if part["number"] == max(whole)), key=lambda part: int(part["key"]))
        steps = [
            (at, Step(row, time, weight))
            for part in own
            for at, row, time, weight, *written in part["steps"]["steps"]
            if not written or written[0] <= version
        ]
        there = {
            one["row"] for one in self._milvus.get(self._memories.collection(), [s.row for _, s in steps], ["row"])
        }
        return max(whole), [(at, step) for at, step in steps if step.row in there]

    # ---- all of them

    def _read(self, expression: str) -> tuple[dict[int, str], list[Stored]]:
        """Returns the id of each trajectory by number, and the steps, in order, also of removed memories."""
        chunks = _by_number(self._milvus.query(self._name, expression, ["key", "id", "number", "chunks", "steps"]))
        # a failed call may have left a part, or the trajectory that it was about to replace
        whole = {number: parts for number, parts in sorted(chunks.items()) if len(parts) >= parts[0]["chunks"]}
        newest = {parts[0]["id"]: number for number, parts in whole.items()}
        named = {number: parts[0]["id"] for number, parts in whole.items() if newest[parts[0]["id"]] == number}
        steps = [
            (number, at, row, time, weight)
            for number in named
            for part in whole[number]
            for at, row, time, weight, *written in part["steps"]["steps"]
            if not written or written[0] <= self._calls.state.version
        ]
        return named, steps

    def named(self) -> list[tuple[int, str]]:
        return self._fetch("SELECT trajectory, id FROM trajectories ORDER BY trajectory")

    def steps(self) -> list[Stored]:
        return self._fetch("SELECT * FROM steps ORDER BY trajectory, position")

    def experienced_since(self, number: int, grown: Sequence[int] = ()) -> Steps:
        """Returns the steps of the trajectories with numbers above ``number``; all steps if a trajectory has grown."""
        del grown
        _, steps = self._read(f"number > {number}")
        there = self._memories.ids()
        present = [(row, number, at, 1 if w is None else w) for number, at, row, _, w in steps if row in there]
        return to_steps(present)

    def removed_since(self, version: int) -> tuple[Int64, Int64]:
        """Returns nothing: after a removal all steps are read again."""
        del version
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def groups(self, group_by: str, order_by: str | None) -> list[Grouped]:
        return grouped(self._memories.metadatas(group_by), group_by, order_by)


def _by_number(parts: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Returns the chunks of each trajectory."""
    chunks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for found in parts:
        chunks[found["number"]].append(found)
    return {number: sorted(of, key=lambda part: int(part["key"])) for number, of in chunks.items()}
