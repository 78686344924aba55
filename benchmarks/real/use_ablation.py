"""``python -m benchmarks.real.use_ablation``: the effect of each source of the retrieval mixture, on experience.

Every variant learns from the first 80 % of experience and is measured on the rest (``--tune judge`` of
``benchmarks.real.use``, which also names the origin of the data). The tests are never read. ``locomo`` is the first two
dialogues of LoCoMo: a fifth of a dialogue's questions is asked after the others were feedback, five times. A source is
left out of both the fit and the ranking. The priors were fitted without the task's own data. "lost" is the recall
without a source, subtracted from that of all sources, question by question.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.priors.fit_priors import dialogue
from benchmarks.real.data import Encode, find
from benchmarks.real.dialogue import read as read_dialogues
from benchmarks.real.documents import cached_encoder
from benchmarks.real.locomo import FILES, TUNED_ON
from benchmarks.real.use import KS, evaluate_scores
from benchmarks.real.use_mixture import corpus_of, evidence_builder, history, priors_for, question_cues
from benchmarks.real.use_tasks import ELSE_LAST, LAST, TASKS, Task, last, read, tuning
from pam_retriever.evaluation import mean_interval
from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.fitting import sample
from pam_retriever.retrieval.mixture.holdout import FULL_BELOW, PROPOSALS, ask_held_out
from pam_retriever.retrieval.mixture.mixture import NEVER_USED

Scores = npt.NDArray[np.float32]
RIDGE = 1e-2
BATCH = 64
FOLDS = 5
ALL = "all sources"
Recalls = dict[str, npt.NDArray[np.float64]]
"""(Q, 2) recall at 5 and 10 of each question, by the name of the variant."""


def parts(name: str, folder: Path, embed: Encode) -> Iterator[Task]:
    """Yields the tasks of a data set; their questions are judged together."""
    if name != "locomo":
        yield last(tuning(read(folder / name, embed, with_tests=False), "judge"), LAST.get(name, ELSE_LAST))
        return
    for conversation in read_dialogues(find(None, FILES, __doc__ or ""))[:TUNED_ON]:
        task = dialogue(conversation, embed)
        fold = np.arange(len(task.experience)) % FOLDS
        for one in range(FOLDS):
            tests = task.experience.take(np.flatnonzero(fold == one))
            training = task.experience.take(np.flatnonzero(fold != one))
            yield replace(task, experience=training, tests=tests, cues=np.full(len(tests), -1))


def ablate(task: Task) -> Recalls:
    """Returns R@5 and R@10 of all sources, and of all but each, for queries by text."""
    corpus = corpus_of(task)
    past, make = history(task, corpus), evidence_builder(corpus)
    log = past.log()
    evidence = make(log)
    features = evidence.features
    prior = priors_for(task.name, "without").at(features, len(past), log.novelty)[0].astype(float)
    held_out = ask_held_out(past, make, seed=0)[0]
    if held_out is None:
        raise SystemExit(f"{task.name} has too little experience to hold out.")
    choices = sample(held_out.choices, prior)
    scale = choices.features.var(axis=0).astype(float) + 1e-3
    left_out = {ALL: np.ones(len(features), bool)}
    for source in evidence.sources:
        left_out[f"all but {source.name}"] = _without(features, source.features)
    left_out["all but never used"] = np.array([not name.startswith(NEVER_USED) for name in features])
    weights = {}
    for name, used in left_out.items():
        ridge = np.where(used, RIDGE * scale, 1e9)  # keeps the weights of the removed source at 0
        weights[name] = logit.fit(choices, np.where(used, prior, 0.0), ridge)
    found = {name: np.full((len(task.tests), len(task.texts)), -np.inf, np.float32) for name in weights}
    cues = question_cues(task, corpus)
    for start in range(0, len(cues), BATCH):
        some = cues.take(np.arange(start, min(start + BATCH, len(cues))))
        pools = evidence.pools(some, FULL_BELOW, PROPOSALS)
        scored = evidence.score(some, pools)
        for name, w in weights.items():
            found[name][start + pools.cue, pools.row] = scored @ w.astype(np.float32)
    judged = {name: evaluate_scores(task, scores).per_question for name, scores in found.items()}
    return {name: np.stack([one[f"recall@{k}"] for k in KS], axis=1) for name, one in judged.items()}


def summary(found: list[Recalls]) -> dict[str, dict[str, Any]]:
    """Returns each variant's recalls and losses with their intervals, over the questions of all parts."""
    rows = {name: np.concatenate([one[name] for one in found]) for name in found[0]}
    return {
        name: {
            **{f"R@{k}": vars(mean_interval(values[:, at])) for at, k in enumerate(KS)},
            **{f"lost R@{k}": vars(mean_interval((rows[ALL] - values)[:, at])) for at, k in enumerate(KS)},
        }
        for name, values in rows.items()
    }


def _without(features: tuple[str, ...], dropped: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    return np.array([name.removeprefix(f"{NEVER_USED}:") not in dropped for name in features])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the tasks (default: 'use' in PAM_DATA_DIR)")
    parser.add_argument("--tasks", nargs="+", default=[*TASKS, "locomo"], help="subfolders, or locomo")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--embeddings", type=Path, default=Path(tempfile.gettempdir()) / "pam-ablation")
    parser.add_argument("--name", default="real/use-ablation", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    folder = find(arguments.folder, ("use",), __doc__ or "")
    embed = cached_encoder(arguments.embedder, arguments.embeddings)
    results: dict[str, Any] = {}
    for name in arguments.tasks:
        results[name] = summary([ablate(task) for task in parts(name, folder, embed)])
        measures = [f"{kind}R@{k}" for kind in ("", "lost ") for k in KS]
        columns = {
            measure: {row: found[measure]["mean"] for row, found in results[name].items()} for measure in measures
        }
        print(f"\n{name}\n{report.table(list(results[name]), columns, digits=3)}", flush=True)
    print(f"\nwritten to {report.write(arguments.name, {'seed': 0, 'ridge': RIDGE, 'tasks': results})}")


if __name__ == "__main__":
    main()
