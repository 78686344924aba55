"""Weights of what says what comes next, and where they come from before there is enough to fit them."""

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
    """Weights of the features, for each kind of question, and the calibration of what they add up to.

    Attributes:
        weights: (2, F) one row a kind.
        calibration: for each kind, of probabilities among the candidates.
        fitted: for each kind, whether its weights are; priors do not say how sure what happened here before is.
    """

    weights: Float32
    calibration: tuple[Calibration, ...] = (Calibration(),) * len(KINDS)
    fitted: tuple[bool, ...] = (True,) * len(KINDS)

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

    def confidence(
        self, scores: Float32, pools: Pools, known: Bools, occasions: Sequence[Found]
    ) -> tuple[Float32, Float32]:
        """(P,) the share of each candidate, and the probability that it comes next.

        Args:
            scores: (P,) as of ``score``.
            pools: the candidates.
            known: (Q,) whether the newest step was experienced.
            occasions: what came after the last step, the last two and so on, and how often.
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
        """What JSON can hold, and ``from_dict`` reads."""
        return {
            "features": list(FEATURES),
            "weights": {kind: [round(float(w), 5) for w in row] for kind, row in zip(KINDS, self.weights, strict=True)},
            "calibration": {kind: list(c.weights) for kind, c in zip(KINDS, self.calibration, strict=True)},
            "fitted": list(self.fitted),
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
        """Weights that were fitted on other data, one of each kind of it (``benchmarks/priors/fit_next_priors.py``)."""
        return read_priors(PRIORS)

    @classmethod
    def prior(cls) -> NextMixture:
        """Their mean: the weights before there is enough to fit."""
        return cls.mean(cls.priors())

    @classmethod
    def mean(cls, some: Sequence[NextMixture]) -> NextMixture:
        """The mean weights of priors, which nothing here was fitted on."""
        return cls(np.mean([one.weights for one in some], axis=0).astype(np.float32), fitted=(False,) * len(KINDS))


def read_priors(path: Path) -> list[NextMixture]:
    """The priors of a file."""
    stored = json.loads(path.read_text("utf-8"))["weights"].values()
    rows = [[[of[kind].get(name, 0.0) for name in FEATURES] for kind in KINDS] for of in stored]
    return [NextMixture(np.array(one, np.float32), fitted=(False,) * len(KINDS)) for one in rows]


def _kind(known: Bools) -> Int64:
    """(Q,) 0 where the newest step was experienced before, else 1."""
    return np.where(known, 0, 1)


def _with_occasions(share: Float32, pools: Pools, occasions: Sequence[Found]) -> Float32:
    """(P,) the shares, of which so much is left as what came so far leaves open (Witten and Bell 1991).

    After n occasions on which t different memories came, something else is given t / (n + t): what followed three times
    of three has three quarters and more, however much another looks like it.
    """
    queries = len(pools.starts)
    for found in occasions:
        times = pools.add_up(*found)
        total, kinds = (np.bincount(pools.cue, of, queries)[pools.cue] for of in (times, times > 0))
        share = np.where(total > 0, (times + kinds * share) / np.maximum(total + kinds, 1), share).astype(np.float32)
    return share
