"""What is recorded as an index grows: the steps that the predictor has learnt, and what existed at past requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pam_retriever.experience.existed import EXISTED, Existed
from pam_retriever.store.database import Database, Settings
from pam_retriever.store.handed_dates import take_back, timed
from pam_retriever.store.model_metadata import mark_forgotten
from pam_retriever.types import Bools, Int64

GREW = "grew:"  # a setting per trajectory that grew since it was learnt, or before: its first new step


@dataclass(frozen=True)
class LearnedSteps:
    """The steps that the predictor has learnt.

    Attributes:
        number: trajectories with larger numbers are new.
        grew: number -> the first new position, of trajectories that grew.
        ends: number -> the position after the last step that a training sees, of the same trajectories.
    """

    number: int = 0
    grew: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)

    def fresh(self, trajectory: Int64, position: Int64) -> Bools:
        """Returns which steps (S,) are new."""
        found: Bools = trajectory > self.number
        if self.grew:
            numbers, first = np.array(sorted(self.grew.items()), np.int64).T
            at = np.minimum(np.searchsorted(numbers, trajectory), len(numbers) - 1)
            found = found | ((numbers[at] == trajectory) & (position >= first[at]))
        return found

    def old(self, numbers: Int64) -> Bools:
        """Returns which trajectories have no new step."""
        found: Bools = (numbers <= self.number) & ~np.isin(numbers, list(self.grew))
        return found

    def with_growth(self, grew: Mapping[int, int], ends: Mapping[int, int]) -> LearnedSteps:
        """Returns a copy that includes trajectories which are about to grow. Steps that were new before stay new."""
        first = {number: min(at, self.grew.get(number, at)) for number, at in grew.items()}
        return replace(self, grew={**self.grew, **first}, ends={**self.ends, **ends})


def read_learned_steps(database: Database, number: int) -> LearnedSteps:
    """Reads which steps are new beyond the trajectories up to ``number``."""
    grew = _grew(database.settings)
    return LearnedSteps(number, grew, {one: database.trajectories.end_of(one) for one in grew})


def mark_grown(settings: Settings, number: int, first: int) -> None:
    """Inside a transaction: records that a trajectory has new steps from position ``first`` on."""
    if settings.get(f"{GREW}{number}") is None:
        settings.set(f"{GREW}{number}", first)


def mark_existing(settings: Settings, number: int, last_row: int) -> None:
    """Inside a transaction that stores a request: records the highest row of a memory at this time, if it is due."""
    more = Existed.read(settings.get(EXISTED)).with_request(number, last_row)
    if more is not None:
        settings.set(EXISTED, more.to_json())


def settle_growth(database: Database, ends: Mapping[int, int]) -> None:
    """Inside a transaction: records the steps up to these positions as learnt. Later steps stay new."""
    for number in _grew(database.settings):
        if number not in ends:
            continue
        if database.trajectories.end_of(number) > ends[number]:
            database.settings.set(f"{GREW}{number}", ends[number])
        else:
            database.settings.remove(f"{GREW}{number}")


def remove(database: Database, numbers: Sequence[int]) -> None:
    """Inside a transaction: removes trajectories, their dates, and what is recorded about them; not their memories."""
    removed = timed(database, numbers)
    database.trajectories.remove(numbers)
    settle_removed(database, numbers)
    take_back(database, removed)
    if numbers:  # without a deletion the next fit need not train from scratch
        mark_forgotten(database.settings)


def remove_empty(database: Database, numbers: Sequence[int]) -> None:
    """Inside a transaction: removes those of these trajectories without steps, and what is recorded about them."""
    database.trajectories.remove_empty(numbers)
    settle_removed(database, numbers)


def settle_removed(database: Database, numbers: Iterable[int]) -> None:
    """Inside a transaction: removes the settings of those of these trajectories that have no step any more."""
    for number in numbers:
        if database.settings.get(f"{GREW}{number}") is not None and not database.trajectories.end_of(number):
            database.settings.remove(f"{GREW}{number}")


def _grew(settings: Settings) -> dict[int, int]:
    found = {key.removeprefix(GREW): value for key, value in settings.all(GREW).items()}
    return {int(number): at for number, at in found.items() if isinstance(at, int)}
