"""``python -m benchmarks.code.speed``: the time that code memory needs to read a history, without the embedder.

It reads a synthetic repository (``benchmarks/code/histories.py``) of 10,000 commits, then 100 more commits; and a real
one. The embedder returns random vectors by the hash of the text, and its time is subtracted. The time of ``git log``
alone is also reported, and the time of pygit2 if it is installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.code.histories import History, grow
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.apps.code.learning import learn
from pam_retriever.apps.code.memory import CodeMemory
from pam_retriever.apps.code.repository import Repository
from pam_retriever.embedding import Embedder

DIM = 384


class Stopwatch:
    """An embedder that makes vectors from hashes, and measures its own time."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, texts: list[str]) -> np.ndarray:
        began = time.perf_counter()
        rows = [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIM, np.float32) for text in texts]
        self.seconds += time.perf_counter() - began
        return np.array(rows)


def update_once(folder: Path, repository: Repository) -> dict[str, Any]:
    """Opens the index as a new process would, updates it, and closes it."""
    embedder = Stopwatch()
    began, cpu = time.perf_counter(), time.process_time()
    with PredictiveAssociativeIndex.open(folder, embedder=embedder) as index:
        report = learn(index, repository)
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    return {
        "commits": report.commits,
        "giant": report.giant,
        "files": report.added + report.changed,
        "seconds": round(seconds - embedder.seconds, 2),
        "cpu seconds of this process": round(used - embedder.seconds, 2),
        "embedder": round(embedder.seconds, 2),
    }


def questions(folder: Path) -> dict[str, Any]:
    """Returns the seconds of the first query of a new process, of the next ten together, and of ``changed_with``."""
    embedder = Stopwatch()
    began = time.perf_counter()
    with PredictiveAssociativeIndex.open(folder, embedder=embedder, read_only=True) as index:
        memory = CodeMemory(index, Embedder(embedder))
        memory.recall("retry on connection reset")
        first = time.perf_counter() - began
        began = time.perf_counter()
        for number in range(10):
            hits = memory.recall(f"fix the token cache {number}")
        ten = time.perf_counter() - began
        began = time.perf_counter()
        memory.changed_with([hits[0].path])
        return {"first": round(first, 2), "ten more": round(ten, 2), "changed": round(time.perf_counter() - began, 2)}


def diff_seconds(path: Path) -> dict[str, float | None]:
    """Returns the seconds to read all changes: by git, and by pygit2."""
    began = time.perf_counter()
    repository = Repository(path)
    count = sum(1 for _ in repository.commits(repository.commit("HEAD")))
    found: dict[str, float | None] = {"commits": count, "git": round(time.perf_counter() - began, 2), "pygit2": None}
    try:
        import pygit2
    except ImportError:
        return found
    began = time.perf_counter()
    other = pygit2.Repository(str(path))
    for commit in other.walk(other.head.target, pygit2.enums.SortMode.TOPOLOGICAL):
        if len(commit.parents) == 1:
            difference = other.diff(commit.parents[0], commit)
            difference.find_similar()
            sum(1 for _ in difference.deltas)
    return found | {"pygit2": round(time.perf_counter() - began, 2)}


def synthetic(commits: int, more: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / "repository")
        grow(history, commits, random)
        history.write()
        repository = Repository(history.folder)
        found = {"whole": update_once(Path(folder) / "index", repository), "walk": diff_seconds(history.folder)}
        grow(history, more, random)
        history.write()
        found["more"] = update_once(Path(folder) / "index", repository)
        found["nothing new"] = update_once(Path(folder) / "index", repository)
        return found | {"questions": questions(Path(folder) / "index")}


def real(path: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return {
            "whole": update_once(Path(folder), Repository(path)),
            "walk": diff_seconds(path),
            "questions": questions(Path(folder)),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--more", type=int, default=100, help="number of commits to add after the first update")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--repository", type=Path, default=Path(), help="a real git repository to read (default: .)")
    parser.add_argument(
        "--note", default="", help="a remark for the result, for example about other load on the machine"
    )
    parser.add_argument("--name", default="code/speed", help="name of the JSON file in benchmarks/results")
    parsed = parser.parse_args()
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    runs = [synthetic(parsed.commits, parsed.more, seed) for seed in range(parsed.runs)]
    result = {"note": parsed.note, "git": git, "made up": runs, "real": real(parsed.repository)}
    print(json.dumps(result, indent=1))
    print(report.write(parsed.name, result))


if __name__ == "__main__":
    main()
