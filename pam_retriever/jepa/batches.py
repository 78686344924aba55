"""The data of a joint training: batches of trajectories, the next steps, and dropped modalities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pam_retriever.errors import InvalidInput, counted
from pam_retriever.experience.cooccurrence import Associations, Experience, associate
from pam_retriever.jepa.observations import Observations
from pam_retriever.jepa.outward import OutwardPredictor
from pam_retriever.training.objectives import runs_of
from pam_retriever.types import Float32, Int64

Actions = npt.NDArray[Any]


@dataclass(frozen=True)
class TrainingData:
    """The data of a training; see ``JointTrainer.fit``."""

    observations: Observations
    experience: Experience
    actions: Actions | None
    associations: Associations
    salience: Float32 | None
    lookup: Int64
    follows: npt.NDArray[np.bool_]  # (S,) whether the next step is the next position of the same trajectory

    @classmethod
    def of(
        cls,
        observations: Observations,
        experience: Experience,
        actions: Actions | None,
        window: int,
        salience: npt.NDArray[np.floating] | None,
    ) -> TrainingData:
        count = len(observations)
        check_states(experience, count)
        if salience is not None:
            salience = np.asarray(salience, np.float32)
            if salience.shape != (count,) or not np.isfinite(salience).all() or salience.min() < 0:
                raise InvalidInput(
                    f"Got salience of shape {salience.shape}.", f"({count},) finite numbers of at least 0", "Check it."
                )
        associations = associate(experience, count, window)
        lookup = np.full(count, -1, np.int64)
        return cls(observations, experience, actions, associations, salience, lookup, goes_on(experience))

    def segments(self, batch_size: int, horizon: int, window: int) -> Int64:
        """Returns the start and the excluded end (n, 2) of segments that fit into a batch and overlap."""
        ends = np.flatnonzero(np.diff(self.experience.trajectory)) + 1
        bounds = np.concatenate([[0], ends, [len(self.experience)]])
        overlap = min(max(window, horizon), batch_size // 2)
        pieces = []
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            starts = np.arange(first, max(last - overlap, first + 1), max(batch_size - overlap, 1))
            pieces.append(np.stack([starts, np.minimum(starts + batch_size, last)], axis=1))
        return np.concatenate(pieces)

    def ahead(self, steps: Int64, horizon: int) -> Int64:
        """Returns the positions (B, horizon) in ``steps`` of the 1st, 2nd, ... step after each; -1 for none."""
        at_step = np.full(len(self.experience) + horizon, -1, np.int64)
        at_step[steps] = np.arange(len(steps))
        offsets = np.arange(1, horizon + 1)
        unbroken = np.logical_and.accumulate(
            self.follows[np.minimum(steps[:, None] + offsets - 1, len(self.follows) - 1)], axis=1
        )
        return np.where(unbroken, at_step[steps[:, None] + offsets], -1)

    def future_actions(self, steps: Int64, horizon: int) -> Actions | None:
        """Returns the actions (B, horizon, ...) from each step on; after the end the last one is repeated."""
        if self.actions is None:
            return None
        later = np.minimum(steps[:, None] + np.arange(horizon), len(self.experience) - 1)
        taken: Actions = self.actions[later]
        return taken


def goes_on(experience: Experience) -> npt.NDArray[np.bool_]:
    """Returns whether the next step (S,) is the next position of the same trajectory."""
    same = np.diff(experience.trajectory, append=-1) == 0
    follows: npt.NDArray[np.bool_] = same & (np.diff(experience.position, append=0) == 1)
    return follows


def batches(segments: Int64, random: np.random.Generator, count: int) -> Iterator[Int64]:
    """Returns one pass: the segments, shuffled and divided into ``count`` batches of distinct steps."""
    return map(np.unique, runs_of(random.permutation(segments), count))


def drop(present: dict[str, Tensor], rate: float, generator: torch.Generator) -> dict[str, Tensor]:
    """Drops modalities at random; a moment that would lose all modalities keeps all."""
    names = list(present)
    there = torch.stack([present[name] for name in names])  # (modalities, B)
    mask = there & (torch.rand(there.shape, generator=generator) >= rate).to(there.device)
    mask = torch.where(mask.any(dim=0), mask, there)
    return {name: mask[at] for at, name in enumerate(names)}


def check_states(experience: Experience, count: int) -> None:
    """Raises InvalidInput unless there is a step, and each is one of ``count`` memories."""
    if not len(experience) or experience.states.min() < 0 or experience.states.max() >= count:
        raise InvalidInput(
            f"The experience has {counted(len(experience), 'step')} of {counted(count, 'memory')}.",
            "at least one step, and states below the number of memories",
            "Check Experience.states.",
        )


def read_actions(outward: OutwardPredictor, given: Actions | None, steps: int) -> Actions | None:
    """Returns the actions as torch needs them.

    Raises:
        InvalidInput: they do not fit the outward predictor, or are not one per step.
    """
    actions = None if given is None else np.asarray(given)
    wants = (steps,) if outward.actions is not None else (steps, outward.action_dim)
    if (actions is None) != (not outward.action_dim) or (actions is not None and actions.shape != wants):
        raise InvalidInput(
            f"Got {'no actions' if actions is None else f'actions of shape {actions.shape}'}.",
            f"shape {wants}" if outward.action_dim else "none: the outward predictor takes no actions",
            "Make the OutwardPredictor with actions=, or action_dim=, to match.",
        )
    if actions is None or not len(actions):
        return actions
    if outward.actions is not None:
        if actions.dtype.kind not in "iu" or actions.min() < 0 or actions.max() >= outward.actions:
            raise InvalidInput("Got other actions.", f"whole numbers from 0 to {outward.actions - 1}", "Renumber them.")
        return actions.astype(np.int64)
    if actions.dtype.kind not in "fiu" or not np.isfinite(actions).all():
        raise InvalidInput("The actions hold NaN or infinity.", "finite numbers", "Check them.")
    return actions
