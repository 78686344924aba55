"""From stored and new episodes to what training needs: vectors, and steps that point at them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from pam_retriever.cooccurrence import Experience
from pam_retriever.errors import InvalidInput, UnknownId
from pam_retriever.filters import to_json
from pam_retriever.storage.documents import Documents
from pam_retriever.trajectories import Episode
from pam_retriever.types import Bools, Float32, Int64


def check_known(documents: Documents, episodes: list[Episode]) -> dict[str, int]:
    """The rows of all ids that are stored.

    Raises:
        UnknownId: an episode names a memory that is neither stored nor given with a vector.
    """
    ids = list(dict.fromkeys(id for episode in episodes for id in episode.ids))
    known = documents.memories.rows_of(ids)
    given = {id for episode in episodes if episode.vectors is not None for id in episode.ids}
    unknown = [id for id in ids if id not in known and id not in given]
    if unknown:
        raise UnknownId(
            f"The trajectories name {len(unknown)} unknown ids, the first of them {unknown[:5]}.",
            "ids of memories in the index",
            "Add them first, or pass the vectors as trajectories.",
        )
    return known


@dataclass(frozen=True)
class Gathered:
    """A training set.

    Attributes:
        vectors: (M, dim) of all memories.
        rows: (n,) sorted, of those that are stored: the first n.
        places: where the memories that an episode names are.
        experience: the steps, which point at the memories.
        fresh: (S,) which steps are new.
    """

    vectors: Float32
    rows: Int64
    places: dict[str, int]
    experience: Experience
    fresh: Bools

    def with_codes(self, codes: Float32) -> Float32:
        """Codes (n, code) of the stored memories as those of all; (M, code), zeros for the others."""
        new = len(self.vectors) - len(codes)
        return np.concatenate([codes, np.zeros((new, codes.shape[1]), np.float32)])


def gather(documents: Documents, episodes: list[Episode], dim: int, learnt_to: int = 0) -> Gathered:
    """What is stored and what is new, as one training set; nothing is written.

    New are the steps of the episodes, and of stored trajectories numbered above ``learnt_to``. An episode replaces the
    stored trajectory of the same id.
    """
    known = check_known(documents, episodes)
    stored, vectors = documents.memories.all_vectors(dim)
    place = {id: int(at) for id, at in zip(known, np.searchsorted(stored, list(known.values())), strict=True)}
    rows, trajectory, position, salience = documents.trajectories.experienced(
        without=[episode.id for episode in episodes]
    )
    parts = [(np.searchsorted(stored, rows), trajectory, position, salience)]
    for episode in episodes:
        for id in episode.ids:
            place.setdefault(id, len(vectors) + len(place) - len(known))
    together = np.concatenate([vectors, np.empty((len(place) - len(known), dim), np.float32)])
    for number, episode in enumerate(episodes, start=int(trajectory.max(initial=learnt_to)) + 1):
        states = np.array([place[id] for id in episode.ids], np.int64)
        if episode.vectors is not None:
            together[states] = episode.vectors
        salience = np.array(episode.salience or np.ones(len(states)), np.float32)
        parts.append((states, np.full(len(states), number), np.arange(len(states)), salience))
    states, trajectory, position, salience = (np.concatenate(column) for column in zip(*parts, strict=True))
    steps = Experience(states, trajectory, position, salience)
    return Gathered(together, stored, place, steps, trajectory > learnt_to)


def read_groups(documents: Documents, group_by: str, order_by: str | None) -> list[Episode]:
    """Trajectories out of metadata: memories with the same ``group_by``, sorted by ``order_by``.

    Memories without ``group_by`` belong to no trajectory, and a group of one is none. Without
    ``order_by`` they come in the order in which they were added.

    Raises:
        InvalidInput: no group of two, or values that cannot be sorted against each other.
    """
    episodes = []
    for (_, value), members in groupby(documents.trajectories.groups(group_by, order_by), key=_group):
        found = list(members)
        kinds = {"text" if kind == "text" else "number" for _, _, _, kind, _ in found}
        bad = [id for _, id, _, kind, _ in found if kind not in ("integer", "real", "text")]
        if order_by is not None and (bad or len(kinds) > 1):
            raise InvalidInput(
                f"In {group_by}={value!r}, the values of {order_by!r} are of several kinds, or missing: "
                f"{bad or [(id, order) for _, id, _, _, order in found][:5]}.",
                "a number in each of them, or a string in each of them",
                f"Store {order_by!r} in every memory that has {group_by!r}, in one form.",
            )
        if len(found) < 2:
            continue
        numeric = order_by is not None and kinds == {"number"}
        episodes.append(
            Episode(
                id=f"{group_by}={to_json(value)}",
                ids=tuple(id for _, id, _, _, _ in found),
                timestamps=tuple(float(order) for *_, order in found) if numeric else None,
            )
        )
    if not episodes:
        raise InvalidInput(
            f"No two memories share a value of {group_by!r} in their metadata.",
            "groups of at least two memories",
            "Check the name of the key.",
        )
    return episodes


def _group(found: tuple[int, str, object, str, object]) -> tuple[bool, object]:
    """The value that a memory is grouped by; the number 1 and the string "1" are two groups."""
    return isinstance(found[2], str), found[2]
