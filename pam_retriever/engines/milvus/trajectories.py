"""The trajectories in Milvus: steps as JSON, a few hundred per entity, all read into memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pymilvus import DataType

from pam_retriever.engines.groups import grouped
from pam_retriever.engines.milvus.calls import Calls
from pam_retriever.engines.milvus.client import quoted, text
from pam_retriever.engines.milvus.memories import MilvusMemories, check_contents
from pam_retriever.engines.milvus.settings import POINT
from pam_retriever.store.database import End, Grouped, Step, Steps
from pam_retriever.store.listing import to_records
from pam_retriever.types import Bools, Evidence, Float32, Int64, Times, TrajectoryRecord

CHUNK, MOST_CHUNKS = 500, 1 << 13  # steps per entity, entities per trajectory


@dataclass(frozen=True)
class Table:
    """Steps, ordered by trajectory and position, (S,) each; ``named`` has the trajectories by number."""

    named: dict[int, str]
    rows: Int64
    trajectories: Int64
    positions: Int64
    times: Times
    salience: Float32
    weighed: Bools  # whether a salience was given

    def at(self, places: Any) -> Table:
        """Returns the steps at these positions."""
        columns = (self.rows, self.trajectories, self.positions, self.times, self.salience, self.weighed)
        return Table(self.named, *(column[places] for column in columns))


class MilvusTrajectories:
    """The trajectories of one index.

    Args:
        calls: to Milvus.
        memories: of the same index.
    """

    def __init__(self, calls: Calls, memories: MilvusMemories) -> None:
        self._calls, self._milvus, self._memories = calls, calls.connection, memories
        self._name = f"{self._milvus.prefix}_trajectories"
        fields = {
            "id": text(),
            "number": (DataType.INT64, {}),
            "chunks": (DataType.INT64, {}),
            "steps": (DataType.JSON, {}),
        }
        self._milvus.create(self._name, "key", fields, {"point": POINT})
        self._kept: tuple[int, Table] | None = None

    def __len__(self) -> int:
        return len(self._table().named)

    def last_number(self) -> int:
        """The highest number that any trajectory ever had; 0 before the first."""
        return self._calls.state.last_trajectory

    def put(self, id: str, steps: Sequence[Step | None]) -> tuple[int, int | None]:
        """Stores a trajectory and replaces the one with the same id; None leaves a position empty.

        Returns:
            Its number, and the number of the replaced one.
        """
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
        """Stores chunks of a trajectory, each with the least number of chunks."""
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
        self._kept = None

    def extend(self, number: int, first: int, steps: Sequence[Step]) -> None:
        """Stores more steps of a trajectory, from position ``first`` on; the cost does not grow with its length."""
        fields = ["key", "id", "steps"]
        newest = number * MOST_CHUNKS + self._chunks(number) - 1
        (chunk,) = self._milvus.get(self._name, [newest], fields)
        # a failed call may have left the same steps
        there = [one for one in chunk["steps"]["steps"] if one[0] < first]
        there += [self._packed(at, step) for at, step in enumerate(steps, first)]
        pieces = [there[at : at + CHUNK] for at in range(0, len(there), CHUNK)]
        self._put_chunks(chunk["id"], number, newest % MOST_CHUNKS, pieces)
        self._calls.state.logged_from = self._calls.state.version

    def _chunks(self, number: int) -> int:
        found = self._milvus.query_few(self._name, f"number == {number}", ["key"])
        return len(found)

    def remove(self, numbers: Sequence[int]) -> None:
        """Removes trajectories; their memories stay."""
        listed = list(numbers)
        for start in range(0, len(listed), 1_000):
            self._remove(listed[start : start + 1_000])
        self._calls.state.logged_from = self._calls.state.version

    def _remove(self, numbers: list[int]) -> None:
        self._milvus.delete(self._name, f"number in {numbers}")
        self._kept = None

    def remove_empty(self, numbers: Sequence[int] | None = None) -> None:
        """Removes trajectories without steps: of these numbers, or all of them."""
        table = self._table(fresh=True)
        held = set(np.unique(table.trajectories).tolist())
        among = table.named if numbers is None else numbers
        self.remove([number for number in among if number not in held])

    # ---- reading, one by one

    def end(self, id: str) -> End | None:
        """Returns the end of the trajectory with this id; None if there is none."""
        found = self._steps_of(f"id == {quoted(id)}", self._calls.committed)
        if found is None:
            return None
        number, steps = found
        times = [step.timestamp for _, step in steps if step.timestamp is not None]
        return End(number, steps[-1][0] + 1 if steps else 0, max(times, default=None))

    def end_of(self, number: int) -> int:
        """Returns the position of the next step of the trajectory with this number; 0 if it has no step."""
        found = self._steps_of(f"number == {number}", self._calls.state.version)
        return found[1][-1][0] + 1 if found and found[1] else 0

    def steps_of(self, id: str) -> list[tuple[int, Step]]:
        """Returns the position and the step of each step of a trajectory, in order."""
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

    def numbers(self, rows: Int64 | None = None, ids: Sequence[str] | None = None) -> list[int]:
        """Returns the numbers of the trajectories, rising: all, those that hold one of ``rows``, or those named."""
        table = self._table()
        if rows is not None:
            return [int(number) for number in np.unique(table.trajectories[np.isin(table.rows, rows)])]
        among = None if ids is None else set(ids)
        return sorted(number for number, id in table.named.items() if among is None or id in among)

    def listed(self, numbers: Sequence[int]) -> list[TrajectoryRecord]:
        """Returns the trajectories with these numbers, in this order."""
        table = self._table()
        own = table.at(np.isin(table.trajectories, list(numbers)))
        ids = self._memories.contents(own.rows)
        times = [None if np.isnan(time) else time for time in own.times.tolist()]
        columns = own.trajectories.tolist(), own.positions.tolist(), [ids[row][0] for row in own.rows.tolist()], times
        return to_records(numbers, table.named, zip(*columns, strict=True))

    def _table(self, fresh: bool = False) -> Table:
        """Returns all steps of memories that are still stored."""
        version = self._calls.state.version
        if self._kept is None or self._kept[0] != version or fresh:
            self._kept = version, self._read("key >= 0")
        return self._kept[1]

    def _read(self, expression: str) -> Table:
        chunks = _by_number(self._milvus.query(self._name, expression, ["key", "id", "number", "chunks", "steps"]))
        # a failed call may have left a part, or the trajectory that it was about to replace
        whole = {number: parts for number, parts in sorted(chunks.items()) if len(parts) >= parts[0]["chunks"]}
        newest = {parts[0]["id"]: number for number, parts in whole.items()}
        named = {number: parts[0]["id"] for number, parts in whole.items() if newest[parts[0]["id"]] == number}
        steps = [
            (row, number, at, np.nan if time is None else time, 1 if weight is None else weight, weight is not None)
            for number in named
            for part in sorted(whole[number], key=lambda part: int(part["key"]))
            for at, row, time, weight, *written in part["steps"]["steps"]
            if not written or written[0] <= self._calls.state.version
        ]
        columns = zip(*steps, strict=True) if steps else [()] * 6
        kinds = (np.int64, np.int64, np.int64, np.float64, np.float32, np.bool_)
        table = Table(named, *(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))
        return table.at(np.isin(table.rows, self._memories.rows()))

    def named(self) -> list[tuple[int, str]]:
        """Returns the number and the id of each trajectory."""
        return list(self._table().named.items())

    def steps(self) -> list[tuple[int, int, int, float | None, float | None]]:
        """Returns trajectory, position, row, timestamp and salience of each step."""
        table = self._table()
        times = [None if np.isnan(time) else time for time in table.times.tolist()]
        salience = [w if given else None for w, given in zip(table.salience.tolist(), table.weighed, strict=True)]
        columns = table.trajectories.tolist(), table.positions.tolist(), table.rows.tolist(), times, salience
        return list(zip(*columns, strict=True))

    def experienced(self, without: Sequence[str] = ()) -> Steps:
        """Returns all steps in order, without those of the named trajectories; see ``Trajectories.experienced``."""
        table = self._table()
        left_out = [number for number, id in table.named.items() if id in set(without)]
        return _steps(table.at(~np.isin(table.trajectories, left_out)))

    def experienced_since(self, number: int, grown: Sequence[int] = ()) -> Steps:
        """Returns the steps of the trajectories numbered above ``number``; if one has grown, all steps."""
        del grown
        return _steps(self._read(f"number > {number}"))

    def removed_since(self, version: int) -> tuple[Int64, Int64]:
        """Returns nothing: after a removal all steps are read again."""
        del version
        return np.empty(0, np.int64), np.empty(0, np.int64)

    def experienced_when(self) -> Times:
        """Returns the timestamp (S,) of every step, NaN for none, in the order of ``experienced``."""
        return self._table().times

    def experienced_often(self, rows: Int64) -> tuple[Int64, int]:
        """Returns the number of steps of each of ``rows`` (n,), and the number of all steps."""
        stored = np.sort(self._table().rows)
        often = np.searchsorted(stored, rows, side="right") - np.searchsorted(stored, rows, side="left")
        return often, len(stored)

    def newest_time(self) -> float | None:
        """Returns the latest timestamp of any step, or None."""
        times = self._table().times
        known = times[~np.isnan(times)]
        return float(known.max()) if len(known) else None

    def last_times(self, rows: Int64) -> Times:
        """Returns the latest timestamp (n,) of each of ``rows``, NaN for none."""
        table = self._table()
        last = np.full(int(max(rows.max(initial=0), table.rows.max(initial=0))) + 1, np.nan)
        known = ~np.isnan(table.times)
        np.fmax.at(last, table.rows[known], table.times[known])
        return last[rows]

    def groups(self, group_by: str, order_by: str | None) -> list[Grouped]:
        """Returns (row, id, group, kind of order, order) of each memory that has ``group_by``, in order."""
        return grouped(self._memories.metadatas(group_by), group_by, order_by)

    def meetings(self, cues: Int64, window: int) -> dict[int, list[Evidence]]:
        """Returns hit row -> the meetings with one of ``cues``, nearest first."""
        table = self._table()
        ids = self._memories.contents(cues[np.isin(cues, table.rows)])
        occasions = []
        for at in np.flatnonzero(np.isin(table.rows, cues)).tolist():
            row, number, position = (int(c[at]) for c in (table.rows, table.trajectories, table.positions))
            first = np.searchsorted(table.trajectories, number)
            last = np.searchsorted(table.trajectories, number, side="right")
            for other in range(first, last):
                offset = int(table.positions[other]) - position
                if abs(offset) <= window and table.rows[other] != row:
                    occasions.append((abs(offset), number, position, offset, int(table.rows[other]), ids[row][0]))
        meetings: dict[int, list[Evidence]] = {}
        for _, number, position, offset, hit, cue in sorted(occasions):
            evidence = Evidence(table.named[number], cue, position, position + offset, offset)
            meetings.setdefault(hit, []).append(evidence)
        return meetings


def _by_number(parts: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Returns the chunks of each trajectory."""
    chunks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for found in parts:
        chunks[found["number"]].append(found)
    return {number: sorted(of, key=lambda part: int(part["key"])) for number, of in chunks.items()}


def _steps(table: Table) -> Steps:
    return table.rows, table.trajectories, table.positions, table.salience
