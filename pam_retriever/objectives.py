"""What a training step trains on: an objective draws batches and turns each into a loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pam_retriever.config import FitConfig
from pam_retriever.cooccurrence import Associations, Experience, within
from pam_retriever.losses import info_nce, multi_positive_info_nce
from pam_retriever.predictor import Predictor
from pam_retriever.types import Int64


class Objective(Protocol):
    """Draws a pass of batches, and gives the loss of one.

    Attributes:
        steps: batches in a pass.
        coverage: share of the directed associations that a pass can draw.
    """

    steps: int
    coverage: float

    def batches(self, random: np.random.Generator) -> Iterator[Int64]:
        """One pass."""

    def loss(self, model: Predictor, states: Tensor, batch: Int64, temperature: float) -> Tensor:
        """The loss of ``batch``, with all M memories as ``states`` (M, d)."""


class InfoNCEObjective:
    """The paper's: directed pairs, drawn once, each against the other pairs of its batch."""

    def __init__(self, associations: Associations, config: FitConfig, random: np.random.Generator) -> None:
        assert config.batch_size
        pairs = np.stack([associations.anchors(), associations.indices], axis=1)  # (E, 2)
        drawn = min(config.pairs or len(pairs), len(pairs))
        self._pairs = pairs[random.permutation(len(pairs))[:drawn]]
        self._batch_size = min(config.batch_size, drawn)
        self.steps = drawn // self._batch_size
        self.coverage = drawn / len(pairs)

    def batches(self, random: np.random.Generator) -> Iterator[Int64]:
        order = random.permutation(len(self._pairs))
        for step in range(self.steps):  # the last, smaller batch is left to the next shuffle
            yield self._pairs[order[step * self._batch_size : (step + 1) * self._batch_size]]

    def loss(self, model: Predictor, states: Tensor, batch: Int64, temperature: float) -> Tensor:
        pairs = torch.from_numpy(batch).to(states.device)  # (B, 2)
        return info_nce(model(states[pairs[:, 0]]), states[pairs[:, 1]], temperature)


class JointObjective:
    """The score that recall uses, on whole trajectories: every pair that met is in some batch.

    A long trajectory is cut into segments that overlap by the window, so that no pair is lost
    at a cut. A batch holds each memory once, and every association among its memories,
    wherever it was experienced: none is ever taken for a negative. Memories that no trajectory
    holds come along as negatives, at most as many a pass as there are steps.
    """

    coverage = 1.0

    def __init__(
        self,
        experience: Experience,
        associations: Associations,
        window: int,
        config: FitConfig,
        generator: torch.Generator,
    ) -> None:
        assert config.batch_size
        self._experience, self._associations, self._config = experience, associations, config
        self._generator = generator
        memories = len(associations.indptr) - 1
        self._lookup = np.full(memories, -1, np.int64)
        bystanders = np.setdiff1d(np.arange(memories), experience.states)
        self._states = np.concatenate([experience.states, bystanders])
        self._segments = _segments(experience, max(config.batch_size // 10, window), window)
        self._bystanders = np.arange(len(experience), len(self._states))
        lengths = self._segments[:, 1] - self._segments[:, 0]
        states = lengths.sum() + min(len(bystanders), len(experience))
        self.steps = int(np.ceil(states / config.batch_size))

    def batches(self, random: np.random.Generator) -> Iterator[Int64]:
        alone = random.permutation(self._bystanders)[: len(self._experience)]
        segments = np.concatenate([self._segments, np.stack([alone, alone + 1], axis=1)])
        segments = random.permutation(segments)
        ends = np.cumsum(segments[:, 1] - segments[:, 0])
        # cut the shuffled segments into as equal runs as their lengths allow
        cuts = np.searchsorted(ends, np.linspace(0, ends[-1], self.steps + 1)[1:-1])
        for chosen in np.split(segments, cuts):
            if len(chosen):
                yield np.unique(np.concatenate([self._states[start:stop] for start, stop in chosen]))

    def loss(self, model: Predictor, states: Tensor, batch: Int64, temperature: float) -> Tensor:
        place = states.device
        rows, columns, weights = within(self._associations, batch, self._lookup)
        x = states[torch.from_numpy(batch).to(place)]  # (B, d)
        noisy = model.normalise(x)
        if self._config.noise:
            noisy = noisy + self._config.noise * torch.randn(x.shape, device=place, generator=self._generator)
        f = F.normalize(model.predict(noisy).float(), dim=-1)  # (B, d)
        forward = f @ F.normalize(x, dim=-1).T  # (B, B): f(q).p
        scores = forward + forward.T + f @ f.T  # + q.f(p) + f(q).f(p)
        return multi_positive_info_nce(
            scores,
            torch.from_numpy(rows).to(place),
            torch.from_numpy(columns).to(place),
            torch.from_numpy(weights).to(place),
            temperature,
            bank_size=len(states),
        )


def _segments(experience: Experience, length: int, window: int) -> Int64:
    """(n, 2) the first step of each segment and the one after its last: ``length`` steps and a window."""
    ends = np.flatnonzero(np.diff(experience.trajectory)) + 1
    first, last = np.concatenate([[0], ends]), np.concatenate([ends, [len(experience)]])
    pieces = np.maximum(1, np.ceil((last - first - window) / length)).astype(np.int64)
    piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = np.repeat(first, pieces) + piece * length
    return np.stack([starts, np.minimum(starts + length + window, np.repeat(last, pieces))], axis=1)
