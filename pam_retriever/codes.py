"""Step 5, beside the predictor: an episode code for every memory that was experienced, learnt as a row of a table.

f has to guess from p what belongs to it, so it also answers for a cue that was never seen. Which experience a
memory was part of cannot be guessed, only remembered: no function of p has to be found for it. So each memory
has a vector of its own, drawn to those of its associates, as words and items have in word2vec (Mikolov et al. 2013)
and item2vec (Barkan and Koenigstein 2016). It takes nothing of the network, is learnt in a few passes, and what is
learnt of new memories overwrites nothing of old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryFile

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pam_retriever.channels import unit
from pam_retriever.cooccurrence import Associations
from pam_retriever.types import Bools, Float32, Int64

SPEED = 5.0  # a code moves by so many times the learning rate, in units of its length
APART = 0.01  # noise on the directions of looks, a dimension
FORGETS = 0.9  # how slowly a row forgets how large its gradients were


@dataclass(frozen=True)
class Codes:
    """The episode codes of memories: unit vectors, or zeros where nothing was experienced.

    Attributes:
        rows: (n,) sorted rows of stored memories, the first n of ``values``.
        values: (M, code), M >= n.
        places: where among them those named by id are, such as memories that are yet to be stored.
    """

    rows: Int64
    values: Float32
    places: dict[str, int] = field(default_factory=dict)

    def of(self, rows: Int64) -> Float32:
        """Those of stored rows, (m, code)."""
        place = np.searchsorted(self.rows, rows)
        known = np.take(self.rows, place, mode="clip") == rows if len(self.rows) else np.zeros(len(rows), bool)
        return self._at(np.where(known, place, -1))

    def named(self, ids: Sequence[str]) -> Float32:
        """Those of ids, (m, code)."""
        return self._at(np.array([self.places.get(id, -1) for id in ids], np.int64))

    def _at(self, places: Int64) -> Float32:
        found = np.zeros((len(places), self.values.shape[1]), np.float32)
        found[places >= 0] = self.values[places[places >= 0]]
        return found


def with_codes(predicted: Float32, codes: Float32) -> Float32:
    """Association vectors (n, d + code), of which f is filled in, with these codes (n, code) in their place."""
    if codes.shape[1]:
        predicted[:, -codes.shape[1] :] = codes
    return predicted


class CodeBook:
    """The codes of M memories in training.

    The optimiser is Adam without momentum and with one second moment a row (as in Adagrad's row-wise form,
    which recommenders train their tables with): a step touches the rows of its batch and no others.

    Args:
        values: (M, code) to go on from; zeros for a memory that has none yet. Changed in place.

    Attributes:
        values: the codes.
        moments: (M,) mean square of the gradients of each row.
        temperature: of the loss that they are asked for.
    """

    def __init__(self, values: Float32) -> None:
        self.values = values
        self.moments = np.zeros(len(values), np.float32)
        self.temperature = 1.0
        self._asked: tuple[Int64, Tensor, Bools] | None = None

    @property
    def length(self) -> int:
        """Of a code; 0 for none."""
        return int(self.values.shape[1])

    @classmethod
    def on_disk(cls, memories: int, code: int) -> CodeBook:
        """As many zeros, in a temporary file that the system need not hold in memory."""
        if not code:
            return cls(np.zeros((memories, 0), np.float32))
        with TemporaryFile() as file:
            return cls(np.memmap(file, np.float32, "w+", shape=(max(memories, 1), code)))

    def begin(self, rows: Int64, vectors: Float32, associations: Associations, seed: int) -> None:
        """Gives the memories that have associates, but no code yet, one to begin with.

        It is their context: the sum of the memories around them, as in the temporal context model (Howard and
        Kahana 2002), along random directions. Those with common associates begin near to each other, and near to those
        whose associates look like theirs, so that an inverted file finds them.

        Args:
            rows: (M,) of the memories.
            vectors: (M, d) of them.
            associations: who was experienced with whom.
            seed: of the directions.
        """
        there = self.values[rows]
        new = ~there.any(axis=1) & (np.diff(associations.indptr) > 0)
        if not self.length or not new.any():
            return
        random = np.random.default_rng(seed)
        looks = unit(vectors)
        looks -= looks.mean(axis=0)
        looks = unit(looks @ random.standard_normal((looks.shape[1], self.length), np.float32))
        looks += APART * random.standard_normal(looks.shape, np.float32)  # memories that look the same
        others, first = torch.from_numpy(associations.indices), torch.from_numpy(associations.indptr[:-1])
        context = looks + F.embedding_bag(others, torch.from_numpy(looks), first, mode="sum").numpy()
        self.values[rows[new]] = unit(context[new])

    def ask(self, rows: Int64, settled: Bools, place: torch.device) -> Tensor:
        """The codes of distinct ``rows`` for a loss, (B, code); ``learn`` moves those that are not ``settled``."""
        codes = torch.from_numpy(self.values[rows]).to(place).requires_grad_()
        self._asked = rows, codes, ~settled
        return F.normalize(codes, dim=-1)

    @torch.no_grad()
    def learn(self, learning_rate: float) -> None:
        """One step of the rows that were asked for last, after their loss was differentiated."""
        if self._asked is None:
            return
        (rows, codes, moves), self._asked = self._asked, None
        assert codes.grad is not None
        rows, gradient = rows[moves], codes.grad.cpu().numpy()[moves]
        self.moments[rows] = FORGETS * self.moments[rows] + (1 - FORGETS) * np.square(gradient).mean(axis=1)
        moved = self.values[rows] - SPEED * learning_rate * gradient / (np.sqrt(self.moments[rows])[:, None] + 1e-12)
        with np.errstate(invalid="ignore"):  # of a loss that diverged, which the training tells
            self.values[rows] = moved / np.linalg.norm(moved, axis=1, keepdims=True)

    def forget(self, rows: Int64 | Bools) -> None:
        """Takes the codes of memories away."""
        self.values[rows] = 0
