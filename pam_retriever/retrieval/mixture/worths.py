"""The results of sources and of a mixture on held-out questions, by weights that were not fitted on these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pam_retriever.evaluation import MIXTURE, Validation, Worth, mean_interval
from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.calibration import expected_calibration_error, log_loss, reliability
from pam_retriever.retrieval.mixture.fitting import FittedKind, MixtureFit, best_hits
from pam_retriever.retrieval.mixture.holdout import HeldOutQuestions, recall_at
from pam_retriever.retrieval.mixture.mixture import Evidence
from pam_retriever.retrieval.mixture.repeated_requests import RepeatedRequests
from pam_retriever.store.feedback_fit import KINDS
from pam_retriever.types import Bools, Float32, Float64, Int64


def validation_of(
    evidence: Evidence, fitted: MixtureFit, asked: Sequence[HeldOutQuestions | None], timed: bool, seed: int
) -> Validation:
    """Measures the sources and the mixture for each kind of question whose weights were fitted.

    Args:
        evidence: the sources.
        fitted: the weights.
        asked: the held-out questions of each kind, on which they were fitted.
        timed: whether the requests are in the order of time.
        seed: the seed of the intervals.
    """
    sources, worths = [(source.name, source.features) for source in evidence.sources], []
    for kind, held_out, one in zip(KINDS, asked, fitted.kinds, strict=True):
        if held_out is not None and one is not None:
            worths += worths_of(kind, held_out, one, sources, timed, seed)
    return Validation(tuple(worths))


def worths_of(
    kind: str,
    held_out: HeldOutQuestions,
    fitted: FittedKind,
    sources: Sequence[tuple[str, Sequence[str]]],
    timed: bool,
    seed: int,
) -> list[Worth]:
    """Measures each source alone and the mixture, with weights that were not fitted on the same questions.

    A source that says the same of every candidate, for example of times where there are none, has no result. Where some
    questions resemble a past request and some do not, the mixture has one more result on the latter: users who repeat
    their questions get better answers than users with new ones.

    All parts count. The last part has the most past requests, but it is only one period of time, and questions differ
    more between periods than this advantage is worth.

    Args:
        kind: kind of the questions.
        held_out: the questions.
        fitted: the weights.
        sources: name of each source and names of its features, in the order of the columns.
        timed: whether questions are in the order of time.
        seed: the seed of intervals.
    """
    judged = np.flatnonzero(held_out.natural)
    mine, pairs = held_out.without_features().take(judged), held_out.choices.pairs_of(judged)
    recalls: list[tuple[str, Float64]] = []
    again = np.zeros(len(judged), bool)
    column = 0
    for name, features in sources:
        columns = np.arange(column, column + len(features))
        column += len(features)
        if np.ptp(held_out.choices.features[np.ix_(pairs, columns)], axis=0).any():
            recalls.append((name, recall_at(_alone(held_out, fitted, columns)[pairs], mine, 10)))
            if name == RepeatedRequests.name:
                again[mine.choices.question[held_out.choices.features[pairs, columns[0]] > 0]] = True
    of_mixture = recall_at(fitted.scores[pairs], mine, 10)
    recalls.append((MIXTURE, of_mixture))
    share, rank, used = best_hits(held_out, fitted.scores, judged)
    confidence = fitted.calibration(share, rank)
    of_confidence = (
        expected_calibration_error(confidence, used),
        log_loss(confidence, used),
        reliability(confidence, used),
    )
    return [
        Worth(
            kind,
            name,
            len(judged),
            mean_interval(recall, seed, mine.choices.weight, timed),
            *(of_confidence if name == MIXTURE else ()),
        )
        for name, recall in recalls
    ] + _of_new_requests(kind, of_mixture, mine.choices.weight, again, timed, seed)


def _of_new_requests(kind: str, recall: Float64, weight: Float32, again: Bools, timed: bool, seed: int) -> list[Worth]:
    """Measures the mixture on the questions that resemble no past request, if others (``again`` (Q,)) do."""
    new = np.flatnonzero(~again)
    if not 0 < len(new) < len(again):
        return []
    return [Worth(kind, f"{MIXTURE}, new requests", len(new), mean_interval(recall[new], seed, weight[new], timed))]


def _alone(held_out: HeldOutQuestions, fitted: FittedKind, columns: Int64) -> Float32:
    """Returns the scores (P,) by these features alone, with weights fitted on the other parts."""
    features = held_out.choices.features[:, columns]
    if len(columns) == 1:
        return features[:, 0]
    scores = np.zeros(len(features), np.float32)
    pair_part = held_out.part[held_out.choices.question]
    only = replace(fitted.choices, features=fitted.choices.features[:, columns])
    prior = weights = np.full(len(columns), 0.1)
    for part in np.unique(held_out.part).tolist():
        within = only.take(np.flatnonzero(held_out.part != part))
        weights = logit.fit(within, prior, np.full(len(columns), 1e-2), weights)  # most questions are the same
        scores[pair_part == part] = features[pair_part == part] @ weights.astype(np.float32)
    return scores
