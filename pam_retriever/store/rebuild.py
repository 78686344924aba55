"""What a finished training hands to a store, and how the store takes it over while it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pam_retriever.experience.trajectories import Episode
from pam_retriever.model.episode_embeddings import EpisodeEmbeddings, with_codes
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.types import Calibration, Float32, Int64


@dataclass(frozen=True)
class Learnt:
    """What a training found.

    Attributes:
        predictor: f.
        codes: the episode codes.
        calibration: of the channels; None after the published recipe.
        window: tau.
        recipe: what a later ``fit`` has to ask for to go on from these weights; None: it begins afresh.
        predict_together: f of many vectors (n, d), where several processes each make their share: (n, d + code);
            None: each process makes all.
        ends: number -> the position after the last that was learnt, of trajectories that grew.
    """

    predictor: PredictorWeights
    codes: EpisodeEmbeddings
    calibration: Calibration | None
    window: int
    recipe: Mapping[str, object] | None = None
    predict_together: Callable[[Float32], Float32] | None = None
    ends: Mapping[int, int] = field(default_factory=dict)

    def associate(self, rows: Int64, vectors: Float32) -> Float32:
        """The association vectors of stored memories: f of each, and its code; (n, d + code)."""
        return with_codes(self.predictor(vectors), self.codes.of(rows))

    def associate_together(self, rows: Int64, vectors: Float32) -> Float32:
        """The same, where every process asks for the same ``rows`` at the same time."""
        if self.predict_together is None:
            return self.associate(rows, vectors)
        return with_codes(self.predict_together(vectors), self.codes.of(rows))

    def associate_new(self, ids: Sequence[str], vectors: Float32) -> Float32:
        """Those of memories that an episode gave with their vectors; (n, d + code)."""
        return with_codes(self.predictor(vectors), self.codes.named(ids))


class Rebuild(Protocol):
    """A store on its way to new keys. From its beginning on, the changes of memories are noted.

    Attributes:
        rows: (n,) sorted, the memories when it began.
        changed: rows that were added, replaced or deleted since.
    """

    rows: Int64
    changed: set[int]

    def prepare(self, learnt: Learnt) -> None:
        """The long part: all keys, and an ANN index. The store answers and changes meanwhile."""

    def help_prepare(self, learnt: Learnt) -> None:
        """This process's share of what the first one prepares."""

    def commit(self, learnt: Learnt, episodes: list[Episode]) -> None:
        """Takes over weights, keys, and the episodes that were given to ``fit``, all or none. Nobody may read."""

    def end(self) -> None:
        """Stops noting changes, whether it was committed or not. Nobody may write meanwhile."""
