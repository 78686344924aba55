"""Episodes on their way into an index: their new states and steps into the database, then their links into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pam_retriever.links import Links
from pam_retriever.storage.documents import Documents
from pam_retriever.storage.trajectories import Step
from pam_retriever.trajectories import Episode
from pam_retriever.types import Float32, Int64

Added = tuple[Int64, Float32, Float32 | None]  # rows, vectors, association vectors


@dataclass(frozen=True)
class Told:
    """A trajectory that was written.

    Attributes:
        number: its own.
        replaced: that of the trajectory it replaces, or None.
        rows: (T,) its memories; -1 where one is gone.
        salience: (T,) 1 where none was given.
    """

    number: int
    replaced: int | None
    rows: Int64
    salience: Float32


def store(
    documents: Documents, episodes: list[Episode], associate: Callable[[Sequence[str], Float32], Float32 | None]
) -> tuple[list[Added], list[Told]]:
    """Writes episodes inside a transaction; returns their new states, and their steps."""
    added: list[Added] = []
    told: list[Told] = []
    for episode in episodes:
        if episode.vectors is not None:
            predicted = associate(episode.ids, episode.vectors)
            added.append(_add_states(documents, episode, episode.vectors, predicted))
        told.append(_put_steps(documents, episode))
    return added, told


def rows_of(added: list[Added]) -> Int64:
    """All new states."""
    return np.concatenate([np.empty(0, np.int64), *(rows for rows, _, _ in added)])


def _add_states(documents: Documents, episode: Episode, vectors: Float32, predicted: Float32 | None) -> Added:
    length = len(episode.ids)
    rows = documents.memories.upsert(episode.ids, [None] * length, ["{}"] * length, vectors, predicted)
    return rows, vectors, predicted


def _put_steps(documents: Documents, episode: Episode) -> Told:
    known = documents.memories.rows_of(list(set(episode.ids)))
    times = episode.timestamps or (None,) * len(episode.ids)
    salience = episode.salience or (None,) * len(episode.ids)
    # an id that was deleted while fit was training leaves its position empty
    steps = [
        Step(known[id], time, weight) if id in known else None
        for id, time, weight in zip(episode.ids, times, salience, strict=True)
    ]
    number, replaced = documents.trajectories.put(episode.id, steps)
    return Told(
        number,
        replaced,
        np.array([step.row if step else -1 for step in steps], np.int64),
        np.array([1 if weight is None else weight for weight in salience], np.float32),
    )


def link(links: Links, told: list[Told]) -> None:
    """Adds the steps of written trajectories to the links."""
    if not told:
        return
    lengths = [len(one.rows) for one in told]
    links.append(
        np.concatenate([one.rows for one in told]),
        np.repeat([one.number for one in told], lengths),
        np.concatenate([np.arange(length) for length in lengths]),
        np.concatenate([one.salience for one in told]),
        [one.replaced for one in told if one.replaced is not None],
    )
