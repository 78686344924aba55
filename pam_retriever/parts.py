"""The index's own storage, read part by part for a training that holds no more than one part in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.cooccurrence import Experience
from pam_retriever.readwrite import ReadWriteLock
from pam_retriever.storage.documents import Documents
from pam_retriever.types import Bools, Float32, Int64

BLOCKS = 16  # of neighbouring trajectories make a part, so that it is a sample of the bank, read in few strokes


@dataclass(frozen=True)
class Part:
    """Some of the experience.

    Attributes:
        rows: (m,) the memories in it, sorted.
        vectors: (m, d) of them.
        experience: whose states are indices into both.
        fresh: (S,) which of its steps are new.
    """

    rows: Int64
    vectors: Float32
    experience: Experience
    fresh: Bools


class StoredExperience:
    """The trajectories of an index, in blocks of neighbouring ones.

    Args:
        documents: the index's.
        lock: of the index; taken for each read, so that it answers and changes between them.
        dim: d.
        size: how many steps a part has at most; a trajectory that is longer is a part of its own.
        learnt_to: trajectories up to this number are old: a pass takes as many of their steps as there are new ones.

    Attributes:
        steps: of one pass.
        nothing_new: all trajectories are old.
        bank: how many memories there are.
        last_row: the highest row of any.
        last_number: the highest number of a trajectory.
        trajectories: how many there are.
        experienced: how many memories they hold.
    """

    def __init__(self, documents: Documents, lock: ReadWriteLock, dim: int, size: int, learnt_to: int = 0) -> None:
        self._documents, self._lock, self._dim = documents, lock, dim
        with lock.shared():
            numbers, lengths = documents.trajectories.lengths()
            self.bank, self.last_row = len(documents.memories), documents.memories.last_row
            self.experienced = documents.trajectories.memories()
            self.last_number = documents.trajectories.last_number()
        self.trajectories = len(numbers)
        self._learnt_to = learnt_to
        old = numbers <= learnt_to
        starts = _block_starts(lengths, old, size)
        last = np.append(starts[1:], len(numbers))[: len(starts)] - 1
        self._spans = np.stack([numbers[starts], numbers[last]], axis=1)  # (blocks, 2) first and last number
        self._lengths = np.add.reduceat(lengths, starts) if len(starts) else lengths
        self._old, self._size = old[starts], size
        new = int(self._lengths[~self._old].sum())
        self.nothing_new = not new
        self.steps = new + min(new, int(self._lengths[self._old].sum()))

    def passed(self, random: np.random.Generator) -> list[Int64]:
        """The parts of one pass, each as its blocks: all that is new, and as much of the old, shuffled."""
        old = random.permutation(np.flatnonzero(self._old))
        fitting = np.cumsum(self._lengths[old]) <= self._lengths[~self._old].sum()
        blocks = random.permutation(np.concatenate([np.flatnonzero(~self._old), old[fitting]]))
        part = np.cumsum(self._lengths[blocks]) // max(self._size, 1)
        return [np.sort(blocks[part == number]) for number in np.unique(part)]

    def read(self, blocks: Int64) -> Part:
        """The steps of some blocks, and the memories in them."""
        with self._lock.shared():
            found = [self._documents.trajectories.between(*self._spans[block].tolist()) for block in blocks]
            rows, trajectory, position, salience = (np.concatenate(column) for column in zip(*found, strict=True))
            stored, vectors = self._documents.memories.vectors_of(np.unique(rows), self._dim)
        kept = np.isin(rows, stored)  # a memory may be deleted meanwhile
        states = np.searchsorted(stored, rows[kept])
        steps = Experience(states, trajectory[kept], position[kept], salience[kept])
        return Part(stored, vectors, steps, steps.trajectory > self._learnt_to)


def _block_starts(lengths: Int64, old: Bools, size: int) -> Int64:
    """Where the blocks begin: as many neighbours as fit into a 16th of a part, or all if they fit into one."""
    ends = np.cumsum(lengths)
    whole = not len(ends) or ends[-1] <= size
    block = np.zeros(len(lengths), np.int64) if whole else ends // max(size // BLOCKS, 1)
    return np.flatnonzero((np.diff(block, prepend=-1) != 0) | np.diff(old, prepend=~old[:1]))
