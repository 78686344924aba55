"""Fit the mixture on held-out experience, near to priors from other data, and say what it is worth there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pam_retriever.evaluation import Validation, Worth
from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.calibration import Calibration, expected_calibration_error, reliability
from pam_retriever.retrieval.mixture.calibration import log_loss as event_loss
from pam_retriever.retrieval.mixture.holdout import Asked, EvidenceOf, History, ask_held_out
from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.retrieval.mixture.mixture import KINDS, NEVER_USED, Mixture, Priors
from pam_retriever.retrieval.mixture.report import mean_interval
from pam_retriever.types import Bools, Float32, Int64

RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)  # times the variance of a feature
HARDEST, OTHERS = 32, 32  # candidates of a question that the fit sees besides those used
FEWEST = 20  # questions of a kind; with fewer the priors stay
CALIBRATED = 20  # hits of a question
Float64 = np.ndarray


@dataclass(frozen=True)
class MixtureFit:
    """Weights, and what they were worth where they were not fitted."""

    mixture: Mixture
    validation: Validation


def fit_mixture(history: History, evidence_of: EvidenceOf, priors: Priors, seed: int = 0) -> MixtureFit:
    """Fits the weights for each kind of question that held-out experience asks.

    Args:
        history: all past requests.
        evidence_of: makes the evidence that a bank with only the given requests would have.
        priors: weights from other data, kept where there is little to learn from.
        seed: of what is held out, and of intervals.
    """
    evidence = evidence_of(history.log())
    start = priors.at(evidence.features, len(history))
    never = np.array([name.startswith(NEVER_USED) for name in evidence.features])
    weights, calibrations, worths = [], [], []
    for kind, asked, prior in zip(KINDS, ask_held_out(history, evidence_of, seed), start, strict=True):
        if asked is None or int(asked.natural.sum()) < FEWEST or len(np.unique(asked.part)) < 2:
            weights.append(prior.astype(float))
            calibrations.append(Calibration())
            continue
        # only questions of their own are asked with used memories hidden: only they tell what a new one is worth
        of_new = never if kind == KINDS[0] else None
        fitted = fit_kind(asked, prior.astype(float), timed=history.timed, never=of_new)
        weights.append(fitted.weights)
        calibrations.append(fitted.calibration)
        sources = [(source.name, source.features) for source in evidence.sources]
        worths += worths_of(kind, asked, fitted, sources, history.timed, seed)
    mixture = Mixture(evidence.features, np.array(weights, np.float32), tuple(calibrations))
    return MixtureFit(mixture, Validation(tuple(worths)))


@dataclass(frozen=True)
class FittedKind:
    """Weights for one kind of question, and what they were judged by."""

    weights: Float64
    calibration: Calibration
    scores: Float32  # (P,) by weights that were fitted on the other parts
    choices: Choices  # the hardest candidates of every question
    part: Int64


@dataclass(frozen=True)
class _View:
    """The candidates that some of the weights are fitted on."""

    choices: Choices
    part: Int64
    mine: Bools  # (F,) these weights
    scale: Float64  # (F,) of the ridge
    timed: bool

    @classmethod
    def of(cls, asked: Asked, prior: Float64, mine: Bools, timed: bool) -> _View:
        choices = sample(asked.choices, prior)
        return cls(choices, asked.part, mine, choices.features.var(axis=0).astype(float) + 1e-3, timed)

    def fit(self, questions: Int64, prior: Float64, ridge: float | None = None) -> Float64:
        """(F,) all weights; of the best ridge for None."""
        within = self.choices.take(questions)
        if ridge is None:
            ridge = _best_ridge(within, self.part[questions], prior, self.scale, self.timed)
        return logit.fit(within, prior, ridge * self.scale)


def fit_kind(
    asked: Asked, prior: Float64, nested: bool = True, timed: bool = False, never: Bools | None = None
) -> FittedKind:
    """Fits the weights for one kind of question, as near to the prior as what was held out asks for.

    All memories compete, as they do when somebody asks. The weights of memories that were never used are those of a
    fit without doubtful candidates: these say that what nobody ever used is never wanted.

    Args:
        asked: the questions.
        prior: (F,) weights from other data.
        nested: how near, each part is judged by what the others say alone; else by what all parts say, in half the
            time: one number, of thousands of questions.
        timed: whether parts follow each other in time.
        never: (F,) the weights of memories that were never used; None for none.
    """
    views = [_View.of(asked, prior, np.ones(len(prior), bool) if never is None else ~never, timed)]
    if never is not None:
        views.append(_View.of(asked.settled(), prior, never, timed))
    every, part = np.arange(len(asked)), asked.part
    common = None if nested else _best_ridge(views[0].choices, part, prior, views[0].scale, timed)

    def fit(questions: Int64) -> Float64:
        weights = prior.copy()
        for view in views:
            weights[view.mine] = view.fit(questions, prior, common)[view.mine]
        return weights

    scores = np.zeros(len(asked.row), np.float32)
    pair_part = part[asked.choices.question]
    for one in np.unique(part).tolist():
        held = pair_part == one
        scores[held] = asked.choices.features[held] @ fit(np.flatnonzero(part != one)).astype(np.float32)
    calibration = Calibration.fit(*_events(asked, scores, np.flatnonzero(asked.natural)))
    return FittedKind(fit(every), calibration, scores, views[0].choices, part)


def _best_ridge(choices: Choices, part: Int64, prior: Float64, scale: Float64, timed: bool) -> float:
    """The strongest ridge that is no worse than the best, as far as parts tell that no weight was fitted on.

    "No worse" allows one standard error of the difference (Breiman et al. 1984): where there is little to learn from,
    the prior stays. By time, each part is judged by those before it alone: what was right once need not be later.
    """
    ids = np.unique(part)
    if len(ids) < 2:
        ids, part = np.arange(2), np.arange(len(part)) * 2 // len(part)
    losses = np.zeros((len(RIDGES), len(part)))
    judged = np.zeros(len(part), bool)
    for one in ids[1:].tolist() if timed else ids.tolist():
        held = part == one
        judged |= held
        within, others = (
            choices.take(np.flatnonzero(part < one if timed else ~held)),
            choices.take(np.flatnonzero(held)),
        )
        weights = prior
        for at in reversed(range(len(RIDGES))):  # from near the prior outwards: each fit starts where the last ended
            weights = logit.fit(within, prior, RIDGES[at] * scale, weights)
            losses[at, held] = logit.log_loss(weights, others)
    share = np.where(judged, choices.weight, 0) / choices.weight[judged].sum()
    best = int(np.argmin(losses @ share))
    for at in reversed(range(len(RIDGES))):
        worse = losses[at] - losses[best]
        mean = float(share @ worse)
        if mean <= float(np.sqrt((share**2) @ (worse - mean) ** 2)):
            return RIDGES[at]
    return RIDGES[best]


def sample(choices: Choices, weights: Float64, seed: int = 0) -> Choices:
    """Each question with what was used, the candidates that score best, and some of the others.

    The others are drawn at random, and each stands for as many as there are: without them, what was used and scores
    badly would have no rivals that score badly too.
    """
    question = choices.question
    scores = choices.scores(weights)
    rank = _rank(scores, question, choices.starts)
    used, hard = choices.target > 0, rank <= HARDEST
    lot = np.where(used | hard, np.inf, np.random.default_rng(seed).random(len(rank)))
    drawn = _rank(-lot, question, choices.starts) <= OTHERS
    drawn &= np.isfinite(lot)
    rest = np.bincount(question, ~(used | hard), len(choices.starts))
    stands_for = rest / np.maximum(np.bincount(question, drawn, len(choices.starts)), 1)
    offset = choices.offset + np.where(drawn, np.log(np.maximum(stands_for, 1))[question], 0).astype(np.float32)
    kept = used | hard | drawn
    starts = np.concatenate([[0], np.cumsum(np.bincount(question[kept], minlength=len(choices.starts)))[:-1]])
    return Choices(choices.features[kept], starts.astype(np.int64), choices.target[kept], choices.weight, offset[kept])


def _rank(scores: Float32, question: Int64, starts: Int64) -> Int64:
    """(P,) rank of each pair in its question, from 1."""
    order = np.lexsort((-scores, question))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - starts[question[order]] + 1
    return rank


def _events(asked: Asked, scores: Float32, questions: Int64) -> tuple[Float32, Int64, np.ndarray]:
    """Share, rank and whether it was used, of the best hits of some questions."""
    mine = asked.take(questions)
    at = np.flatnonzero(np.isin(asked.choices.question, questions))
    share = logit.softmax(scores[at], mine.choices.starts)
    rank = _rank(scores[at], mine.choices.question, mine.choices.starts)
    best = rank <= CALIBRATED
    return share[best], rank[best], mine.choices.target[best] > 0


def recall_at(scores: Float32, asked: Asked, k: int) -> Float64:
    """(Q,) share of the used memories that are among the first ``k``, of as many as can be there."""
    found = (_rank(scores, asked.choices.question, asked.choices.starts) <= k) & asked.reached
    share = np.bincount(asked.choices.question, asked.choices.target * found, len(asked))
    recall: Float64 = np.minimum(share * asked.uses / np.minimum(k, asked.uses), 1.0)
    return recall


def worths_of(
    kind: str,
    asked: Asked,
    fitted: FittedKind,
    sources: Sequence[tuple[str, Sequence[str]]],
    timed: bool,
    seed: int,
) -> list[Worth]:
    """What each source alone and the mixture find, where their weights were not fitted.

    All parts count. The last one alone knows most of what is known now, but it is one stretch of time, and what is
    asked differs more from one to another than it gains by that.

    Args:
        kind: of the questions.
        asked: them.
        fitted: the weights.
        sources: the name of each, and of its features, in the order of the columns.
        timed: whether questions are in the order of time.
        seed: of intervals.
    """
    judged = np.flatnonzero(asked.natural)
    mine = asked.take(judged)
    pairs = np.isin(asked.choices.question, judged)
    rows = []
    column = 0
    for name, features in sources:
        columns = np.arange(column, column + len(features))
        column += len(features)
        rows.append((name, _alone(asked, fitted, columns)[pairs]))
    rows.append(("mixture", fitted.scores[pairs]))
    share, rank, used = _events(asked, fitted.scores, judged)
    confidence = fitted.calibration(share, rank)
    sureness = expected_calibration_error(confidence, used), event_loss(confidence, used), reliability(confidence, used)
    return [
        Worth(
            kind,
            name,
            len(judged),
            mean_interval(recall_at(scores, mine, 10), seed, mine.choices.weight, timed),
            *(sureness if name == "mixture" else ()),
        )
        for name, scores in rows
    ]


def _alone(asked: Asked, fitted: FittedKind, columns: Int64) -> Float32:
    """(P,) scores by these features alone, with weights fitted on the other parts."""
    features = asked.choices.features[:, columns]
    if len(columns) == 1:
        return features[:, 0]
    scores = np.zeros(len(features), np.float32)
    pair_part = asked.part[asked.choices.question]
    only = replace(fitted.choices, features=fitted.choices.features[:, columns])
    for part in np.unique(asked.part).tolist():
        within = only.take(np.flatnonzero(asked.part != part))
        weights = logit.fit(within, np.full(len(columns), 0.1), np.full(len(columns), 1e-2))
        scores[pair_part == part] = features[pair_part == part] @ weights.astype(np.float32)
    return scores
