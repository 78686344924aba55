"""One score from all evidence: a weighted sum of features, with separate weights for each kind of question."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from pam_retriever.arrays import union
from pam_retriever.errors import InvalidInput
from pam_retriever.mentions.edges import MENTIONS
from pam_retriever.retrieval.hybrid import LABEL, LEXICAL, TIME
from pam_retriever.retrieval.mixture.calibration import Calibration
from pam_retriever.retrieval.mixture.influence import OF_APPEARANCE, OF_FIT, alike, influence
from pam_retriever.retrieval.mixture.named import BY_WAY, TIMES
from pam_retriever.retrieval.mixture.pools import Cues, Pools
from pam_retriever.retrieval.mixture.popularity import newness
from pam_retriever.retrieval.mixture.repeated_requests import RepeatedRequests
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.retrieval.mixture.reserved_mass import reserve_mass
from pam_retriever.retrieval.mixture.sources import Source
from pam_retriever.store.feedback_fit import KINDS, StoredMixture
from pam_retriever.types import Bools, Float32, Int64

UNUSED = "never used"  # the name of a source in addition to the sources of the evidence
NEVER_USED, PLAIN = "never_used", "plain"
# Recall without feedback as a sum of features, with the weights of ``HybridScorer``: ``PLAIN``, and names and times,
# which keep these weights in the priors, because the data of the priors have few of them.
NAMED = MENTIONS / (1 + LEXICAL + LABEL)
UNAIDED = {PLAIN: 1.0, **{name: NAMED * weight for name, weight in BY_WAY.items()}, TIMES: TIME}
APPEARANCE = ("similarity", "words", "names", "expanded_words")  # the features that a never-used memory has
PRIORS = Path(__file__).with_name("priors.json")


def kinds(cues: Cues, used: Bools) -> Int64:
    """Returns the kind (Q,) of each cue: a new question, a used memory, or another memory; ``used`` (N,) served one."""
    return np.where(cues.rows < 0, 0, np.where(used[np.maximum(cues.rows, 0)], 1, 2))


class Evidence:
    """All sources over the same memories, and the features for the mixture.

    Args:
        sources: in any order; names of features are distinct.
        log: the past requests that they read.

    Attributes:
        features: the names of the columns that ``score`` returns.
        owners: for each feature the name of its source.
        distinct_owners: the names of the S sources.
        of_owner: (F, S) 1 for a feature and its source, else 0.
    """

    def __init__(self, sources: Sequence[Source], log: RequestLog) -> None:
        self.sources, self._log = tuple(sources), log
        self._used: tuple[tuple[int, int], Bools] | None = None
        plain = [feature for source in self.sources for feature in source.features]
        if len(set(plain)) < len(plain):
            raise InvalidInput(f"The sources have the features {plain}.", "distinct names", "Rename one.")
        self._appearance = [plain.index(name) for name in APPEARANCE if name in plain]
        self.features = (*plain, *(f"{NEVER_USED}:{plain[at]}" for at in self._appearance), NEVER_USED)
        of_plain = [source.name for source in self.sources for _ in source.features]
        self.owners = (*of_plain, *(of_plain[at] for at in self._appearance), UNUSED)
        self.distinct_owners = tuple(dict.fromkeys(self.owners))
        same = [[owner == name for name in self.distinct_owners] for owner in self.owners]
        self.of_owner: Float32 = np.array(same, np.float32)

    @property
    def used(self) -> Bools:
        """Returns the memories (N,) that a past request names, whether they served it or did not help."""
        now = len(self._log), self._log.size
        if self._used is None or self._used[0] != now:
            self._used = now, np.bincount(self._log.uses.rows, minlength=self._log.size) > 0
        return self._used[1]

    @property
    def served(self) -> Bools:
        """Returns the memories (N,) that served a past request."""
        return self._log.served

    @property
    def newness(self) -> float:
        """Returns the feature "newness" of a memory that is added now."""
        return float(newness(self._log, np.zeros(1, np.int64))[0])

    def influence(self, cues: Cues, reach: float | None = None) -> Float32:
        """Returns three influences (Q, 3) for each cue, from 0 to 1.

        The first two are those of past requests before ``fit``; see ``influence.influence``. The last one is that of
        weights with this ``reach``; see ``influence.alike``.
        """
        fitted = np.ones(len(cues), np.float32) if reach is None else alike(self._log, cues, reach)
        return np.concatenate([influence(self._log, cues), fitted[:, None]], axis=1)

    def score(self, cues: Cues, pools: Pools) -> Float32:
        """Returns every feature (P, F). Appearance features occur twice: for all memories, and for never-used ones."""
        plain = np.concatenate([source.score(cues, pools) for source in self.sources], axis=1)
        never = 1 - pools.spread(self.used.astype(np.float32)) * pools.visible
        return np.concatenate([plain, plain[:, self._appearance] * never[:, None], never[:, None]], axis=1)

    def propose(self, cues: Cues, n: int) -> list[Int64]:
        """Returns candidates for each cue: the first ones of every source."""
        return united([source.propose(cues, n) for source in self.sources])

    def pools(self, cues: Cues, full_below: int, n: int) -> Pools:
        """Returns all memories of a small index as candidates; for a large one the proposals of the sources.

        A stored memory is no candidate for itself: features such as BM25 relative to the best would be others.
        """
        size, stored = self._log.size, cues.rows >= 0
        if size <= full_below and not stored.any():
            return Pools.full(len(cues), size)
        found = [np.arange(size)] * len(cues) if size <= full_below else self.propose(cues, n)
        return Pools.of([some[some != own] for some, own in zip(found, cues.rows.tolist(), strict=True)], size)


def united(proposals: Sequence[Sequence[Int64]]) -> list[Int64]:
    """Returns the candidates of each cue, sorted, from the ``proposals`` of each source for each cue."""
    return [union(*of_one) for of_one in zip(*proposals, strict=True)]


@dataclass(frozen=True)
class Mixture:
    """Weights of the features for each kind of question, and the calibration of the scores.

    Attributes:
        features: the names.
        weights: (3, F) one row per kind.
        calibration: for each kind, the calibration of probabilities among the candidates.
        reserves: whether questions in words reserve probability for never-used memories; see ``reserve_mass``.
        uninfluenced: (F,) the weights of a question for which past requests do not count. Other questions have a mean
            of both, with their influence as its weight. None if ``fit`` found weights for all questions.
        worded: whether enough requests had words for ``fit`` to find the weights of questions in words.
        reach: the cosine of a question with the nearest past request from which on the weights count in full; see
            ``alike``. None for no such limit.
        beyond: returns the mixture of questions that are less alike, which have a mean of both; None for this one.
    """

    features: tuple[str, ...]
    weights: Float32
    calibration: tuple[Calibration, ...] = (Calibration(),) * len(KINDS)
    reserves: bool = True
    uninfluenced: Float32 | None = None
    worded: bool = True
    reach: float | None = None
    beyond: Callable[[], Mixture] | None = None

    def weights_of(self, kind: Int64, influence: Float32) -> Float32:
        """Returns the weights (Q, F) of cues of these kinds (Q,), for the ``influence`` (Q, 3) of past requests."""
        weights: Float32 = self.weights[kind]
        if self.uninfluenced is not None:
            part: Float32 = np.where(kind[:, None] == 0, influence[:, :OF_FIT], np.float32(1))[:, self._influenced_by]
            weights = part * weights + (1 - part) * self.uninfluenced
        alike = influence[:, OF_FIT:]
        if self.beyond is not None and alike.min(initial=1) < 1:
            weights = alike * weights + (1 - alike) * self.beyond().weights_of(kind, influence)
        return weights

    @cached_property
    def _influenced_by(self) -> Int64:
        """For each feature (F,), returns the column of its influence. Both are right for a repeated request."""
        return np.minimum(kinds_of_evidence(self.features), 1)

    def score(self, features: Float32, pools: Pools, kind: Int64, influence: Float32 | None = None) -> Float32:
        """Returns the score (P,) of each pair.

        Args:
            features: (P, F) the output of ``Evidence.score``.
            pools: the pairs.
            kind: (Q,) the kind of each cue.
            influence: (Q, 3) the output of ``Evidence.influence``; None if past requests count in full for all cues.
        """
        influence = np.ones((len(kind), 3), np.float32) if influence is None else influence
        weights, scores = self.weights_of(kind, influence), np.empty(len(features), np.float32)
        for at, mine in enumerate(pools.of_cues()):
            scores[mine] = features[mine] @ weights[at]
        if self.reserves and np.any(kind == 0):
            part: Float32 = (kind == 0) * self._reserve(influence)
            scores = scores + reserve_for_unused(self.features, features, scores, pools.starts, part)
        return scores

    def _reserve(self, influence: Float32) -> Float32:
        """Returns the part (Q,) of the reserve for never-used memories that each question in words has."""
        part: Float32 = (
            np.ones(len(influence), np.float32) if self.uninfluenced is None else influence[:, OF_APPEARANCE]
        )
        alike = influence[:, OF_FIT]
        if self.beyond is not None and alike.min(initial=1) < 1:
            part = alike * part + (1 - alike) * self.beyond()._reserve(influence)
        return part

    def confidence(self, share: Float32, rank: Int64, kind: Int64, alike: Float32 | None = None) -> Float32:
        """Returns the probability (P,) that each candidate is used.

        Args:
            share: (P,) share of the odds among the candidates of its cue.
            rank: (P,) rank among these candidates, from 1.
            kind: (P,) kind of its cue.
            alike: (P,) the last influence of its cue; None for 1.
        """
        if self.beyond is not None and alike is not None and alike.min(initial=1) < 1:
            inside, outside = self.confidence(share, rank, kind), self.beyond().confidence(share, rank, kind)
            return alike * inside + (1 - alike) * outside
        result = np.empty(len(share), np.float32)
        for at, calibration in enumerate(self.calibration):
            mine = kind == at
            if mine.all():
                return calibration(share, rank)
            result[mine] = calibration(share[mine], rank[mine])
        return result

    def with_features(self, features: tuple[str, ...]) -> Mixture | None:
        """Returns the same for these features; None if it has others.

        An earlier version of the library may have had fewer: the others have the weight 0.
        """
        if not set(self.features) <= set(features):
            return None
        at = [features.index(name) for name in self.features]
        weights = np.zeros((len(KINDS), len(features)), np.float32)
        weights[:, at] = self.weights
        alone = None if self.uninfluenced is None else np.zeros(len(features), np.float32)
        if alone is not None:
            alone[at] = self.uninfluenced
        return replace(self, features=features, weights=weights, uninfluenced=alone)

    def to_dict(self) -> dict[str, object]:
        """Returns the form that ``from_dict`` reads, for JSON."""
        return {
            "features": list(self.features),
            "weights": {kind: [round(float(w), 5) for w in row] for kind, row in zip(KINDS, self.weights, strict=True)},
            "calibration": {kind: list(c.weights) for kind, c in zip(KINDS, self.calibration, strict=True)},
            "uninfluenced": None if self.uninfluenced is None else [round(float(w), 5) for w in self.uninfluenced],
            "worded": self.worded,
            "reach": self.reach,
        }

    @classmethod
    def from_dict(cls, stored: object) -> Mixture:
        """Reads the output of ``to_dict``.

        Raises:
            IndexFormatError: ``stored`` is not such an output.
        """
        return cls.of(StoredMixture.read(stored))

    @classmethod
    def of(cls, stored: StoredMixture) -> Mixture:
        """Returns a mixture that was read."""
        calibration = tuple(Calibration((one[0], one[1], one[2])) for one in stored.calibration.tolist())
        return cls(
            stored.features,
            stored.weights,
            calibration,
            uninfluenced=stored.uninfluenced,
            worded=stored.worded,
            reach=stored.reach,
        )


def reserve_for_unused(
    names: Sequence[str], features: Float32, scores: Float32, starts: Int64, part: Float32 | float = 1.0
) -> Float32:
    """Applies ``reserve_mass`` to features (P, F) with these names; zeros if the feature "plain" is missing."""
    plain = unaided(names)
    if plain is None or NEVER_USED not in names:
        return np.zeros(len(scores), np.float32)
    never = features[:, names.index(NEVER_USED)] > 0
    if not never.any():
        return np.zeros(len(scores), np.float32)
    return reserve_mass(scores, never, features @ plain, starts, part)


def uninfluenced(names: Sequence[str], weights: Float32) -> Float32:
    """Returns the weights (F,) of a question for which past requests do not count: those of recall without feedback.

    A request that is made again keeps the weight that it has in ``weights`` (3, F): what served it is known. Without
    the feature "plain" all questions have the same weights.
    """
    plain = unaided(names)
    alone: Float32 = weights[0] if plain is None else np.where(repeated(names), weights[0], plain)
    return alone


def kinds_of_evidence(features: Sequence[str]) -> Int64:
    """Returns 0 for a feature (F,) of the appearance of a memory, 1 for one of past use, 2 for repeated requests."""
    appearance = {*APPEARANCE, *UNAIDED}

    def kind(name: str) -> int:
        if name in RepeatedRequests.features:
            return 2
        return 0 if name in appearance or name.startswith(NEVER_USED) else 1

    return np.array([kind(name) for name in features])


def repeated(names: Sequence[str]) -> Bools:
    """Returns a mask (F,) of the features of a request that is made again."""
    return np.array([name in RepeatedRequests.features for name in names])


def unaided(names: Sequence[str]) -> Float32 | None:
    """Returns the weights (F,) of recall without feedback; None if the feature "plain" is missing."""
    return np.array([UNAIDED.get(name, 0.0) for name in names], np.float32) if PLAIN in names else None


@dataclass(frozen=True)
class Priors:
    """Weights from other data: a value at 1,000 past requests, and a change per factor of ten.

    Attributes:
        weights: for each kind and feature, both numbers. The features of names and times have the weights of recall
            without feedback.
    """

    weights: Mapping[str, Mapping[str, tuple[float, float]]]

    @classmethod
    @cache
    def read(cls, path: Path = PRIORS) -> Priors:
        """Reads the priors of the library, or of another file."""
        stored = json.loads(path.read_text("utf-8"))["weights"]
        return cls({kind: {name: tuple(pair) for name, pair in named.items()} for kind, named in stored.items()})

    def at(self, features: Sequence[str], requests: int, novelty: float = 0.0) -> Float32:
        """Returns the weights (3, F) for an index; 0 for a feature without a prior.

        Where almost every use is of a new memory, past requests say nothing about the next one. So the weights of a
        question are a mean of the prior and of recall without feedback, with ``novelty`` as the weight of the latter. A
        request that is made again keeps its weight: what served it is known.

        Args:
            features: F names.
            requests: number of past requests.
            novelty: probability that the next use is of a memory that was never used; see ``RequestLog.novelty``.
        """
        decades = size_in_decades(requests)

        def of(kind: str, name: str) -> float:
            if name != PLAIN and name in UNAIDED:
                return UNAIDED[name]
            constant, change = self.weights[kind].get(name, (0.0, 0.0))
            return constant + decades * change

        rows = np.array([[of(kind, name) for name in features] for kind in KINDS], np.float32)
        plain = unaided(features)
        if plain is not None:
            changed = ~repeated(features)
            rows[0, changed] += novelty * (plain - rows[0])[changed]
        return rows


def size_in_decades(requests: int) -> float:
    """Returns log10 of the number of requests over 1,000, cut to the range -2 to 1 that the priors cover."""
    return float(np.clip(np.log10(max(requests, 1) / 1000), -2, 1))
