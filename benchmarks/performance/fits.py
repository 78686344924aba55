"""``python -m benchmarks.performance.fits``: the cost of a fit of a few hundred memories, and of a fit after 20 more.

Sessions are random vectors (384 numbers, 22 turns each): the cost of a fit depends on number and shape only. The 20
turns are added in every supported way, each on its own index, saved after its first fit. The ways take turns. Both
processor seconds and clock seconds are reported, because other load on the machine increases clock times.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import report
from pam_retriever import FitReport, PredictiveAssociativeIndex, Trajectory

DIM, SESSION, NEW = 384, 22, 20
Fit = Callable[[PredictiveAssociativeIndex, np.ndarray], FitReport]


def fill(index: PredictiveAssociativeIndex, vectors: np.ndarray) -> PredictiveAssociativeIndex:
    metadatas = [{"session": at // SESSION, "time": at} for at in range(len(vectors))]
    index.add(vectors, [f"m{at}" for at in range(len(vectors))], metadatas=metadatas)
    return index


def by_group(index: PredictiveAssociativeIndex, new: np.ndarray) -> FitReport:
    """Adds the turns, and fits all sessions again as ordered groups."""
    metadatas = [{"session": 10_000, "time": 10**6 + at} for at in range(len(new))]
    index.add(new, [f"n{at}" for at in range(len(new))], metadatas=metadatas)
    return index.fit(group_by="session", order_by="time", progress=False)


def appended(index: PredictiveAssociativeIndex, new: np.ndarray) -> FitReport:
    for at, vector in enumerate(new):
        index.append("new", vector, id=f"n{at}")
    return index.fit(progress=False)


def observed(index: PredictiveAssociativeIndex, new: np.ndarray) -> FitReport:
    index.observe(Trajectory(vectors=new, id="new"))
    return index.fit(progress=False)


def given(index: PredictiveAssociativeIndex, new: np.ndarray) -> FitReport:
    return index.fit([new], progress=False)


def grown(index: PredictiveAssociativeIndex, new: np.ndarray) -> FitReport:
    """Sends the whole last session again, with the turns at its end."""
    last = index.trajectories()[-1]
    index.add(new, [f"n{at}" for at in range(len(new))])
    ids = [*last.ids, *(f"n{at}" for at in range(len(new)))]
    return index.fit([Trajectory(ids=ids, id=last.id)], progress=False)


def in_background(index: PredictiveAssociativeIndex, new: np.ndarray) -> FitReport:
    index.observe(Trajectory(vectors=new, id="new"))
    return index.fit(background=True, progress=False).result()


def in_parts(index: PredictiveAssociativeIndex, new: np.ndarray) -> FitReport:
    return index.fit(iter([new]), progress=False)


WAYS: dict[str, Fit] = {
    "group_by": by_group,
    "append": appended,
    "observe": observed,
    "a trajectory": given,
    "a session that has grown": grown,
    "in the background": in_background,
    "an iterator": in_parts,
}


def clocked(fit: Callable[[], FitReport]) -> dict[str, float]:
    began, processor = time.perf_counter(), time.process_time()
    done = fit()
    return {
        "clock": time.perf_counter() - began,
        "processor": time.process_time() - processor,
        "training": done.seconds,
        "steps": done.steps,
    }


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(median(run[name] for run in runs), 3) for name in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--few", type=int, nargs="+", default=[400, 600], help="sizes of the small indexes")
    parser.add_argument("--many", type=int, default=2_000, help="size of the index that gets 20 more memories")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    vectors = random.standard_normal((arguments.many + NEW, DIM)).astype(np.float32)

    def first_fit(count: int) -> FitReport:
        index = fill(PredictiveAssociativeIndex(dim=DIM), vectors[:count])
        return index.fit(group_by="session", order_by="time", progress=False)

    first_fit(SESSION)  # imports
    firsts: dict[int, list[dict[str, float]]] = {count: [] for count in arguments.few}
    for _ in range(arguments.rounds):
        for count, taken in firsts.items():
            taken.append(clocked(lambda count=count: first_fit(count)))
    few = {f"first fit of {count}": medians(taken) for count, taken in firsts.items()}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        first = fill(PredictiveAssociativeIndex(dim=DIM), vectors[:-NEW])
        many = clocked(lambda: first.fit(group_by="session", order_by="time", progress=False))
        first.save(path)
        for _ in range(arguments.rounds):
            for name, fit in WAYS.items():
                index = PredictiveAssociativeIndex.load(path)
                runs[name].append(clocked(lambda fit=fit, index=index: fit(index, vectors[-NEW:])))
    result: dict[str, Any] = {
        "rounds": arguments.rounds,
        **few,
        f"first fit of {arguments.many}": many,
        f"{NEW} more on {arguments.many}": {name: medians(found) for name, found in runs.items()},
    }
    for name, found in {**result[f"{NEW} more on {arguments.many}"], **few}.items():
        print(f"{name:28} {found['clock']:6.2f} s of the clock, {found['processor']:6.2f} of the processor")
    print(f"written to {report.write('performance/fits', result)}")


if __name__ == "__main__":
    main()
