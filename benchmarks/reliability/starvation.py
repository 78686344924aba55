"""Readers next to writers that never stop: the time of a query, against readers alone.

    python -m benchmarks.reliability.starvation --seconds 10

Threads query a durable index, first alone and then next to threads that add and delete without a pause. The two phases
take turns, so that other work on the machine affects both.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks import report
from pam_retriever import PredictiveAssociativeIndex

DIM = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args()
    rng = np.random.default_rng(parsed.seed)
    measured: dict[str, list[dict[str, float]]] = {"alone": [], "beside writers": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        PredictiveAssociativeIndex.open(Path(folder) / "index", DIM) as index,
    ):
        index.add(rng.normal(size=(parsed.memories, DIM)), [f"m{at}" for at in range(parsed.memories)])
        for _ in range(parsed.rounds):
            measured["alone"].append(measure(index, parsed.readers, 0, parsed.seconds))
            measured["beside writers"].append(measure(index, parsed.readers, parsed.writers, parsed.seconds))
    p99 = {name: float(np.median([one["p99_ms"] for one in found])) for name, found in measured.items()}
    ratio = round(p99["beside writers"] / p99["alone"], 2)
    path = report.write("reliability/starvation", {**vars(parsed), "p99_ratio": ratio, "measured": measured})
    print(measured, f"p99 beside writers / alone: {ratio}", path, sep="\n")


def measure(index: PredictiveAssociativeIndex, readers: int, writers: int, seconds: float) -> dict[str, float]:
    """Returns the times of queries, in ms, and the numbers of queries and writes."""
    done, times, writes = threading.Event(), [[] for _ in range(readers)], [0] * max(writers, 1)

    def read(me: int) -> None:
        vectors = np.random.default_rng(me).normal(size=(256, DIM))
        at = 0
        while not done.is_set():
            began = time.perf_counter()
            index.search(vectors[at % 256], k=10)
            times[me].append(1000 * (time.perf_counter() - began))
            at += 1

    def write(me: int) -> None:
        vectors = np.random.default_rng(me).normal(size=(4, DIM))
        while not done.is_set():
            ids = [f"w{me}-{writes[me]}-{at}" for at in range(4)]
            index.add(vectors, ids)
            index.delete(ids)
            writes[me] += 2

    threads = [threading.Thread(target=read, args=(me,)) for me in range(readers)]
    threads += [threading.Thread(target=write, args=(me,)) for me in range(writers)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    done.set()
    for thread in threads:
        thread.join()
    latencies = np.concatenate([np.array(one) for one in times])
    p50, p99 = np.percentile(latencies, [50, 99])
    found = {"p50_ms": p50, "p99_ms": p99, "longest_ms": latencies.max(), "questions": len(latencies)}
    return {**{name: round(float(value), 2) for name, value in found.items()}, "writes": sum(writes) if writers else 0}


if __name__ == "__main__":
    main()
