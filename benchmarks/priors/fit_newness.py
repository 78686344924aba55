"""``python -m benchmarks.priors.fit_newness``: the weight of new memories before ``fit``.

Nothing has used a memory that was just added, and past requests say nothing against it (see ``Newness``). The weight
is fitted with all other weights fixed, on held-out requests of the data of ``benchmarks.priors.fit_priors``: a fifth of
the used memories is hidden from copies of these requests, as if they had been added since. Each data set is left out
once. The test parts are never read. Run it after ``fit_priors``, which does not determine this weight.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.priors.fit_priors import SIZES, WITHOUT, Sample, fit, loss, named, sizes_of, worlds
from benchmarks.real.data import load_encoder
from benchmarks.real.use_mixture import corpus_of, evidence_builder, history, priors_for
from benchmarks.real.use_tasks import Task, last
from pam_retriever.retrieval.mixture.balance import Balance
from pam_retriever.retrieval.mixture.feedback_evidence import evidence_of
from pam_retriever.retrieval.mixture.holdout import ask_held_out
from pam_retriever.retrieval.mixture.influence import OF_USE
from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.retrieval.mixture.mixture import PRIORS, reserve_for_unused
from pam_retriever.retrieval.mixture.popularity import NEWNESS
from pam_retriever.store.feedback_fit import KINDS


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
    return Sample(name, len(past), 0.0, (NEWNESS,), found)  # all weights of the other features are in the offset


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
        for n in sizes_of(task):
            found = sample(name, last(task, n))
            if found is not None and found.choices.weight.any():
                samples.append(found)
                print(f"{name}, {n} requests: {fit([found], (NEWNESS,))[0, 0]:.4f}", flush=True)
    stored: dict[str, Any] = json.loads(WITHOUT.read_text("utf-8"))
    rows = []
    for left_out, weights in ((None, stored["all"]), *stored["without"].items()):
        others = fit([one for one in samples if one.data != left_out], (NEWNESS,))
        weights[KINDS[0]] |= named(others, (NEWNESS,))
        for kind in KINDS[1:]:  # a stored memory as a cue has no such copies
            weights[kind][NEWNESS] = [0.0, 0.0]
        rows += [
            {
                "data": one.data,
                "requests": one.requests,
                "without it": loss(np.zeros((2, 1)), one),
                "with": loss(others, one),
            }
            for one in samples
            if one.data == left_out
        ]
        print(f"without {left_out}: {weights[KINDS[0]][NEWNESS]}")
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
