"""``python -m benchmarks.real.use``: requests, and the things that they used.

Each task is a folder with ``memories.jsonl`` ({id, text}), ``experience.jsonl`` and ``test.jsonl`` ({time, cue, used}),
rows by time. ToolLens (requests and tools; COLT, CIKM 2024) is at https://github.com/quchangle1/COLT; it has no times.
Commit messages and files of a repository come from ``git log --name-only``. Pass the folder that contains the tasks, or
set ``PAM_DATA_DIR`` to the folder that contains ``use``.

Protocols: ``use`` runs the tests after the last 6,000 (ToolLens) or 3,000 experiences and after all of them; ``curve``
after the last 100, 300, ...; ``never`` after a fifth of the things was removed from experience; ``changed`` gives one
file of a test, and the others are the answer. The 400 tests are
``numpy.random.default_rng(0).permutation(len(test))[:400]``, sorted. ``--tune`` never reads the tests: it learns from
the first 64 % and judges on the next 16 % or on the last 20 % of experience.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.real import use_baselines
from benchmarks.real.data import find, load_encoder
from benchmarks.real.use_mixture import library_scores
from pam_retriever.evaluation import evaluate_rankings

Scores = npt.NDArray[np.float32]
TASKS = ("toollens", "code-flask", "code-brian2", "code-requests")
LAST = {"toollens": 6000}
ELSE_LAST = 3000
CURVE = (100, 300, 1000, 3000, 6000, 10**9)
UNTIMED = ("toollens", "locomo")  # data sets without a meaningful order
TESTS = 400
KS = (5, 10)


@dataclass(frozen=True)
class Requests:
    """Requests in words, and the positions of the things that each used."""

    texts: list[str]
    vectors: Scores
    used: list[list[int]]

    def take(self, at: npt.NDArray[np.int64]) -> Requests:
        return Requests([self.texts[n] for n in at], self.vectors[at], [self.used[n] for n in at])

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Task:
    """Things, past requests for them, and test requests.

    ``cues`` are positions of things if the query is a stored thing, else -1 each. ``candidates`` are the things that
    may be ranked. ``trajectories`` are positions of things that were experienced one after the other.
    """

    name: str
    texts: list[str]
    vectors: Scores
    experience: Requests
    tests: Requests
    cues: npt.NDArray[np.int64]
    candidates: npt.NDArray[np.bool_]
    trajectories: list[list[int]] = field(default_factory=list)

    @property
    def timed(self) -> bool:
        return self.name not in UNTIMED

    @property
    def names(self) -> list[str]:
        """Returns file paths or tool names: the text up to the first line break or the description."""
        return [text.split("\n")[0].split(", api_description")[0] for text in self.texts]


def read(folder: Path, embed: Callable[[list[str]], Scores], with_tests: bool) -> Task:
    """Reads one task; ``with_tests`` is False to leave the tests unread."""
    memories = _lines(folder / "memories.jsonl")
    place = {row["id"]: at for at, row in enumerate(memories)}
    texts = [row["text"] for row in memories]

    def requests(rows: list[dict[str, Any]]) -> Requests:
        cues = [row["cue"] for row in rows]
        return Requests(cues, embed(cues), [[place[id] for id in row["used"]] for row in rows])

    experience = requests(_lines(folder / "experience.jsonl"))
    tests = requests(_lines(folder / "test.jsonl")) if with_tests else experience.take(np.empty(0, np.int64))
    none = np.full(len(tests), -1)
    return Task(folder.name, texts, embed(texts), experience, tests, none, np.ones(len(texts), bool))


def _lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def last(task: Task, n: int) -> Task:
    """Returns the task with only the last ``n`` experiences."""
    total = len(task.experience)
    return replace(task, experience=task.experience.take(np.arange(max(0, total - n), total)))


def never_used(task: Task) -> tuple[Task, npt.NDArray[np.bool_]]:
    """Removes a fifth of the things from experience; returns which, and the tests whose answers are among them."""
    struck = np.zeros(len(task.texts), bool)
    struck[np.random.default_rng(0).permutation(len(struck))[: len(struck) // 5]] = True
    left = [[at for at in used if not struck[at]] for used in task.experience.used]
    kept = np.array([at for at, used in enumerate(left) if used])
    experience = replace(task.experience.take(kept), used=[left[at] for at in kept])
    asked = np.array([at for at, used in enumerate(task.tests.used) if any(struck[one] for one in used)])
    tests = task.tests.take(asked)
    tests = replace(tests, used=[[one for one in used if struck[one]] for used in tests.used])
    return replace(task, experience=experience, tests=tests, cues=np.full(len(tests), -1)), struck


def changed(task: Task) -> Iterator[tuple[str, Task]]:
    """Gives one file of each test that has several, drawn with seed 0; the others are the answer."""
    random = np.random.default_rng(0)
    experienced = {one for used in task.experience.used for one in used}
    several = [at for at, used in enumerate(task.tests.used) if len(set(used)) > 1]
    cues = np.array([int(random.choice(sorted(set(task.tests.used[at])))) for at in several])
    seen = np.array([cue in experienced for cue in cues.tolist()])
    for name, mine in (("seen", np.flatnonzero(seen)), ("never seen", np.flatnonzero(~seen))):
        if not len(mine):
            continue
        others = [sorted(set(task.tests.used[several[at]]) - {int(cues[at])}) for at in mine]
        asked = Requests([task.texts[cues[at]] for at in mine], task.vectors[cues[mine]], others)
        yield name, replace(task, tests=asked, cues=cues[mine])


def tuning(task: Task, stage: str) -> Task:
    """Returns a part of experience to judge on, and the experience before it; later things are no candidates."""
    total = len(task.experience)
    start, end = (round(total * share) for share in ((0.64, 0.8) if stage == "weights" else (0.8, 1.0)))
    before = {one for used in task.experience.used[:start] for one in used}
    ever = {one for used in task.experience.used for one in used}
    candidates = np.array([at in before or at not in ever for at in range(len(task.texts))])
    asked = task.experience.take(np.arange(start, end))
    there = [[one for one in used if candidates[one]] for used in asked.used]
    some = np.array([at for at, used in enumerate(there) if used])
    tests = replace(asked.take(some), used=[there[at] for at in some])
    known = task.experience.take(np.arange(start))
    return replace(task, experience=known, tests=tests, cues=np.full(len(tests), -1), candidates=candidates)


def some(task: Task, most: int) -> Task:
    """Returns the task with ``most`` of its tests, drawn with seed 0."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(task.tests))[:most])
    return replace(task, tests=task.tests.take(chosen), cues=task.cues[chosen])


