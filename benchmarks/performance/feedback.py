"""The cost of past requests: default recall with and without them, and the first recall after a write.

    python -m benchmarks.performance.feedback [--requests 10000] [--memories 600 3000 50000] [--queries 100]

One process sends the same questions in turns to two indexes with the same memories, in words and by vector. Only one
index has past requests. Each pair of times gives a ratio. Vectors are precomputed, so no embedder is timed. The
question before has the same words, so that both indexes have read these, but another vector: an index remembers the
products of its keys with the last one. Then each round makes one write (a feedback or a memory) and sends one query.
The time of that first answer must not grow with the amount of stored data.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import report
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.types import Float32, Float64

DIM, TOPICS, VOCABULARY, LONG, SHORT, K = 384, 200, 5_000, 30, 8, 10
SIZES = (100, 1_000)  # numbers of past requests, besides the largest


class World:
    """Memories and requests on many topics, with few frequent words."""

    def __init__(self, memories: int, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._centres = self._random.standard_normal((TOPICS, DIM), np.float32)
        frequency = 1 / np.arange(1, VOCABULARY + 1)
        self._frequency = frequency / frequency.sum()
        self.memories = memories
        self.topic = self._random.integers(0, TOPICS, memories)
        self._of_topic = [np.flatnonzero(self.topic == topic) for topic in range(TOPICS)]

    def index(self) -> PredictiveAssociativeIndex:
        index = PredictiveAssociativeIndex(DIM)
        ids = [f"m{at}" for at in range(self.memories)]
        titles = [{"title": self._text(3)} for _ in ids]
        index.add(self.vectors(self.topic), ids, [self._text(LONG) for _ in ids], titles)
        return index

    def vectors(self, topic: Any) -> Float32:
        noise = self._random.standard_normal((len(topic), DIM), np.float32)
        vectors: Float32 = self._centres[topic] + noise
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def requests(self, n: int) -> tuple[Float32, list[str], list[list[str]]]:
        """Returns vectors, words, and the two memories that each request used."""
        topic = self._random.integers(0, TOPICS, n)
        used = [self._of_topic[one] if len(self._of_topic[one]) > 1 else np.arange(2) for one in topic]
        chosen = [[f"m{at}" for at in self._random.choice(some, 2, replace=False)] for some in used]
        return self.vectors(topic), [self._text(SHORT) for _ in range(n)], chosen

    def _text(self, words: int) -> str:
        return " ".join(f"w{at}" for at in self._random.choice(VOCABULARY, words, p=self._frequency))


def timed(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Returns the milliseconds of a call."""
    began = clock()
    call()
    return 1000 * (clock() - began)


def with_feedback(world: World, requests: int) -> PredictiveAssociativeIndex:
    index = world.index()
    vectors, texts, used = world.requests(requests)
    index.feedback(vectors, used, text=texts)
    return index


def pairs(world: World, requests: int, queries: int, fitted: bool) -> dict[str, object]:
    """Times recall with past requests and without, in turns, and a fit: the processor time of each."""
    indexes = world.index(), with_feedback(world, requests)
    seconds = timed(lambda: indexes[1].fit(progress=False), time.process_time) / 1000 if fitted else None
    vectors, texts, _ = world.requests(queries)
    times: dict[str, Float64] = {}
    for name, asked in (("in words", texts), ("by vector", [None] * queries)):
        both = times[name] = np.empty((queries, 2))
        for at, (vector, text) in enumerate(zip(vectors, asked, strict=True)):
            for which in (0, 1) if at % 2 else (1, 0):
                index = indexes[which]
                index.recall(vectors[at - 1], K, text=text)
                both[at, which] = timed(lambda i=index, v=vector, t=text: i.recall(v, K, text=t), time.thread_time)
    return {**{name: summary(both) for name, both in times.items()}, "fit, s": seconds}


def summary(times: Float64) -> dict[str, object]:
    """Returns the medians of times (Q, 2) without and with past requests, and of their ratios."""
    ratios = np.sort(times[:, 1] / times[:, 0])
    return {
        "without, ms": float(np.median(times[:, 0])),
        "with, ms": float(np.median(times[:, 1])),
        "ratio": float(np.median(ratios)),
        "ratio, middle half": [float(ratios[len(ratios) // 4]), float(ratios[3 * len(ratios) // 4])],
    }


def after_writing(world: World, requests: int, rounds: int) -> dict[str, float]:
    """Returns the median times of a write, and of the first recall after it."""
    index = with_feedback(world, requests)
    vectors, texts, used = world.requests(4 * rounds + 1)
    index.recall(vectors[0], K, text=texts[0])
    found: dict[str, list[float]] = {name: [] for name in ("feedback", "recall after it", "add", "recall after that")}
    for at in range(1, 2 * rounds, 2):
        vector, text = vectors[at : at + 1], texts[at]
        found["feedback"].append(timed(lambda v=vector, t=text, at=at: index.feedback(v[0], used[at], text=t)))
        found["recall after it"].append(timed(lambda at=at: index.recall(vectors[at + 1], K, text=texts[at + 1])))
        found["add"].append(timed(lambda v=vector, t=text, at=at: index.add(v, [f"new{at}"], [t])))
        found["recall after that"].append(timed(lambda at=at: index.recall(vectors[at], K, text=texts[at])))
    return {f"{name}, ms": float(np.median(times)) for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--memories", type=int, nargs="+", default=[600, 3_000, 50_000])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--fitted", action="store_true", help="fit before the paired measurement")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="performance/feedback", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for memories in arguments.memories:
        world = World(memories, arguments.seed)
        of_one = results[f"{memories} memories"] = {
            "recall": pairs(world, arguments.requests, arguments.queries, arguments.fitted),
            "after a write": {str(n): after_writing(world, n, arguments.rounds) for n in (*SIZES, arguments.requests)},
        }
        print(memories, "memories:", of_one["recall"])
        for n, times in of_one["after a write"].items():
            print(f"  {n} requests:", {name: round(value, 1) for name, value in times.items()}, flush=True)
    written = report.write(arguments.name, {"seed": arguments.seed, "shared machine": True, **results})
    print(f"written to {written}")


if __name__ == "__main__":
    main()
