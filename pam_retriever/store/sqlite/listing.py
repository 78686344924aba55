"""Rows of stored trajectories as records, evidence and arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pam_retriever.store.database import Steps
from pam_retriever.types import Evidence, TrajectoryRecord

Listed = tuple[int, int, str, float | None]
"""Trajectory, position, id of the memory and timestamp of a step."""


def to_records(numbers: Sequence[int], named: Mapping[int, str], steps: Iterable[Listed]) -> list[TrajectoryRecord]:
    """Returns records of the trajectories with these numbers, if they have a name. ``steps`` must be in order."""
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


def to_evidence(found: Iterable[tuple[int, str, str, int, int]]) -> dict[int, list[Evidence]]:
    """Returns hit row -> its evidence, from rows of hit row, trajectory, cue, and the positions of cue and hit."""
    evidence: dict[int, list[Evidence]] = {}
    for row, trajectory, cue, cue_at, hit_at in found:
        evidence.setdefault(row, []).append(Evidence(trajectory, cue, cue_at, hit_at, hit_at - cue_at))
    return evidence


def to_steps(found: Sequence[Sequence[Any]]) -> Steps:
    """Returns rows of memory, trajectory, position and salience as columns."""
    rows, trajectories, positions, salience = zip(*found, strict=True) if found else ((), (), (), ())
    return (
        np.array(rows, np.int64),
        np.array(trajectories, np.int64),
        np.array(positions, np.int64),
        np.array(salience, np.float32),
    )
