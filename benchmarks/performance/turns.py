"""``python -m benchmarks.performance.turns``: an agent that stores each turn, and then asks with words.

What a write makes stale is read again by the next question, so a question after a write is compared with one after
which nothing was written. Texts are 40 words, and questions 8, drawn by Zipf's law; vectors are random (384 numbers).
The index holds sessions of 20 turns; in the second row with times, in the third with feedback, too. Medians in
processor seconds, with the clock beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from benchmarks import report
from pam_retriever import PredictiveAssociativeIndex

DIM, SESSION, WORDS, ASKED = 384, 20, 40, 8
VOCABULARY, EXPONENT = 50_000, 1.3
REQUESTS = 30
FIRST = datetime(2024, 1, 1, tzinfo=timezone.utc)


def texts(random: np.random.Generator, n: int, words: int) -> list[str]:
    drawn = np.minimum(random.zipf(EXPONENT, (n, words)), VOCABULARY)
    return [" ".join(f"w{word}" for word in one) for one in drawn]


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Returns seconds of the processor, and of the clock."""
    clock, processor = time.perf_counter(), time.process_time()
    call()
    return time.process_time() - processor, time.perf_counter() - clock


def measure(memories: int, turns: int, seed: int, times: bool, requests: int) -> dict[str, dict[str, float]]:
    """Returns the medians of appending, of a question after it, and of the next question."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((memories + turns, DIM)).astype(np.float32)
    stored, questions = texts(random, memories + turns, WORDS), texts(random, 2 * turns, ASKED)
    dates = [FIRST + timedelta(minutes=at) for at in range(memories + turns)] if times else [None] * len(vectors)
    index = PredictiveAssociativeIndex(DIM)
    ids = [f"m{at}" for at in range(memories)]
    index.add(vectors[:memories], ids, stored[:memories], timestamps=dates[:memories] if times else None)
    for start in range(0, memories, SESSION):
        index.observe(ids[start : start + SESSION])
    for at in range(requests):
        index.feedback(vectors[at], [ids[at]], text=stored[at])
    measured: dict[str, list[tuple[float, float]]] = {"append": [], "question after a write": [], "next question": []}
    for turn in range(turns):
        at = memories + turn
        one, other = questions[2 * turn : 2 * turn + 2]
        calls: tuple[Callable[[], object], ...] = (
            lambda at=at: index.append("now", vectors[at], stored[at], timestamp=dates[at]),
            lambda at=at, text=one: index.recall(vectors[at], 5, text=text),
            lambda at=at, text=other: index.recall(vectors[at], 5, text=text),
        )
        for name, call in zip(measured, calls, strict=True):
            measured[name].append(timed(call))
    medians = {name: np.median(values[turns // 4 :], axis=0) for name, values in measured.items()}
    return {name: {"processor": float(value[0]), "clock": float(value[1])} for name, value in medians.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=50_000)
    parser.add_argument("--turns", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="performance/turns")
    arguments = parser.parse_args()
    settings: dict[str, dict[str, Any]] = {
        "texts": {"times": False, "requests": 0},
        "texts and times": {"times": True, "requests": 0},
        "texts, times and feedback": {"times": True, "requests": REQUESTS},
    }
    rows = {
        name: measure(arguments.memories, arguments.turns, arguments.seed, **options)
        for name, options in settings.items()
    }
    for name, row in rows.items():
        ratio = row["question after a write"]["processor"] / row["next question"]["processor"]
        shown = ", ".join(f"{what} {1000 * value['processor']:.1f} ms" for what, value in row.items())
        print(f"{name}: {shown}; after a write {ratio:.2f} times")
    result = {"seed": arguments.seed, "memories": arguments.memories, "turns": arguments.turns, "medians": rows}
    print(f"written to {report.write(arguments.name, result)}")


if __name__ == "__main__":
    main()
