"""Builds the training set from stored and new episodes: vectors, and steps that index them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import numpy as np

from pam_retriever.errors import InvalidInput
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.experience.dates import order_of
from pam_retriever.experience.trajectories import Episode, name_of_group
from pam_retriever.store.database import Database, Grouped
from pam_retriever.store.growth import LearnedSteps
from pam_retriever.store.write_trajectories import check_known
from pam_retriever.types import Bools, Float32, Int64
from pam_retriever.validation import check_text

TOO_LARGE = 2**63  # SQLite reads larger integers as doubles


@dataclass(frozen=True)
class TrainingSet:
    """A training set.

    Attributes:
        vectors: (M, dim) the vectors of all memories.
        rows: (n,) sorted, of the stored memories, which come first.
        positions: positions of the memories by id.
        experience: the steps, as positions of memories.
        fresh: (S,) mask of new steps.
    """

    vectors: Float32
    rows: Int64
    positions: dict[str, int]
    experience: Experience
    fresh: Bools

    def with_codes(self, codes: Float32) -> Float32:
        """Extends codes (n, code) of the stored memories to all memories; (M, code), zeros for the others."""
        new = len(self.vectors) - len(codes)
        return np.concatenate([codes, np.zeros((new, codes.shape[1]), np.float32)])


def gather(
    database: Database, episodes: list[Episode], dim: int, learned_steps: LearnedSteps, numbers: Mapping[str, int]
) -> TrainingSet:
    """Gathers stored and new episodes into one training set; writes nothing.

    An episode replaces the stored trajectory with the same id. If it begins with the steps of the stored one, only the
    later steps are new; otherwise all steps are new.

    Args:
        database: the database with the stored episodes.
        episodes: the new ones.
        dim: d.
        learned_steps: which steps are new.
        numbers: numbers, by id, of the stored trajectories whose steps episodes begin with.
    """
    known = check_known(database, episodes)
    stored, vectors = database.memories.all_vectors(dim)
    positions = {id: int(at) for id, at in zip(known, np.searchsorted(stored, list(known.values())), strict=True)}
    rows, trajectory, position, salience = database.trajectories.experienced(
        without=[episode.id for episode in episodes]
    )
    parts = [(np.searchsorted(stored, rows), trajectory, position, salience)]
    for episode in episodes:
        for id in episode.ids:
            positions.setdefault(id, len(vectors) + len(positions) - len(known))
    together = np.concatenate([vectors, np.empty((len(positions) - len(known), dim), np.float32)])
    free = max(int(trajectory.max(initial=learned_steps.number)), *numbers.values(), 0) + 1
    for at, episode in enumerate(episodes):
        number = numbers.get(episode.id, free + at)
        states = np.array([positions[id] for id in episode.ids], np.int64)
        if episode.vectors is not None:
            together[states] = episode.vectors
        salience = np.array(episode.salience or np.ones(len(states)), np.float32)
        parts.append((states, np.full(len(states), number), np.arange(len(states)), salience))
    states, trajectory, position, salience = (np.concatenate(column) for column in zip(*parts, strict=True))
    steps = Experience(states, trajectory, position, salience)
    return TrainingSet(together, stored, positions, steps, learned_steps.fresh(trajectory, position))


def read_groups(database: Database, group_by: str, order_by: Sequence[str] = ()) -> list[Episode]:
    """Reads trajectories from metadata: memories with the same ``group_by``, sorted by the keys ``order_by``.

    Memories without the key ``group_by``, and groups of one memory, give no trajectory. Without ``order_by`` the order
    is that of adding.

    Raises:
        InvalidInput: there is no group of two, or values cannot be compared.
    """
    for name, key in (("group_by", group_by), *(("order_by", key) for key in order_by)):
        if not isinstance(key, str) or not key or "\x00" in check_text(key, name):
            raise InvalidInput(f"Got {name}={key!r}.", "a key of the metadata, a string without NUL", "Name another.")
    columns = {key: {row: one for row, *one in database.trajectories.groups(group_by, key)} for key in order_by}
    first = database.trajectories.groups(group_by, order_by[0] if order_by else None)
    episodes = []
    for (_, value), members in groupby(first, key=_group):
        if isinstance(value, float) and not abs(value) < TOO_LARGE:
            raise InvalidInput(
                f"A value of {group_by!r} is about {value:g}, which SQLite cannot distinguish from its neighbours.",
                f"whole numbers below {TOO_LARGE}",
                "Store such a number as a string.",
            )
        found = list(members)
        if order_by:  # 1.5 belongs between 1 and 2, but the database sorts integers and floats apart
            found.sort(key=lambda one: tuple(_sortable(columns[key][one[0]]) for key in order_by))
        numeric = [_check_order(group_by, value, key, found, columns[key]) for key in order_by]
        if len(found) < 2:
            continue
        episodes.append(
            Episode(
                id=name_of_group(group_by, value),
                ids=tuple(id for _, id, _, _, _ in found),
                timestamps=tuple(float(cast("float", order)) for *_, order in found) if any(numeric[:1]) else None,
            )
        )
    if not episodes:
        raise InvalidInput(
            f"No two memories share a value of {group_by!r} in their metadata.",
            "groups of at least two memories",
            "Check the name of the key.",
        )
    return episodes


def _check_order(group_by: str, value: object, key: str, found: list[Grouped], column: dict[int, list[object]]) -> bool:
    """Returns whether the values of a key are numbers in all memories of a group.

    Raises:
        InvalidInput: they are neither all numbers nor all strings.
    """
    kinds = {one[0]: cast("str", column[one[0]][2]) for one in found}
    bad = [one[1] for one in found if kinds[one[0]] not in ("integer", "real", "text")]
    if bad or len({kind == "text" for kind in kinds.values()}) > 1:
        raise InvalidInput(
            f"In {group_by}={value!r}, the values of {key!r} are of several kinds, or missing: "
            f"{bad or [(one[1], column[one[0]][3]) for one in found][:5]}.",
            "a number in each of them, or a string in each of them",
            f"Store {key!r} in every memory that has {group_by!r}, in one form.",
        )
    return "text" not in kinds.values()


def _sortable(column: list[object]) -> tuple[bool, object]:
    """Returns a sort key for values of any kind. A later check rejects mixed kinds."""
    _, _, kind, order = column
    if kind == "text":
        return True, order_of(cast("str", order))
    return False, order if kind in ("integer", "real") else 0


def _group(found: Grouped) -> tuple[bool, object]:
    """Returns the value by which a memory is grouped; the number 1 and the string "1" are different groups."""
    return isinstance(found[2], str), found[2]
