"""The dates that trajectories gave to memories leave with these trajectories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from pam_retriever.store.database import Database
from pam_retriever.types import TrajectoryRecord

# Steps do not say whether their timestamps are dates. Numbers are refused after this, the year 9999 in any zone: it is
# less than milliseconds since 1970, or since any later date.
LAST_DATE = 253_402_400_000.0


def timed(database: Database, numbers: Sequence[int]) -> list[TrajectoryRecord]:
    """Returns the trajectories with these numbers, for ``take_back``; none if no memory has a date."""
    if not numbers or database.times.kind() != "dates":
        return []
    return database.trajectories.listed(numbers)


def take_back(database: Database, removed: Iterable[TrajectoryRecord]) -> None:
    """Inside a transaction that removed trajectories: a memory with a date of theirs gets its next one, or none.

    A memory keeps a date that was given with it.
    """
    earliest: dict[str, float] = {}
    for record in removed:
        for id, time in zip(record.ids, record.timestamps or (), strict=False):
            if time is not None:
                earliest[id] = min(time, earliest.get(id, time))
    known = database.memories.rows_of(list(earliest))
    times = {row: earliest[id] for id, row in known.items()}
    handed = database.times.handed(np.array(sorted(times), np.int64))
    stale = {row: time for row, time in handed.items() if time == times[row]}
    if not stale:
        return
    left: dict[int, float | None] = dict.fromkeys(stale)
    for row, time in database.trajectories.timestamps(np.array(list(stale), np.int64)):
        # a memory had its earliest date: an earlier timestamp is a number
        if stale[row] <= time <= LAST_DATE:
            later = left[row]
            left[row] = time if later is None else min(time, later)
    database.times.hand_over(left)
