"""Training on a part of the directed associations: held-out anchors, held-out edges, coverage.

Associations outside of that part must not be negatives, so training ignores them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.paper.setting import Setting
from pam_retriever.experience.cooccurrence import Associations, Experience, within
from pam_retriever.model.losses import multi_positive_info_nce
from pam_retriever.model.predictor import Predictor
from pam_retriever.training.config import FitConfig
from pam_retriever.training.distributed import DistributedPredictor
from pam_retriever.training.embedding_table import EmbeddingTable
from pam_retriever.training.objectives import InfoNCEObjective, JointObjective, Objective
from pam_retriever.training.shards import Shard
from pam_retriever.training.trainer import Trainer
from pam_retriever.types import Int64


def subset(associations: Associations, mask: np.ndarray) -> Associations:
    """Returns the directed associations where ``mask`` (E,) is true."""
    counts = np.bincount(associations.anchors()[mask], minlength=len(associations.indptr) - 1)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    columns = (associations.indices, associations.weights, associations.co_occurrences, associations.salience)
    return Associations(indptr.astype(np.int64), *(column[mask] for column in columns))


def plain(setting: Setting) -> FitConfig:
    """Returns the setting's recipe without its own validation on held-out memories."""
    return replace(setting.fit_config, holdout=0.0)


@dataclass(frozen=True)
class Partial:
    """The directed associations for training.

    Attributes:
        mask: (E,) of all directed associations.
        anchors: (M,) memories that may be queries; the predictions of other memories are not trained. None: all.
        redraw: draws a new part of the same size in every pass ("online sampling").
    """

    mask: np.ndarray
    anchors: np.ndarray | None = None
    redraw: bool = False


class PartialTrainer(Trainer):
    """A ``Trainer`` that uses only a part of the associations, with the current recipe."""

    def __init__(self, partial: Partial, *arguments: Any, **settings: Any) -> None:
        self._partial = partial
        super().__init__(*arguments, **settings)

    def make_objective(self, shard: Shard, associations: Associations) -> Objective:
        if self.config.objective == "joint":
            table = self.embeddings if self.embeddings.length else None
            return PartialJoint(
                self._partial, shard.experience, associations, self._window, self.config, self.noise(), table
            )
        part = subset(associations, self._partial.mask)
        if self._partial.redraw:
            return OnlineInfoNCE(associations, replace(self.config, pairs=len(part)), self._random)
        return InfoNCEObjective(part, self.config, self._random)


class PartialJoint(JointObjective):
    """The joint objective with the drawn associations as positives; it ignores the other associations."""

    def __init__(
        self,
        partial: Partial,
        experience: Experience,
        associations: Associations,
        window: int,
        config: FitConfig,
        generator: torch.Generator,
        codes: EmbeddingTable | None = None,
    ) -> None:
        super().__init__(experience, associations, window, config, generator, codes=codes)
        part = subset(associations, partial.mask)
        self._partial, self._part, self.coverage = partial, part, len(part) / len(associations)
        self.drawable = part  # the initial codes use only the associations of the training
        anchors = np.ones(len(associations.indptr) - 1, bool) if partial.anchors is None else partial.anchors
        self._anchors = anchors

    def batches(self, random: np.random.Generator):  # type: ignore[no-untyped-def]
        if self._partial.redraw:
            drawn = np.zeros(len(self.associations), bool)
            drawn[random.permutation(len(drawn))[: len(self._part)]] = True
            self._part = subset(self.associations, drawn)
        yield from super().batches(random)

    def loss(self, model: Predictor | DistributedPredictor, states: Tensor, batch: Int64, temperature: float) -> Tensor:
        own = np.flatnonzero(self._anchors[batch])  # (A,) rows of the queries
        x = states[torch.from_numpy(batch).to(states.device)]  # (B, d)
        f = model.associate(x[torch.from_numpy(own).to(x.device)])
        weight, salience = np.zeros((2, len(batch), len(batch)), np.float32)
        met = np.zeros(weight.shape, bool)
        row, column, entry = within(self._part, batch, self._lookup)
        weight[row, column], salience[row, column] = self._part.weights[entry], self._part.salience[entry]
        row, column, _ = within(self.associations, batch, self._lookup)
        met[row, column] = True

        def loss_of(
            scores: Tensor, weight: np.ndarray, met: np.ndarray, itself: np.ndarray, temperature: float
        ) -> Tensor:
            drawn = weight > 0
            row, column = (torch.from_numpy(side).to(x.device) for side in np.nonzero(drawn))
            unseen = torch.from_numpy(met & ~drawn).to(x.device)
            strength, position = torch.from_numpy(weight[drawn]).to(x.device), torch.from_numpy(itself).to(x.device)
            return multi_positive_info_nce(
                (scores / temperature).masked_fill(unseen, -1e9), row, column, strength, len(states), position
            )

        loss = loss_of(model.score(f, x), weight[own], met[own], own, temperature)
        if self._codes is not None:  # a code has no direction: a pair counts if it was drawn in either direction
            code = self._codes.ask(batch[own], self.settled[batch[own]], x.device)
            either, among = np.maximum(salience, salience.T)[np.ix_(own, own)], met[np.ix_(own, own)]
            loss = loss + loss_of(code @ code.T, either, among, np.arange(len(own)), self._codes.temperature)
        return loss


class OnlineInfoNCE(InfoNCEObjective):
    """The paper's loss on pairs that are drawn anew in every epoch (configuration D of its model selection)."""

    def __init__(self, associations: Associations, config: FitConfig, random: np.random.Generator) -> None:
        super().__init__(associations, config, random)
        self._every = np.stack([associations.anchors(), associations.indices], axis=1)

    def batches(self, random: np.random.Generator):  # type: ignore[no-untyped-def]
        self._pairs = self._every[random.permutation(len(self._every))[: len(self._pairs)]]
        yield from super().batches(random)
