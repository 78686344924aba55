"""Training on a part of the directed associations: held-out anchors, held-out edges, coverage.

What is left out of training must not be trained against either, so associations that are not drawn
are no negatives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pam_retriever.config import FitConfig
from pam_retriever.cooccurrence import Associations, Experience, within
from pam_retriever.losses import multi_positive_info_nce
from pam_retriever.objectives import InfoNCEObjective, JointObjective, Objective
from pam_retriever.predictor import Predictor
from pam_retriever.types import Int64


def subset(associations: Associations, kept: np.ndarray) -> Associations:
    """The directed associations where ``kept`` (E,) is true."""
    counts = np.bincount(associations.anchors()[kept], minlength=len(associations.indptr) - 1)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return Associations(indptr.astype(np.int64), associations.indices[kept], associations.weights[kept])


@dataclass(frozen=True)
class Partial:
    """Makes the objective for ``kept`` directed associations, after the recipe that is in use.

    Attributes:
        kept: (E,) of all directed associations.
        anchors: (M,) memories that may be asked from; the predictions of others are not trained. None: all.
        forward_only: train f(q).p alone, the paper's score, in place of the score that recall uses. An
            association then counts in the direction it was drawn in only.
        redraw: draw as many associations anew in every pass ("online sampling").
    """

    kept: np.ndarray
    anchors: np.ndarray | None = None
    forward_only: bool = False
    redraw: bool = False

    def __call__(
        self,
        experience: Experience,
        associations: Associations,
        window: int,
        config: FitConfig,
        generator: torch.Generator,
        random: np.random.Generator,
    ) -> Objective:
        part = subset(associations, self.kept)
        if config.objective == "joint":
            return PartialJoint(self, part, experience, associations, window, config, generator)
        if self.redraw:
            return OnlineInfoNCE(associations, replace(config, pairs=len(part)), random)
        return InfoNCEObjective(part, config, random)


class PartialJoint(JointObjective):
    """The joint objective with the drawn associations as positives, and the others out of sight."""

    def __init__(
        self,
        partial: Partial,
        part: Associations,
        experience: Experience,
        associations: Associations,
        window: int,
        config: FitConfig,
        generator: torch.Generator,
    ) -> None:
        super().__init__(experience, associations, window, config, generator)
        self._partial, self._part, self.coverage = partial, part, len(part) / len(associations)
        anchors = np.ones(len(associations.indptr) - 1, bool) if partial.anchors is None else partial.anchors
        self._anchors = torch.from_numpy(anchors)

    def batches(self, random: np.random.Generator):  # type: ignore[no-untyped-def]
        if self._partial.redraw:
            drawn = np.zeros(len(self._associations), bool)
            drawn[random.permutation(len(drawn))[: len(self._part)]] = True
            self._part = subset(self._associations, drawn)
        yield from super().batches(random)

    def loss(self, model: Predictor, states: Tensor, batch: Int64, temperature: float) -> Tensor:
        x = states[torch.from_numpy(batch).to(states.device)]  # (B, d)
        f = F.normalize(model(x).float(), dim=-1)
        f = f * self._anchors[batch].to(f.device)[:, None]  # no f of a memory that is never asked from
        scores = f @ F.normalize(x, dim=-1).T
        if not self._partial.forward_only:
            scores = scores + scores.T + f @ f.T
        unseen = torch.zeros_like(scores, dtype=torch.bool)
        row, column, _ = within(self._associations, batch, self._lookup)
        unseen[row, column] = True
        row, column, _ = within(self._part, batch, self._lookup)
        unseen[row, column] = False
        row, column = (torch.from_numpy(side).to(f.device) for side in (row, column))
        return multi_positive_info_nce(
            scores.masked_fill(unseen, -1e9),
            row,
            column,
            torch.ones(len(row), device=f.device),
            temperature,
            bank_size=len(states),
        )


class OnlineInfoNCE(InfoNCEObjective):
    """The paper's loss on pairs that are drawn anew for every epoch (configuration D of its model selection)."""

    def __init__(self, associations: Associations, config: FitConfig, random: np.random.Generator) -> None:
        super().__init__(associations, config, random)
        self._every = np.stack([associations.anchors(), associations.indices], axis=1)

    def batches(self, random: np.random.Generator):  # type: ignore[no-untyped-def]
        self._pairs = self._every[random.permutation(len(self._every))[: len(self._pairs)]]
        yield from super().batches(random)
