"""The table of trajectories: the memories that were experienced, their order, times and salience."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from pam_retriever.filters.conditions import key_path
from pam_retriever.filters.stored import to_json
from pam_retriever.store.database import Grouped, Step, Steps, TrajectoryEnd
from pam_retriever.store.sqlite.connection import Connection
from pam_retriever.store.sqlite.listing import Listed, to_evidence, to_records, to_steps
from pam_retriever.types import Evidence, Int64, Times, TrajectoryRecord

MAX_PATH = 30  # SQLite joins 64 tables
STEPS_AT_ONCE = 1_000_000  # the limit for Python numbers in memory
WITHOUT = "AND trajectory NOT IN (SELECT trajectory FROM trajectories WHERE id IN (SELECT value FROM json_each(?)))"


class SQLiteTrajectories:
    """The trajectories of one index; see ``store.database.Trajectories``.

    Args:
        connection: connection to the database.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return self._connection.fetch(sql, parameters)

    def __len__(self) -> int:
        count: int = self._fetch("SELECT count(*) FROM trajectories")[0][0]
        return count

    def memories(self) -> int:
        """The number of memories that have a step."""
        count: int = self._fetch("SELECT count(DISTINCT row) FROM steps")[0][0]
        return count

    def last_number(self) -> int:
        found = self._fetch("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'trajectories'")
        return int(found[0][0])

    def put(self, id: str, steps: Sequence[Step | None]) -> tuple[int, int | None]:
        replaced = self._fetch("SELECT trajectory FROM trajectories WHERE id = ?", [id])
        self._connection.fetch("DELETE FROM trajectories WHERE id = ?", [id])
        self._connection.changes.removed.update(number for (number,) in replaced)
        number = self._connection.insert("INSERT INTO trajectories (id) VALUES (?)", [id])
        self.extend(number, 0, steps)
        return number, replaced[0][0] if replaced else None

    def extend(self, number: int, first: int, steps: Sequence[Step | None]) -> None:
        """Stores more steps of a trajectory, from position ``first`` on; None leaves a position empty."""
        self._connection.changes.grew(number, first)
        self._connection.run_many(
            "INSERT INTO steps (trajectory, position, row, timestamp, salience) VALUES (?, ?, ?, ?, ?)",
            [(number, at, step.row, step.timestamp, step.salience) for at, step in enumerate(steps, first) if step],
        )

    def remove(self, numbers: Sequence[int]) -> None:
        self._connection.changes.removed.update(numbers)
        self._connection.run_many("DELETE FROM trajectories WHERE trajectory = ?", ((one,) for one in numbers))

    def remove_empty(self, numbers: Sequence[int] | None = None) -> None:
        if numbers is None:
            self._connection.fetch("DELETE FROM trajectories WHERE trajectory NOT IN (SELECT trajectory FROM steps)")
            return
        self._connection.run_many(
            "DELETE FROM trajectories WHERE trajectory = ? "
            "AND NOT EXISTS (SELECT 1 FROM steps WHERE steps.trajectory = trajectories.trajectory)",
            ((number,) for number in numbers),
        )

    # ---- one by one

    def end(self, id: str, timed: bool) -> TrajectoryEnd | None:
        found = self._fetch("SELECT trajectory FROM trajectories WHERE id = ?", [id])
        if not found:
            return None
        number, latest = found[0][0], "trajectory = ? AND timestamp IS NOT NULL ORDER BY position DESC LIMIT 1"
        times = self._fetch(f"SELECT timestamp FROM steps WHERE {latest}", [number]) if timed else []
        return TrajectoryEnd(number, self.end_of(number), times[0][0] if times else None)

    def end_of(self, number: int) -> int:
        last = self._fetch("SELECT max(position) FROM steps WHERE trajectory = ?", [number])[0][0]
        return 0 if last is None else int(last) + 1

    def steps_of(self, id: str) -> list[tuple[int, Step]]:
        found = self._fetch(
            "SELECT position, row, timestamp, salience FROM steps JOIN trajectories USING (trajectory) "
            "WHERE id = ? ORDER BY position",
            [id],
        )
        return [(position, Step(*step)) for position, *step in found]

    def numbers(self, rows: Int64 | None = None, ids: Sequence[str] | None = None) -> list[int]:
        if rows is not None:
            found = self._fetch(
                "SELECT DISTINCT trajectory FROM steps WHERE row IN (SELECT value FROM json_each(?)) ORDER BY 1",
                [json.dumps(rows.tolist())],
            )
        elif ids is not None:
            found = self._fetch(
                "SELECT trajectory FROM trajectories WHERE id IN (SELECT value FROM json_each(?)) ORDER BY 1",
                [json.dumps([id for id in ids if "\x00" not in id])],
            )
        else:
            found = self._fetch("SELECT trajectory FROM trajectories ORDER BY trajectory")
        return [number for (number,) in found]

    def listed(self, numbers: Sequence[int]) -> list[TrajectoryRecord]:
        among = [json.dumps(list(numbers))]
        named = self._fetch(
            "SELECT trajectory, id FROM trajectories WHERE trajectory IN (SELECT value FROM json_each(?))", among
        )
        steps: list[Listed] = self._fetch(
            "SELECT s.trajectory, s.position, m.id, s.timestamp FROM steps AS s JOIN memories AS m USING (row) "
            "WHERE s.trajectory IN (SELECT value FROM json_each(?)) ORDER BY s.trajectory, s.position",
            among,
        )
        return to_records(numbers, dict(named), steps)

    # ---- all of them

    def experienced(self, without: Sequence[str] = ()) -> Steps:
        last, blocks = (-1, -1), [to_steps([])]
        kept, left_out = ("", []) if not without else (WITHOUT, [to_json(list(without))])
        while found := self._fetch(
            "SELECT row, trajectory, position, coalesce(salience, 1) FROM steps "
            f"WHERE (trajectory, position) > (?, ?) {kept} ORDER BY trajectory, position LIMIT ?",
            [*last, *left_out, STEPS_AT_ONCE],
        ):
            blocks.append(to_steps(found))
            last = found[-1][1:3]
            if len(found) < STEPS_AT_ONCE:
                break
        rows, trajectories, positions, salience = (np.concatenate(column) for column in zip(*blocks, strict=True))
        return rows, trajectories, positions, salience

    def lengths(self) -> tuple[Int64, Int64]:
        """Returns the numbers of all trajectories, sorted, and the number of steps of each."""
        found = self._fetch("SELECT trajectory, count(*) FROM steps GROUP BY trajectory ORDER BY trajectory")
        numbers, lengths = zip(*found, strict=True) if found else ((), ())
        return np.array(numbers, np.int64), np.array(lengths, np.int64)

    def between(self, first: int, last: int) -> Steps:
        """Returns the steps of the trajectories numbered ``first`` to ``last``, in the form of ``experienced``."""
        found = self._fetch(
            "SELECT row, trajectory, position, coalesce(salience, 1) FROM steps "
            "WHERE trajectory BETWEEN ? AND ? ORDER BY trajectory, position",
            [first, last],
        )
        return to_steps(found)

    def steps_from(self, number: int, first: int) -> Steps:
        """Returns the steps of one trajectory from position ``first`` on, in the form of ``experienced``."""
        found = self._fetch(
            "SELECT row, trajectory, position, coalesce(salience, 1) FROM steps "
            "WHERE trajectory = ? AND position >= ? ORDER BY position",
            [number, first],
        )
        return to_steps(found)

    def experienced_when(self) -> Times:
        found = self._fetch("SELECT timestamp FROM steps ORDER BY trajectory, position")
        return np.array([time for (time,) in found], np.float64)  # None becomes NaN

    def experienced_often(self, rows: Int64) -> tuple[Int64, int]:
        total: int = self._fetch("SELECT count(*) FROM steps")[0][0]
        found = self._fetch(
            "SELECT value, (SELECT count(*) FROM steps WHERE row = value) FROM json_each(?) ORDER BY key",
            [json.dumps(rows.tolist())],
        )
        return np.array([count for _, count in found], np.int64), total

    def newest_time(self) -> float | None:
        newest: float | None = self._fetch("SELECT max(timestamp) FROM steps")[0][0]
        return newest

    def last_times(self, rows: Int64) -> Times:
        found = self._fetch(
            "SELECT (SELECT max(timestamp) FROM steps WHERE row = value) FROM json_each(?) ORDER BY key",
            [json.dumps(rows.tolist())],
        )
        return np.array([time for (time,) in found], np.float64)

    def timestamps(self, rows: Int64) -> list[tuple[int, float]]:
        return self._fetch(
            "SELECT row, timestamp FROM steps WHERE timestamp IS NOT NULL AND row IN (SELECT value FROM json_each(?))",
            [json.dumps(rows.tolist())],
        )

    def groups(self, group_by: str, order_by: str | None) -> list[Grouped]:
        return self._fetch(*groups_query(group_by, order_by))

    def evidence(self, cues: Int64, window: int, repeats: bool = False) -> dict[int, list[Evidence]]:
        found = self._fetch(
            "SELECT b.row, t.id, m.id, a.position, b.position FROM steps AS a "
            "JOIN steps AS b ON b.trajectory = a.trajectory "
            "AND b.position BETWEEN a.position - ? AND a.position + ? "
            f"AND {'b.position != a.position' if repeats else 'b.row != a.row'} "
            "JOIN trajectories AS t ON t.trajectory = a.trajectory JOIN memories AS m ON m.row = a.row "
            "WHERE a.row IN (SELECT value FROM json_each(?)) "
            "ORDER BY abs(b.position - a.position), t.trajectory, a.position",
            [window, window, json.dumps(cues.tolist())],
        )
        return to_evidence(found)


