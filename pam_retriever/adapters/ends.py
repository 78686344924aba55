"""The ends of the trajectories that a store keeps of its groups, so that an addition at an end reads no group."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from pam_retriever.experience.trajectories import read_trajectories
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.store.database import Database
from pam_retriever.store.write_trajectories import Continued, EndsMoved, MoreSteps
from pam_retriever.types import Trajectory

UNKNOWN = -1  # no version of the memories
MOST_ENDS = 10_000  # known ends; beyond it the one that was used longest ago is forgotten

Last = TypeVar("Last")
"""What a store has to know of the last steps of a group."""


@dataclass(frozen=True)
class End(Generic[Last]):
    """The end of a trajectory that holds all memories of a group, in their order.

    Attributes:
        number: number of the trajectory.
        length: number of its steps.
        last: what the store knows of the last ones.
    """

    number: int
    length: int
    last: Last


@dataclass(frozen=True)
class NewSteps(Generic[Last]):
    """New memories that follow the known end of a group.

    Attributes:
        members: T indices of them, in order.
        timestamps: T numbers, or None.
        last: what the store then knows of the last ones.
    """

    members: Sequence[int]
    timestamps: Sequence[float] | None
    last: Last


class KnownEnds(Generic[Last]):
    """The known ends, by the id of the trajectory.

    They hold for one state of the memories: any write that this object does not see makes all of them unknown, also of
    another process. The caller lets only one thread write at a time.
    """

    def __init__(self) -> None:
        self._ends: dict[str, End[Last]] = {}
        self._seen = UNKNOWN  # the ``words_version`` of the memories
        self._database: Callable[[], Database | None] = lambda: None

    @contextmanager
    def reading(self, index: PredictiveAssociativeIndex | None) -> Iterator[Mapping[str, End[Last]]]:
        """Holds one state of the memories; yields the ends that are known of it. Nobody may write meanwhile."""
        if index is None:  # before the first memory
            self._ends, self._seen = {}, UNKNOWN
            yield self._ends
            return
        with index._lock.shared():
            database = index._store.database
            version = database.memories.words_version
            if self._database() is not database or version != self._seen:
                self._database, self._seen, self._ends = weakref.ref(database), version, {}
            yield self._ends

    def add(self, add: Callable[[Continued | None], int], steps: Mapping[str, NewSteps[Last]]) -> bool:
        """Stores memories; continues trajectories with them in the same transaction.

        Args:
            add: stores the memories; see ``PredictiveAssociativeIndex._add_embedded``.
            steps: id of a trajectory -> the memories that follow its known end.

        Returns:
            Whether the trajectories were continued, and nobody wrote memories since ``reading``. If not, the caller
            reads the groups, and links them.
        """
        more = [
            MoreSteps(name, self._ends[name].number, self._ends[name].length, new.members, new.timestamps)
            for name, new in steps.items()
        ]
        try:
            self._seen = add(None if self._seen == UNKNOWN else Continued(self._seen, more))
        except EndsMoved:
            self._ends, self._seen = {}, UNKNOWN
            add(None)
            return False
        for name, new in steps.items():
            end = self._ends[name]
            self._keep(name, End(end.number, end.length + len(new.members), new.last))
        return True

    def forget(self, names: Iterable[str] | None) -> None:
        """Forgets the ends of the trajectories with these ids; of all for None."""
        for name in list(self._ends) if names is None else names:
            self._ends.pop(name, None)

    def link(
        self, index: PredictiveAssociativeIndex, anew: Sequence[tuple[Trajectory, Last | None]], ended: Sequence[str]
    ) -> None:
        """Stores trajectories, and what is known of the end of each; deletes those that ``ended``."""
        written = index._write(read_trajectories([trajectory for trajectory, _ in anew], index.dim))
        index.delete_trajectory(ended)
        for (trajectory, last), steps in zip(anew, written, strict=True):
            if last is not None and (steps.rows >= 0).all() and trajectory.id is not None:
                self._keep(trajectory.id, End(steps.number, steps.first + len(steps.rows), last))

    def _keep(self, name: str, end: End[Last]) -> None:
        self._ends.pop(name, None)
        self._ends[name] = end
        if len(self._ends) > MOST_ENDS:
            del self._ends[next(iter(self._ends))]
