"""Training by Muon (Jordan et al. 2024) instead of AdamW, to compare the two."""

from __future__ import annotations

from typing import Any

import torch

from pam_retriever.training.trainer import Trainer


class MuonTrainer(Trainer):
    """Updates the matrices of the layers by Muon, and the rest by AdamW; everything else is as in ``Trainer``.

    Muon's steps are scaled to the size of AdamW's steps, so both use the same learning rates.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        config, parameters = self.config, list(self.model.parameters())
        self._optimizer = Both(
            torch.optim.Muon(
                [one for one in parameters if one.dim() == 2],
                lr=config.learning_rate,
                weight_decay=config.weight_decay,
                adjust_lr_fn="match_rms_adamw",
            ),
            torch.optim.AdamW(
                [one for one in parameters if one.dim() != 2],
                lr=config.learning_rate,
                betas=(0.9, config.beta2),
                weight_decay=config.weight_decay,
            ),
        )


class Both(torch.optim.Optimizer):
    """Two optimisers as one, each with its own parameters."""

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        self._optimizers = optimizers
        super().__init__([one for part in optimizers for group in part.param_groups for one in group["params"]], {})
        self.param_groups = [group for part in optimizers for group in part.param_groups]

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Makes one step of each optimiser."""
        assert closure is None
        for part in self._optimizers:
            part.step()
