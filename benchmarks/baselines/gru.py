"""GRU4Rec: a recurrent network over the session.

Hidasi, Karatzoglou, Baltrunas and Tikk, ICLR 2016, with the improvements of Hidasi and Karatzoglou, CIKM 2018, as in
the authors' code: session-parallel batches, a hidden state that is carried from batch to batch and not differentiated
through, one embedding for input and output ("constrained"), softmax cross-entropy, dropout, Adagrad. The one
difference: their loss samples items that did not come next, which makes a large catalogue affordable. Here the loss is
over all items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from pam_retriever.types import Float64, Int64

Walks = Sequence[Sequence[int]]


class _Network(nn.Module):
    def __init__(self, items: int, units: int, dropped_items: float, dropped_units: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(items, units)
        self.bias = nn.Parameter(torch.zeros(items))
        self.cell = nn.GRUCell(units, units)
        self.dropped_items, self.dropped_units = nn.Dropout(dropped_items), nn.Dropout(dropped_units)
        for weights in self.parameters():
            if weights.dim() == 2:
                bound = (6 / sum(weights.shape)) ** 0.5  # Glorot and Bengio 2010, as in the authors' code
                nn.init.uniform_(weights, -bound, bound)
            else:
                nn.init.zeros_(weights)

    def forward(self, items: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Returns the state (B, units) after one more item (B,)."""
        return self.dropped_units(self.cell(self.dropped_items(self.embedding(items)), state))

    def logits(self, state: torch.Tensor) -> torch.Tensor:
        """Returns (B, N) scores of all items."""
        return state @ self.embedding.weight.T + self.bias


@dataclass
class GRU4Rec:
    """GRU4Rec with ``fit`` and ``scores`` of ``benchmarks.baselines.sessions``.

    Args:
        units: length of the state and of the embeddings.
        rate: learning rate of Adagrad.
        batch: number of parallel sessions.
        dropped_items: dropout rate of the embeddings.
        dropped_units: dropout rate of the state.
        epochs: passes over the sessions, in their order.
        seed: seed of weights and dropout.
    """

    units: int = 128
    rate: float = 0.1
    batch: int = 64
    dropped_items: float = 0.2
    dropped_units: float = 0.2
    epochs: int = 10
    seed: int = 0

    def start(self, walks: Walks, items: int) -> None:
        """Initialises the weights, without a pass."""
        torch.manual_seed(self.seed)
        self._walks = [np.asarray(walk, np.int64) for walk in walks if len(walk) > 1]
        self._network = _Network(items, self.units, self.dropped_items, self.dropped_units)
        self._optimiser = torch.optim.Adagrad(self._network.parameters(), self.rate, eps=1e-6)
        self.done = 0

    def fit(self, walks: Walks, items: int) -> None:
        """Trains on the sessions, in order of time."""
        self.start(walks, items)
        while self.done < self.epochs:
            self.one_pass()

    def one_pass(self) -> float:
        """Reads all sessions once; returns the mean loss."""
        torch.manual_seed(self.seed + 1_000 * (self.done + 1))  # the same after a checkpoint
        self._network.train()
        state, losses = torch.zeros(self.batch, self.units), []
        for slots, new, read, came in parallel(self._walks, self.batch):
            before = state[slots] * torch.from_numpy(~new)[:, None]
            after = self._network(torch.from_numpy(read), before)
            loss = nn.functional.cross_entropy(self._network.logits(after), torch.from_numpy(came))
            self._optimiser.zero_grad()
            loss.backward()
            self._optimiser.step()
            state[slots] = after.detach()
            losses.append(loss.item())
        self.done += 1
        return float(np.mean(losses))

    def scores(self, walk: Sequence[int]) -> Float64:
        """Returns (N,) scores of the items after a walk so far."""
        self._network.eval()
        with torch.no_grad():
            state = torch.zeros(1, self.units)
            for item in walk:
                state = self._network(torch.tensor([item]), state)
            found: Float64 = self._network.logits(state)[0].double().numpy()
        return found

    def save(self, path: Path) -> None:
        """Writes a checkpoint."""
        torch.save((self._network.state_dict(), self._optimiser.state_dict(), self.done), path)

    def load(self, path: Path) -> None:
        """Continues from a checkpoint, after ``start``."""
        network, optimiser, self.done = torch.load(path, weights_only=True)
        self._network.load_state_dict(network)
        self._optimiser.load_state_dict(optimiser)


def parallel(walks: Sequence[Int64], batch: int) -> Iterator[tuple[Int64, np.ndarray, Int64, Int64]]:
    """Yields steps of ``batch`` sessions at a time; a slot whose session ends takes the next one.

    Yields:
        The slots in use, whether a session begins there, the items read, and the items that came next.
    """
    following = min(batch, len(walks))
    session, at = np.arange(following), np.zeros(following, np.int64)
    while True:
        slots = np.flatnonzero(session >= 0)
        if not len(slots):
            return
        pairs = [walks[session[slot]][at[slot] : at[slot] + 2] for slot in slots.tolist()]
        read, came = np.array(pairs).T
        yield slots, at[slots] == 0, read, came
        at[slots] += 1
        for slot in slots.tolist():
            if at[slot] + 1 >= len(walks[session[slot]]):
                session[slot], at[slot] = (following, 0) if following < len(walks) else (-1, 0)
                following += session[slot] >= 0
