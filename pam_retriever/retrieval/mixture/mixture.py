"""One score from all evidence: a weighted sum of features, with weights for each kind of question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from pam_retriever.errors import InvalidInput
from pam_retriever.retrieval.mixture.calibration import Calibration
from pam_retriever.retrieval.mixture.pools import Cues, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.retrieval.mixture.room import make_room
from pam_retriever.retrieval.mixture.sources import Source
from pam_retriever.types import Bools, Float32, Int64

KINDS = ("question", "seen cue", "unseen cue")
NEVER_USED, PLAIN = "never_used", "plain"
APPEARANCE = ("similarity", "words", "names", "expanded_words")  # what can be known of a memory that was never used
PRIORS = Path(__file__).with_name("priors.json")


def kinds(cues: Cues, used: Bools) -> Int64:
    """(Q,) the kind of each question: one of its own, a stored memory that was used, or one that never was."""
    return np.where(cues.rows < 0, 0, np.where(used[np.maximum(cues.rows, 0)], 1, 2))


class Evidence:
    """All sources over one bank, and the features that the mixture weighs.

    Args:
        sources: in any order; names of features are distinct.
        log: the past requests that they read.
    """

    def __init__(self, sources: Sequence[Source], log: RequestLog) -> None:
        self.sources, self._log = tuple(sources), log
        self._used: tuple[tuple[int, int], Bools] | None = None
        plain = [feature for source in self.sources for feature in source.features]
        if len(set(plain)) < len(plain):
            raise InvalidInput(f"The sources have the features {plain}.", "distinct names", "Rename one.")
        self._appearance = [plain.index(name) for name in APPEARANCE if name in plain]
        self.features = (*plain, *(f"{NEVER_USED}:{plain[at]}" for at in self._appearance), NEVER_USED)

    @property
    def used(self) -> Bools:
        """(N,) memories that a past request used."""
        now = len(self._log), self._log.size
        if self._used is None or self._used[0] != now:
            self._used = now, np.bincount(self._log.uses.rows, minlength=self._log.size) > 0
        return self._used[1]

    def score(self, cues: Cues, pools: Pools) -> Float32:
        """(P, F) every feature; of appearance once more for memories that were never used, and that alone."""
        plain = np.concatenate([source.score(cues, pools) for source in self.sources], axis=1)
        never = 1 - pools.spread(self.used.astype(np.float32)) * pools.visible
        return np.concatenate([plain, plain[:, self._appearance] * never[:, None], never[:, None]], axis=1)

    def propose(self, cues: Cues, n: int) -> list[Int64]:
        """Candidates for each cue: what any source would put first."""
        proposals = [source.propose(cues, n) for source in self.sources]
        return [np.unique(np.concatenate([proposal[at] for proposal in proposals])) for at in range(len(cues))]

    def pools(self, cues: Cues, full_below: int, n: int) -> Pools:
        """All memories of a small bank; what the sources propose of a large one."""
        if self._log.size <= full_below:
            return Pools.full(len(cues), self._log.size)
        return Pools.of(self.propose(cues, n), self._log.size)


@dataclass(frozen=True)
class Mixture:
    """Weights of the features, for each kind of question, and the calibration of what they add up to.

    Attributes:
        features: their names.
        weights: (3, F) one row a kind.
        calibration: for each kind, of probabilities among the candidates.
        room: whether questions in words leave room for memories that were never used; see ``make_room``.
    """

    features: tuple[str, ...]
    weights: Float32
    calibration: tuple[Calibration, ...] = (Calibration(),) * len(KINDS)
    room: bool = True

    def score(self, features: Float32, pools: Pools, kind: Int64) -> Float32:
        """(P,) the score of each pair, by what ``Evidence.score`` gave and the kind of each cue (Q,)."""
        scores: Float32
        if np.all(kind == kind[0]):
            scores = features @ self.weights[kind[0]]
        else:
            scores = np.einsum("pf,pf->p", features, self.weights[kind][pools.cue])
        if self.room and np.any(kind == 0):
            scores = scores + room_for_unused(self.features, features, scores, pools.starts) * (kind[pools.cue] == 0)
        return scores

    def confidence(self, share: Float32, rank: Int64, kind: Int64) -> Float32:
        """(P,) the probability that each candidate is used.

        Args:
            share: (P,) of the odds of its cue's candidates.
            rank: (P,) among them, from 1.
            kind: (P,) of its cue.
        """
        result = np.empty(len(share), np.float32)
        for at, calibration in enumerate(self.calibration):
            mine = kind == at
            if mine.all():
                return calibration(share, rank)
            result[mine] = calibration(share[mine], rank[mine])
        return result

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold, and ``from_dict`` reads."""
        return {
            "features": list(self.features),
            "weights": {kind: [round(float(w), 5) for w in row] for kind, row in zip(KINDS, self.weights, strict=True)},
            "calibration": {kind: list(c.weights) for kind, c in zip(KINDS, self.calibration, strict=True)},
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, object]) -> Mixture:
        """The mixture that ``to_dict`` wrote.

        Raises:
            InvalidInput: it is not one.
        """
        try:
            text = json.loads(json.dumps(stored))
            weights = np.array([text["weights"][kind] for kind in KINDS], np.float32)
            calibration = tuple(Calibration(tuple(text["calibration"][kind])) for kind in KINDS)
            features = tuple(text["features"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"A stored mixture cannot be read ({type(error).__name__}: {error}).",
                "what to_dict wrote",
                "Fit again.",
            ) from error
        if weights.shape != (len(KINDS), len(features)):
            raise InvalidInput(
                f"Got weights of shape {weights.shape} for {len(features)} features.",
                "one a kind and feature",
                "Fit again.",
            )
        return cls(features, weights, calibration)


def room_for_unused(names: Sequence[str], features: Float32, scores: Float32, starts: Int64) -> Float32:
    """(P,) ``make_room`` by features (P, F) of these names; nothing where recall without feedback is none of them."""
    if PLAIN not in names or NEVER_USED not in names:
        return np.zeros(len(scores), np.float32)
    return make_room(scores, features[:, names.index(NEVER_USED)] > 0, features[:, names.index(PLAIN)], starts)


@dataclass(frozen=True)
class Priors:
    """Weights from other data: a value at 1,000 past requests, and a change for each factor of ten.

    Attributes:
        weights: for each kind and feature, both numbers.
    """

    weights: Mapping[str, Mapping[str, tuple[float, float]]]

    @classmethod
    @cache
    def read(cls, path: Path = PRIORS) -> Priors:
        """The priors that come with the library, or those of another file."""
        stored = json.loads(path.read_text("utf-8"))["weights"]
        return cls({kind: {name: tuple(pair) for name, pair in named.items()} for kind, named in stored.items()})

    def at(self, features: Sequence[str], requests: int) -> Float32:
        """(3, F) weights for a bank with so many past requests; 0 for a feature without a prior."""
        decades = size_in_decades(requests)
        rows = [
            [pair[0] + decades * pair[1] for pair in (self.weights[kind].get(name, (0.0, 0.0)) for name in features)]
            for kind in KINDS
        ]
        return np.array(rows, np.float32)


def size_in_decades(requests: int) -> float:
    """The logarithm of the number of requests over 1,000, from -2 to 1: priors know nothing beyond."""
    return float(np.clip(np.log10(max(requests, 1) / 1000), -2, 1))


def rank_in_pool(scores: Float32, pools: Pools) -> Int64:
    """(P,) rank of each pair in its pool, from 1."""
    order = np.lexsort((-scores, pools.cue))
    ranks = np.empty(len(scores), np.int64)
    ranks[order] = np.arange(len(scores)) - pools.starts[pools.cue[order]] + 1
    return ranks


def rank(scores: Float32, pools: Pools, k: int) -> list[Int64]:
    """For each cue its ``k`` best candidates, best first; ties by row."""
    order = np.lexsort((-scores, pools.cue))
    ends = [*pools.starts[1:].tolist(), len(pools)]
    return [
        pools.row[order[start : min(end, start + k)]] for start, end in zip(pools.starts.tolist(), ends, strict=True)
    ]
