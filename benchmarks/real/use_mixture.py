"""The library's rows in ``benchmarks.real.use``: the retrieval mixture over an index in memory."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real.use_tasks import Requests, Scores, Task
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.retrieval.mixture.balance import Balance
from pam_retriever.retrieval.mixture.calibration import expected_calibration_error, log_loss
from pam_retriever.retrieval.mixture.corpus import Corpus
from pam_retriever.retrieval.mixture.feedback_evidence import evidence_of
from pam_retriever.retrieval.mixture.history import History
from pam_retriever.retrieval.mixture.holdout import FULL_BELOW, PROPOSALS, EvidenceOf
from pam_retriever.retrieval.mixture.learnt_fitting import fit_feedback
from pam_retriever.retrieval.mixture.logit import ranks, softmax
from pam_retriever.retrieval.mixture.mixture import Evidence, Mixture, Priors, kinds
from pam_retriever.retrieval.mixture.pools import Cues, Pools
from pam_retriever.retrieval.mixture.requests import Uses

WITHOUT = Path(__file__).parents[1] / "priors" / "without.json"
BATCH = 64
FITTED, PRIORS_ALONE = "mixture", "mixture, priors alone"
JUDGED = 20  # hits of a question whose confidence is judged


def library_scores(task: Task, options: dict[str, Any], reported: dict[str, Any] | None = None) -> dict[str, Scores]:
    """Returns (Q, N) scores of the fitted mixture and of the priors alone; reports validation and calibration."""
    corpus = corpus_of(task)
    past, make = history(task, corpus), evidence_builder(corpus)
    priors = priors_for(task.name, options["priors"])
    log = past.log()
    evidence = make(log)
    cues = question_cues(task, corpus)
    balance = Balance.of(log, corpus, priors, evidence_of)

    def before_fit(evidence: Evidence) -> Mixture:
        return balance.apply(evidence.features, priors.at(evidence.features, len(past)))

    answers = {PRIORS_ALONE: (evidence, before_fit(evidence))}
    validation, learnt = None, None
    if options["fit"]:
        fitted = fit_feedback(past, partial(evidence_of, corpus), priors, options["seed"])
        learnt, validation = fitted.learnt, fitted.validation.to_dict()
        mixture = fitted.mixture
        if learnt is not None:
            evidence, mixture = evidence_of(corpus, log, learnt.regression), learnt.mixture
        outside = before_fit(evidence)
        answers[FITTED] = evidence, replace(mixture, beyond=lambda: outside)
    if reported is not None:
        reported["balance"] = asdict(balance)
        reported["validation"] = validation
        reported["regression over all requests"] = learnt is not None
        reported["calibration"] = calibration(*list(answers.values())[-1], cues, task)
    return {name: _scores(*answer, cues) for name, answer in answers.items()}


def priors_for(name: str, which: str) -> Priors:
    """Returns the priors of the library, or the priors that were fitted without the task."""
    if which == "shipped":
        return Priors.read()
    stored = json.loads(WITHOUT.read_text("utf-8"))
    weights = stored["without"].get(name, stored["all"])
    return Priors({kind: {key: tuple(pair) for key, pair in named.items()} for kind, named in weights.items()})


def question_cues(task: Task, corpus: Corpus) -> Cues:
    """Returns the tests as queries."""
    return Cues(task.tests.vectors, [corpus.lexicon.asked(text) for text in task.tests.texts], task.cues)


def index_of(task: Task) -> PredictiveAssociativeIndex:
    """Returns an index of the task's items, with the trajectories if there are any."""
    index = PredictiveAssociativeIndex(dim=task.vectors.shape[1], backend="exact")
    ids = [str(at) for at in range(len(task.texts))]
    # a turn of a dialogue has no name, and a text does not name itself
    named = [{} if name == text else {"name": name} for name, text in zip(task.names, task.texts, strict=True)]
    index.add(task.vectors, ids, task.texts, named)
    for steps in task.trajectories:
        index.observe([ids[at] for at in steps])
    return index


def corpus_of(task: Task) -> Corpus:
    """Returns the library's corpus of a task's items, from an index in memory."""
    index = index_of(task)
    return Corpus(index._store.view(), index._lexicon)


def history(task: Task, corpus: Corpus) -> History:
    """Returns the task's past requests as feedback."""
    past: Requests = task.experience
    words = corpus.lexicon.terms_of_requests(past.texts)
    existing = None if task.existing is None else np.full(len(past), task.existing)
    return History(past.vectors, words, Uses.of(past.used), corpus, task.timed, existing=existing)


def evidence_builder(corpus: Corpus) -> EvidenceOf:
    """Returns a function that creates all sources of evidence for the task's items."""
    return lambda log: evidence_of(corpus, log)


def calibration(evidence: Evidence, mixture: Mixture, cues: Cues, task: Task) -> dict[str, float]:
    """Compares the confidence of the best hits with how often they were used; also returns its log loss.

    The base rate at each rank is computed from the tests themselves, so no method can estimate it better.
    """
    confidences, uses, positions = [], [], []
    for start in range(0, len(cues), BATCH):
        some = cues.take(np.arange(start, min(start + BATCH, len(cues))))
        pools = evidence.pools(some, FULL_BELOW, PROPOSALS)
        own = (pools.row == some.rows[pools.cue]) | ~task.candidates[pools.row]
        pools = Pools.of(
            [pools.row[(pools.cue == at) & ~own] for at in range(len(some))], len(task.texts)
        )  # a query is no answer to itself, and later items were no candidates
        kind, influence = kinds(some, evidence.used), evidence.influence(some, mixture.reach)
        scores = mixture.score(evidence.score(some, pools), pools, kind, influence)
        rank = ranks(scores, pools.cue, pools.starts)
        best = rank <= JUDGED
        confidences.append(
            mixture.confidence(softmax(scores, pools.starts), rank, kind[pools.cue], influence[pools.cue, 2])[best]
        )
        wanted = [set(task.tests.used[start + at]) for at in range(len(some))]
        pairs = zip(pools.cue[best].tolist(), pools.row[best].tolist(), strict=True)
        uses.append(np.array([row in wanted[at] for at, row in pairs]))
        positions.append(rank[best])
    confidence, event, rank = np.concatenate(confidences), np.concatenate(uses), np.concatenate(positions)
    base = np.bincount(rank, event) / np.maximum(np.bincount(rank), 1)
    return {
        "hits": len(event),
        "calibration error": expected_calibration_error(confidence, event),
        "log loss": log_loss(confidence, event),
        "log loss of the base rate at each rank": log_loss(base[rank].astype(np.float32), event),
    }


def _scores(evidence: Evidence, mixture: Mixture, cues: Cues) -> Scores:
    found = np.full((len(cues), len(evidence.used)), -np.inf, np.float32)
    used = evidence.used
    for start in range(0, len(cues), BATCH):
        some = cues.take(np.arange(start, min(start + BATCH, len(cues))))
        pools = evidence.pools(some, FULL_BELOW, PROPOSALS)
        influence, kind = evidence.influence(some, mixture.reach), kinds(some, used)
        found[start + pools.cue, pools.row] = mixture.score(evidence.score(some, pools), pools, kind, influence)
    return found
