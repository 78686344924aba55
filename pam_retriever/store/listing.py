"""Stored trajectories as public records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pam_retriever.types import TrajectoryRecord

Listed = tuple[int, int, str, float | None]
"""Trajectory, position, id of the memory and timestamp of a step."""


def to_records(numbers: Sequence[int], named: Mapping[int, str], steps: Iterable[Listed]) -> list[TrajectoryRecord]:
    """Returns the named trajectories among these numbers as records. Their steps come in order."""
    held: dict[int, list[Listed]] = {number: [] for number in numbers if number in named}
    for step in steps:
        if step[0] in held:
            held[step[0]].append(step)
    records = []
    for number, own in held.items():
        times = tuple(time for *_, time in own)
        records.append(
            TrajectoryRecord(
                named[number],
                tuple(id for _, _, id, _ in own),
                times if any(time is not None for time in times) else None,
                own[-1][1] + 1 if own else 0,
            )
        )
    return records
