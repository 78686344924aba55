"""Streaming: an index on disk with a capacity of 50,000 observes a million states (pam.tex 3.9).

The predictor is trained on the first 10,000 states. Then the stream continues in trajectories of 500 states: fifty
episodes, whose numbers serve as times. Each mark reports the number of memories, the size of the files, the time of a
recall, and the share of the associates of recent cues that recall finds. A copy of the index, made when the index first
reached its capacity, answers queries about its own recent cues. Index and copy take turns, so that other load on the
machine slows both.
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
from pam_retriever.types import Float32, Hit

STATES, CAPACITY, TRAINED, TOGETHER = 1_000_000, 50_000, 10_000, 500
CONFIG = FitConfig(hidden=256, passes=20)
MARKS = (50_000, 100_000, 200_000, 400_000, 600_000, 800_000, 1_000_000)
CUES, RECENT, HALF_LIFE = 200, 200, 100.0  # RECENT and HALF_LIFE count episodes


def run(seed: int) -> dict[str, Any]:
    states, _ = build(seed).episodes(STATES // LENGTH, seed)
    flat = states.reshape(-1, DIM)
    trips = [round_trip(flat, start) for start in range(0, STATES, TOGETHER)]
    first = TRAINED // TOGETHER
    copy: tuple[PredictiveAssociativeIndex, int] | None = None
    with (
        tempfile.TemporaryDirectory() as name,
        tempfile.TemporaryDirectory() as folder_of_copy,
        PredictiveAssociativeIndex.open(name, DIM, "faiss:flat") as index,
    ):
        folder = Path(name)
        index.set_capacity(CAPACITY)
        index.fit(trips[:first], window=WINDOW, config=CONFIG, progress=False)
        columns, spent = {f"{TRAINED:,}": measure(index, flat, TRAINED, folder, copy)}, 0.0
        for at in range(first, len(trips)):
            started = time.perf_counter()
            index.observe(trips[at])
            spent += time.perf_counter() - started
            seen = (at + 1) * TOGETHER
            if seen in MARKS:
                columns[f"{seen:,}"] = measure(index, flat, seen, folder, copy)
            if seen == MARKS[0]:
                index.save(folder_of_copy, overwrite=True)
                copy = PredictiveAssociativeIndex.load(folder_of_copy), seen
        forgotten = index.prune(keep=CAPACITY // 2)
        columns["pruned to half"] = measure(index, flat, STATES, folder, copy)
        assert copy is not None
        copy[0].close()
    against = [columns[f"{seen:,}"]["times that of the copy"] for seen in MARKS[1:]]
    return {
        "observed_per_second": (STATES - TRAINED) / spent,
        "median_latency_against_the_copy": [min(against), max(against)],
        "pruned": forgotten,
        "tables": {"after so many states": columns},
    }


def round_trip(flat: Float32, start: int) -> Trajectory:
    times = (np.arange(start, start + TOGETHER) // LENGTH).astype(float)
    return Trajectory(vectors=flat[start : start + TOGETHER], timestamps=times.tolist(), id=str(start // TOGETHER))


def measure(
    index: PredictiveAssociativeIndex,
    flat: Float32,
    seen: int,
    folder: Path,
    copy: tuple[PredictiveAssociativeIndex, int] | None,
) -> dict[str, float]:
    """Measures the index after ``seen`` states; ``copy`` is an earlier copy, with its number of states."""
    random = np.random.default_rng(seen)
    cues = random.integers(seen - RECENT * LENGTH, seen, CUES)
    seconds, of_copy, found, recent = [], [], [], []
    for cue in cues.tolist():
        hits, taken = timed(index, flat[cue])
        seconds.append(taken)
        if copy is not None:
            of_copy.append(timed(copy[0], flat[cue - seen + copy[1]])[1])
        near = [row for row in range(cue - WINDOW, cue + WINDOW + 1) if row != cue and 0 <= row < seen]
        right = {f"{row // TOGETHER}/{row % TOGETHER}" for row in near if row // LENGTH == cue // LENGTH}
        found.append(len(right & {hit.id for hit in hits}) / len(right))
        faded = index.recall(flat[cue], k=10, decay=HALF_LIFE)
        recent.append(len(right & {hit.id for hit in faded}) / len(right))
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "memories": len(index),
        "recall, ms, median": 1000 * float(np.median(seconds)),
        **({"times that of the copy": float(np.median(seconds) / np.median(of_copy))} if of_copy else {}),
        "R@10 of recent cues": float(np.mean(found)),
        "R@10 with decay": float(np.mean(recent)),
        "files, MB": size / 1e6,
        "peak memory of the process, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def timed(index: PredictiveAssociativeIndex, cue: Float32) -> tuple[list[Hit], float]:
    started = time.perf_counter()
    hits = index.recall(cue, k=10)
    return hits, time.perf_counter() - started
