"""``python -m benchmarks.real.use``: requests, and the items (tools or files) that each used.

Each task is a folder with ``memories.jsonl`` ({id, text}), ``experience.jsonl`` and ``test.jsonl`` ({time, cue, used}),
rows by time. ToolLens (requests and tools; COLT, CIKM 2024) is at https://github.com/quchangle1/COLT; it has no times.
Commit messages and files of a repository come from ``git log --name-only``. Pass the folder that contains the tasks, or
set ``PAM_DATA_DIR`` to the folder that contains ``use``.

Protocols: ``use`` runs the tests after the last 6,000 (ToolLens) or 3,000 experiences and after all of them; ``curve``
after the last 100, 300, ...; ``never`` after a fifth of the items was removed from experience; ``added`` if a tenth of
them was added after it; ``changed`` gives one file of a test as the cue, and the other files are relevant. The 400
tests are ``numpy.random.default_rng(0).permutation(len(test))[:400]``, sorted. ``--tune`` never reads the tests: it
learns from the first 64 % and judges on the next 16 % or on the last 20 % of experience. ``--repository`` takes a git
repository instead of the tasks, as ``pam-retriever git`` reads it; its last fifth of commits are the tests.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.real import use_baselines
from benchmarks.real.data import load_encoder
from benchmarks.real.use_mixture import FITTED, PRIORS_ALONE, library_scores
from benchmarks.real.use_tasks import (
    ELSE_LAST,
    LAST,
    TASKS,
    UNTIMED,
    Scores,
    Task,
    added_since,
    changed,
    last,
    never_used,
    of_arguments,
    some,
    tuning,
    wanting,
)
from pam_retriever.evaluation import Evaluation, evaluate_rankings, interval

CURVE = (100, 300, 1000, 3000, 6000, 10**9)
TESTS = 400
KS = (5, 10)
PROTOCOLS = ("use", "all", "curve", "never", "added", "changed")


def evaluate_scores(task: Task, scores: Scores) -> Evaluation:
    """Returns recall, also of each question, for (Q, N) scores."""
    allowed = np.where(task.candidates, scores, -np.inf)
    with_cue = np.flatnonzero(task.cues >= 0)
    allowed[with_cue, task.cues[with_cue]] = -np.inf
    ranked = np.argsort(-allowed, axis=1, kind="stable")[:, : max(KS)]
    return evaluate_rankings(ranked.tolist(), [set(used) for used in task.tests.used], ks=KS)


def evaluate(task: Task, scores: Scores) -> dict[str, Any]:
    """Returns R@5 and R@10 with confidence intervals."""
    found = evaluate_scores(task, scores)
    return {f"R@{k}": vars(found[f"recall@{k}"]) for k in KS}


def gains(task: Task, scores: dict[str, Scores], ours: str) -> dict[str, Any]:
    """Returns the gain of one method over each other, with 95 % intervals of the differences, question by question."""
    of_each = {name: evaluate_scores(task, one).per_question for name, one in scores.items()}
    mine = of_each.pop(ours)
    metrics = {f"R@{k}": f"recall@{k}" for k in KS}
    return {
        name: {short: vars(interval(mine[metric] - theirs[metric])) for short, metric in metrics.items()}
        for name, theirs in of_each.items()
    }


def run(task: Task, options: dict[str, Any]) -> dict[str, Any]:
    """Runs every baseline and the library on one task: all its tests, and the 400 tests of the tables."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(task.tests))[:TESTS])
    few = some(task, TESTS)
    reported: dict[str, Any] = {}
    started = time.perf_counter()
    found = use_baselines.scores(task, options["fit"])
    between = time.perf_counter()
    found |= library_scores(task, options, reported)
    seconds = {"baselines": between - started, "library": time.perf_counter() - between}
    return {
        "experiences": len(task.experience),
        "tests": len(task.tests),
        "seconds": seconds,
        "all tests": {name: evaluate(task, scores) for name, scores in found.items()},
        "400 tests": {name: evaluate(few, scores[chosen]) for name, scores in found.items()},
        "400 tests, gain of the mixture": gains(
            few, {name: one[chosen] for name, one in found.items()}, FITTED if options["fit"] else PRIORS_ALONE
        ),
        **reported,
    }


def protocols(task: Task, chosen: list[str]) -> Iterator[tuple[str, Task]]:
    """Yields the name and the task of every run."""
    few = LAST.get(task.name, ELSE_LAST)
    if "use" in chosen:
        yield f"last {few}", last(task, few)
    if "all" in chosen:
        yield "all", task
    if "curve" in chosen:
        for n in CURVE:
            if n < len(task.experience) or n == CURVE[-1]:
                yield f"curve {min(n, len(task.experience))}", last(task, n)
    if "never" in chosen:
        yield "never used", never_used(last(task, few))
    if "added" in chosen:
        found, new = added_since(last(task, few))
        yield "a tenth added since", found
        yield "a tenth added since, requests that need these", wanting(found, new)
        there = replace(found, existing=None)
        yield "the same, as if these had been there", there
        yield "the same, requests that need these", wanting(there, new)
    if "changed" in chosen and task.name not in UNTIMED:
        for name, one in changed(last(task, few)):
            yield f"changed, {name}", one


def show(name: str, found: dict[str, Any]) -> None:
    columns = {
        f"R@{k}, {tests}": {method: row[f"R@{k}"]["mean"] for method, row in found[tests].items()}
        for tests in ("400 tests", "all tests")
        for k in KS
    }
    print(f"\n{name}: {found['experiences']:,} experiences, {found['tests']:,} tests")
    print(report.table(list(found["all tests"]), columns, digits=3))
    print("calibration:", {name: round(value, 4) for name, value in found["calibration"].items()}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the tasks (default: 'use' in PAM_DATA_DIR)")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), help="tasks to run, each a subfolder")
    parser.add_argument("--repository", type=Path, help="a git repository to use instead of the tasks")
    parser.add_argument("--protocols", nargs="+", default=["use"], choices=PROTOCOLS)
    parser.add_argument(
        "--tune", choices=["weights", "judge"], help="use a part of the experience as queries instead of the tests"
    )
    parser.add_argument(
        "--priors",
        choices=["shipped", "without"],
        default="without",
        help="'without' uses priors that were fitted without the data of the task",
    )
    parser.add_argument("--without-fit", action="store_true", help="only what answers before a fit")
    parser.add_argument("--most", type=int, help="with --tune: largest number of queries, drawn with seed 0")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--name", default="real/use", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    embed = load_encoder(arguments.embedder)
    results: dict[str, Any] = {}
    for task in of_arguments(arguments, embed, arguments.tune is None, __doc__ or ""):
        name = task.name
        if arguments.tune:
            task = tuning(task, arguments.tune)
            task = some(task, arguments.most or len(task.tests))
        results[name] = {}
        for protocol, one in protocols(task, arguments.protocols):
            if not len(one.tests):
                print(f"\n{name}, {protocol}: no request needs these")
                continue
            options = {"priors": arguments.priors, "seed": 0, "fit": not arguments.without_fit}
            results[name][protocol] = run(one, options)
            show(f"{name}, {protocol}", results[name][protocol])
    written = report.write(
        arguments.name, {"seed": 0, "tune": arguments.tune, "priors": arguments.priors, "tasks": results}
    )
    print(f"\nwritten to {written}")


if __name__ == "__main__":
    main()
