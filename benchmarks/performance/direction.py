"""``python -m benchmarks.performance.direction``: the time that a direction adds to a query.

Each query runs with ``direction="after"`` and without, in turns, over memories of ``benchmarks.worlds.routines``.
The figures are medians of the processor time of this process, and the median of the ratios of pairs. Queries are
stored memories, noisy views of them, new views that were never experienced, two hops, and questions in words.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.worlds import routines
from pam_retriever import FitConfig, PredictiveAssociativeIndex

NOISE = 0.6


def filled(episodes: int, seed: int) -> tuple[PredictiveAssociativeIndex, np.ndarray, np.ndarray]:
    """Returns a fitted index, its vectors, and new views of the situations."""
    made = routines.build(seed)
    states, played = made.episodes(episodes, seed)
    new, _ = made.episodes(20, seed + 1)
    index = PredictiveAssociativeIndex(routines.DIM)
    vectors = states.reshape(-1, routines.DIM)
    ids = np.arange(len(vectors)).astype(str)
    words = [f"situation {routine} step {step}" for routine in played.tolist() for step in range(routines.LENGTH)]
    index.add(vectors, ids.tolist(), words)
    trajectories = ids.reshape(-1, routines.LENGTH).tolist()
    index.fit(trajectories, config=FitConfig(hidden=64, passes=2), seed=seed, progress=False)
    return index, vectors, new.reshape(-1, routines.DIM)


def in_turn(index: PredictiveAssociativeIndex, questions: list[dict[str, Any]]) -> dict[str, float]:
    """Returns milliseconds without and with a direction, and the median ratio of the two."""
    taken: dict[str | None, list[float]] = {None: [], "after": []}
    for at, question in enumerate(questions):
        for direction in (None, "after") if at % 2 else ("after", None):
            began = time.process_time()
            index.recall(**question, direction=direction)
            taken[direction].append(1e3 * (time.process_time() - began))
    ratios = [after / both for both, after in zip(taken[None], taken["after"], strict=True)]
    return {
        "undirected p50 ms": round(statistics.median(taken[None]), 3),
        "directed p50 ms": round(statistics.median(taken["after"]), 3),
        "ratio of the medians": round(statistics.median(taken["after"]) / statistics.median(taken[None]), 3),
        "median of the ratios": round(statistics.median(ratios), 3),
    }


def main() -> None:
    """Runs all cases, and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1_000, help="number of episodes, of ten memories each")
    parser.add_argument("--questions", type=int, default=150, help="number of queries of each kind")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    index, vectors, new = filled(given.episodes, given.seed)
    random = np.random.default_rng(given.seed)
    some = random.integers(0, len(vectors), given.questions)
    noisy = vectors[some] + NOISE * random.standard_normal((len(some), routines.DIM)) / np.sqrt(routines.DIM)
    kinds: dict[str, list[dict[str, Any]]] = {
        "stored": [{"query": str(row)} for row in some.tolist()],
        "noisy": [{"query": query} for query in noisy],
        "never experienced": [{"query": query} for query in new[: given.questions]],
        "hybrid": [{"query": query, "mode": "hybrid"} for query in noisy],
        "two hops": [{"query": str(row), "hops": 2} for row in some[: max(given.questions // 5, 1)].tolist()],
        "words": [{"query": noisy[at], "text": f"step {at % 10} of {at}"} for at in range(given.questions // 2)],
    }
    found = {}
    for name, questions in kinds.items():
        in_turn(index, questions[:5])
        found[name] = in_turn(index, questions)
        print(name, found[name])
    about = {"memories": len(index), "questions": given.questions, "seed": given.seed, "machine": "shared"}
    report.write("performance/direction", {**about, "results": found})


if __name__ == "__main__":
    main()
