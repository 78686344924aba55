"""Weights of what says what comes next, and where they come from before there is enough to fit them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pam_retriever.errors import InvalidInput
from pam_retriever.retrieval.mixture.calibration import Calibration
from pam_retriever.retrieval.mixture.logit import softmax
from pam_retriever.retrieval.mixture.mixture import rank_in_pool
from pam_retriever.retrieval.mixture.pools import Pools
from pam_retriever.retrieval.sequences.features import FEATURES
from pam_retriever.types import Bools, Float32, Int64

KINDS = ("known step", "new step")  # whether the newest step was experienced before
PRIORS = Path(__file__).with_name("priors.json")


@dataclass(frozen=True)
class NextMixture:
    """Weights of the features, for each kind of question, and the calibration of what they add up to.

    Attributes:
        weights: (2, F) one row a kind.
        calibration: for each kind, of probabilities among the candidates.
    """

    weights: Float32
    calibration: tuple[Calibration, ...] = (Calibration(),) * len(KINDS)

    def score(self, features: Float32, pools: Pools, known: Bools, coverage: float) -> Float32:
        """(P,) the score of each pair.

        Args:
            features: (P, F).
            pools: the candidates.
            known: (Q,) whether the newest step was experienced.
            coverage: see ``NextEvidence``.
        """
        scores: Float32 = (features @ self.weights.T)[np.arange(len(pools)), _kind(known)[pools.cue]]
        return scores + np.float32(coverage) * features[:, FEATURES.index("never")]

    def confidence(self, scores: Float32, pools: Pools, known: Bools) -> tuple[Float32, Float32]:
        """(P,) the share of each candidate, and the probability that it comes next."""
        share, ranks, kind = softmax(scores, pools.starts), rank_in_pool(scores, pools), _kind(known)[pools.cue]
        sure = np.empty(len(scores), np.float32)
        for at, calibration in enumerate(self.calibration):
            mine = kind == at
            sure[mine] = calibration(share[mine], ranks[mine])
        return share, sure

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold, and ``from_dict`` reads."""
        return {
            "features": list(FEATURES),
            "weights": {kind: [round(float(w), 5) for w in row] for kind, row in zip(KINDS, self.weights, strict=True)},
            "calibration": {kind: list(c.weights) for kind, c in zip(KINDS, self.calibration, strict=True)},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, object]) -> NextMixture | None:
        """The mixture that ``to_dict`` wrote; None for one of other features, of another version of the library.

        Raises:
            InvalidInput: it is none.
        """
        text = json.loads(json.dumps(stored))
        try:
            if tuple(text["features"]) != FEATURES:
                return None
            weights = np.array([text["weights"][kind] for kind in KINDS], np.float32).reshape(len(KINDS), len(FEATURES))
            calibration = tuple(Calibration(tuple(text["calibration"][kind])) for kind in KINDS)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"The stored weights of recall_next cannot be read ({type(error).__name__}: {error}).",
                "what fit wrote",
                "Fit again.",
            ) from error
        return cls(weights, calibration)

    @classmethod
    def prior(cls) -> NextMixture:
        """Weights that were fitted on other data (``benchmarks/priors/fit_next_priors.py``)."""
        stored = json.loads(PRIORS.read_text("utf-8"))["weights"]
        rows = [[stored[kind].get(name, 0.0) for name in FEATURES] for kind in KINDS]
        return cls(np.array(rows, np.float32))


def _kind(known: Bools) -> Int64:
    """(Q,) 0 where the newest step was experienced before, else 1."""
    return np.where(known, 0, 1)
