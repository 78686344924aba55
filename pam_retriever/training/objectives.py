"""Objectives: each draws the batches of a training pass, and computes their loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from pam_retriever.arrays import concatenated, starts_of
from pam_retriever.experience.cooccurrence import Associations, Experience, within
from pam_retriever.model.losses import info_nce, multi_positive_info_nce
from pam_retriever.model.predictor import Predictor
from pam_retriever.training.config import FitConfig
from pam_retriever.training.distributed import DistributedPredictor
from pam_retriever.training.embedding_table import EmbeddingTable
from pam_retriever.types import Bools, Float32, Int64


class Objective(Protocol):
    """Draws the batches of a pass, and computes the loss of one.

    Attributes:
        steps: batches in a pass.
        coverage: share of the directed associations that a pass can draw.
        drawable: the associations that a pass can draw.
    """

    steps: int
    coverage: float
    drawable: Associations

    def batches(self, random: np.random.Generator) -> Iterator[Int64]:
        """Yields the batches of one pass."""

    def loss(self, model: Predictor | DistributedPredictor, states: Tensor, batch: Int64, temperature: float) -> Tensor:
        """Returns the loss of ``batch``, with all M memories as ``states`` (M, d)."""


class InfoNCEObjective:
    """The paper's objective: directed pairs, drawn once, each against the other pairs of its batch."""

    def __init__(self, associations: Associations, config: FitConfig, random: np.random.Generator) -> None:
        assert config.batch_size
        pairs = np.stack([associations.anchors(), associations.indices], axis=1)  # (E, 2)
        drawn = min(config.pairs or len(pairs), len(pairs))
        self._pairs = pairs[random.permutation(len(pairs))[:drawn]]
        self._batch_size = min(config.batch_size, drawn)
        self.steps = drawn // self._batch_size
        self.coverage, self.drawable = drawn / len(pairs), associations

    def batches(self, random: np.random.Generator) -> Iterator[Int64]:
        order = random.permutation(len(self._pairs))
        for step in range(self.steps):  # the last, smaller batch is skipped until the next shuffle
            yield self._pairs[order[step * self._batch_size : (step + 1) * self._batch_size]]

    def loss(self, model: Predictor | DistributedPredictor, states: Tensor, batch: Int64, temperature: float) -> Tensor:
        pairs = torch.from_numpy(batch).to(states.device)  # (B, 2)
        return info_nce(model(states[pairs[:, 0]]), states[pairs[:, 1]], temperature)


