"""Weights of the next-step features, and their priors for a small experience."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pam_retriever.errors import InvalidInput
from pam_retriever.retrieval.mixture.calibration import Calibration
from pam_retriever.retrieval.mixture.logit import softmax
from pam_retriever.retrieval.mixture.mixture import rank_in_pool
from pam_retriever.retrieval.mixture.pools import Pools
from pam_retriever.retrieval.sequences.features import FEATURES
from pam_retriever.retrieval.sequences.transitions import Found
from pam_retriever.types import Bools, Float32, Int64

KINDS = ("known step", "new step")  # whether the newest step was experienced before
PRIORS = Path(__file__).with_name("priors.json")


@dataclass(frozen=True)
class NextMixture:
    """Weights of the features for each kind of question, and the calibration of the scores.

    Attributes:
        weights: (2, F) one row per kind.
        calibration: for each kind, of probabilities among the candidates.
        fitted: for each kind, whether its weights were fitted here. Priors cannot say how predictable this experience
            is.
    """

    weights: Float32
    calibration: tuple[Calibration, ...] = (Calibration(),) * len(KINDS)
    fitted: tuple[bool, ...] = (True,) * len(KINDS)

    def score(self, features: Float32, pools: Pools, known: Bools, coverage: float) -> Float32:
        """Returns the score (P,) of each pair.

        Args:
            features: (P, F).
            pools: the candidates.
            known: (Q,) whether the newest step was experienced.
            coverage: see ``NextEvidence``.
        """
        scores: Float32 = (features @ self.weights.T)[np.arange(len(pools)), _kind(known)[pools.cue]]
        return scores + np.float32(coverage) * features[:, FEATURES.index("never")]

    def confidence(
        self, scores: Float32, pools: Pools, known: Bools, occasions: Sequence[Found]
    ) -> tuple[Float32, Float32]:
        """Returns the share (P,) of each candidate, and the probability that it comes next.

        Args:
            scores: (P,) from ``score``.
            pools: the candidates.
            known: (Q,) whether the newest step was experienced.
            occasions: the memories that followed the last step, the last two and so on, with counts.
        """
        share, kind = softmax(scores, pools.starts), _kind(known)[pools.cue]
        if not all(self.fitted):
            share = np.where(np.array(self.fitted)[kind], share, _with_occasions(share, pools, occasions))
        ranks = rank_in_pool(share, pools)
        sure = np.empty(len(scores), np.float32)
        for at, calibration in enumerate(self.calibration):
            mine = kind == at
            sure[mine] = calibration(share[mine], ranks[mine])
        return share, sure

    def to_dict(self) -> dict[str, object]:
        """Returns the form that ``from_dict`` reads, for JSON."""
        return {
            "features": list(FEATURES),
            "weights": {kind: [round(float(w), 5) for w in row] for kind, row in zip(KINDS, self.weights, strict=True)},
            "calibration": {kind: list(c.weights) for kind, c in zip(KINDS, self.calibration, strict=True)},
            "fitted": list(self.fitted),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, object]) -> NextMixture | None:
        """Reads the output of ``to_dict``; None if its features are those of another version.

        Raises:
            InvalidInput: this is no such output.
        """
        text = json.loads(json.dumps(stored))
        try:
            if tuple(text["features"]) != FEATURES:
                return None
            weights = np.array([text["weights"][kind] for kind in KINDS], np.float32).reshape(len(KINDS), len(FEATURES))
            calibration = tuple(Calibration(tuple(text["calibration"][kind])) for kind in KINDS)
            fitted = tuple(bool(text["fitted"][at]) for at in range(len(KINDS)))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"The stored weights of recall_next cannot be read ({type(error).__name__}: {error}).",
                "what fit wrote",
                "Fit again.",
            ) from error
        return cls(weights, calibration, fitted)

    @classmethod
    def priors(cls) -> list[NextMixture]:
        """Returns weights fitted on other data, one row per kind of data (``benchmarks/priors/fit_next_priors.py``)."""
        return read_priors(PRIORS)

    @classmethod
    def prior(cls) -> NextMixture:
        """Returns the mean of the priors: the weights before a fit."""
        return cls.mean(cls.priors())

    @classmethod
    def mean(cls, some: Sequence[NextMixture]) -> NextMixture:
        """Returns a mixture with the mean weights of priors, without a fit."""
        return cls(np.mean([one.weights for one in some], axis=0).astype(np.float32), fitted=(False,) * len(KINDS))


def read_priors(path: Path) -> list[NextMixture]:
    """Reads the priors of a file."""
    stored = json.loads(path.read_text("utf-8"))["weights"].values()
    rows = [[[of[kind].get(name, 0.0) for name in FEATURES] for kind in KINDS] for of in stored]
    return [NextMixture(np.array(one, np.float32), fitted=(False,) * len(KINDS)) for one in rows]


def _kind(known: Bools) -> Int64:
    """Returns 0 (Q,) if the newest step was experienced before, else 1."""
    return np.where(known, 0, 1)


def _with_occasions(share: Float32, pools: Pools, occasions: Sequence[Found]) -> Float32:
    """Returns the shares (P,), scaled to the probability that the counts leave (Witten and Bell 1991).

    After n occurrences with t different followers, another memory has probability t / (n + t). So a memory that
    followed three times of three has at least three quarters.
    """
    queries = len(pools.starts)
    for found in occasions:
        times = pools.add_up(*found)
        total, kinds = (np.bincount(pools.cue, of, queries)[pools.cue] for of in (times, times > 0))
        share = np.where(total > 0, (times + kinds * share) / np.maximum(total + kinds, 1), share).astype(np.float32)
    return share
