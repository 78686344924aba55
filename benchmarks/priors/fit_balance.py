"""``python -m benchmarks.priors.fit_balance``: how far two factors of the priors differ between data sets.

Before ``fit``, past requests that are asked again say how far to trust the appearance of memories, and past requests
(see ``Balance``). The prior of both factors is 1 with a deviation. This program tries several. Each data set of
``benchmarks.priors.fit_priors`` judges them by its last fifth of experience (a dialogue: half of its questions), after
some of the requests before it, with priors that were fitted without it. Then each data set is left out once, and the
others choose. The test parts are never read.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.priors.fit_priors import dialogue
from benchmarks.real.data import Encode, find, load_encoder
from benchmarks.real.dialogue import read as read_dialogues
from benchmarks.real.locomo import FILES
from benchmarks.real.use import evaluate_scores
from benchmarks.real.use_mixture import BATCH, corpus_of, evidence_builder, history, priors_for, question_cues
from benchmarks.real.use_tasks import TASKS, Scores, Task, last, read, some, tuning
from pam_retriever.retrieval.mixture.balance import SPREAD, Balance, asked_again
from pam_retriever.retrieval.mixture.feedback_evidence import evidence_of
from pam_retriever.retrieval.mixture.holdout import FULL_BELOW, PROPOSALS
from pam_retriever.retrieval.mixture.logit import log_softmax

SPREADS = (0.0, 0.09, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0)
SIZES = (30, 100, 300, 1000, 3000)
QUESTIONS = 400


def judged(name: str, folder: Path, embed: Encode) -> Iterator[Task]:
    """Yields tasks whose tests are questions of experience: one per number of past requests."""
    wholes = []
    if name == "locomo":
        for conversation in read_dialogues(find(None, FILES, __doc__ or "")):
            task = dialogue(conversation, embed)
            past, tests = np.array_split(np.arange(len(task.experience)), 2)
            none = np.full(len(tests), -1)
            wholes.append(
                replace(task, experience=task.experience.take(past), tests=task.experience.take(tests), cues=none)
            )
    else:
        wholes.append(some(tuning(read(folder / name, embed, with_tests=False), "judge"), QUESTIONS))
    for whole in wholes:
        total = len(whole.experience)
        for size in sorted({min(size, total) for size in SIZES}):
            yield last(whole, size)


def measure(task: Task) -> list[dict[str, float]]:
    """Returns the factors, the log loss of what was used, and R@5, for each deviation."""
    corpus = corpus_of(task)
    past, priors = history(task, corpus), priors_for(task.name, "without")
    log = past.log()
    evidence = evidence_builder(corpus)(log)
    asked = asked_again(log, corpus, priors, evidence_of)
    weights = priors.at(evidence.features, len(past))
    balances = [Balance() if not spread else Balance.fit(asked, spread) for spread in SPREADS]
    mixtures = [one.apply(evidence.features, weights) for one in balances]
    losses: list[list[Scores]] = [[] for _ in SPREADS]
    scores = [np.full((len(task.tests), len(task.texts)), -np.inf, np.float32) for _ in SPREADS]
    cues = question_cues(task, corpus)
    for start in range(0, len(cues), BATCH):
        batch = cues.take(np.arange(start, min(start + BATCH, len(cues))))
        pools = evidence.pools(batch, FULL_BELOW, PROPOSALS)
        features, influence = evidence.score(batch, pools), evidence.influence(batch)
        used = np.zeros((len(batch), len(task.texts)), np.float32)
        for at, rows in enumerate(task.tests.used[start : start + len(batch)]):
            used[at, rows] = 1
        used = pools.grid(used)
        known = np.add.reduceat(used, pools.starts) > 0  # else no source proposed what was used
        share = used / np.maximum(np.add.reduceat(used, pools.starts), 1)[pools.cue]
        for at, mixture in enumerate(mixtures):
            found = mixture.score(features, pools, np.zeros(len(batch), np.int64), influence)
            found = np.where(task.candidates[pools.row], found, np.float32(-1e4)).astype(np.float32)
            scores[at][start + pools.cue, pools.row] = found
            losses[at].append(-np.add.reduceat(share * log_softmax(found, pools.starts), pools.starts)[known])
    return [
        {
            "spread": spread,
            "appearance": balance.appearance,
            "use": balance.use,
            "loss": float(np.concatenate(loss).mean()),
            "R@5": evaluate_scores(task, one)["recall@5"].mean,
        }
        for spread, balance, loss, one in zip(SPREADS, balances, losses, scores, strict=True)
    ]


def best(losses: dict[str, Scores]) -> float:
    """Returns the deviation with the least mean loss over data sets, each with the same weight."""
    return SPREADS[int(np.argmin(np.mean(list(losses.values()), axis=0)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the tasks (default: 'use' in PAM_DATA_DIR)")
    parser.add_argument("--tasks", nargs="+", default=[*TASKS, "locomo"], help="subfolders, or locomo")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--name", default="priors/fit_balance", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    folder, embed = find(arguments.folder, ("use",), __doc__ or ""), load_encoder(arguments.embedder)
    rows: list[dict[str, Any]] = []
    for name in arguments.tasks:
        for one in judged(name, folder, embed):
            rows += [{"data": name, "requests": len(one.experience), **row} for row in measure(one)]
        print(f"{name}: done", flush=True)
    losses, recalls = {}, {}
    for name in dict.fromkeys(row["data"] for row in rows):
        mine = [[row for row in rows if row["data"] == name and row["spread"] == spread] for spread in SPREADS]
        losses[name] = np.array([np.mean([row["loss"] for row in some]) for some in mine])
        recalls[name] = np.array([np.mean([row["R@5"] for row in some]) for some in mine])
    for measured, title in ((losses, "log loss"), (recalls, "R@5")):
        columns = {
            name: dict(zip(map(str, SPREADS), values.tolist(), strict=True)) for name, values in measured.items()
        }
        print(f"\n{title}\n{report.table(list(map(str, SPREADS)), columns, digits=4)}")
    chosen = {"all": best(losses)} | {
        f"without {left_out}": best({n: v for n, v in losses.items() if n != left_out}) for left_out in losses
    }
    print(f"\nleast loss: {chosen}; the library has {SPREAD}")
    print(f"written to {report.write(arguments.name, {'seed': 0, 'chosen': chosen, 'rows': rows})}")


if __name__ == "__main__":
    main()
