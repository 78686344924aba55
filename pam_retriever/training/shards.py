"""Training data in shards: one shard in memory, or parts of the index's storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.store.growth import LearnedSteps
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.types import Bools, Float32, Int64

BLOCKS = 16  # blocks of neighbouring trajectories per shard, which make it a sample of the index with few reads
# the purposes of generators
PASS, BATCHES, HOLDOUT, UNSEEN, SEEN, PAIRS, DIRECTIONS, SECOND_STEP = range(1, 9)


@dataclass(frozen=True)
class Shard:
    """A part of the experience, or all of it.

    Attributes:
        rows: (m,) the memories, sorted, as rows in the table of embeddings.
        vectors: (m, d) the vectors of the memories.
        experience: its states are positions in both.
        fresh: (S,) mask of new steps.
    """

    rows: Int64
    vectors: Float32
    experience: Experience
    fresh: Bools


class Shards(Protocol):
    """The experience of one training.

    Attributes:
        whole: whether one shard holds everything. Then it samples old experience itself, and one generator gives all
            random numbers. With several shards, a pass takes some of them, and each has its own generators, so that an
            interrupted training continues to the same weights.
        steps: number of steps in one pass.
        memories: number of memories in the index.
        table: number of rows in the table of embeddings.
        experienced: number of memories in the trajectories.
        meetings: mean number of steps per memory, old and new.
        trajectories: number of trajectories.
    """

    whole: bool
    steps: int
    memories: int
    table: int
    experienced: int
    meetings: float
    trajectories: int

    def of_pass(self, random: np.random.Generator) -> list[Int64]:
        """Returns the argument of ``read`` for each shard of one pass."""

    def read(self, blocks: Int64) -> Shard:
        """Reads one shard."""

    def generator(self, purpose: int, turn: int = 0) -> np.random.Generator:
        """Returns the random generator of pass or shard number ``turn``."""

    def fingerprint(self) -> dict[str, int]:
        """Returns the properties that must be the same in a checkpoint."""


class InMemoryShards:
    """All experience as one shard.

    Args:
        vectors: (M, d) float32, the memories of the experience.
        experience: their trajectories.
        seed: the seed of all random numbers.
        fresh: (S,) mask of new steps. A pass has these, and a sample of as many other steps. None if all are new.
    """

    whole = True

    def __init__(self, vectors: Float32, experience: Experience, seed: int = 0, fresh: Bools | None = None) -> None:
        every = np.ones(len(experience), bool) if fresh is None else fresh
        self._shard = Shard(np.arange(len(vectors)), vectors, experience, every)
        self._random = np.random.default_rng(seed)
        self.steps, self.memories, self.table = len(experience), len(vectors), len(vectors)
        self.experienced = len(np.unique(experience.states))
        self.meetings = len(experience) / max(self.experienced, 1)
        self.trajectories = len(np.unique(experience.trajectory))

    def of_pass(self, random: np.random.Generator) -> list[Int64]:  # noqa: ARG002
        """Returns the one shard."""
        return [np.zeros(1, np.int64)]

    def read(self, blocks: Int64) -> Shard:  # noqa: ARG002
        """Returns the one shard."""
        return self._shard

    def generator(self, purpose: int, turn: int = 0) -> np.random.Generator:  # noqa: ARG002
        """Returns the one generator."""
        return self._random

    def fingerprint(self) -> dict[str, int]:
        """Returns the size."""
        return {"steps": self.steps, "memories": self.memories}


class StoredShards:
    """The trajectories of an index, in blocks of neighbouring trajectories.

    Args:
        database: the database of the index.
        lock: the lock of the index; held during each read only.
        dim: d.
        size: largest number of steps in a shard; a longer trajectory is a separate shard.
        seed: the seed of all random numbers.
        learned_steps: which trajectories are old; None if all are new. A pass takes as many old steps as new steps.

    Attributes:
        nothing_new: whether all trajectories are old.
        last_number: the highest number of a trajectory.
    """

    whole = False

    def __init__(
        self,
        database: SQLiteDatabase,
        lock: ReadWriteLock,
        dim: int,
        size: int,
        *,
        seed: int = 0,
        learned_steps: LearnedSteps | None = None,
    ) -> None:
        self._database, self._lock, self._dim, self._seed = database, lock, dim, seed
        with lock.shared():
            numbers, lengths = database.trajectories.lengths()
            self.memories, self.table = len(database.memories), database.memories.last_row + 1
            self.experienced = database.trajectories.memories()
            self.last_number = database.trajectories.last_number()
        self.trajectories = len(numbers)
        self.meetings = int(lengths.sum()) / max(self.experienced, 1)
        self._learned_steps = learned_steps = learned_steps or LearnedSteps()
        old = learned_steps.old(numbers)
        starts = _block_starts(lengths, old, size)
        last = np.append(starts[1:], len(numbers))[: len(starts)] - 1
        self._spans = np.stack([numbers[starts], numbers[last]], axis=1)  # (blocks, 2) first and last number
        self._lengths = np.add.reduceat(lengths, starts) if len(starts) else lengths
        self._old, self._size = old[starts], size
        new = int(self._lengths[~self._old].sum())
        self.nothing_new = not new
        self.steps = new + min(new, int(self._lengths[self._old].sum()))

    def of_pass(self, random: np.random.Generator) -> list[Int64]:
        """Returns the blocks of each shard: all new blocks and as many old ones, shuffled."""
        old = random.permutation(np.flatnonzero(self._old))
        fitting = np.cumsum(self._lengths[old]) <= self._lengths[~self._old].sum()
        blocks = random.permutation(np.concatenate([np.flatnonzero(~self._old), old[fitting]]))
        shard = np.cumsum(self._lengths[blocks]) // max(self._size, 1)
        return [np.sort(blocks[shard == number]) for number in np.unique(shard)]

    def read(self, blocks: Int64) -> Shard:
        """Reads the steps of some blocks, and the memories in them."""
        with self._lock.shared():
            found = [self._database.trajectories.between(*self._spans[block].tolist()) for block in blocks]
            rows, trajectory, position, salience = (np.concatenate(column) for column in zip(*found, strict=True))
            stored, vectors = self._database.memories.vectors_of(np.unique(rows), self._dim)
        there = np.isin(rows, stored)  # a memory may be deleted meanwhile
        states = np.searchsorted(stored, rows[there])
        steps = Experience(states, trajectory[there], position[there], salience[there])
        return Shard(stored, vectors, steps, self._learned_steps.fresh(steps.trajectory, steps.position))

    def generator(self, purpose: int, turn: int = 0) -> np.random.Generator:
        """Returns a generator for each purpose and turn."""
        return np.random.default_rng([self._seed, purpose, turn])

    def fingerprint(self) -> dict[str, int]:
        """Returns the size, and the highest number of a trajectory."""
        return {"steps": self.steps, "memories": self.memories, "last trajectory": self.last_number}


def _block_starts(lengths: Int64, old: Bools, size: int) -> Int64:
    """Returns the starts of the blocks: up to a 16th of a shard each, or one block if all fits into one shard."""
    ends = np.cumsum(lengths)
    whole = not len(ends) or ends[-1] <= size
    block = np.zeros(len(lengths), np.int64) if whole else ends // max(size // BLOCKS, 1)
    return np.flatnonzero((np.diff(block, prepend=-1) != 0) | np.diff(old, prepend=~old[:1]))
