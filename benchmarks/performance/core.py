"""``python -m benchmarks.performance.core``: recall relative to a plain FAISS search, and durable ``add``.

The memories are those of the paper's world, of 128-d, or a random walk through rooms, of any other length. All calls
take turns in one run, because the speed of a shared machine changes; only the ratios are stable.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks import report
from benchmarks.worlds import paper
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.model.keys import MODES, query_vectors
from pam_retriever.retrieval.cues import stored_cues


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15, help="number of timings of each call")
    parser.add_argument("--singles", type=int, default=200, help="number of single queries in each timing")
    parser.add_argument("--dim", type=int, default=paper.DIM, help="length of the vectors; 128 is the paper's world")
    parser.add_argument("--name", default="performance/core")
    arguments = parser.parse_args()

    states, rooms = walk(arguments.dim)
    count, dim = states.shape
    ids = [f"memory-{row}" for row in range(count)]
    texts = [f"room {room}, moment {row}: what was seen and heard there" for row, room in enumerate(rooms)]
    metadatas = [{"room": int(room), "moment": row, "session": row // 100} for row, room in enumerate(rooms)]

    adding = measure_add(states, ids, texts, metadatas)
    index = PredictiveAssociativeIndex(dim=dim)
    index.add(states, ids, texts, metadatas)
    # the quality of f does not affect speed; one pass of the default width
    index.fit(group_by="session", order_by="moment", config=FitConfig(passes=1), progress=False)

    associative = index._store.associative
    assert associative is not None
    keys = associative.keys(np.arange(1, count + 1))
    bare = faiss.IndexFlat(keys.shape[1], faiss.METRIC_INNER_PRODUCT)
    bare.add(keys)
    random = np.random.default_rng(0)
    chosen = random.choice(count, 1000, replace=False)
    cues = stored_cues(keys[chosen], chosen + 1, dim)
    queries = query_vectors(MODES["association"], cues.given, cues.completed, cues.predicted)
    names = [ids[row] for row in chosen]
    noisy = (states[chosen] + 0.3 * random.standard_normal((1000, dim))).astype(np.float32)

    batch = interleave(
        {
            "bare FAISS": lambda: bare.search(queries, 10),
            "recall by id": lambda: index.recall(names, k=10),
            "recall by vector": lambda: index.recall(noisy, k=10),
            "search by vector": lambda: index.search(noisy, k=10),
        },
        arguments.repeats,
    )
    position = {"at": 0}

    def one(call: Callable[[int], Any]) -> Callable[[], Any]:
        def run() -> None:
            position["at"] = (position["at"] + 1) % 1000
            call(position["at"])

        return run

    single = interleave(
        {
            "bare FAISS": one(lambda at: bare.search(queries[at : at + 1], 10)),
            "recall by id": one(lambda at: index.recall(names[at], k=10)),
            "recall by vector": one(lambda at: index.recall(noisy[at], k=10)),
            "search by vector": one(lambda at: index.search(noisy[at], k=10)),
        },
        arguments.singles,
    )
    result = {"memories": count, "dim": dim, "k": 10, "add": adding}
    for what, timings in (("batch of 1,000", batch), ("one query", single)):
        base = statistics.median(timings["bare FAISS"])
        result[what] = {
            name: {"median_ms": 1e3 * statistics.median(t), "ratio": statistics.median(t) / base}
            for name, t in timings.items()
        }
        for name, figures in result[what].items():
            print(f"{what:15} {name:18} {figures['median_ms']:9.3f} ms   {figures['ratio']:.2f} x bare FAISS")
    print(f"add, durable: {adding['per_second']:,.0f} memories a second in batches of {adding['batch']:,}")
    print(f"written to {report.write(arguments.name, result)}")


def walk(dim: int, count: int = 50_000, stay: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Returns states (count, dim) and the room of each: the paper's world for 128-d, else rooms with noise."""
    if dim == paper.DIM:
        world = paper.build(42)
        return world.states, world.rooms
    random = np.random.default_rng(42)
    centres = random.standard_normal((200, dim), np.float32)
    rooms = np.repeat(random.integers(0, len(centres), count // stay), stay)
    return centres[rooms] + np.float32(0.7) * random.standard_normal((count, dim), np.float32), rooms


def measure_add(
    vectors: np.ndarray, ids: list[str], texts: list[str], metadatas: list[dict[str, int]], batch: int = 5000
) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory() as folder,
        PredictiveAssociativeIndex.open(Path(folder) / "index", dim=vectors.shape[1]) as index,
    ):
        started = time.perf_counter()
        for at in range(0, len(ids), batch):
            part = slice(at, at + batch)
            index.add(vectors[part], ids[part], texts[part], metadatas[part])
        seconds = time.perf_counter() - started
        assert len(index) == len(ids)
    return {"batch": batch, "seconds": seconds, "per_second": len(ids) / seconds}


def interleave(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Times each call ``repeats`` times, in turns, after one round as warm-up."""
    timings: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            if turn:
                timings[name].append(time.perf_counter() - started)
    return timings


if __name__ == "__main__":
    main()