def groups_query(group_by: str, order_by: str | None) -> tuple[str, list[str]]:
    """Returns the SQL, with parameters, for the memories that have a key, ordered by its value and by ``order_by``."""
    values, parameters = _values(group_by)
    # without a key to order by, o is NULL in every row
    order, more = ("SELECT NULL AS row, NULL AS type, NULL AS value", []) if order_by is None else _values(order_by)
    query = (  # the keys are parameters
        f"SELECT memories.row, memories.id, g.value, o.type, o.value FROM memories JOIN ({values}) AS g USING (row) "
        f"LEFT JOIN ({order}) AS o ON o.row = memories.row "
        "ORDER BY g.type, g.value, o.type, o.value, memories.row"
    )
    return query, parameters + more


def _values(key: str) -> tuple[str, list[str]]:
    """Returns the SQL, with parameters, for (row, type, value) of a key: the entry with this name, else at its path."""
    literal = "SELECT row, e.type, e.value FROM memories, json_each(metadata) AS e WHERE e.key = ?"
    path = key_path(key)
    if not 1 < len(path) <= MAX_PATH:
        return literal, [key]
    steps = [f"json_each({f'p{at - 1}.value' if at else 'metadata'}) AS p{at}" for at in range(len(path))]
    tests = [
        f"p{at}.key = ?" + ("" if at == len(path) - 1 else f" AND p{at}.type = 'object'") for at in range(len(path))
    ]
    last = f"p{len(path) - 1}"
    nested = (
        f"SELECT row, {last}.type, {last}.value FROM memories, {', '.join(steps)} WHERE {' AND '.join(tests)} "
        "AND NOT EXISTS (SELECT 1 FROM json_each(metadata) AS spelt WHERE spelt.key = ?)"
    )
    return f"{literal} UNION ALL {nested}", [key, *path, key]
