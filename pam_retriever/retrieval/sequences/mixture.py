"""Weights of the next-step features, and their priors for a small experience."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pam_retriever.retrieval.mixture.calibration import Calibration
from pam_retriever.retrieval.mixture.logit import ranks, softmax
from pam_retriever.retrieval.mixture.pools import Pools
from pam_retriever.retrieval.sequences.bilinear import Bilinear
from pam_retriever.retrieval.sequences.blend import blended
from pam_retriever.retrieval.sequences.features import FEATURES, SHARES
from pam_retriever.retrieval.sequences.transitions import Found
from pam_retriever.store.experience_fit import KINDS, StoredNext, unreadable
from pam_retriever.types import Bools, Float32, Int64

PRIOR = Path(__file__).with_name("prior.json")


@dataclass(frozen=True)
class NextMixture:
    """Weights of the features for each kind of question, and the calibration of the scores.

    Attributes:
        weights: (2, F) one row per kind.
        parts: (2, S) the weights of the shares that ``blend`` sums; 1 in total for each kind.
        calibration: for each kind, the calibration of probabilities among the candidates.
        fitted: for each kind, whether its weights or parts were fitted on this experience. Priors contain no
            information on how predictable this experience is.
        bilinear: the model that expects a vector from the last steps; None before a fit.
    """

    weights: Float32
    parts: Float32
    calibration: tuple[Calibration, ...] = (Calibration(),) * len(KINDS)
    fitted: tuple[bool, ...] = (True,) * len(KINDS)
    bilinear: Bilinear | None = None

    def score(self, columns: Float32, pools: Pools, known: Bools, coverage: float) -> Float32:
        """Returns the score (P,) of each pair.

        Args:
            columns: (P, F - 1 + S), see ``NextEvidence.score``.
            pools: the candidates.
            known: (Q,) whether the newest step was experienced.
            coverage: see ``NextEvidence``.
        """
        scores = np.float32(coverage) * columns[:, FEATURES.index("never")]
        kind = _kind(known)[pools.cue]
        for at, (weights, parts) in enumerate(zip(self.weights, self.parts, strict=True)):
            mine = kind == at
            scores[mine] += blended(columns[mine], parts) @ weights
        return scores

    def confidence(
        self, scores: Float32, pools: Pools, known: Bools, followers: Sequence[Found], never: Bools
    ) -> tuple[Float32, Float32]:
        """Returns the share (P,) of each candidate, and the probability that it comes next.

        Args:
            scores: (P,) the output of ``score``.
            pools: the candidates.
            known: (Q,) whether the newest step was experienced.
            followers: the memories that came after the last step, after the last two and so on, with counts.
            never: (P,) candidates that were never experienced.
        """
        share, kind = softmax(scores, pools.starts), _kind(known)[pools.cue]
        share = _within_what_is_open(share, pools, followers[0], never)
        if not all(self.fitted):
            share = np.where(np.array(self.fitted)[kind], share, _with_counts(share, pools, followers))
        rank = ranks(share, pools.cue, pools.starts)
        confidence = np.empty(len(scores), np.float32)
        for at, calibration in enumerate(self.calibration):
            mine = kind == at
            confidence[mine] = calibration(share[mine], rank[mine])
        return share, confidence

    def knows_repeats(self, known: Bools) -> Bools:
        """Returns whether the weights for each question (Q,) were fitted on enough steps to know how often one repeats.

        Only these are calibrated.
        """
        fitted = np.array([one != Calibration() for one in self.calibration])
        return np.array(fitted[_kind(known)])

    def to_dict(self) -> dict[str, object]:
        """Returns the form that ``from_dict`` reads, for JSON, without the bilinear model."""
        return {
            "features": [*FEATURES, *SHARES],
            "weights": _rounded(self.weights),
            "parts": _rounded(self.parts),
            "calibration": {kind: list(c.weights) for kind, c in zip(KINDS, self.calibration, strict=True)},
            "fitted": list(self.fitted),
        }

    @classmethod
    def from_dict(cls, stored: object) -> NextMixture | None:
        """Reads the output of ``to_dict``; None if another version with other features wrote it.

        Raises:
            IndexFormatError: ``stored`` is not such an output.
        """
        found = StoredNext.read(stored)
        if found.features != (*FEATURES, *SHARES):
            return None
        if (found.weights.shape[1], found.parts.shape[1]) != (len(FEATURES), len(SHARES)):
            raise unreadable(f"{found.weights.shape[1]} and {found.parts.shape[1]} weights")
        calibration = tuple(Calibration((one[0], one[1], one[2])) for one in found.calibration.tolist())
        return cls(found.weights, found.parts, calibration, found.fitted)

    @classmethod
    def prior(cls) -> NextMixture:
        """Returns weights for an experience that is too small to fit: only the sum of shares counts.

        The weights of the sum come from other data, and suit most data. The weights of the other features do not:
        see ``benchmarks/priors/fit_next_priors.py``.
        """
        stored = json.loads(PRIOR.read_text("utf-8"))["parts"]
        parts = np.array([[stored[kind].get(name, 0.0) for name in SHARES] for kind in KINDS], np.float32)
        weights = np.tile(np.array([name == "blend" for name in FEATURES], np.float32), (len(KINDS), 1))
        return cls(weights, parts, fitted=(False,) * len(KINDS))


def _rounded(table: Float32) -> dict[str, list[float]]:
    return {kind: [round(float(value), 5) for value in row] for kind, row in zip(KINDS, table, strict=True)}


def _kind(known: Bools) -> Int64:
    """Returns 0 (Q,) if the newest step was experienced before, else 1."""
    return np.where(known, 0, 1)


def _within_what_is_open(share: Float32, pools: Pools, followers: Found, never: Bools) -> Float32:
    """Returns the shares (P,), bounded for memories that were never experienced.

    After n occurrences of the newest step with t different followers, all of them together get at most t / (n + t)
    (Witten and Bell 1991). ``fit`` hides a fifth of the memories, but nearly all may lack experience.
    """
    queries = len(pools.starts)
    times = np.bincount(followers[0], followers[2], queries)
    kinds = np.bincount(followers[0], minlength=queries)
    most = np.where(times > 0, kinds / np.maximum(times + kinds, 1), 1.0)
    new = np.bincount(pools.cue, share * never, queries)
    less = np.minimum(1.0, most / np.maximum(new, 1e-9))
    more = (1 - less * new) / np.maximum(1 - new, 1e-9)
    limited: Float32 = (share * np.where(never, less[pools.cue], more[pools.cue])).astype(np.float32)
    return limited


def _with_counts(share: Float32, pools: Pools, followers: Sequence[Found]) -> Float32:
    """Returns the shares (P,), scaled to the probability that the counts leave (Witten and Bell 1991).

    After n occurrences with t different followers, another memory has probability t / (n + t). So a memory that
    followed three times of three has at least three quarters.
    """
    queries = len(pools.starts)
    for found in followers:
        times = pools.add_up(*found)
        total, kinds = (np.bincount(pools.cue, of, queries)[pools.cue] for of in (times, times > 0))
        share = np.where(total > 0, (times + kinds * share) / np.maximum(total + kinds, 1), share).astype(np.float32)
    return share
