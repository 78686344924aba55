"""One more step of a trajectory: its checks, and the writes inside the transaction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.errors import InvalidInput, UnknownId
from pam_retriever.store.database import Database, TrajectoryEnd
from pam_retriever.store.sqlite.times import NewTimes, as_datetime, other_kind
from pam_retriever.store.storing import NewMemories
from pam_retriever.types import Float32, Int64


@dataclass(frozen=True)
class NewStep:
    """A checked step.

    Attributes:
        session: id of the trajectory.
        id: id of the memory.
        timestamp: timestamp of the step.
        times: the time of the memory: the timestamp, if it is a date.
        memory: a memory to store; None for a step of a stored memory.
    """

    session: str
    id: str
    timestamp: float | None
    times: NewTimes
    memory: NewMemories | None = None

    def follow(self, database: Database) -> TrajectoryEnd | None:
        """Returns the end of the trajectory; None if this is its first step.

        Raises:
            InvalidInput: the step is earlier than the previous step, or its time is a number and others are dates.
        """
        end = database.trajectories.end(self.session, self.timestamp is not None)
        self._check_kind(database, end)
        if end is not None and None not in (end.timestamp, self.timestamp) and self.timestamp < end.timestamp:  # type: ignore[operator]
            step, latest = _shown(self.timestamp, self.times.kind), _shown(end.timestamp, database.times.kind())
            raise InvalidInput(
                f"The timestamp {step} is earlier than {latest}, the latest of {self.session!r}.",
                "times that never fall",
                "Append in the order of time, or store the whole trajectory with observe().",
            )
        return end

    def _check_kind(self, database: Database, end: TrajectoryEnd | None) -> None:
        """Refuses a number where other times are dates, and the reverse. A number is no time of a memory."""
        if self.timestamp is None:
            return
        database.times.check(self.times.kind or "numbers")
        numbered = end is not None and end.timestamp is not None and database.times.kind() is None
        if numbered and self.times.kind == "dates":
            raise other_kind("dates", "numbers")

    def put(self, database: Database, associations: Float32 | None) -> Int64:
        """Inside a transaction: stores the memory, if it is new, with the date of the step; returns its row (1,).

        Raises:
            UnknownId: there is no memory to store, and none has this id.
        """
        rows = self._find(database) if self.memory is None else self.memory.put(database, associations)
        if self.times.kind == "dates" and self.timestamp is not None:
            database.times.hand_down(rows, [self.timestamp])  # stays if the time that was given is removed
        return rows

    def _find(self, database: Database) -> Int64:
        known = database.memories.rows_of([self.id])
        if self.id not in known:
            raise UnknownId(
                f"Got the unknown id {self.id!r} with neither a vector nor a text.",
                "the id of a stored memory, or what to store",
                "Pass vector=..., or text=... with an embedder.",
            )
        return np.array([known[self.id]], np.int64)


def _shown(time: float | None, kind: str | None) -> object:
    return as_datetime(time) if kind == "dates" and time is not None else time


def number_of(database: Database, session: str, end: TrajectoryEnd | None) -> int:
    """Returns the number of the trajectory; creates the trajectory if this is its first step."""
    if end is not None:
        return end.number
    number, _ = database.trajectories.put(session, [])
    return number
