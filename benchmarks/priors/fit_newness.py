"""``python -m benchmarks.priors.fit_newness``: the weight of new memories before ``fit``.

Nothing has used a memory that was just added, and past requests say nothing against it (see ``Newness``). The weight
is fitted with all other weights fixed, on held-out requests of the data of ``benchmarks.priors.fit_priors``: a fifth of
the used memories is hidden from copies of these requests, as if they had been added since. Each data set is left out
once. The test parts are never read. Run it after ``fit_priors``, which does not determine this weight.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.priors.fit_priors import WITHOUT, worlds
from benchmarks.real.data import load_encoder
from benchmarks.real.use_mixture import corpus_of, evidence_builder, history, priors_for
from benchmarks.real.use_tasks import Task, last
from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.balance import Balance
from pam_retriever.retrieval.mixture.feedback_evidence import evidence_of
from pam_retriever.retrieval.mixture.holdout import ask_held_out
from pam_retriever.retrieval.mixture.influence import OF_USE
from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.retrieval.mixture.mixture import PRIORS, reserve_for_unused, size_in_decades
from pam_retriever.retrieval.mixture.popularity import NEWNESS
from pam_retriever.store.feedback_fit import KINDS

SIZES = (100, 300, 1000, 3000, 6000)
RIDGE, SLOPE_RIDGE = 1e-2, 1e-1  # as those of the other priors


@dataclass(frozen=True)
class Sample:
    """Copies of held-out requests of one data set with one number of past requests; the one feature is newness."""

    data: str
    requests: int
    choices: Choices


def sample(name: str, task: Task) -> Sample | None:
    """Returns the copies after all requests of the task; None if there are none."""
    corpus = corpus_of(task)
    past, priors, make = history(task, corpus), priors_for(name, "without"), evidence_builder(corpus)
    questions = ask_held_out(past, make, seed=0)[0]
    if questions is None or questions.newness is None:
        return None
    asked = questions.take(np.flatnonzero(~questions.natural))
    log = past.log()
    features = make(log).features
    balance = Balance.of(log, corpus, priors, evidence_of)
    weights = priors.at(features, len(past))
    weights[:, features.index(NEWNESS)] = 0
    mixture = balance.apply(features, weights)
    choices, influence = asked.choices, asked.influence
    assert influence is not None and asked.newness is not None, "requests have an influence, and copies newness"
    each = mixture.weights_of(np.zeros(len(asked), np.int64), influence)
    scores = np.einsum("pf,pf->p", choices.features, each[choices.question])
    scores += reserve_for_unused(features, choices.features, scores, choices.starts, influence[:, 0])
    newness = asked.newness * influence[choices.question, OF_USE] * np.float32(balance.use)
    found = Choices(newness[:, None], choices.starts, choices.target, choices.weight, scores)
    return Sample(name, len(past), found)


def fit(samples: list[Sample]) -> list[float]:
    """Returns the weight at 1,000 requests, and its change per factor of ten; every sample has the same weight."""
    decades = [np.float32(size_in_decades(one.requests)) for one in samples]
    x = np.concatenate([one.choices.features for one in samples])
    change = np.concatenate([one.choices.features * size for one, size in zip(samples, decades, strict=True)])
    sizes = np.cumsum([0, *(len(one.choices.features) for one in samples[:-1])])
    joined = Choices(
        np.concatenate([x, change], axis=1),
        np.concatenate([one.choices.starts + at for one, at in zip(samples, sizes, strict=True)]),
        np.concatenate([one.choices.target for one in samples]),
        np.concatenate([one.choices.weight / one.choices.weight.sum() for one in samples]),
        np.concatenate([one.choices.offset for one in samples]),
    )
    ridge = np.array([RIDGE, SLOPE_RIDGE]) * (float(x.var()) + 1e-3)
    return [round(float(weight), 4) for weight in logit.fit(joined, np.zeros(2), ridge)]


def loss(weight: list[float], one: Sample) -> float:
    """Returns the mean loss of a sample with this weight and its change."""
    at = np.array([weight[0] + size_in_decades(one.requests) * weight[1]])
    return float(np.average(logit.log_loss(at, one.choices), weights=one.choices.weight))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the tasks (default: 'use' in PAM_DATA_DIR)")
    parser.add_argument("--locomo", type=Path, help="path of locomo10.json (default: found in PAM_DATA_DIR)")
    parser.add_argument("--git", type=Path, nargs="*", default=[], help="git repositories as further data")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--dry-run", action="store_true", help="write neither priors nor results")
    arguments = parser.parse_args()
    samples: list[Sample] = []
    for name, task in worlds(arguments, load_encoder(arguments.embedder)):
        total = len(task.experience)
        for n in sorted({size for size in SIZES if size < total} | {min(total, SIZES[-1])}):
            found = sample(name, last(task, n))
            if found is not None and found.choices.weight.any():
                samples.append(found)
                print(f"{name}, {n} requests: {fit([found])[0]}", flush=True)
    stored: dict[str, Any] = json.loads(WITHOUT.read_text("utf-8"))
    rows = []
    for left_out, weights in ((None, stored["all"]), *stored["without"].items()):
        others = fit([one for one in samples if one.data != left_out])
        for kind in KINDS:  # a stored memory as a cue has no such copies
            weights[kind][NEWNESS] = others if kind == KINDS[0] else [0.0, 0.0]
        rows += [
            {"data": one.data, "requests": one.requests, "without it": loss([0.0, 0.0], one), "with": loss(others, one)}
            for one in samples
            if one.data == left_out
        ]
        print(f"without {left_out}: {others}")
    print(
        report.table(
            [str(at) for at in range(len(rows))],
            {k: {str(i): row[k] for i, row in enumerate(rows)} for k in ("with", "without it")},
            digits=3,
        )
    )
    if arguments.dry_run:
        return
    about = json.loads(PRIORS.read_text("utf-8"))["about"]
    PRIORS.write_text(json.dumps({"about": about, "weights": stored["all"]}, indent=1) + "\n")
    WITHOUT.write_text(json.dumps(stored, indent=1) + "\n")
    print(
        report.write(
            "priors/newness", {"seed": 0, "sizes": SIZES, "weight": stored["all"][KINDS[0]][NEWNESS], "losses": rows}
        )
    )


if __name__ == "__main__":
    main()
