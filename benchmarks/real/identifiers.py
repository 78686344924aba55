"""``python -m benchmarks.real.identifiers``: words such as ``HTTPDigestAuth``, with and without their parts.

The tasks are those of ``benchmarks.real.use``; nothing is learnt from experience. Each test request asks for the items
that it used, by BM25 of their texts alone. "Without parts" has all texts and requests in lower case, where no word has
parts. ``--tune`` takes a part of the experience as requests, and never reads the tests.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.real.scripts import library
from benchmarks.real.use import evaluate, gains
from benchmarks.real.use_tasks import TASKS, Task, of_arguments, some, tuning
from pam_retriever.types import Float32


def by_words(task: Task, lower: bool) -> Float32:
    """Returns the BM25 (Q, N) of each item for each request."""
    texts, requests = task.texts, task.tests.texts
    if lower:
        texts, requests = [text.lower() for text in texts], [text.lower() for text in requests]
    ask = library(texts)
    return np.stack([ask(request) for request in requests]).astype(np.float32)


def run(task: Task) -> dict[str, Any]:
    scores = {"without parts": by_words(task, lower=True), "with parts": by_words(task, lower=False)}
    gain = gains(task, scores, "with parts")["without parts"]
    return {"tests": len(task.tests), **{name: evaluate(task, one) for name, one in scores.items()}, "gain": gain}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the tasks (default: 'use' in PAM_DATA_DIR)")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), help="tasks to run, each a subfolder")
    parser.add_argument("--repository", type=Path, help="a git repository to use instead of the tasks")
    parser.add_argument("--tune", choices=["weights", "judge"], help="use a part of the experience as requests")
    parser.add_argument("--most", type=int, help="largest number of requests, drawn with seed 0")
    parser.add_argument("--name", default="real/identifiers", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()

    def no_vectors(texts: list[str]) -> Float32:
        return np.zeros((len(texts), 1), np.float32)

    results = {}
    for task in of_arguments(arguments, no_vectors, arguments.tune is None, __doc__ or ""):
        name = task.name
        if arguments.tune:
            task = tuning(task, arguments.tune)
        results[name] = run(some(task, arguments.most or len(task.tests)))
    rows = ["without parts", "with parts", "gain"]
    columns = {
        f"{name}, {k}": {row: found[row][k]["mean"] for row in rows}
        for name, found in results.items()
        for k in ("R@5", "R@10")
    }
    print(report.table(rows, columns, digits=3))
    print(f"\nwritten to {report.write(arguments.name, {'seed': 0, 'tune': arguments.tune, 'tasks': results})}")


if __name__ == "__main__":
    main()
