"""``python -m benchmarks.real.little``: recall after a ``fit`` on little experience, against a plain vector store.

A learning curve over the number of trajectories. Cues by id are memories that were never experienced; relevant is what
they are experienced with later. With texts, later requests are queries, too: by vector, and with their words. Each
kind is asked of ``search``, of ``recall`` before the fit, and of ``recall`` after it. The confidence is judged by the
same event. Only tuning parts are read: the first halves of the documents, the experience of the tasks of use, the first
two dialogues, the tuning walks, and world 7. The data come from ``PAM_DATA_DIR``; the other modules of this folder name
their sources.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.real import little_tasks
from benchmarks.real.data import find
from benchmarks.real.documents import cached_encoder
from benchmarks.real.little_tasks import Little
from benchmarks.real.locomo import FILES
from pam_retriever import Hits, PredictiveAssociativeIndex
from pam_retriever.evaluation import mean_interval
from pam_retriever.retrieval.mixture.calibration import expected_calibration_error, log_loss

KS = (5, 10)
SIZES = (20, 60, 200, 600)
SESSIONS = (1, 2, 4, 8, 16)
TASKS: dict[str, tuple[Callable[..., Any], tuple[str, ...], tuple[int, ...]]] = {
    **{name: (little_tasks.documents, (f"documents/{name}.jsonl",), SIZES) for name in ("hotpot", "2wiki", "musique")},
    **{
        name: (little_tasks.requests, (f"use/{name}",), SIZES)
        for name in ("toollens", "code-flask", "code-requests", "code-brian2")
    },
    "locomo": (little_tasks.dialogues, FILES, SESSIONS),
    "locomo together": (little_tasks.together, FILES, (8, 14)),
    "wikispeedia": (little_tasks.walks, ("wikispeedia",), (*SIZES, 3000)),
    "world 7": (little_tasks.world, (), (5, 20, 60, 95)),
}
KINDS = ("id", "vector", "words")
Recalls = npt.NDArray[np.float64]


def build(task: Little) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(task.vectors.shape[1])
    index.add(task.vectors, [str(at) for at in range(len(task.vectors))], task.texts or None)
    for steps in task.given:
        index.observe([str(at) for at in steps])
    return index


def ask(task: Little, kind: str, method: Callable[..., list[Hits]], words: bool) -> list[Hits]:
    """Returns the hits of the queries of a kind; ``words`` is whether the method reads them."""
    if kind == "id":
        return method([str(cue) for cue, _ in task.cues], k=max(KS))
    assert task.request_vectors is not None
    if kind == "vector" or not words:
        return method(task.request_vectors, k=max(KS))
    return method(task.request_vectors, k=max(KS), text=[text for text, _ in task.questions])


def recalls(answers: list[Hits], wanted: list[frozenset[int]]) -> Recalls:
    """Returns (Q, 2) hits / min(k, relevant) at 5 and 10."""
    found = [
        [len(relevant & {int(id) for id in hits.ids[:k]}) / min(k, len(relevant)) for k in KS]
        for hits, relevant in zip(answers, wanted, strict=True)
    ]
    return np.array(found)


def confidences(answers: list[Hits], wanted: list[frozenset[int]]) -> tuple[list[float], list[bool], list[int]]:
    """Returns confidence, whether it was relevant, and rank of every hit that has a confidence."""
    hits = [
        (hit.confidence, int(hit.id) in relevant, rank)
        for some, relevant in zip(answers, wanted, strict=True)
        for rank, hit in enumerate(some)
        if hit.confidence is not None
    ]
    return [one[0] for one in hits], [one[1] for one in hits], [one[2] for one in hits]


def measure(task: Little, seed: int) -> tuple[dict[str, dict[str, Recalls]], dict[str, Any], float]:
    """Returns (Q, 2) recalls by kind of query and row, the confidence of the hits, and the fit's processor time."""
    kinds = [kind for kind in KINDS if (task.cues if kind == "id" else task.questions)]
    wanted = {kind: [relevant for _, relevant in (task.cues if kind == "id" else task.questions)] for kind in kinds}
    index = build(task)
    found: dict[str, dict[str, Recalls]] = {kind: {} for kind in kinds}
    for kind in kinds:
        found[kind]["search"] = recalls(ask(task, kind, index.search, False), wanted[kind])
        found[kind]["before"] = recalls(ask(task, kind, index.recall, True), wanted[kind])
    started = time.process_time()
    index.fit(window=task.window, seed=seed, progress=False)
    taken = time.process_time() - started
    sure = {}
    for kind in kinds:
        answers = ask(task, kind, index.recall, True)
        found[kind]["after"] = recalls(answers, wanted[kind])
        sure[kind] = confidences(answers, wanted[kind])
    return found, sure, taken


def summary(parts: list[tuple[dict[str, dict[str, Recalls]], dict[str, Any], float]], seed: int) -> dict[str, Any]:
    """Returns the means over all queries of all parts, and the gain of ``after`` over ``before`` with its interval."""
    result: dict[str, Any] = {"seconds": float(np.mean([taken for _, _, taken in parts]))}
    for kind in parts[0][0]:
        rows = {row: np.concatenate([found[kind][row] for found, _, _ in parts]) for row in parts[0][0][kind]}
        columns: dict[str, Any] = {"queries": len(rows["after"])}
        for at, k in enumerate(KS):
            columns |= {f"{row} R@{k}": float(values[:, at].mean()) for row, values in rows.items()}
            columns[f"gain R@{k}"] = vars(mean_interval(rows["after"][:, at] - rows["before"][:, at], seed))
        confidence, event, rank = (np.concatenate([sure[kind][n] for _, sure, _ in parts]) for n in range(3))
        if len(event):
            rank, event = rank.astype(int), event.astype(bool)
            base = np.bincount(rank, event) / np.maximum(np.bincount(rank), 1)
            columns |= {
                "ECE": expected_calibration_error(confidence, event),
                "log loss": log_loss(confidence, event),
                "log loss of the base rate": log_loss(base[rank].astype(np.float32), event),
            }
        result[kind] = columns
    return result


def show(name: str, size: int, result: dict[str, Any]) -> None:
    for kind in (kind for kind in KINDS if kind in result):
        one = result[kind]
        recall = " ".join(f"{one[f'{row} R@5']:.3f}" for row in ("search", "before", "after"))
        gains = [one[f"gain R@{k}"] for k in KS]
        gain = " ".join(f"{at['mean']:+.3f} [{at['low']:+.3f}, {at['high']:+.3f}]" for at in gains)
        sure = f"ECE {one['ECE']:.3f}" if "ECE" in one else ""
        print(f"{name:13} {size:4} {kind:6} {one['queries']:4} R@5 {recall}, gain {gain} {sure}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--sizes", nargs="+", type=int, help="numbers of trajectories (default: by task)")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--embeddings", type=Path, default=Path(tempfile.gettempdir()) / "pam-little")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="real/little", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    encode = cached_encoder(arguments.embedder, arguments.embeddings)
    results: dict[str, Any] = {}
    for name in arguments.tasks:
        read, paths, sizes = TASKS[name]
        path = find(None, paths, __doc__ or "") if paths else None
        parts = defaultdict(list)
        for size, task in read(path, encode, arguments.sizes or sizes):
            parts[size].append(measure(task, arguments.seed))
        results[name] = {size: summary(some, arguments.seed) for size, some in parts.items()}
        for size, result in results[name].items():
            show(name, size, result)
    if not results:
        sys.exit("no task")
    print(f"\nwritten to {report.write(arguments.name, {'seed': arguments.seed, 'tasks': results})}")


if __name__ == "__main__":
    main()
