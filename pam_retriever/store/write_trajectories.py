"""Writes episodes: new states and steps to the database, then links to the copy in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pam_retriever.errors import UnknownId
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.experience.trajectories import Episode
from pam_retriever.store.capacity import Capacity
from pam_retriever.store.database import Database, Step
from pam_retriever.store.growth import mark_grown, settle_removed
from pam_retriever.store.handed_dates import take_back, timed
from pam_retriever.store.storing import NewMemories
from pam_retriever.types import Float32, Int64, TrajectoryRecord

Added = tuple[Int64, Float32, Float32 | None]  # rows, vectors, association vectors


@dataclass(frozen=True)
class WrittenTrajectory:
    """A written trajectory.

    Attributes:
        number: number of the trajectory.
        replaced: the number of the trajectory that it replaces, or None.
        rows: (T,) its memories; -1 for a removed memory.
        salience: (T,), 1 by default.
        first: the position of the first of these steps: 0, unless the trajectory existed and grew.
    """

    number: int
    replaced: int | None
    rows: Int64
    salience: Float32
    first: int = 0


def write_trajectories(
    database: Database, episodes: list[Episode], associate: Callable[[Sequence[str], Float32], Float32 | None]
) -> tuple[list[Added], list[WrittenTrajectory]]:
    """Writes episodes inside a transaction; returns their new states, and their steps.

    Raises:
        InvalidInput: an episode has dates, but the times of the index are numbers; nothing was written.
    """
    if any(episode.dated for episode in episodes):
        database.times.check("dates")
    added: list[Added] = []
    written: list[WrittenTrajectory] = []
    replaced: list[TrajectoryRecord] = []
    there = bool(database.trajectories.numbers(ids=[episode.id for episode in episodes]))
    for episode in episodes:
        if episode.vectors is not None:
            predicted = associate(episode.ids, episode.vectors)
            added.append(_add_states(database, episode, episode.vectors, predicted))
        steps, before = _put_steps(database, episode, there)
        written.append(steps)
        replaced += before
        if episode.dated and episode.timestamps is not None:
            database.times.hand_down(written[-1].rows, episode.timestamps[written[-1].first :])
    take_back(database, replaced)
    return added, written


def check_known(database: Database, episodes: list[Episode]) -> dict[str, int]:
    """Returns the rows of all stored ids.

    Raises:
        UnknownId: an episode names a memory that is neither stored nor given with a vector.
    """
    ids = list(dict.fromkeys(id for episode in episodes for id in episode.ids))
    known = database.memories.rows_of(ids)
    given = {id for episode in episodes if episode.vectors is not None for id in episode.ids}
    unknown = [id for id in ids if id not in known and id not in given]
    if unknown:
        raise UnknownId(
            f"The trajectories name {len(unknown)} unknown ids, the first of them {unknown[:5]}.",
            "ids of memories in the index",
            "Add them first, or pass the vectors as trajectories.",
        )
    return known


def rows_of(added: list[Added]) -> Int64:
    """Returns the rows of all new states."""
    return np.concatenate([np.empty(0, np.int64), *(rows for rows, _, _ in added)])


def _add_states(database: Database, episode: Episode, vectors: Float32, predicted: Float32 | None) -> Added:
    length = len(episode.ids)
    rows = NewMemories(episode.ids, vectors, [None] * length, ["{}"] * length).put(database, predicted)
    return rows, vectors, predicted


def _put_steps(database: Database, episode: Episode, there: bool) -> tuple[WrittenTrajectory, list[TrajectoryRecord]]:
    """Stores the steps of an episode; returns also the trajectory that it replaces, if times matter."""
    steps = steps_in(episode, database.memories.rows_of(list(set(episode.ids))))
    grown = stored_beginning(database, episode, steps) if there else None
    if grown is None:
        before = timed(database, database.trajectories.numbers(ids=[episode.id])) if there else []
        number, replaced = database.trajectories.put(episode.id, steps)
        settle_removed(database, () if replaced is None else (replaced,))
        return WrittenTrajectory(number, replaced, *_columns(steps)), before
    number, first = grown
    more = [step for step in steps[first:] if step]
    if more:
        database.trajectories.extend(number, first, more)
        mark_grown(database.settings, number, first)
    return WrittenTrajectory(number, None, *_columns(more), first), []


def _columns(steps: Sequence[Step | None]) -> tuple[Int64, Float32]:
    rows = np.array([step.row if step else -1 for step in steps], np.int64)
    weights = [None if step is None else step.salience for step in steps]
    return rows, np.array([1 if weight is None else weight for weight in weights], np.float32)


def steps_in(episode: Episode, known: Mapping[str, int]) -> list[Step | None]:
    """Returns the steps of an episode with row numbers. A memory deleted meanwhile leaves an empty position."""
    times = episode.timestamps or (None,) * len(episode.ids)
    salience = episode.salience or (None,) * len(episode.ids)
    return [
        Step(known[id], time, weight) if id in known else None
        for id, time, weight in zip(episode.ids, times, salience, strict=True)
    ]


def stored_beginning(database: Database, episode: Episode, steps: Sequence[Step | None]) -> tuple[int, int] | None:
    """Returns number and length of the stored trajectory that an episode continues or repeats.

    None if there is none, or if the episode differs from the stored steps.
    """
    new = episode.vectors is not None or None in steps
    end = None if new else database.trajectories.end(episode.id, timed=False)
    if end is None or not 0 < end.position <= len(steps):
        return None
    stored = database.trajectories.steps_of(episode.id)
    same = [_plain(step) for step in steps[: end.position]] == [_plain(step) for _, step in stored]
    return (end.number, end.position) if same else None


def _plain(step: Step | None) -> tuple[object, ...]:
    assert step is not None
    return step.row, step.timestamp, None if step.salience is None else np.float32(step.salience)


def link(links: CooccurrenceGraph, written: list[WrittenTrajectory]) -> None:
    """Adds the steps of written trajectories to the links."""
    if not written:
        return
    lengths = [len(one.rows) for one in written]
    links.append(
        np.concatenate([one.rows for one in written]),
        np.repeat([one.number for one in written], lengths),
        np.concatenate([one.first + np.arange(len(one.rows)) for one in written]),
        np.concatenate([one.salience for one in written]),
        [one.replaced for one in written if one.replaced is not None],
    )


# ---- steps at the ends of trajectories, for memories that the same transaction stores


class EndsMoved(Exception):
    """The data changed since the caller read the ends of trajectories; nothing was stored."""


@dataclass(frozen=True)
class MoreSteps:
    """New steps of a stored trajectory.

    Attributes:
        trajectory: id of the trajectory.
        number: number of the trajectory.
        first: position of the first new step.
        members: T indices of the new memories that are the steps, in order.
        timestamps: T finite numbers, not below those of earlier steps; None for steps without a timestamp.
    """

    trajectory: str
    number: int
    first: int
    members: Sequence[int]
    timestamps: Sequence[float] | None = None


@dataclass(frozen=True)
class Continued:
    """The trajectories that new memories continue.

    Attributes:
        seen: the ``words_version`` at which the caller knew the memories of these trajectories.
        steps: the new steps.
    """

    seen: int
    steps: Sequence[MoreSteps] = ()

    @property
    def length(self) -> int:
        """The number of new steps."""
        return sum(len(more.members) for more in self.steps)

    def check(self, database: Database) -> None:
        """Inside a transaction, before it writes: compares the database with what the caller knew.

        Raises:
            EndsMoved: a memory was written since, the index has a capacity, or a trajectory ends elsewhere.
        """
        if self.steps and Capacity.read(database.settings) is not None:
            raise EndsMoved  # memories beyond the capacity are deleted before they are linked
        written = database.memories.written_since(self.seen)
        if written is None or len(written):
            raise EndsMoved
        for more in self.steps:
            end = database.trajectories.end(more.trajectory, timed=False)
            if end is None or (end.number, end.position) != (more.number, more.first):
                raise EndsMoved

    def write(self, database: Database, rows: Int64) -> list[WrittenTrajectory]:
        """Inside a transaction: stores the steps; ``rows`` (n,) are those of the new memories."""
        written = []
        for more in self.steps:
            own = rows[np.asarray(more.members, np.int64)]
            times = more.timestamps or (None,) * len(own)
            steps = [Step(row, time, None) for row, time in zip(own.tolist(), times, strict=True)]
            database.trajectories.extend(more.number, more.first, steps)
            mark_grown(database.settings, more.number, more.first)
            written.append(WrittenTrajectory(more.number, None, own, np.ones(len(own), np.float32), more.first))
        return written
