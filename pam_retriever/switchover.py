"""What a finished training needs before the index can switch over to it, made while the index answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pam_retriever.backends import Backend, Parts, parts
from pam_retriever.channels import make_keys
from pam_retriever.codes import Codes, with_codes
from pam_retriever.config import FitConfig
from pam_retriever.prediction import predict
from pam_retriever.predictor import Predictor
from pam_retriever.types import Float32, Int64, Trust

Build = Callable[[Int64, Parts], Backend]


@dataclass(frozen=True)
class Learnt:
    """What a training found.

    Attributes:
        predictor: f.
        codes: the episode codes.
        trust: in the channels; None after the published recipe.
        window: tau.
        recipe: what a later ``fit`` has to ask for to go on from these weights; None: it begins afresh.
    """

    predictor: Predictor
    codes: Codes
    trust: Trust | None
    window: int
    recipe: FitConfig | None = None

    def associate(self, rows: Int64, vectors: Float32) -> Float32:
        """The association vectors of stored memories: f of each, and its code; (n, d + code)."""
        return with_codes(predict(self.predictor, vectors), self.codes.of(rows))

    def associate_new(self, ids: Sequence[str], vectors: Float32) -> Float32:
        """Those of memories that an episode gave with their vectors; (n, d + code)."""
        return with_codes(predict(self.predictor, vectors), self.codes.named(ids))


@dataclass
class Switchover:
    """The memories of one moment, later the ANN index over their new keys.

    Association vectors are part of the keys, so they are kept nowhere else until they are committed.

    Attributes:
        rows: (n,) the memories.
        learnt_to: the highest number of a trajectory that the training saw.
        changed: rows that were added, replaced or deleted since; the bank keeps it up to date.
        associative: the ANN index over [p ; f(p) ; e(p)], once ``prepare`` was called.
    """

    rows: Int64
    learnt_to: int
    changed: set[int] = field(default_factory=set)
    associative: Backend | None = None

    def prepare(self, keys: Parts, build: Build) -> None:
        """The long part: f of every memory, and an ANN index."""
        self.associative = build(self.rows, keys)

    def help_prepare(self, keys: Parts) -> None:
        """This process's share of what another prepares: it reads the same parts."""
        for part in parts(len(self.rows)):
            keys[part]

    def catch_up(self, rows: Int64, vectors: Float32, predicted: Float32) -> Backend:
        """Brings the ANN index up to now: ``rows`` are the changed memories that are still there."""
        assert self.associative is not None
        self.associative.remove(np.array(sorted(self.changed), np.int64))
        if len(rows):
            self.associative.add(rows, make_keys(vectors, predicted))
        return self.associative
