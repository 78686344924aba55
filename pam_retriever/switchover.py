"""What a finished training needs before the index can switch over to it, made while the index answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pam_retriever.backends import Backend
from pam_retriever.channels import make_keys
from pam_retriever.distributed import in_shards
from pam_retriever.predictor import Predictor
from pam_retriever.training import predict
from pam_retriever.types import Float32, Int64

Build = Callable[[Int64, Float32], Backend]


@dataclass
class Switchover:
    """The memories of one moment, later their association vectors and the ANN index over both.

    Attributes:
        rows: (n,) the memories.
        vectors: (n, d) of them.
        learnt_to: the highest number of a trajectory that the training saw.
        changed: rows that were added, replaced or deleted since; the bank keeps it up to date.
        predicted: (n, d) f of them, once ``prepare`` was called.
        associative: the ANN index over [p ; f(p)], likewise.
    """

    rows: Int64
    vectors: Float32
    learnt_to: int
    changed: set[int] = field(default_factory=set)
    predicted: Float32 | None = None
    associative: Backend | None = None

    def prepare(self, predictor: Predictor, build: Build) -> None:
        """The long part: f of every memory, and an ANN index. Needs no lock."""
        self.predicted = in_shards(lambda vectors: predict(predictor, vectors), self.vectors)
        self.associative = build(self.rows, make_keys(self.vectors, self.predicted))

    def catch_up(self, rows: Int64, vectors: Float32, predicted: Float32) -> Backend:
        """Brings the ANN index up to now: ``rows`` are the changed memories that are still there."""
        assert self.associative is not None
        self.associative.remove(np.array(sorted(self.changed), np.int64))
        if len(rows):
            self.associative.add(rows, make_keys(vectors, predicted))
        return self.associative