class JointObjective:
    """Trains f and the episode codes on whole trajectories, so that every associated pair is in some batch.

    The loss moves f(q) towards the vectors of q's associates, and the code of q towards their codes; see
    ``episode_embeddings``. A long trajectory is cut into segments that overlap by the window, so that no pair is lost
    at a cut. A batch holds each memory once, with all associations among its memories, from any trajectory. So no
    associate is used as a negative.

    Args:
        experience: all experience.
        associations: the associations of the experience.
        window: tau.
        config: how to train.
        generator: the random generator of the input noise.
        fresh: (S,) mask of new steps. A pass has all new steps, and a random sample of as many other steps. None to use
            all steps in every pass.
        codes: learnt together with f; None to learn f alone.
        rows: (M,) positions of the codes of the memories; None for the same order.

    Attributes:
        targets_only: (M,) mask of memories that are targets, but never cues.
        hidden: (M,) mask of memories from which f learns nothing.
        uncoded: (M,) mask of memories whose code is not learnt.
        settled: (M,) mask of memories whose code is fixed, because they have no new experience. The codes around them
            adapt to it, so that later fits do not move old codes.
        bank_size: number of memories that the batches represent; M, or more for a shard.
        associations: the associations of the experience.
    """

    coverage = 1.0

    def __init__(
        self,
        experience: Experience,
        associations: Associations,
        window: int,
        config: FitConfig,
        generator: torch.Generator,
        fresh: Bools | None = None,
        codes: EmbeddingTable | None = None,
        rows: Int64 | None = None,
    ) -> None:
        assert config.batch_size
        self._experience, self.associations, self._config = experience, associations, config
        self.drawable = associations
        self._generator = generator
        memories = len(associations.indptr) - 1
        self.bank_size = memories
        self._lookup = np.full(memories, -1, np.int64)
        self.targets_only = np.zeros(memories, bool)
        self.hidden = np.zeros(memories, bool)
        self.uncoded = np.diff(associations.indptr) == 0
        self.settled = np.zeros(memories, bool)
        if fresh is not None:
            self.settle(fresh)
        self._codes, self._rows = codes, np.arange(memories) if rows is None else rows
        self._segments = _segments(experience, max(config.batch_size // 10, window), window)
        self._fresh = np.ones(len(self._segments), bool) if fresh is None else _any_within(fresh, self._segments)
        lengths = self._segments[:, 1] - self._segments[:, 0]
        new = lengths[self._fresh].sum()
        rehearsed = min(new, lengths[~self._fresh].sum())
        self.steps = int(np.ceil((new + rehearsed) / config.batch_size))

    def settle(self, fresh: Bools) -> None:
        """Fixes the codes of memories that are in none of the ``fresh`` steps (S,)."""
        self.settled[:] = True
        self.settled[self._experience.states[fresh]] = False

    def batches(self, random: np.random.Generator) -> Iterator[Int64]:
        fresh, others = self._segments[self._fresh], random.permutation(self._segments[~self._fresh])
        rehearsed = others[np.cumsum(others[:, 1] - others[:, 0]) <= (fresh[:, 1] - fresh[:, 0]).sum()]
        segments = random.permutation(np.concatenate([fresh, rehearsed]))
        for steps in runs_of(segments, self.steps):
            yield np.unique(self._experience.states[steps])

    def loss(self, model: Predictor | DistributedPredictor, states: Tensor, batch: Int64, temperature: float) -> Tensor:
        device = states.device
        pairs = within(self.associations, batch, self._lookup)

        def tensor(array: Bools | Int64 | Float32) -> Tensor:
            return torch.from_numpy(array).to(device)

        seen = np.flatnonzero(~self.hidden[batch])  # (B,)
        own = np.flatnonzero(~self.targets_only[batch[seen]])  # (A,) the cues among them
        x = states[tensor(batch[seen])]  # (B, d)
        f = model.associate(x[tensor(own)], self._noise)  # (A, d)
        rows, columns, entry = _between(seen[own], seen, pairs, len(batch))
        loss = multi_positive_info_nce(
            model.score(f, x, temperature),  # (A, B)
            tensor(rows),
            tensor(columns),
            tensor(self.associations.weights[entry]),
            self.bank_size,
            tensor(own),
        )
        if self._codes is not None:
            coded = np.flatnonzero(~self.uncoded[batch])
            rows, columns, entry = _between(coded, coded, pairs, len(batch))
            code = self._codes.ask(self._rows[batch[coded]], self.settled[batch[coded]], device)  # (C, code)
            salience = self.associations.salience[entry]
            logits = (code / self._codes.temperature) @ code.T
            loss = loss + multi_positive_info_nce(
                logits, tensor(rows), tensor(columns), tensor(salience), self.bank_size
            )
        return loss

    def _noise(self, x: Tensor) -> Tensor:
        if not self._config.noise:
            return x
        return x + self._config.noise * torch.randn(x.shape, device=x.device, generator=self._generator)


def _between(cues: Int64, memories: Int64, pairs: tuple[Int64, Int64, Int64], count: int) -> tuple[Int64, Int64, Int64]:
    """Returns the ``pairs`` from ``within`` (of ``count`` members) that lead from ``cues`` to ``memories``.

    Each pair is given by its positions in ``cues``, in ``memories`` and in the associations.
    """
    cue, memory = np.full((2, count), -1, np.int64)
    cue[cues], memory[memories] = np.arange(len(cues)), np.arange(len(memories))
    rows, columns, entry = pairs
    inside = (cue[rows] >= 0) & (memory[columns] >= 0)
    return cue[rows[inside]], memory[columns[inside]], entry[inside]


def runs_of(segments: Int64, count: int) -> Iterator[Int64]:
    """Yields the steps of runs of segments (n, 2), up to ``count`` runs of about equal length."""
    ends = np.cumsum(segments[:, 1] - segments[:, 0])
    cuts = np.searchsorted(ends, np.linspace(0, ends[-1], count + 1)[1:-1])
    for chosen in np.split(segments, cuts):
        if len(chosen):
            yield concatenated(chosen[:, 0], chosen[:, 1] - chosen[:, 0])


def _any_within(steps: Bools, segments: Int64) -> Bools:
    """Returns whether any of the steps (S,) is true in each segment (n, 2)."""
    before = starts_of(steps)
    found: Bools = before[segments[:, 1]] > before[segments[:, 0]]
    return found


def _segments(experience: Experience, length: int, window: int) -> Int64:
    """Returns the start and the end (n, 2) of each segment of ``length`` steps and a window; the end is excluded."""
    ends = np.flatnonzero(np.diff(experience.trajectory)) + 1
    first, last = np.concatenate([[0], ends]), np.concatenate([ends, [len(experience)]])
    pieces = np.maximum(1, np.ceil((last - first - window) / length)).astype(np.int64)
    piece = concatenated(np.zeros_like(pieces), pieces)
    starts = np.repeat(first, pieces) + piece * length
    return np.stack([starts, np.minimum(starts + length + window, np.repeat(last, pieces))], axis=1)