def judge(task: Task, scores: Scores) -> dict[str, Any]:
    """Returns R@5 and R@10 with intervals."""
    allowed = np.where(task.candidates, scores, -np.inf)
    asked = np.flatnonzero(task.cues >= 0)
    allowed[asked, task.cues[asked]] = -np.inf
    ranked = np.argsort(-allowed, axis=1, kind="stable")[:, : max(KS)]
    found = evaluate_rankings(ranked.tolist(), [set(used) for used in task.tests.used], ks=KS)
    return {f"R@{k}": vars(found[f"recall@{k}"]) for k in KS}


def run(task: Task, options: dict[str, Any]) -> dict[str, Any]:
    """Runs every baseline and the library on one task: all its tests, and the 400 tests of the tables."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(task.tests))[:TESTS])
    few = some(task, TESTS)
    reported: dict[str, Any] = {}
    started = time.perf_counter()
    found = use_baselines.scores(task)
    between = time.perf_counter()
    found |= library_scores(task, options, reported)
    seconds = {"baselines": between - started, "library": time.perf_counter() - between}
    return {
        "experiences": len(task.experience),
        "tests": len(task.tests),
        "seconds": seconds,
        "all tests": {name: judge(task, scores) for name, scores in found.items()},
        "400 tests": {name: judge(few, scores[chosen]) for name, scores in found.items()},
        **reported,
    }


def protocols(task: Task, chosen: list[str]) -> Iterator[tuple[str, Task]]:
    """Yields name and task of every run."""
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
        yield "never used", never_used(last(task, few))[0]
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
    parser.add_argument("--protocols", nargs="+", default=["use"], choices=["use", "all", "curve", "never", "changed"])
    parser.add_argument(
        "--tune", choices=["weights", "judge"], help="use a part of the experience as queries instead of the tests"
    )
    parser.add_argument(
        "--priors",
        choices=["shipped", "without"],
        default="without",
        help="'without' uses priors that were fitted without the data of the task",
    )
    parser.add_argument("--most", type=int, help="with --tune: largest number of queries, drawn with seed 0")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--name", default="real/use", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    folder = find(arguments.folder, ("use",), __doc__ or "")
    embed = load_encoder(arguments.embedder)
    results: dict[str, Any] = {}
    for name in arguments.tasks:
        task = read(folder / name, embed, with_tests=arguments.tune is None)
        if arguments.tune:
            task = tuning(task, arguments.tune)
            task = some(task, arguments.most or len(task.tests))
        results[name] = {}
        for protocol, one in protocols(task, arguments.protocols):
            options = {"priors": arguments.priors, "seed": 0}
            results[name][protocol] = run(one, options)
            show(f"{name}, {protocol}", results[name][protocol])
    written = report.write(
        arguments.name, {"seed": 0, "tune": arguments.tune, "priors": arguments.priors, "tasks": results}
    )
    print(f"\nwritten to {written}")


if __name__ == "__main__":
    main()
