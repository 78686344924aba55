"""Fits the mixture on held-out experience, with priors from other data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.calibration import Calibration
from pam_retriever.retrieval.mixture.holdout import HeldOutQuestions
from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.retrieval.mixture.mixture import (
    NEVER_USED,
    Evidence,
    Mixture,
    Priors,
    reserve_for_unused,
    unaided,
    uninfluenced,
)
from pam_retriever.retrieval.mixture.never_used import NeverUsedBound
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.store.feedback_fit import KINDS
from pam_retriever.types import Bools, Float32, Float64, Int64

RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)  # ridges, in units of the variance of a feature
HARDEST, OTHERS = 32, 32  # candidates of a question in the fit, besides the used memories
FEWEST = 20  # questions of a kind; with fewer the priors are used
CALIBRATED = 20  # hits of a question that the calibration sees
FRACTIONS = (0.75, 1.0)  # tried fractions of the way from the start to the fit, which may overfit one period
STACKED = 1e-2  # ridge of the two numbers that stack the prior with recall without feedback


@dataclass(frozen=True)
class MixtureFit:
    """The fitted weights.

    Attributes:
        mixture: the weights.
        kinds: for each kind of question, the fit and how it was judged; None for the priors, if there were too few.
    """

    mixture: Mixture
    kinds: tuple[FittedKind | None, ...]


def fit_mixture(
    evidence: Evidence, log: RequestLog, asked: Sequence[HeldOutQuestions | None], priors: Priors, timed: bool
) -> MixtureFit:
    """Fits the weights for each kind of held-out question.

    Args:
        evidence: the sources over all past requests; only their names are read.
        log: these requests.
        asked: the held-out questions of each kind; None for none.
        priors: weights from other data, used if there are few requests.
        timed: whether the requests are in the order of time.
    """
    start = priors.at(evidence.features, len(log), log.novelty)
    priors_alone = priors.at(evidence.features, len(log))
    never = np.array([name.startswith(NEVER_USED) for name in evidence.features])
    kinds: list[FittedKind | None] = []
    alone: Float32 | None = uninfluenced(evidence.features, priors_alone)
    for at, (kind, held_out) in enumerate(zip(KINDS, asked, strict=True)):
        prior = start[at]
        if held_out is None or int(held_out.natural.sum()) < FEWEST or len(np.unique(held_out.part)) < 2:
            kinds.append(None)
        elif kind == KINDS[0]:
            alone = None
            plain = unaided(evidence.features)
            bound = NeverUsedBound(evidence.features, log.novelty)
            fitted = fit_kind(held_out, prior.astype(float), timed=timed, never=never, plain=plain, bound=bound)
            kinds.append(fitted.with_reserved_mass(evidence.features, held_out))
        else:  # no used memory was hidden from these questions, so they do not show the value of a new one
            kinds.append(fit_kind(held_out, prior.astype(float), timed=timed))
    weights = [prior if one is None else one.weights for prior, one in zip(priors_alone, kinds, strict=True)]
    calibrations = tuple(Calibration() if one is None else one.calibration for one in kinds)
    mixture = Mixture(evidence.features, np.array(weights, np.float32), calibrations, uninfluenced=alone)
    return MixtureFit(mixture, tuple(kinds))


@dataclass(frozen=True)
class FittedKind:
    """Weights for one kind of question, with the data on which they were judged."""

    weights: Float64
    calibration: Calibration
    scores: Float32  # (P,) by weights fitted on the other parts
    choices: Choices  # the hardest candidates of every question
    part: Int64

    def with_reserved_mass(self, names: Sequence[str], held_out: HeldOutQuestions) -> FittedKind:
        """Returns the same with probability reserved for memories that were never used, as recall serves it."""
        choices = held_out.choices
        scores = self.scores + reserve_for_unused(names, choices.features, self.scores, choices.starts)
        return replace(self, scores=scores, calibration=calibration_of(held_out, scores))


@dataclass(frozen=True)
class _FitSettings:
    """One configuration of the fit: the start, the ridge, and the step."""

    stacked: bool
    ridge: float
    fraction: float

    def between(self, start: Float64, fitted: Float64) -> Float64:
        """Returns the weights (F,) after the step from the start towards the fitted ones."""
        weights: Float64 = start + self.fraction * (fitted - start)
        return weights


@dataclass(frozen=True)
class _View:
    """The candidates on which some of the weights are fitted.

    Attributes:
        choices: the candidates of every question.
        part: (Q,) the part of experience.
        mine: (F,) mask of the fitted weights.
        prior: (F,) weights from other data.
        scale: (F,) the scale of the ridge.
        timed: whether the parts are in the order of time.
        plain: (F,) the weights of recall without feedback; None without stacking.
        paths: the results of ``_path``.
    """

    choices: Choices
    part: Int64
    mine: Bools
    prior: Float64
    scale: Float64
    timed: bool
    plain: Float32 | None
    paths: dict[tuple[bytes, bool], tuple[Float64, dict[float, Float64]]] = field(default_factory=dict)

    @classmethod
    def of(cls, held_out: HeldOutQuestions, prior: Float64, mine: Bools, timed: bool, plain: Float32 | None) -> _View:
        choices = sample(held_out.choices, prior)
        scale = choices.features.var(axis=0).astype(float) + 1e-3
        return cls(choices, held_out.part, mine, prior, scale, timed, plain)

    def fit(self, questions: Int64, way: _FitSettings, near: Float64 | None = None) -> Float64:
        """Returns all weights (F,), fitted on some questions; ``near`` (F,) are those for most of them."""
        within = self.choices.take(questions)
        start = self._start(within, way.stacked)
        return way.between(start, logit.fit(within, start, way.ridge * self.scale, near))

    def _start(self, choices: Choices, stacked: bool) -> Float64:
        """Returns the prior, stacked with recall without feedback if the questions support it (Breiman 1996).

        A few dozen questions determine two numbers: the weights from other data may not fit this data.
        """
        if not stacked or self.plain is None:
            return self.prior
        both = [choices.features @ self.prior.astype(np.float32), choices.features @ self.plain]
        few = replace(choices, features=np.stack(both, axis=1).astype(np.float32))
        scale = few.features.var(axis=0).astype(float) + 1e-3
        share, more = logit.fit(few, np.array([1.0, 0.0]), STACKED * scale).tolist()
        start: Float64 = share * self.prior + more * self.plain
        return start

    def _path(self, questions: Int64, stacked: bool) -> tuple[Float64, dict[float, Float64]]:
        """Returns the start, and the weights (F,) that are fitted for each ridge on some questions.

        The choices for all questions and for those of several parts need the same paths, so each is computed once.
        """
        key = questions.tobytes(), stacked
        if key not in self.paths:
            known = self.choices.take(questions)
            start = weights = self._start(known, stacked)
            fitted = self.paths.setdefault(key, (start, {}))[1]
            for ridge in reversed(RIDGES):  # from strong to weak ridges: each starts where the last one ended
                fitted[ridge] = weights = logit.fit(known, start, ridge * self.scale, weights)
        return self.paths[key]

    def best_way(self, questions: Int64, stacked: bool | None = None) -> _FitSettings:
        """Returns the configuration nearest to the prior that is no worse than the best, by cross-validation.

        "No worse" allows one standard error of the difference (Breiman et al. 1984), so with little data the prior
        stays. With times, each part is judged by weights from earlier parts only, because usage changes.

        Args:
            questions: the questions to use.
            stacked: the start; None to choose it, too.
        """
        choices, part = self.choices.take(questions), self.part[questions]
        starts = ([False] if self.plain is None else [False, True]) if stacked is None else [stacked]
        ways = [
            _FitSettings(start, ridge, fraction)
            for ridge in reversed(RIDGES)
            for fraction in FRACTIONS
            for start in starts
        ]
        if len(questions) < 2:  # none is left to judge the fit on one
            return ways[0]
        losses, judged = np.zeros((len(ways), len(part))), np.zeros(len(part), bool)
        for within, held in _judged(part, self.timed):
            judged[held] = True
            others = choices.take(held)
            for at, way in enumerate(ways):
                start, fitted = self._path(questions[within], way.stacked)
                losses[at, held] = logit.log_loss(way.between(start, fitted[way.ridge]), others)
        share = np.where(judged, choices.weight, 0) / choices.weight[judged].sum()
        best = int(np.argmin(losses @ share))
        for at in range(len(ways)):
            worse = losses[at] - losses[best]
            mean = float(share @ worse)
            if mean <= float(np.sqrt((share**2) @ (worse - mean) ** 2)):
                return ways[at]
        return ways[best]


def _judged(part: Int64, timed: bool) -> Iterator[tuple[Int64, Int64]]:
    """For each judged part, returns the questions on which its weights are fitted, and its own questions."""
    ids = np.unique(part)
    if len(ids) < 2:
        ids, part = np.arange(2), np.arange(len(part)) * 2 // len(part)
    for one in ids[1:].tolist() if timed else ids.tolist():
        yield np.flatnonzero(part < one if timed else part != one), np.flatnonzero(part == one)


def fit_kind(
    held_out: HeldOutQuestions,
    prior: Float64,
    nested: bool = True,
    timed: bool = False,
    never: Bools | None = None,
    plain: Float32 | None = None,
    bound: NeverUsedBound | None = None,
) -> FittedKind:
    """Fits the weights for one kind of question. The held-out parts choose the distance from the prior.

    All memories are candidates, as in recall. The weights of never-used memories come from a fit without doubtful
    candidates: with them, the fit would learn that a never-used memory is never wanted.

    Args:
        held_out: the questions.
        prior: (F,) weights from other data.
        nested: whether to choose the distance for each part from the other parts only. Otherwise all parts choose it,
            in half the time: it is one number, from thousands of questions.
        timed: whether the parts are in the order of time.
        never: (F,) the weights of memories that were never used; None for none.
        plain: (F,) the weights of recall without feedback, which stacking adds to the prior; None without stacking.
        bound: bounds the probability of never-used memories; None for no bound.
    """
    views = [_View.of(held_out, prior, np.ones(len(prior), bool) if never is None else ~never, timed, plain)]
    if never is not None:
        settled = held_out.settled()
        same = settled is held_out  # then the fits of both are the same, too
        views.append(replace(views[0], mine=never) if same else _View.of(settled, prior, never, timed, plain))
    every, part = np.arange(len(held_out)), held_out.part

    def ways(questions: Int64) -> list[_FitSettings]:
        first = views[0].best_way(questions)
        return [first, *(view.best_way(questions, first.stacked) for view in views[1:])]

    def fit(questions: Int64, chosen: Sequence[_FitSettings], near: Float64 | None = None) -> Float64:
        weights = prior.copy()
        for view, way in zip(views, chosen, strict=True):
            weights[view.mine] = view.fit(questions, way, near)[view.mine]
        return weights if bound is None else bound.apply(weights, held_out, questions)

    common = ways(every)
    whole = fit(every, common)
    scores = np.zeros(len(held_out.row), np.float32)
    pair_part = part[held_out.choices.question]
    for one in np.unique(part).tolist():
        within, held = np.flatnonzero(part != one), pair_part == one
        weights = fit(within, ways(within) if nested else common, whole)
        scores[held] = held_out.choices.scores(weights)[held]
    return FittedKind(whole, calibration_of(held_out, scores), scores, views[0].choices, part)


def calibration_of(held_out: HeldOutQuestions, scores: Float32) -> Calibration:
    """Returns the calibration of scores (P,) by weights that were not fitted on these questions."""
    return Calibration.fit(*best_hits(held_out, scores, np.flatnonzero(held_out.natural)))


def sample(choices: Choices, weights: Float64, seed: int = 0) -> Choices:
    """Returns each question with the used memories, the best candidates, and a random sample of the others.

    Each sampled candidate has a weight, so that the sample represents all others. Without it, a used memory with a low
    score would have no competitors with low scores.
    """
    question = choices.question
    scores = choices.scores(weights)
    rank = logit.ranks(scores, question, choices.starts)
    used, hard = choices.target > 0, rank <= HARDEST
    lot = np.where(used | hard, np.inf, np.random.default_rng(seed).random(len(rank)))
    drawn = logit.ranks(-lot, question, choices.starts) <= OTHERS
    drawn &= np.isfinite(lot)
    rest = np.bincount(question, ~(used | hard), len(choices.starts))
    stands_for = rest / np.maximum(np.bincount(question, drawn, len(choices.starts)), 1)
    offset = choices.offset + np.where(drawn, np.log(np.maximum(stands_for, 1))[question], 0).astype(np.float32)
    return replace(choices, offset=offset).only(used | hard | drawn)


def best_hits(held_out: HeldOutQuestions, scores: Float32, questions: Int64) -> tuple[Float32, Int64, np.ndarray]:
    """Returns share, rank and use (H,) of the best hits of some questions."""
    mine, at = held_out.without_features().take(questions), held_out.choices.pairs_of(questions)
    share = logit.softmax(scores[at], mine.choices.starts)
    rank = logit.ranks(scores[at], mine.choices.question, mine.choices.starts)
    best = rank <= CALIBRATED
    return share[best], rank[best], mine.choices.target[best] > 0
