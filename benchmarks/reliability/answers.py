"""Stores all digits of the answers of a few fitted indexes before a change of the code, and compares them after it.

    python -m benchmarks.reliability.answers make answers.json
    python -m benchmarks.reliability.answers compare answers.json [--tolerance 1e-6]

Run both commands on the same machine, because another machine may sum in another order. Weights are compared by their
checksum.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pam_retriever import Channels, FitConfig, PAMError, PredictiveAssociativeIndex, Trajectory

WORDS = ["river", "stone", "bridge", "lamp", "garden", "winter", "letter", "engine", "market", "violin", "harbour"]
ROOMS, LENGTH, DIM = 24, 12, 24


def world(seed: int, memories: int = ROOMS * LENGTH) -> tuple[np.ndarray, list[str], list[str], list[dict[str, Any]]]:
    """Returns random vectors, ids, texts and metadata."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((memories, DIM)).astype(np.float32)
    ids = [f"m{n:04}" for n in range(memories)]
    texts = [" ".join(random.choice(WORDS, 4)) for _ in ids]
    metadatas = [
        {"session": n // LENGTH, "user": "ann" if n % 3 else "ben", "order": n % LENGTH} for n in range(len(ids))
    ]
    return vectors, ids, texts, metadatas


def outings(ids: list[str], seed: int) -> list[Trajectory]:
    """Returns a session per room, and some that cross several rooms; with times and salience."""
    random = np.random.default_rng(seed)
    found = [
        Trajectory(ids=ids[at : at + LENGTH], id=f"s{at}", timestamps=[float(at + n) for n in range(LENGTH)])
        for at in range(0, len(ids) - LENGTH, LENGTH)
    ]
    for n in range(6):
        walk = random.choice(len(ids) - LENGTH, 10, replace=False)
        found.append(Trajectory(ids=[ids[m] for m in walk], id=f"w{n}", salience=random.random(10).tolist()))
    return found


def filled(backend: str = "faiss", folder: Path | None = None) -> PredictiveAssociativeIndex:
    """Returns an index with memories, not fitted."""
    index = (
        PredictiveAssociativeIndex(DIM, backend)
        if folder is None
        else PredictiveAssociativeIndex.open(folder, DIM, backend)
    )
    vectors, ids, texts, metadatas = world(1)
    index.add(vectors, ids, texts, metadatas)
    return index


TINY = FitConfig(hidden=32, passes=30)


def indexes(scratch: Path) -> Iterator[tuple[str, PredictiveAssociativeIndex]]:
    """Yields name and index of each case."""
    ids = world(1)[1]
    yield "unfitted", filled()
    observed = filled()
    for outing in outings(ids, 2):
        observed.observe(outing)
    yield "observed", observed
    default = filled()
    default.fit(outings(ids, 2), window=3, config=TINY, progress=False)
    yield "default", default
    log = filled("faiss:hnsw")
    log.fit(outings(ids, 2), window=3, config=FitConfig(hidden=32, passes=20, familiarity="log"), progress=False)
    yield "familiarity", log
    paper = filled("exact")
    paper.fit(outings(ids, 2), config=FitConfig(objective="info_nce", hidden=32, passes=3, pairs=2000), progress=False)
    yield "paper", paper
    continued = filled(folder=scratch / "continued")
    continued.fit(outings(ids, 2)[:15], window=3, config=TINY, progress=False)
    continued.fit(outings(ids, 2)[15:], window=3, config=TINY, progress=False)
    continued.delete(ids[40:44])
    yield "continued", continued
    parts = filled("faiss:ivf,sq8", scratch / "parts")
    parts.fit(outings(ids, 2), window=3, config=TINY, buffer=60, progress=False)
    parts.prune(250)
    yield "parts", parts
    grouped = filled()
    grouped.fit(group_by="session", order_by="order", config=TINY, seed=3, progress=False)
    yield "grouped", grouped


def questions(index: PredictiveAssociativeIndex) -> dict[str, Callable[[], Any]]:
    """Returns every kind of query to an index, by name."""
    vectors, ids, texts, _ = world(1)
    some = [id for id in (ids[n] for n in (5, 30, 77, 200, 285)) if id in index]
    noisy = vectors[[5, 30, 77, 200]] + 0.5 * np.random.default_rng(9).standard_normal((4, DIM)).astype(np.float32)
    ann = {"user": "ann"}
    calls: dict[str, Callable[[], Any]] = {
        "search": lambda: index.search(noisy, 8),
        "search where": lambda: index.search(noisy, 8, ann),
        "words": lambda: index.recall(noisy, 8, text=[texts[3]] * 4),
        "words where": lambda: index.recall(noisy[0], 8, text=texts[3], where=ann),
    }
    for mode in ("association", "hybrid", "specific", "similarity"):
        for name, query in (("id", some), ("vector", noisy), ("stored", vectors[[5, 30]])):
            calls[f"{mode} {name}"] = lambda q=query, m=mode: index.recall(q, 9, m, explain=True)
        calls[f"{mode} where"] = lambda m=mode: index.recall(noisy, 9, m, where=ann)
    return calls | {
        "hops": lambda: index.recall(some, 9, hops=3, explain=True),
        "hops vector": lambda: index.recall(noisy, 9, hops=2, where=ann),
        "hops hybrid": lambda: index.recall(noisy, 9, "hybrid", hops=2),
        "continuum": lambda: index.recall(noisy, 9, hops=2, snap=False),
        "channels": lambda: index.recall(noisy, 9, channels=Channels(forward=1.0, episode=0.5)),
        "faithful": lambda: index.recall(some, 9, faithful=True),
        "ball": lambda: index.recall(some, None, min_score=0.01),
        "decay": lambda: index.recall(noisy, 9, decay=30.0),
        "spread": lambda: [index.expand({some[0]: 2.0, some[1]: 1.0, some[2]: 0.1}, 9)],
        "imagine": lambda: [(one.point.tolist(), one.nearest) for one in index.imagine(noisy, 4)],
        "surprise": lambda: [index.surprise(Trajectory(ids=ids[24:36]))],
    }


def plain(answer: Any) -> Any:
    """Converts an answer to JSON types."""
    if isinstance(answer, (list, tuple)):
        return [plain(one) for one in answer]
    if isinstance(answer, dict):
        return [[id, float(score)] for id, score in answer.items()]
    if isinstance(answer, (float, int, str)) or answer is None:
        return answer
    if not hasattr(answer, "score"):
        return [plain(one) for one in answer]  # a sequence of hits
    evidence = [[e.trajectory, e.cue_position, e.hit_position, e.hop] for e in answer.evidence or ()]
    scores = [answer.score, answer.similarity, answer.association, answer.confidence, answer.lexical]
    return [answer.id, *scores, answer.hop, list(answer.path), evidence]


def answer_of(ask: Callable[[], Any]) -> Any:
    """Returns the answer, or the name of the error."""
    try:
        return plain(ask())
    except PAMError as error:
        return type(error).__name__


def answers() -> dict[str, Any]:
    """Returns every answer of every index, and the checksums of their weights."""
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, index in indexes(Path(folder)):
            for question, ask in questions(index).items():
                found[f"{name}: {question}"] = answer_of(ask)
            copy = Path(folder) / f"copy of {name}"
            index.save(copy)
            found[f"{name}: weights"] = sorted(path.name for path in copy.glob("predictor-*"))
            index.close()
    return found


def differences(one: Any, other: Any, tolerance: float) -> float:
    """Returns the largest difference of numbers; infinity if anything else differs."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max((differences(*pair, tolerance) for pair in zip(one, other, strict=True)), default=0.0)
    if isinstance(one, float | int) and isinstance(other, float | int):
        return abs(one - other)
    return 0.0 if one == other else math.inf


def main() -> None:
    """Stores the answers, or compares them with stored ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["make", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--tolerance", type=float, default=0.0, help="largest allowed difference of two numbers")
    given = parser.parse_args()
    found = answers()
    if given.action == "make":
        given.file.write_text(json.dumps(found))
        return
    before = json.loads(given.file.read_text())
    found = json.loads(json.dumps(found))
    apart = {name: differences(before[name], found.get(name), given.tolerance) for name in before}
    wrong = {name: much for name, much in apart.items() if not much <= given.tolerance}
    for name, much in wrong.items():
        print(f"{name}: differs by {much}")
    print(
        f"{len(before)} answers compared, {len(wrong)} differ; the largest difference of the rest: "
        f"{max((much for name, much in apart.items() if name not in wrong), default=0.0)}"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
