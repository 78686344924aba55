"""The outward predictor of the next state (Dury, section 3.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pam_retriever.errors import InvalidInput
from pam_retriever.jepa.encoder import StoredModule
from pam_retriever.validation import check_count, check_whole


class OutwardPredictor(StoredModule):
    """A residual MLP from a state, and an action if there is one, to the next state.

    Args:
        dim: d, length of a state.
        actions: number of actions, for actions as integers.
        action_dim: length of an action, for actions as vectors. If neither is given, the state alone decides.
        hidden: width of the hidden layers.
        seed: the seed of the weights.

    Raises:
        InvalidInput: an argument is invalid, or both kinds of actions are given.
    """

    def __init__(
        self, dim: int, actions: int | None = None, action_dim: int | None = None, hidden: int = 256, seed: int = 0
    ) -> None:
        super().__init__()
        if actions is not None and action_dim:
            got = f"Got actions={actions!r} and action_dim={action_dim!r}."
            raise InvalidInput(got, "one of them", "Leave action_dim out for actions as integers.")
        self.dim, self.actions = check_count("dim", dim), actions
        self.action_dim = (
            check_whole("action_dim", action_dim or 0) if actions is None else check_count("actions", actions)
        )
        hidden = check_count("hidden", hidden)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.inward = nn.Linear(dim + self.action_dim, hidden)
            self.middle = nn.Linear(hidden, hidden)
            self.outward = nn.Linear(hidden, dim)

    def forward(self, states: Tensor, actions: Tensor | None = None) -> Tensor:
        """Returns the next state; (B, d) and actions (B,) int64 or (B, action_dim) -> (B, d), mean 0 and variance 1."""
        x = states
        if self.action_dim and actions is not None:
            given = F.one_hot(actions, self.action_dim) if self.actions is not None else actions
            x = torch.cat([states, given.to(states.dtype)], dim=-1)
        h = F.gelu(self.inward(x))
        h = h + F.gelu(self.middle(h))
        return F.layer_norm(states + self.outward(h), (self.dim,))

    def rollout(self, states: Tensor, actions: Tensor | None, steps: int) -> list[Tensor]:
        """Returns the states after 1, 2, ... ``steps`` steps, each predicted from the state before it.

        Args:
            states: (B, d) the first states.
            actions: (B, steps) or (B, steps, action_dim), or None.
            steps: number of steps.

        Returns:
            ``steps`` tensors (B, d).
        """
        reached = []
        for step in range(steps):
            states = self(states, None if actions is None else actions[:, step])
            reached.append(states)
        return reached

    def to_json(self) -> dict[str, int | None]:
        """Returns the arguments that rebuild it, without its weights."""
        action_dim = None if self.actions is not None else self.action_dim
        return {"dim": self.dim, "actions": self.actions, "action_dim": action_dim, "hidden": self.middle.in_features}
