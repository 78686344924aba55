"""Finds the given and stored experience that a ``fit`` must learn. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from pam_retriever.errors import InvalidInput
from pam_retriever.experience.trajectories import Episode, TrajectoryLike, read_in_batches, read_trajectories
from pam_retriever.store.base import Store
from pam_retriever.store.growth import LearnedSteps
from pam_retriever.store.learnt import (
    FROM_EXPERIENCE,
    FROM_FEEDBACK,
    is_stored,
    learnt_what_was_deleted,
    nothing_to_learn,
)
from pam_retriever.store.model_metadata import FORGOTTEN
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.store.write_trajectories import check_known, steps_in, stored_beginning
from pam_retriever.training.config import FitConfig
from pam_retriever.training.dataset import read_groups
from pam_retriever.types import FitReport
from pam_retriever.validation import check_flag

STORED_AT_ONCE = 50_000  # states of a stream that are stored at once
NOTHING_NEW = "nothing new"


@dataclass(frozen=True)
class Source:
    """The experience given to a ``fit``.

    Attributes:
        trajectories: the new trajectories.
        group_by: metadata key that groups stored memories to trajectories; not with ``trajectories``.
        order_by: metadata keys that order a group.
        buffer: largest number of steps in memory; None for all, unless ``checkpoint`` or ``stream``.
        checkpoint: a file for the state of the training.
        stream: whether the trajectories are an iterator.
        from_scratch: whether stored experience is learnt as if it were new.
    """

    trajectories: Iterable[TrajectoryLike] | None = None
    group_by: str | None = None
    order_by: tuple[str, ...] = ()
    buffer: int | None = None
    checkpoint: Path | None = None
    stream: bool = False
    from_scratch: bool = False

    def __post_init__(self) -> None:
        """Refuses invalid arguments, and arguments that contradict each other."""
        check_flag("from_scratch", self.from_scratch)
        if self.trajectories is not None and self.group_by is not None:
            raise InvalidInput("Got both trajectories and group_by.", "one of them", "Fit twice to use both.")
        if self.order_by and self.group_by is None:
            raise InvalidInput(
                f"Got order_by={list(self.order_by)} without group_by.",
                "both: trajectories are in order already",
                "Leave order_by out, or pass group_by=...",
            )
        file = self.checkpoint
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            fix = "Create its folder first." if not file.is_dir() else "Name a file in this folder."
            raise InvalidInput(f"Got checkpoint={str(file)!r}.", "a file in a folder that exists", fix)
        if self.in_parts and self.group_by is not None:
            raise InvalidInput("Got group_by with buffer or checkpoint.", "trajectories", "Leave one of them out.")

    @property
    def in_parts(self) -> bool:
        """Whether trajectories are stored as they arrive, and learnt from the storage in parts."""
        return self.stream or self.buffer is not None or self.checkpoint is not None


@dataclass(frozen=True)
class NewExperience:
    """The new experience.

    Attributes:
        episodes: the episodes to store, without episodes that are stored with the same steps.
        numbers: the numbers of the stored trajectories that some episodes continue, by id.
        learned_steps: which stored steps, and which steps of continued episodes, are new.
        last_number: the highest number of a stored trajectory.
        fresh: whether any stored step is new.
        forgotten: the setting "forgotten"; see ``mark_forgotten``.
    """

    episodes: list[Episode]
    numbers: dict[str, int]
    learned_steps: LearnedSteps
    last_number: int
    fresh: bool
    forgotten: object


def read_new_experience(store: Store, lock: ReadWriteLock, source: Source) -> NewExperience:
    """Checks the given experience and compares it with the stored one. Stores a stream as it arrives.

    Raises:
        InvalidInput, UnknownId: the given experience is invalid.
    """
    episodes: list[Episode] = []
    if source.in_parts:
        _store(store, lock, source)
    elif source.trajectories is not None:
        episodes = read_trajectories(source.trajectories, store.dim)
        if not episodes:
            raise InvalidInput("Got no trajectories.", "at least one", "Pass at least one trajectory.")
    with lock.shared():
        database = store.database
        if source.group_by is not None:
            episodes = read_groups(database, source.group_by, source.order_by)
        learned_steps = store.learned_steps(source.from_scratch)
        known = check_known(database, episodes) if episodes else {}
        there = bool(episodes) and bool(database.trajectories.numbers(ids=[episode.id for episode in episodes]))
        new, numbers, grew, ends = [], {}, {}, {}
        for episode in episodes:
            begun = stored_beginning(database, episode, steps_in(episode, known)) if there else None
            if begun is None:
                new.append(episode)
            elif begun[1] < len(episode.ids):
                new.append(episode)
                numbers[episode.id], grew[begun[0]], ends[begun[0]] = begun[0], begun[1], len(episode.ids)
        stored = database.trajectories.numbers()
        fresh = any(number > learned_steps.number for number in stored[-1:]) or any(
            learned_steps.ends[number] > at for number, at in learned_steps.grew.items()
        )
        last = database.trajectories.last_number()
        forgotten = database.settings.get(FORGOTTEN)
        return NewExperience(new, numbers, learned_steps.with_growth(grew, ends), last, fresh, forgotten)


def _store(store: Store, lock: ReadWriteLock, source: Source) -> None:
    """Stores trajectories as they arrive."""
    if store.database.sharded is None:
        raise InvalidInput(
            "Got an iterator, buffer or checkpoint for an index in a database engine.",
            "an index in SQLite, whose storage can be read part by part",
            "Pass list(trajectories), without buffer and checkpoint.",
        )
    given = () if source.trajectories is None else source.trajectories
    for episodes in read_in_batches(given, store.dim, STORED_AT_ONCE):
        with lock.exclusive():
            check_known(store.database, episodes)
            store.observe(episodes)


def report_if_nothing_new(
    store: Store, lock: ReadWriteLock, new_experience: NewExperience, source: Source, config: FitConfig, window: int
) -> FitReport | None:
    """Returns the report of a fit if everything is learnt with its settings, and no training was interrupted."""
    interrupted = source.checkpoint is not None and source.checkpoint.exists()
    if new_experience.episodes or new_experience.fresh or source.from_scratch or interrupted:
        return None
    with lock.shared():
        predictor = store.predictor_to_continue(config.to_stored(), window)
        if predictor is None or not store.last_trained:
            return None
        return FitReport(
            losses=(),
            steps=0,
            seconds=0.0,
            device="cpu",
            precision="float32",
            memories=store.links.memories,
            trajectories=len(store.database.trajectories),
            associations=0,
            coverage=1.0,
            parameters=sum(array.size for array in predictor.arrays.values()),
            config=asdict(config),
            stopped_by=NOTHING_NEW,
            calibration=store.calibration,
        )


def nothing_left(store: Store, lock: ReadWriteLock, source: Source) -> bool:
    """Returns whether there is no trajectory of two steps, but weights to discard, or feedback to learn from.

    Weights that were learnt from feedback, all of which is gone, are to be discarded, too.
    """
    if source.trajectories is not None or source.group_by is not None:
        return False
    with lock.shared():
        if not nothing_to_learn(store.links):
            return False
        learnt = any(is_stored(store.database.settings, name) for name in FROM_FEEDBACK)
        return learnt or _discardable(store, source.from_scratch) or len(store.database.feedback) > 0


def discard_forgotten(store: Store, lock: ReadWriteLock, from_scratch: bool = False) -> None:
    """Discards the weights if nothing is left of the experience that they learnt."""
    with lock.shared():
        if not _discardable(store, from_scratch) or not nothing_to_learn(store.links):
            return
    with lock.exclusive():
        store.discard(FROM_EXPERIENCE)


def _discardable(store: Store, from_scratch: bool) -> bool:
    return store.predictor is not None and (from_scratch or learnt_what_was_deleted(store.database.settings))


def without_training(memories: int) -> FitReport:
    """Returns the report of a fit without training."""
    return FitReport((), 0, 0.0, "cpu", "float32", memories, 0, 0, 1.0, 0, {}, "nothing to train on")
