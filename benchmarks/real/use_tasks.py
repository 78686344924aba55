"""Tasks of use: items (tools or files), requests that used them, and the parts of a task for each protocol."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.real.data import find
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.apps.code import Repository, learn, learning

Scores = npt.NDArray[np.float32]
TASKS = ("toollens", "code-flask", "code-brian2", "code-requests")
LAST = {"toollens": 6000, "debian-depends": 6000, "debian-tags": 6000}
ELSE_LAST = 3000
UNTIMED = ("toollens", "locomo", "debian-depends", "debian-tags")  # data sets without a meaningful order


@dataclass(frozen=True)
class Requests:
    """Texts of requests, and the positions of the items that each used."""

    texts: list[str]
    vectors: Scores
    used: list[list[int]]

    def take(self, at: npt.NDArray[np.int64]) -> Requests:
        return Requests([self.texts[n] for n in at], self.vectors[at], [self.used[n] for n in at])

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Task:
    """Items, past requests that used them, and test requests.

    ``cues`` are the positions of stored items that serve as queries, else -1. ``candidates`` are the items that may be
    ranked. Each of ``trajectories`` is the positions of items that were experienced one after the other. Items from
    position ``existing`` on were added after the experience.
    """

    name: str
    texts: list[str]
    vectors: Scores
    experience: Requests
    tests: Requests
    cues: npt.NDArray[np.int64]
    candidates: npt.NDArray[np.bool_]
    trajectories: list[list[int]] = field(default_factory=list)
    existing: int | None = None

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
    position = {row["id"]: at for at, row in enumerate(memories)}
    texts = [row["text"] for row in memories]

    def requests(rows: list[dict[str, Any]]) -> Requests:
        cues = [row["cue"] for row in rows]
        return Requests(cues, embed(cues), [[position[id] for id in row["used"]] for row in rows])

    experience = requests(_lines(folder / "experience.jsonl"))
    tests = requests(_lines(folder / "test.jsonl")) if with_tests else experience.take(np.empty(0, np.int64))
    none = np.full(len(tests), -1)
    return Task(folder.name, texts, embed(texts), experience, tests, none, np.ones(len(texts), bool))


def of_repository(path: Path, embed: Callable[[list[str]], Scores]) -> Task:
    """Reads a git repository as a task, as ``pam-retriever git`` does; the last fifth of the commits are tests."""
    index = PredictiveAssociativeIndex(1, embedder=lambda texts: np.ones((len(texts), 1), np.float32))
    learn(index, Repository(path))
    files = index.find({"kind": learning.FILE})
    position = {file.id: at for at, file in enumerate(files)}
    commits = [one for one in index.feedbacks() if one.text and one.text.strip()]
    texts, used = [str(one.text) for one in commits], [[position[id] for id in one.used] for one in commits]
    every, first = Requests(texts, embed(texts), used), round(0.8 * len(texts))
    contents = [str(file.text) for file in files]
    return Task(
        "code-own",
        contents,
        embed(contents),
        every.take(np.arange(first)),
        every.take(np.arange(first, len(texts))),
        np.full(len(texts) - first, -1),
        np.ones(len(contents), bool),
    )


def of_arguments(
    arguments: argparse.Namespace, embed: Callable[[list[str]], Scores], with_tests: bool, source: str
) -> Iterable[Task]:
    """Returns what a command line names: ``--repository``, or ``--tasks``; ``source`` says where to get these."""
    if arguments.repository is not None:
        return [of_repository(arguments.repository, embed)]
    folder = find(arguments.folder, ("use",), source)
    return (read(folder / name, embed, with_tests) for name in arguments.tasks)


def _lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def last(task: Task, n: int) -> Task:
    """Returns the task with only the last ``n`` experiences."""
    total = len(task.experience)
    return replace(task, experience=task.experience.take(np.arange(max(0, total - n), total)))


def never_used(task: Task) -> Task:
    """Removes a fifth of the items from experience; only the tests that used any of these are left."""
    struck = _drawn(len(task.texts), 5)
    return wanting(replace(task, experience=_without(task.experience, struck)), struck)


def added_since(task: Task) -> tuple[Task, npt.NDArray[np.bool_]]:
    """Returns the task with a tenth of the items added after the experience, as its last items, and a mask of these."""
    new = _drawn(len(task.texts), 10)
    order = np.argsort(new, kind="stable")
    position = np.argsort(order)

    def moved(requests: Requests) -> Requests:
        return replace(requests, used=[position[used].tolist() for used in requests.used])

    changed = replace(
        task,
        texts=[task.texts[at] for at in order],
        vectors=task.vectors[order],
        experience=moved(_without(task.experience, new)),
        tests=moved(task.tests),
        candidates=task.candidates[order],
        existing=int((~new).sum()),
    )
    return changed, new[order]


def wanting(task: Task, items: npt.NDArray[np.bool_]) -> Task:
    """Returns the task with only the tests that used any of the ``items`` (N,), which alone are relevant."""
    mine = np.array([at for at, used in enumerate(task.tests.used) if items[used].any()], np.int64)
    tests = task.tests.take(mine)
    tests = replace(tests, used=[[one for one in used if items[one]] for used in tests.used])
    return replace(task, tests=tests, cues=np.full(len(tests), -1))


def _drawn(n: int, part: int) -> npt.NDArray[np.bool_]:
    """Returns a mask (n,) of one in ``part`` items, drawn with seed 0."""
    drawn = np.zeros(n, bool)
    drawn[np.random.default_rng(0).permutation(n)[: n // part]] = True
    return drawn


def _without(requests: Requests, items: npt.NDArray[np.bool_]) -> Requests:
    """Returns the requests without the use of some items (N,), and without those that used nothing else."""
    left = [[at for at in used if not items[at]] for used in requests.used]
    mine = np.array([at for at, used in enumerate(left) if used], np.int64)
    return replace(requests.take(mine), used=[left[at] for at in mine])


def changed(task: Task) -> Iterator[tuple[str, Task]]:
    """Yields the tests with several files: one random file (seed 0) is the cue, the other files are the answer."""
    random = np.random.default_rng(0)
    experienced = {one for used in task.experience.used for one in used}
    several = [at for at, used in enumerate(task.tests.used) if len(set(used)) > 1]
    cues = np.array([int(random.choice(sorted(set(task.tests.used[at])))) for at in several])
    seen = np.array([cue in experienced for cue in cues.tolist()])
    for name, mine in (("seen", np.flatnonzero(seen)), ("never seen", np.flatnonzero(~seen))):
        if not len(mine):
            continue
        others = [sorted(set(task.tests.used[several[at]]) - {int(cues[at])}) for at in mine]
        tests = Requests([task.texts[cues[at]] for at in mine], task.vectors[cues[mine]], others)
        yield name, replace(task, tests=tests, cues=cues[mine])


def tuning(task: Task, stage: str) -> Task:
    """Returns a part of experience as tests, and the experience before it; later items are no candidates."""
    total = len(task.experience)
    start, end = (round(total * share) for share in ((0.64, 0.8) if stage == "weights" else (0.8, 1.0)))
    before = {one for used in task.experience.used[:start] for one in used}
    ever = {one for used in task.experience.used for one in used}
    candidates = np.array([at in before or at not in ever for at in range(len(task.texts))])
    requests = task.experience.take(np.arange(start, end))
    there = [[one for one in used if candidates[one]] for used in requests.used]
    some = np.array([at for at, used in enumerate(there) if used], np.int64)
    if not start or not len(some):
        raise SystemExit(
            f"{task.name} has {total} requests. Expected earlier requests, and one of the last {end - start} with "
            "an item that they used. Take more of the data."
        )
    tests = replace(requests.take(some), used=[there[at] for at in some])
    training = task.experience.take(np.arange(start))
    return replace(task, experience=training, tests=tests, cues=np.full(len(tests), -1), candidates=candidates)


def some(task: Task, most: int) -> Task:
    """Returns the task with at most ``most`` of its tests, drawn with seed 0."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(task.tests))[:most])
    return replace(task, tests=task.tests.take(chosen), cues=task.cues[chosen])
