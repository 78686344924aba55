"""What a query sees: one moment of an index."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pam_retriever.ann import AnnIndex
from pam_retriever.errors import NotFitted
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.forward import PredictorWeights
from pam_retriever.model.keys import Channels
from pam_retriever.store.database import Database
from pam_retriever.types import Calibration, Direction, Float32

FIRST_WINDOW = 5  # of an index that was not fitted


@dataclass(frozen=True)
class View:
    """One moment of an index. Retrieval asks a view and nothing else.

    Attributes:
        dim: d, length of the vectors.
        database: the database.
        similar: ANN index over p, (d,).
        associative: ANN index over [p ; f(p) ; e(p)], (2d + code,); None before ``fit``.
        links: who was experienced with whom.
        predictor: f; None before ``fit``.
        calibration: weights of the default recall, calibrated by ``fit``; None before it.
        window: tau of the last ``fit``.
    """

    dim: int
    database: Database
    similar: AnnIndex
    associative: AnnIndex | None
    links: CooccurrenceGraph
    predictor: PredictorWeights | None
    calibration: Calibration | None
    window: int

    def predict(self, points: Float32) -> Float32:
        """f of (n, d) at unit length, and no code; (n, d + code).

        Raises:
            NotFitted: before ``fit``.
        """
        if self.predictor is None:
            raise NotFitted("There is no predictor yet.", "a fitted index", "Call fit(trajectories) first.")
        return self.predictor(points)

    def towards(self, direction: Direction | None) -> View:
        """The same moment, in which only what came after, or before, is linked; for both itself."""
        return self if direction is None else replace(self, links=self.links.towards(direction))

    def index_of(self, channels: Channels) -> AnnIndex:
        """The ANN index that has the keys which ``channels`` need."""
        return self.associative if channels.association and self.associative is not None else self.similar
