"""Training data, shard by shard: all the experience as one shard in memory, or the index's own storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.store.database import ShardedDatabase
from pam_retriever.store.growth import LearntTo
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.types import Bools, Float32, Int64

BLOCKS = 16  # of neighbouring trajectories make a shard, so that it is a sample of the bank, read in few strokes
PASS, BATCHES, HOLDOUT, UNSEEN, SEEN, PAIRS = 1, 2, 3, 4, 5, 6  # what a generator is for


@dataclass(frozen=True)
class Shard:
    """Some of the experience, or all of it.

    Attributes:
        rows: (m,) the memories in it, sorted: their rows in the table of embeddings.
        vectors: (m, d) of them.
        experience: whose states are indices into both.
        fresh: (S,) which of its steps are new.
    """

    rows: Int64
    vectors: Float32
    experience: Experience
    fresh: Bools


class Shards(Protocol):
    """The experience of one training.

    Attributes:
        whole: one shard holds everything. It chooses by itself what to rehearse of the old, and all that is random
            comes from one generator; of several shards a pass takes some, and each has generators of its own, so that
            a training that was interrupted goes on to the same weights.
        steps: of one pass.
        memories: how many there are in the bank.
        table: how many rows the table of embeddings has.
        experienced: how many memories the trajectories hold.
        meetings: how many steps of them a memory has on average, old and new ones together.
        trajectories: how many there are.
    """

    whole: bool
    steps: int
    memories: int
    table: int
    experienced: int
    meetings: float
    trajectories: int

    def of_pass(self, random: np.random.Generator) -> list[Int64]:
        """The argument of ``read`` for each shard of one pass."""

    def read(self, blocks: Int64) -> Shard:
        """One shard."""

    def generator(self, purpose: int, turn: int = 0) -> np.random.Generator:
        """The random generator of pass or shard number ``turn``."""

    def fingerprint(self) -> dict[str, int]:
        """The facts that a checkpoint has to agree with."""


class InMemory:
    """All of the experience as one shard.

    Args:
        vectors: (M, d) float32, the memories that the experience speaks of.
        experience: their trajectories.
        seed: of all that is random.
        fresh: (S,) which steps are new: those are learnt, and as many of the others rehearsed in every pass. None: all.
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
        """The one shard."""
        return [np.zeros(1, np.int64)]

    def read(self, blocks: Int64) -> Shard:  # noqa: ARG002
        """It."""
        return self._shard

    def generator(self, purpose: int, turn: int = 0) -> np.random.Generator:  # noqa: ARG002
        """One for everything."""
        return self._random

    def fingerprint(self) -> dict[str, int]:
        """Its size."""
        return {"steps": self.steps, "memories": self.memories}


class Stored:
    """The trajectories of an index, in blocks of neighbouring ones.

    Args:
        database: the index's.
        lock: of the index; taken for each read, so that it answers and changes between them.
        dim: d.
        size: how many steps a shard has at most; a trajectory that is longer is a shard of its own.
        seed: of all that is random.
        learnt_to: which trajectories are old: a pass takes as many of their steps as there are new ones. None: none.

    Attributes:
        nothing_new: all trajectories are old.
        last_number: the highest number of a trajectory.
    """

    whole = False

    def __init__(
        self,
        database: ShardedDatabase,
        lock: ReadWriteLock,
        dim: int,
        size: int,
        *,
        seed: int = 0,
        learnt_to: LearntTo | None = None,
    ) -> None:
        self._database, self._lock, self._dim, self._seed = database, lock, dim, seed
        with lock.shared():
            numbers, lengths = database.trajectories.lengths()
            self.memories, self.table = len(database.memories), database.memories.last_row + 1
            self.experienced = database.trajectories.memories()
            self.last_number = database.trajectories.last_number()
        self.trajectories = len(numbers)
        self.meetings = int(lengths.sum()) / max(self.experienced, 1)
        self._learnt_to = learnt_to = learnt_to or LearntTo()
        old = learnt_to.old(numbers)
        starts = _block_starts(lengths, old, size)
        last = np.append(starts[1:], len(numbers))[: len(starts)] - 1
        self._spans = np.stack([numbers[starts], numbers[last]], axis=1)  # (blocks, 2) first and last number
        self._lengths = np.add.reduceat(lengths, starts) if len(starts) else lengths
        self._old, self._size = old[starts], size
        new = int(self._lengths[~self._old].sum())
        self.nothing_new = not new
        self.steps = new + min(new, int(self._lengths[self._old].sum()))

    def of_pass(self, random: np.random.Generator) -> list[Int64]:
        """Each shard as its blocks: all that is new, and as much of the old, shuffled."""
        old = random.permutation(np.flatnonzero(self._old))
        fitting = np.cumsum(self._lengths[old]) <= self._lengths[~self._old].sum()
        blocks = random.permutation(np.concatenate([np.flatnonzero(~self._old), old[fitting]]))
        shard = np.cumsum(self._lengths[blocks]) // max(self._size, 1)
        return [np.sort(blocks[shard == number]) for number in np.unique(shard)]

    def read(self, blocks: Int64) -> Shard:
        """The steps of some blocks, and the memories in them."""
        with self._lock.shared():
            found = [self._database.trajectories.between(*self._spans[block].tolist()) for block in blocks]
            rows, trajectory, position, salience = (np.concatenate(column) for column in zip(*found, strict=True))
            stored, vectors = self._database.memories.vectors_of(np.unique(rows), self._dim)
        there = np.isin(rows, stored)  # a memory may be deleted meanwhile
        states = np.searchsorted(stored, rows[there])
        steps = Experience(states, trajectory[there], position[there], salience[there])
        return Shard(stored, vectors, steps, self._learnt_to.fresh(steps.trajectory, steps.position))

    def generator(self, purpose: int, turn: int = 0) -> np.random.Generator:
        """One for each purpose and turn."""
        return np.random.default_rng([self._seed, purpose, turn])

    def fingerprint(self) -> dict[str, int]:
        """Its size, and how far its trajectories reach."""
        return {"steps": self.steps, "memories": self.memories, "last trajectory": self.last_number}


def _block_starts(lengths: Int64, old: Bools, size: int) -> Int64:
    """Where the blocks begin: as many neighbours as fit into a 16th of a shard, or all if they fit into one."""
    ends = np.cumsum(lengths)
    whole = not len(ends) or ends[-1] <= size
    block = np.zeros(len(lengths), np.int64) if whole else ends // max(size // BLOCKS, 1)
    return np.flatnonzero((np.diff(block, prepend=-1) != 0) | np.diff(old, prepend=~old[:1]))
