"""The trajectories in which memories were experienced: which ones, when, and how salient."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pam_retriever.filters import to_json
from pam_retriever.storage.database import Database
from pam_retriever.types import Evidence, Float32, Int64, Times

# the memories that have a key, by its value, and in each group by another's
GROUPS = """
SELECT row, memories.id, g.value, o.type, o.value FROM memories
JOIN json_each(metadata) AS g ON g.key = ?
LEFT JOIN json_each(metadata) AS o ON o.key = ?
ORDER BY g.type, g.value, o.type, o.value, row  -- without a key to order by, o is NULL throughout
"""

STEPS_AT_ONCE = 1_000_000  # as Python's own numbers


@dataclass(frozen=True)
class Step:
    """One experienced state of a trajectory, as it is stored."""

    row: int
    timestamp: float | None
    salience: float | None


class Trajectories:
    """The trajectories of one index.

    Args:
        database: where they are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def __len__(self) -> int:
        count: int = self._database.fetch("SELECT count(*) FROM trajectories")[0][0]
        return count

    def memories(self) -> int:
        """How many memories were experienced."""
        count: int = self._database.fetch("SELECT count(DISTINCT row) FROM steps")[0][0]
        return count

    def last_number(self) -> int:
        """The highest number that a trajectory ever had; 0 before the first."""
        found = self._database.fetch("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'trajectories'")
        return int(found[0][0])

    def put(self, id: str, steps: Sequence[Step | None]) -> tuple[int, int | None]:
        """Stores a trajectory, replacing the one with that id; None leaves a position empty.

        Returns:
            Its number, and the number of the one that it replaces.
        """
        replaced = self._database.fetch("SELECT trajectory FROM trajectories WHERE id = ?", [id])
        self._database.fetch("DELETE FROM trajectories WHERE id = ?", [id])
        number = self._database.insert("INSERT INTO trajectories (id) VALUES (?)", [id])
        self._database.run_many(
            "INSERT INTO steps (trajectory, position, row, timestamp, salience) VALUES (?, ?, ?, ?, ?)",
            [(number, at, step.row, step.timestamp, step.salience) for at, step in enumerate(steps) if step],
        )
        return number, replaced[0][0] if replaced else None

    def remove_short(self) -> None:
        """Removes trajectories of which less than two steps are left."""
        self._database.fetch(
            "DELETE FROM trajectories WHERE trajectory NOT IN "
            "(SELECT trajectory FROM steps GROUP BY trajectory HAVING count(*) > 1)"
        )

    def experienced(self, without: Sequence[str] = ()) -> tuple[Int64, Int64, Int64, Float32]:
        """All steps in order, but those of the named trajectories.

        Returns:
            Rows, trajectories, positions and salience (1 where none was given), (S,) each.
        """
        left_out, last, blocks = to_json(list(without)), (-1, -1), [_columns([])]
        while found := self._database.fetch(
            "SELECT row, trajectory, position, coalesce(salience, 1) FROM steps "
            "WHERE (trajectory, position) > (?, ?) AND trajectory NOT IN (SELECT trajectory FROM trajectories "
            "WHERE id IN (SELECT value FROM json_each(?))) ORDER BY trajectory, position LIMIT ?",
            [*last, left_out, STEPS_AT_ONCE],
        ):
            blocks.append(_columns(found))
            last = found[-1][1:3]
        rows, trajectories, positions, salience = (np.concatenate(column) for column in zip(*blocks, strict=True))
        return rows, trajectories, positions, salience

    def lengths(self) -> tuple[Int64, Int64]:
        """The numbers of all trajectories, rising, and how many steps each has."""
        found = self._database.fetch("SELECT trajectory, count(*) FROM steps GROUP BY trajectory ORDER BY trajectory")
        numbers, lengths = zip(*found, strict=True) if found else ((), ())
        return np.array(numbers, np.int64), np.array(lengths, np.int64)

    def between(self, first: int, last: int) -> tuple[Int64, Int64, Int64, Float32]:
        """The steps of the trajectories numbered ``first`` to ``last``, as of ``experienced``."""
        found = self._database.fetch(
            "SELECT row, trajectory, position, coalesce(salience, 1) FROM steps "
            "WHERE trajectory BETWEEN ? AND ? ORDER BY trajectory, position",
            [first, last],
        )
        return _columns(found)

    def experienced_when(self) -> Times:
        """(S,) the timestamp of every step, NaN for none, in the order of ``experienced``."""
        found = self._database.fetch("SELECT timestamp FROM steps ORDER BY trajectory, position")
        return np.array([time for (time,) in found], np.float64)  # None becomes NaN

    def experienced_often(self, rows: Int64) -> tuple[Int64, int]:
        """How often each of ``rows`` (n,) was experienced, and how many steps there are in all."""
        total: int = self._database.fetch("SELECT count(*) FROM steps")[0][0]
        found = self._database.fetch(
            "SELECT value, (SELECT count(*) FROM steps WHERE row = value) FROM json_each(?) ORDER BY key",
            [json.dumps(rows.tolist())],
        )
        return np.array([count for _, count in found], np.int64), total

    def newest_time(self) -> float | None:
        """The latest timestamp of any step, or None."""
        newest: float | None = self._database.fetch("SELECT max(timestamp) FROM steps")[0][0]
        return newest

    def last_times(self, rows: Int64) -> Times:
        """(n,) when each of ``rows`` was experienced last, NaN for none."""
        found = self._database.fetch(
            "SELECT (SELECT max(timestamp) FROM steps WHERE row = value) FROM json_each(?) ORDER BY key",
            [json.dumps(rows.tolist())],
        )
        return np.array([time for (time,) in found], np.float64)

    def groups(self, group_by: str, order_by: str | None) -> list[tuple[int, str, Any, str, Any]]:
        """(row, id, group, kind of order, order) of each memory that has ``group_by``, in order."""
        return self._database.fetch(GROUPS, [group_by, order_by])

    def meetings(self, cues: Int64, window: int) -> dict[int, list[Evidence]]:
        """hit row -> the occasions on which it met one of ``cues``, nearest first."""
        found = self._database.fetch(
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


def _columns(found: list[Any]) -> tuple[Int64, Int64, Int64, Float32]:
    rows, trajectories, positions, salience = zip(*found, strict=True) if found else ((), (), (), ())
    return (
        np.array(rows, np.int64),
        np.array(trajectories, np.int64),
        np.array(positions, np.int64),
        np.array(salience, np.float32),
    )
