"""Eight reading threads, a writing thread and a fitting thread on one durable index.

    python -m benchmarks.reliability.threads --seconds 600

First the readers run alone, then with the writer, then with the writer and the fitter, a third of the time each. Every
answer is checked. It must not contain a memory whose ``delete`` returned before the query began, or a memory that was
never added, and its scores must decrease. At the end the index must contain exactly the writer's data, also after
reopening.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.store.folder.repair import check

CONFIG = FitConfig(hidden=128, passes=2)
PAUSE = 0.005  # seconds between two calls of the writer: a busy agent, not a bulk load


class Soak:
    """The index, the threads, and their observations."""

    def __init__(self, path: Path, memories: int, dim: int, seed: int) -> None:
        self.path, self.dim, self.seed = path, dim, seed
        random = np.random.default_rng(seed)
        self.index = PredictiveAssociativeIndex.open(path, dim=dim)
        ids = [f"id{n}" for n in range(memories)]
        self.index.add(random.standard_normal((memories, dim)), ids, ids, [{"parity": n % 2} for n in range(memories)])
        self.index.fit([ids[at : at + 20] for at in range(0, memories, 20)], config=CONFIG, progress=False)
        self.alive = dict.fromkeys(ids)
        self.added, self.deleted = set(ids), frozenset[str]()  # replaced, never modified: readers see a consistent set
        self.next = memories
        self.latencies: dict[str, list[float]] = {}
        self.phase = ""
        self.stop = threading.Event()
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []

    def run(self, seconds: float, readers: int) -> dict[str, Any]:
        """Runs all phases; returns counts, latencies and errors."""
        phases = {
            "readers alone": [],
            "with a writer": [self.write],
            "with a writer and a fitter": [self.write, self.fit],
        }
        for self.phase, others in phases.items():
            self.stop.clear()
            self.latencies[self.phase] = []
            work = [lambda at=at: self.read(at) for at in range(readers)] + others
            threads = [threading.Thread(target=self._watched, args=[one]) for one in work]
            for thread in threads:
                thread.start()
            time.sleep(seconds / len(phases))
            self.stop.set()
            for thread in threads:
                thread.join()
        self._compare()
        figures = {phase: _percentiles(found) for phase, found in self.latencies.items()}
        return {"latency_ms": figures, "counts": dict(self.counts), "errors": self.errors}

    def _watched(self, work: Any) -> None:
        try:
            work()
        except Exception:  # noqa: BLE001 - any error of any thread is a finding
            self.errors.append(traceback.format_exc())
            self.stop.set()

    def read(self, number: int) -> None:
        random = np.random.default_rng((self.seed, number, len(self.latencies)))
        while not self.stop.is_set():
            kind = ("search", "hybrid", "filtered", "faithful")[random.integers(4)]
            query, gone = random.standard_normal(self.dim), self.deleted
            started = time.perf_counter()
            if kind == "search":
                hits = self.index.search(query, k=20)
            elif kind == "filtered":
                hits = self.index.search(query, k=20, where={"parity": 1})
            else:
                hits = self.index.recall(query, k=20, mode="hybrid", faithful=kind == "faithful", explain=True)
            self.latencies[self.phase].append(time.perf_counter() - started)
            self.counts[kind] += 1
            ids = [hit.id for hit in hits]
            scores = [hit.score for hit in hits]
            if gone & set(ids):
                self.errors.append(f"{kind}: deleted before, and found: {gone & set(ids)}")
            if set(ids) - self.added or scores != sorted(scores, reverse=True):
                self.errors.append(f"{kind}: {ids} {scores}")
            if kind == "filtered" and any(hit.metadata["parity"] != 1 for hit in hits):
                self.errors.append("a hit that the filter leaves out")

    def write(self) -> None:
        random = np.random.default_rng((self.seed, 99, len(self.latencies)))
        while not self.stop.is_set():
            ids = [f"id{n}" for n in range(self.next, self.next + 3)]
            self.next += 3
            self.added |= set(ids)
            self.index.add(random.standard_normal((3, self.dim)), ids, ids, [{"parity": n % 2} for n in range(3)])
            self.alive.update(dict.fromkeys(ids))
            self.index.observe(ids)
            doomed = list(self.alive)[: 2 + int(random.integers(3))]
            for id in doomed:
                del self.alive[id]
            self.index.delete(doomed)
            self.deleted = self.deleted | set(doomed)
            self.counts["add, observe, delete"] += 1
            self.stop.wait(PAUSE)

    def fit(self) -> None:
        while not self.stop.is_set():
            self.index.fit(config=CONFIG, progress=False, seed=self.counts["fit"])
            self.counts["fit"] += 1

    def _compare(self) -> None:
        """Checks that the open index and the reopened one contain the writer's data."""
        for when in ("at the end", "reopened"):
            if {record.id for record in self.index.find()} != set(self.alive):
                self.errors.append(f"{when}: other memories than the writer left")
            found = {hit.id for hit in self.index.recall(np.ones(self.dim), k=10**6)}
            if found != set(self.alive):
                self.errors.append(f"{when}: recall of all differs: {len(found ^ set(self.alive))}")
            self.index.close()
            self.errors += check(self.path)
            self.index = PredictiveAssociativeIndex.open(self.path)
        self.index.close()


def _percentiles(seconds: list[float]) -> dict[str, float]:
    found = np.percentile(np.array(seconds) * 1000, [50, 90, 99, 99.9, 100]).round(2).tolist()
    return {"questions": len(seconds), **dict(zip(["p50", "p90", "p99", "p99.9", "max"], found, strict=True))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        result = Soak(Path(made) / "index", parsed.memories, parsed.dim, parsed.seed).run(
            parsed.seconds, parsed.readers
        )
    path = report.write("reliability/threads", {**vars(parsed), **result})
    print(result, path, sep="\n")
    sys.exit(bool(result["errors"]))


if __name__ == "__main__":
    main()
