"""The result of a training, and its transfer into a store that answers queries meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pam_retriever.experience.trajectories import Episode
from pam_retriever.model.episode_embeddings import EpisodeEmbeddings, with_codes
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.types import Calibration, Float32, Int64


@dataclass(frozen=True)
class TrainedModel:
    """The result of a training.

    Attributes:
        predictor: f.
        codes: the table of episode codes.
        calibration: of the channels; None without one.
        window: tau.
        recipe: the settings with which a later ``fit`` may continue from these weights; None if no ``fit`` may.
        predict_together: computes f of many vectors (n, d) -> (n, d + code), a share in each of several processes;
            None if each process computes all.
        ends: number -> the position after the last learnt step, of trajectories that grew.
        forgotten: the setting "forgotten" when the training began to read; see ``mark_forgotten``.
    """

    predictor: PredictorWeights
    codes: EpisodeEmbeddings
    calibration: Calibration | None
    window: int
    recipe: Mapping[str, object] | None = None
    predict_together: Callable[[Float32], Float32] | None = None
    ends: Mapping[int, int] = field(default_factory=dict)
    forgotten: object = None

    def associate(self, rows: Int64, vectors: Float32) -> Float32:
        """Returns the association vectors (n, d + code) of stored memories: f of each, and its code."""
        return with_codes(self.predictor(vectors), self.codes.of(rows))

    def associate_together(self, rows: Int64, vectors: Float32) -> Float32:
        """Returns the same vectors. Every process calls this with the same ``rows`` at the same time."""
        if self.predict_together is None:
            return self.associate(rows, vectors)
        return with_codes(self.predict_together(vectors), self.codes.of(rows))

    def associate_new(self, ids: Sequence[str], vectors: Float32) -> Float32:
        """Returns the association vectors (n, d + code) of new memories that an episode gave as vectors."""
        return with_codes(self.predictor(vectors), self.codes.named(ids))


class Rebuild(Protocol):
    """The replacement of the keys of a store. From its beginning on, changes of memories are recorded.

    Attributes:
        rows: (n,) sorted, the memories at the beginning.
        changed: rows that were added, replaced or deleted since.
    """

    rows: Int64
    changed: set[int]

    def prepare(self, trained: TrainedModel) -> None:
        """Computes all keys and builds an ANN index. This takes long; the store answers and changes meanwhile."""

    def help_prepare(self, trained: TrainedModel) -> None:
        """Computes this process's share of the keys that the first process prepares."""

    def commit(self, trained: TrainedModel, episodes: list[Episode]) -> None:
        """Stores weights, keys, and the episodes given to ``fit``, in one transaction. Nobody may read meanwhile."""

    def end(self) -> None:
        """Stops the record of changes, with or without a commit. Nobody may write meanwhile."""
