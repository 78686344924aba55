"""Commits of a repository in order, for ``benchmarks.real.next``: which files the next commit touches.

A folder holds ``memories.jsonl``, ``{id, text}`` of each file, and ``experience.jsonl`` and ``test.jsonl``,
``{time, cue, used}`` of each commit in order of time: ``used`` are the files that it touches.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Repository:
    """Files, and the commits that touched them.

    Attributes:
        texts: of each file.
        commits: the files of each commit, as places in ``texts``, in order of time.
        tests: how many of the commits are the test, the last ones.
    """

    texts: list[str]
    commits: list[Rows]
    tests: int

    def tuning(self) -> Repository:
        """The commits before the test, the last fifth of which is asked."""
        known = self.commits[: len(self.commits) - self.tests]
        return Repository(self.texts, known, len(known) // 5)


def read(folder: Path) -> Repository:
    """The repository of a folder.

    Raises:
        SystemExit: a file is missing.
    """
    if not (folder / "memories.jsonl").is_file():
        sys.exit(f"{folder / 'memories.jsonl'} is missing.\n{__doc__}")
    memories = _lines(folder / "memories.jsonl")
    place = {memory["id"]: at for at, memory in enumerate(memories)}
    parts = [
        [np.array([place[id] for id in commit["used"] if id in place], np.int64) for commit in _lines(folder / name)]
        for name in ("experience.jsonl", "test.jsonl")
    ]
    return Repository([memory["text"] for memory in memories], [*parts[0], *parts[1]], len(parts[1]))


def _lines(path: Path) -> list[dict[str, list[str]]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
