"""The episode embeddings during training: a table with a separate optimiser."""

from __future__ import annotations

from tempfile import TemporaryFile

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pam_retriever.experience.cooccurrence import Associations
from pam_retriever.model.keys import unit
from pam_retriever.types import Bools, Float32, Int64

SPEED = 5.0  # a row moves by this many times the learning rate, relative to its length
APART = 0.01  # standard deviation of the noise on each random direction
FORGETS = 0.9  # decay of the mean square gradient of a row


class EmbeddingTable:
    """The episode embeddings of M memories in training.

    The optimiser is Adam without momentum and with one second moment per row, like the row-wise Adagrad of recommender
    systems. A step changes only the rows of its batch.

    Args:
        values: (M, code) start values; zeros for a memory without an embedding. Changed in place.

    Attributes:
        values: the embeddings.
        moments: (M,) mean square of the gradients of each row.
        temperature: the temperature of the loss.
    """

    def __init__(self, values: Float32) -> None:
        self.values = values
        self.moments = np.zeros(len(values), np.float32)
        self.temperature = 1.0
        self._looked_up: tuple[Int64, Tensor, Bools] | None = None

    @property
    def length(self) -> int:
        """Length of an embedding; 0 for none."""
        return int(self.values.shape[1])

    @classmethod
    def on_disk(cls, memories: int, code: int) -> EmbeddingTable:
        """Returns zeros of this shape in a temporary file, so that they need not fit into memory."""
        if not code:
            return cls(np.zeros((memories, 0), np.float32))
        with TemporaryFile() as file:
            return cls(np.memmap(file, np.float32, "w+", shape=(max(memories, 1), code)))

    def begin(
        self, rows: Int64, vectors: Float32, associations: Associations, seed: int, without: Bools | None = None
    ) -> None:
        """Sets a start value for memories that have associates, but no embedding yet.

        The start value is the sum of the surrounding memories, projected to random directions, as in the temporal
        context model (Howard and Kahana 2002). So memories with common or similar associates start near to each other,
        and an inverted file finds them.

        Args:
            rows: (M,) the rows of the memories in the table.
            vectors: (M, d) the vectors of the memories.
            associations: the pairs of memories that were experienced together.
            seed: the seed of the directions.
            without: (M,) mask of memories that get no embedding; None for only those without associates.
        """
        there = self.values[rows]
        new = ~there.any(axis=1) & (np.diff(associations.indptr) > 0)
        if without is not None:
            new &= ~without
        if not self.length or not new.any():
            return
        random = np.random.default_rng(seed)
        units = unit(vectors)
        units -= units.mean(axis=0)
        units = unit(units @ random.standard_normal((units.shape[1], self.length), np.float32))
        units += APART * random.standard_normal(units.shape, np.float32)  # separates memories with equal vectors
        others, first = torch.from_numpy(associations.indices), torch.from_numpy(associations.indptr[:-1])
        context = units + F.embedding_bag(others, torch.from_numpy(units), first, mode="sum").numpy()
        self.values[rows[new]] = unit(context[new])

    def ask(self, rows: Int64, settled: Bools, device: torch.device) -> Tensor:
        """Returns the embeddings (B, code) of distinct ``rows``; ``learn`` changes those that are not ``settled``."""
        codes = torch.from_numpy(self.values[rows]).to(device).requires_grad_()
        self._looked_up = rows, codes, ~settled
        return F.normalize(codes, dim=-1)

    @torch.no_grad()
    def learn(self, learning_rate: float) -> None:
        """Makes one optimiser step for the rows of the last ``ask``, after the backward pass of their loss."""
        if self._looked_up is None:
            return
        (rows, codes, moves), self._looked_up = self._looked_up, None
        assert codes.grad is not None
        rows, gradient = rows[moves], codes.grad.cpu().numpy()[moves]
        self.moments[rows] = FORGETS * self.moments[rows] + (1 - FORGETS) * np.square(gradient).mean(axis=1)
        moved = self.values[rows] - SPEED * learning_rate * gradient / (np.sqrt(self.moments[rows])[:, None] + 1e-12)
        with np.errstate(invalid="ignore"):  # if the loss diverged, which the trainer reports
            self.values[rows] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
