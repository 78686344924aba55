"""Streaming: a million states observed by an index on disk that may hold 50,000 (pam.tex 3.9).

The predictor learns from the first 10,000 states, then the stream goes on in trajectories of 500: fifty episodes,
dated by their number. At each mark: how many memories, how large the files, how long a recall, and what
share of the associates of recent cues is found.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.worlds.routines import DIM, LENGTH, WINDOW, build
from pam_retriever import FitConfig, PredictiveAssociativeIndex, Trajectory
from pam_retriever.types import Float32

STATES, CAPACITY, LEARNT, TOGETHER = 1_000_000, 50_000, 10_000, 500
CONFIG = FitConfig(hidden=256, passes=20)
MARKS = (50_000, 100_000, 200_000, 400_000, 600_000, 800_000, 1_000_000)
CUES, RECENT, HALF_LIFE = 200, 200, 100.0  # the last two in episodes


def run(seed: int) -> dict[str, Any]:
    states, _ = build(seed).episodes(STATES // LENGTH, seed)
    flat = states.reshape(-1, DIM)
    trips = [trip(flat, start) for start in range(0, STATES, TOGETHER)]
    first = LEARNT // TOGETHER
    with tempfile.TemporaryDirectory() as name, PredictiveAssociativeIndex.open(name, DIM, "faiss:flat") as index:
        folder = Path(name)
        index.set_capacity(CAPACITY)
        index.fit(trips[:first], window=WINDOW, config=CONFIG, progress=False)
        columns, spent = {f"{LEARNT:,}": mark(index, flat, LEARNT, folder)}, 0.0
        for at in range(first, len(trips)):
            started = time.perf_counter()
            index.observe(trips[at])
            spent += time.perf_counter() - started
            seen = (at + 1) * TOGETHER
            if seen in MARKS:
                columns[f"{seen:,}"] = mark(index, flat, seen, folder)
        forgotten = index.prune(keep=CAPACITY // 2)
        columns["pruned to half"] = mark(index, flat, STATES, folder)
    full = [
        column["recall, ms, fastest tenth"]
        for name, column in columns.items()
        if name.replace(",", "") in map(str, MARKS[2:])
    ]
    return {
        "observed_per_second": (STATES - LEARNT) / spent,
        "latency_spread_once_full_fastest_tenth": max(full) / min(full) - 1,
        "pruned": forgotten,
        "tables": {"after so many states": columns},
    }


def trip(flat: Float32, start: int) -> Trajectory:
    times = (np.arange(start, start + TOGETHER) // LENGTH).astype(float)
    return Trajectory(vectors=flat[start : start + TOGETHER], timestamps=times.tolist(), id=str(start // TOGETHER))


def mark(index: PredictiveAssociativeIndex, flat: Float32, seen: int, folder: Path) -> dict[str, float]:
    random = np.random.default_rng(seen)
    cues = random.integers(seen - RECENT * LENGTH, seen, CUES)
    seconds, found, recent = [], [], []
    for cue in cues.tolist():
        started = time.perf_counter()
        hits = index.recall(flat[cue], k=10)
        seconds.append(time.perf_counter() - started)
        near = [row for row in range(cue - WINDOW, cue + WINDOW + 1) if row != cue and 0 <= row < seen]
        right = {f"{row // TOGETHER}/{row % TOGETHER}" for row in near if row // LENGTH == cue // LENGTH}
        found.append(len(right & {hit.id for hit in hits}) / len(right))
        faded = index.recall(flat[cue], k=10, decay=HALF_LIFE)
        recent.append(len(right & {hit.id for hit in faded}) / len(right))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "memories": len(index),
        "recall, ms, median": 1000 * float(np.median(seconds)),
        "recall, ms, fastest tenth": 1000 * float(np.quantile(seconds, 0.1)),
        "R@10 of recent cues": float(np.mean(found)),
        "R@10 with decay": float(np.mean(recent)),
        "files, MB": size / 1e6,
        "peak memory of the process, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }
