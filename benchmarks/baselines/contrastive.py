"""The training loop of the neural baselines: it reads whole trajectories, and every association is a positive.

It uses the recipe of the library (benchmarks/notes/training.md): the same batches, the same loss, the same schedules.
So only the model differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from pam_retriever.experience.cooccurrence import Associations, Experience, associate, within
from pam_retriever.model.keys import unit
from pam_retriever.model.losses import multi_positive_info_nce
from pam_retriever.types import Float32, Int64

Towers = Callable[[int], nn.Module]
"""Makes, for vectors of d dimensions, a module that maps unit vectors (B, d) and edges (2, E) of
places in them to queries and keys, both (B, n), whose inner products are the scores."""

BATCH = 1000  # states
TEMPERATURE, FINAL_TEMPERATURE, WARMUP = 0.2, 0.04, 0.05


@dataclass
class Contrastive:
    """A neural baseline.

    Attributes:
        towers: creates the model.
        passes: number of passes over the trajectories.
        learning_rate: peak learning rate of AdamW.
        seed: seed of weights and order.
        device: training device.
    """

    towers: Towers
    passes: int = 40
    learning_rate: float = 1e-3
    seed: int = 0
    device: str = "cpu"

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:
        units = unit(vectors)
        associations = associate(experience, len(vectors), window)
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            self._model = self.towers(vectors.shape[1]).to(self.device)
        self._train(torch.from_numpy(units).to(self.device), associations, experience)
        everyone = torch.from_numpy(np.stack([associations.indices, associations.anchors()]))
        with torch.inference_mode():
            queries, keys = self._model.cpu().eval()(torch.from_numpy(units), everyone)
        self._queries, self._keys = queries.numpy(), keys.numpy()

    def _train(self, units: Tensor, associations: Associations, experience: Experience) -> None:
        optimizer = torch.optim.AdamW(
            self._model.parameters(), lr=self.learning_rate, betas=(0.9, 0.95), weight_decay=1e-4
        )
        random = np.random.default_rng(self.seed)
        lookup = np.full(len(units), -1, np.int64)
        total = self.passes * len(_cuts(experience))
        for step, members in enumerate(tqdm(_batches(experience, self.passes, random), total=total, disable=None)):
            done = step / total
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate * min(1.0, (done + 1e-3) / WARMUP) * _cosine(1.0, 0.002, done)
            rows, columns, _ = within(associations, members, lookup)
            row, column = (torch.from_numpy(side).to(units.device) for side in (rows, columns))
            queries, keys = self._model(units[torch.from_numpy(members).to(units.device)], torch.stack([column, row]))
            loss = multi_positive_info_nce(
                queries @ keys.T / _cosine(TEMPERATURE, FINAL_TEMPERATURE, done),
                row,
                column,
                torch.ones(len(row), device=units.device),
                bank_size=len(units),
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
            optimizer.step()

    def scores(self, cues: Int64) -> Float32:
        return self._queries[cues] @ self._keys.T

    @torch.inference_mode()
    def scores_of(self, vectors: Float32) -> Float32:
        """Returns the scores of vectors without experience, for which a graph network has no edges."""
        queries, _ = self._model(torch.from_numpy(unit(vectors)), torch.empty(2, 0, dtype=torch.long))
        return queries.numpy() @ self._keys.T

    def floats(self) -> int:
        parameters = sum(parameter.numel() for parameter in self._model.parameters())
        return self._keys.size + self._queries.size + parameters


def _cuts(experience: Experience) -> list[Int64]:
    """Returns the trajectory numbers at which to cut the ordered trajectories into batches of about equal size."""
    trajectories = np.unique(experience.trajectory)
    return np.array_split(trajectories, max(1, math.ceil(len(experience) / BATCH)))


def _batches(experience: Experience, passes: int, random: np.random.Generator) -> Iterator[Int64]:
    starts = np.flatnonzero(np.diff(experience.trajectory, prepend=-1))
    paths = np.split(experience.states, starts[1:])
    sizes = [len(part) for part in _cuts(experience)]
    for _ in range(passes):
        order = random.permutation(len(paths))
        for chosen in np.split(order, np.cumsum(sizes)[:-1]):
            yield np.unique(np.concatenate([paths[at] for at in chosen]))


def _cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * done))
