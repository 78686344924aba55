"""Training with memories that are only targets, never cues: the paper's held-out query states."""

from __future__ import annotations

from typing import Any

import numpy as np

from pam_retriever.experience.cooccurrence import Associations
from pam_retriever.training.objectives import JointObjective, Objective
from pam_retriever.training.shards import Shard
from pam_retriever.training.trainer import Trainer
from pam_retriever.types import Int64


class HeldOutTrainer(Trainer):
    """A ``Trainer`` that never uses the rows ``held_out`` (n,) as cues, and learns no code for them."""

    def __init__(self, held_out: Int64, *arguments: Any, **settings: Any) -> None:
        self._held_out = held_out
        super().__init__(*arguments, **settings)

    def make_objective(self, shard: Shard, associations: Associations) -> Objective:
        objective = super().make_objective(shard, associations)
        if not len(self._held_out):
            return objective
        if not isinstance(objective, JointObjective):
            raise ValueError("the published loss on single pairs cannot hold memories out: use a joint recipe")
        never = np.isin(shard.rows, self._held_out)
        objective.targets_only |= never
        objective.uncoded |= never
        return objective
