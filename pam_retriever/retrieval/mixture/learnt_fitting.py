"""Fits the mixture with and without the regression over all past requests, and keeps the regression if it helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pam_retriever.evaluation import Validation
from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.fitting import FEWEST, MixtureFit, fit_mixture
from pam_retriever.retrieval.mixture.history import History
from pam_retriever.retrieval.mixture.holdout import PARTS, QUESTIONS, SHARE, HeldOutQuestions, ask_held_out, parts
from pam_retriever.retrieval.mixture.influence import FARTHEST, nearest
from pam_retriever.retrieval.mixture.learnt_requests import LearntRequests, UseRegression, best_half_life
from pam_retriever.retrieval.mixture.mixture import Evidence, Mixture, Priors
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.retrieval.mixture.worths import validation_of
from pam_retriever.store.feedback_fit import KINDS
from pam_retriever.types import Bools

RECENT = 3_000  # requests before the held-out part that choose the half-life
EvidenceWith = Callable[[RequestLog, UseRegression | None], Evidence]


@dataclass(frozen=True)
class LearntFit:
    """A regression over all past requests, and the weights of the evidence with it."""

    regression: UseRegression
    mixture: Mixture


@dataclass(frozen=True)
class FeedbackFit:
    """What ``fit`` learns from feedback.

    Attributes:
        mixture: the weights of the evidence without the regression.
        learnt: the regression; None if it does not help.
        validation: the results of the mixture that answers.
    """

    mixture: Mixture
    learnt: LearntFit | None
    validation: Validation


def fit_feedback(history: History, evidence_with: EvidenceWith, priors: Priors, seed: int = 0) -> FeedbackFit:
    """Fits the weights of the evidence on held-out requests, and a regression over all requests.

    Where few requests have words, the held-out ones do not show the weights of words, and the mixtures say so.
    The regression is kept if held-out questions are answered better with it, by one standard error.

    Args:
        history: all past requests.
        evidence_with: makes the evidence of an index that has only the given requests, with a regression or without.
        priors: weights from other data, used if there are few requests.
        seed: the seed of the held-out part and of the intervals.
    """
    half_life, log = _half_life(history, seed), history.log()
    mixture, with_it, validation = _weights_of(history, log, half_life, evidence_with, priors, seed)
    limits: dict[str, Any] = {"worded": _has_words(history), "reach": _reach(history, seed)}
    mixture, with_it = replace(mixture, **limits), None if with_it is None else replace(with_it, **limits)
    # last, because it takes long and is not always needed, and when the held-out questions are no longer in memory
    learnt = None if with_it is None else LearntFit(UseRegression.of(log, half_life), with_it)
    return FeedbackFit(mixture, learnt, validation)


def _weights_of(
    history: History, log: RequestLog, half_life: float, evidence_with: EvidenceWith, priors: Priors, seed: int
) -> tuple[Mixture, Mixture | None, Validation]:
    """Returns the weights without the regression; those with it, if it helps; and the results of the latter or former.

    Args:
        history: all past requests.
        log: these.
        half_life: of the requests of the regression.
        evidence_with: see ``fit_feedback``.
        priors: weights from other data.
        seed: see ``fit_feedback``.
    """
    evidence, with_it = evidence_with(log, None), evidence_with(log, UseRegression.empty())  # only for their names
    asked = ask_held_out(history, lambda some: evidence_with(some, UseRegression.of(some, half_life)), seed)
    others = np.array([name not in LearntRequests.features for name in with_it.features])
    without = [None if one is None else one.only(others) for one in asked]
    plain = fit_mixture(evidence, log, without, priors, history.timed)
    better, questions = None, asked[0]
    if questions is not None and plain.kinds[0] is not None:
        better = fit_mixture(with_it, log, [questions, *[None] * (len(KINDS) - 1)], priors, history.timed)
    if questions is None or better is None or not _helps(plain, better, questions):
        return plain.mixture, None, validation_of(evidence, plain, without, history.timed, seed)
    of_questions = validation_of(with_it, better, asked, history.timed, seed)
    rest = validation_of(evidence, plain, [None, *without[1:]], history.timed, seed)
    return plain.mixture, _joined(plain, better, others), Validation((*of_questions.worths, *rest.worths))


def _has_words(history: History) -> bool:
    """Returns whether enough held-out requests have words; see ``FEWEST``."""
    return sum(map(bool, history.words)) * PARTS * SHARE >= FEWEST


def _reach(history: History, seed: int) -> float | None:
    """Returns the ``reach`` of weights that held-out requests have confirmed; None if there are none."""
    found = []
    for known, held in parts(len(history), history.timed, seed):
        if len(known) and len(held):
            asked = history.cues(held[:QUESTIONS])
            found.append(nearest(history.log(known), asked))
    return float(np.quantile(np.concatenate(found), FARTHEST)) if found else None


def _half_life(history: History, seed: int) -> float:
    """Returns the half-life of requests that says most about the requests of the first held-out part."""
    known, held = next(parts(len(history), history.timed, seed))
    asked = held[:QUESTIONS]
    return best_half_life(history.log(known[-RECENT:]), history.cues(asked), history.served.take(asked))


def _helps(plain: MixtureFit, better: MixtureFit, asked: HeldOutQuestions) -> bool:
    """Returns whether the loss is smaller by more than one standard error, by weights of the other parts.

    Copies of questions whose used memories are hidden do not count: no regression can expect these.
    """
    fits = [one for one in (plain.kinds[0], better.kinds[0]) if one is not None]
    before, after = (logit.loss_of(one.scores, asked.choices) for one in fits)
    gain = (before - after)[asked.natural]
    return bool(gain.mean() > gain.std() / np.sqrt(len(gain)))


def _joined(plain: MixtureFit, better: MixtureFit, others: Bools) -> Mixture:
    """Returns the weights of questions with the regression, and those of stored memories as cues, which it ignores."""
    weights = better.mixture.weights.copy()
    weights[1:] = 0
    weights[1:, others] = plain.mixture.weights[1:]
    calibration = (better.mixture.calibration[0], *plain.mixture.calibration[1:])
    return replace(better.mixture, weights=weights, calibration=calibration)
