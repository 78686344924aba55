"""The trajectories in PostgreSQL: see ``store.database.Trajectories``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pam_retriever.engines.postgres.connection import Connections
from pam_retriever.engines.postgres.memories import PostgresMemories, check_contents
from pam_retriever.engines.words import grouped
from pam_retriever.store.database import Grouped, Step, Steps, TrajectoryEnd
from pam_retriever.store.sqlite.listing import Listed, to_evidence, to_records, to_steps
from pam_retriever.types import Evidence, Int64, Times, TrajectoryRecord

STEPS = "SELECT row, trajectory, position, coalesce(salience, 1) FROM steps"


class PostgresTrajectories:
    """The trajectories of one index; see ``EngineTrajectories``.

    Args:
        database: the connections to the database.
        memories: the memories in the same database.
    """

    def __init__(self, database: Connections, memories: PostgresMemories) -> None:
        self._database, self._memories = database, memories

    def __len__(self) -> int:
        count: int = self._database.fetch("SELECT count(*) FROM trajectories")[0][0]
        return count

    def last_number(self) -> int:
        return self._database.state.last_trajectory

    def put(self, id: str, steps: Sequence[Step | None]) -> tuple[int, int | None]:
        check_contents([id], [])
        replaced = self._database.fetch("DELETE FROM trajectories WHERE id = %s RETURNING trajectory", [id])
        self._log_removed(replaced)
        state = self._database.state
        number = state.last_trajectory = state.last_trajectory + 1
        self._database.fetch("INSERT INTO trajectories (trajectory, id) VALUES (%s, %s)", [number, id])
        self._copy(number, 0, steps)
        return number, replaced[0][0] if replaced else None

    def _copy(self, number: int, first: int, steps: Sequence[Step | None]) -> None:
        self._database.copy(
            "steps",
            ("int8", "int4", "int8", "float8", "float8"),
            [(number, at, step.row, step.timestamp, step.salience) for at, step in enumerate(steps, first) if step],
        )

    def extend(self, number: int, first: int, steps: Sequence[Step]) -> None:
        """Stores more steps of a trajectory, from position ``first`` on. Other processes then read it again."""
        self._copy(number, first, steps)
        self._log_removed([(number,)])

    def remove(self, numbers: Sequence[int]) -> None:
        self._log_removed(
            self._database.fetch(
                "DELETE FROM trajectories WHERE trajectory = ANY(%s::bigint[]) RETURNING trajectory", [list(numbers)]
            )
        )

    def remove_empty(self, numbers: Sequence[int] | None = None) -> None:
        self._log_removed(
            self._database.fetch(
                "DELETE FROM trajectories AS t WHERE (%s::bigint[] IS NULL OR trajectory = ANY(%s::bigint[])) "
                "AND NOT EXISTS (SELECT 1 FROM steps AS s WHERE s.trajectory = t.trajectory) RETURNING trajectory",
                [None if numbers is None else list(numbers)] * 2,
            )
        )

    def _log_removed(self, removed: list[tuple[int]]) -> None:
        version = self._database.state.version
        self._database.run_many(
            "INSERT INTO removals (version, trajectory) VALUES (%s, %s)", [(version, number) for (number,) in removed]
        )

    # ---- reading, one by one

    def end(self, id: str, timed: bool) -> TrajectoryEnd | None:  # noqa: ARG002 - one query finds both
        found = self._database.fetch(
            "SELECT t.trajectory, coalesce(max(position), -1) + 1, max(timestamp) FROM trajectories AS t "
            "LEFT JOIN steps USING (trajectory) WHERE id = %s GROUP BY t.trajectory",
            [id],
        )
        return TrajectoryEnd(*found[0]) if found else None

    def end_of(self, number: int) -> int:
        last: int = self._database.fetch(
            "SELECT coalesce(max(position), -1) + 1 FROM steps WHERE trajectory = %s", [number]
        )[0][0]
        return last

    def steps_of(self, id: str) -> list[tuple[int, Step]]:
        found = self._database.fetch(
            "SELECT position, row, timestamp, salience FROM steps JOIN trajectories USING (trajectory) "
            "WHERE id = %s ORDER BY position",
            [id],
        )
        return [(position, Step(*step)) for position, *step in found]

    def numbers(self, rows: Int64 | None = None, ids: Sequence[str] | None = None) -> list[int]:
        among: list[Any]
        if rows is not None:
            condition, among = (
                "WHERE trajectory IN (SELECT trajectory FROM steps WHERE row = ANY(%s::bigint[]))",
                [rows.tolist()],
            )
        elif ids is not None:
            condition, among = "WHERE id = ANY(%s::text[])", [[id for id in ids if "\x00" not in id]]
        else:
            condition, among = "", []
        found = self._database.fetch(f"SELECT trajectory FROM trajectories {condition} ORDER BY trajectory", among)
        return [number for (number,) in found]

    def listed(self, numbers: Sequence[int]) -> list[TrajectoryRecord]:
        among = [list(numbers)]
        named = self._database.fetch(
            "SELECT trajectory, id FROM trajectories WHERE trajectory = ANY(%s::bigint[])", among
        )
        steps: list[Listed] = self._database.fetch(
            "SELECT s.trajectory, s.position, m.id, s.timestamp FROM steps AS s JOIN memories AS m USING (row) "
            "WHERE s.trajectory = ANY(%s::bigint[]) ORDER BY s.trajectory, s.position",
            among,
        )
        return to_records(numbers, dict(named), steps)

    # ---- reading

    def experienced(self, without: Sequence[str] = ()) -> Steps:
        found = self._database.fetch(
            f"{STEPS} WHERE trajectory NOT IN (SELECT trajectory FROM trajectories WHERE id = ANY(%s::text[])) "
            "ORDER BY trajectory, position",
            [list(without)],
        )
        return to_steps(found)

    def named(self) -> list[tuple[int, str]]:
        return self._database.fetch("SELECT trajectory, id FROM trajectories ORDER BY trajectory")

    def steps(self) -> list[tuple[int, int, int, float | None, float | None]]:
        return self._database.fetch(
            "SELECT trajectory, position, row, timestamp, salience FROM steps ORDER BY trajectory, position"
        )

    def experienced_since(self, number: int, grown: Sequence[int] = ()) -> Steps:
        found = self._database.fetch(
            f"{STEPS} WHERE trajectory > %s OR trajectory = ANY(%s::bigint[]) ORDER BY trajectory, position",
            [number, list(grown)],
        )
        return to_steps(found)

    def removed_since(self, version: int) -> tuple[Int64, Int64]:
        found = self._database.fetch("SELECT memory, trajectory FROM removals WHERE version > %s", [version])
        memories = [memory for memory, _ in found if memory is not None]
        trajectories = [trajectory for _, trajectory in found if trajectory is not None]
        return np.array(memories, np.int64), np.array(trajectories, np.int64)

    def experienced_when(self) -> Times:
        return _times(self._database.fetch("SELECT timestamp FROM steps ORDER BY trajectory, position"))

    def experienced_often(self, rows: Int64) -> tuple[Int64, int]:
        total: int = self._database.fetch("SELECT count(*) FROM steps")[0][0]
        found = self._of_each("SELECT count(*) FROM steps WHERE row = value", rows)
        return np.array([count for (count,) in found], np.int64), total

    def newest_time(self) -> float | None:
        newest: float | None = self._database.fetch("SELECT max(timestamp) FROM steps")[0][0]
        return newest

    def last_times(self, rows: Int64) -> Times:
        return _times(self._of_each("SELECT max(timestamp) FROM steps WHERE row = value", rows))

    def timestamps(self, rows: Int64) -> list[tuple[int, float]]:
        return self._database.fetch(
            "SELECT row, timestamp FROM steps WHERE timestamp IS NOT NULL AND row = ANY(%s::bigint[])", [rows.tolist()]
        )

    def _of_each(self, query: str, rows: Int64) -> list[tuple[Any]]:
        return self._database.fetch(
            f"SELECT ({query}) FROM unnest(%s::bigint[]) WITH ORDINALITY AS asked (value, at) ORDER BY at",
            [rows.tolist()],
        )

    def groups(self, group_by: str, order_by: str | None) -> list[Grouped]:
        return grouped(self._memories.metadatas(group_by), group_by, order_by)

    def evidence(self, cues: Int64, window: int, repeats: bool = False) -> dict[int, list[Evidence]]:
        found = self._database.fetch(
            "SELECT b.row, t.id, m.id, a.position, b.position FROM steps AS a "
            "JOIN steps AS b ON b.trajectory = a.trajectory "
            "AND b.position BETWEEN a.position - %s AND a.position + %s "
            f"AND {'b.position != a.position' if repeats else 'b.row != a.row'} "
            "JOIN trajectories AS t ON t.trajectory = a.trajectory JOIN memories AS m ON m.row = a.row "
            "WHERE a.row = ANY(%s::bigint[]) ORDER BY abs(b.position - a.position), t.trajectory, a.position",
            [window, window, cues.tolist()],
        )
        return to_evidence(found)


def _times(found: list[tuple[float | None]]) -> Times:
    return np.array([time for (time,) in found], np.float64)  # None becomes NaN
