"""One checkout in its own process, for ``before``. It is run by its path, and imports the library but no benchmarks.

The process fills an index with random memories from a seed, and fits it. Then it executes commands and times each.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from pam_retriever import FitConfig, PredictiveAssociativeIndex

WALK, ROOMS = 100, 40


class Worker:
    """Two fitted indexes of the same memories, with texts and without, and a folder for writes.

    Args:
        count: number of memories.
        dim: length of the vectors.
        seed: seed of the vectors and questions.
        folder: a folder for the durable index.
    """

    def __init__(self, count: int, dim: int, seed: int, folder: Path) -> None:
        random = np.random.default_rng(seed)
        rooms = np.repeat(random.integers(0, ROOMS, count // 10 + 1), 10)[:count]
        vectors = random.standard_normal((ROOMS, dim))[rooms] + random.standard_normal((count, dim))
        self._vectors = vectors.astype(np.float32)
        self._ids = [f"memory-{row}" for row in range(count)]
        words = np.array([f"word{number}" for number in range(4_000)])
        said = words[np.minimum(random.zipf(1.3, (count, 12)) - 1, len(words) - 1)]
        self._texts = [f"room {room}: {' '.join(some)}" for room, some in zip(rooms, said, strict=True)]
        self._about = [
            {"room": int(room), "moment": row % WALK, "session": row // WALK} for row, room in enumerate(rooms)
        ]
        self._noisy = (self._vectors + 0.3 * random.standard_normal((count, dim))).astype(np.float32)
        self._words = [" ".join(some) for some in random.permuted(said, axis=1)[:, :4]]
        self._order = random.permutation(count)
        self._plain, self._worded = self._fitted(None), self._fitted(self._texts)
        self._folder, self._added = folder, 0
        self._growing = PredictiveAssociativeIndex.open(folder / "growing", dim=dim)
        self._calls: dict[str, Callable[[int], object]] = {
            "recall by id": lambda at: self._plain.recall(self._ids[at], k=10),
            "recall by vector": lambda at: self._plain.recall(self._noisy[at], k=10),
            "recall, filtered": lambda at: self._plain.recall(self._noisy[at], k=10, where={"room": int(rooms[at])}),
            "recall, two hops": lambda at: self._plain.recall(self._ids[at], k=10, hops=2),
            "search by vector": lambda at: self._plain.search(self._noisy[at], k=10),
            "search by id": lambda at: self._plain.search(self._ids[at], k=10),
            "search, filtered": lambda at: self._plain.search(self._noisy[at], k=10, where={"room": int(rooms[at])}),
            "recall by vector of 100": lambda at: self._plain.recall(self._batch(at), k=10),
            "search by vector of 100": lambda at: self._plain.search(self._batch(at), k=10),
            "recall by id, with texts": lambda at: self._worded.recall(self._ids[at], k=10),
            "recall by vector, with texts": lambda at: self._worded.recall(self._noisy[at], k=10),
            "recall by vector and words": lambda at: self._worded.recall(self._noisy[at], text=self._words[at], k=10),
            "add 1": lambda _: self._add(1),
            "add 1,000": lambda _: self._add(1_000),
        }

    def _fitted(self, texts: list[str] | None) -> PredictiveAssociativeIndex:
        index = PredictiveAssociativeIndex(dim=self._vectors.shape[1])
        index.add(self._vectors, self._ids, texts, self._about)
        # the quality of f does not affect speed
        index.fit(group_by="session", order_by="moment", config=FitConfig(passes=1), progress=False)
        return index

    def _batch(self, at: int) -> Any:
        return self._noisy.take(range(at, at + 100), axis=0, mode="wrap")

    def _add(self, many: int) -> None:
        """Adds memories under new ids, durably."""
        rows = np.arange(self._added, self._added + many) % len(self._ids)
        ids = [f"new-{self._added + more}" for more in range(many)]
        self._added += many
        about = [self._about[row] for row in rows]
        self._growing.add(self._vectors[rows], ids, [self._texts[row] for row in rows], about)

    @property
    def cases(self) -> list[str]:
        """Returns the names of the cases."""
        return list(self._calls)

    def __call__(self, case: str, start: int, calls: int) -> dict[str, float]:
        """Returns the median processor seconds and clock seconds of ``calls`` calls."""
        processor, clock = [], []
        for number in range(start, start + calls):
            at, began, used = int(self._order[number % len(self._order)]), time.perf_counter(), time.process_time()
            self._calls[case](at)
            processor.append(time.process_time() - used)
            clock.append(time.perf_counter() - began)
        return {"processor": median(processor), "clock": median(clock)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("count", "dim", "seed"):
        parser.add_argument(name, type=int)
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(**vars(parser.parse_args()), folder=Path(folder))
        print(json.dumps(worker.cases), flush=True)
        for line in sys.stdin:
            print(json.dumps(worker(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
