"""``python -m benchmarks.scaling.growth SIZE``: the cost of an index of SIZE memories, step by step, on one core.

The steps: add, fit one pass part by part, recall (speed, and recall@10 of the search against an exact scan), memory,
reopen. Each size has its own process, so that memory is measured per size. ``--plot`` fits the exponents over all
measured sizes. ``--keep`` keeps the index in a folder; an existing one is only queried again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import faiss
import numpy as np
import torch

from benchmarks import report
from benchmarks.scaling.world import LENGTH, World
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.ann.faiss import FaissBackend
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.rebuild import SQLiteRebuild
from pam_retriever.training import fit as learning
from pam_retriever.training.trainer import Trained, Trainer

Clock = tuple[float, float]
PARTS = ("add", "store trajectories", "train", "switch over", "reopen")
HIDDEN, BUFFER, BATCH, QUERIES = 512, 100_000, 50_000, 300
SHARES = (1, 0.25, 0.5, 2)  # searched cells, relative to the default


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("memories", type=int, nargs="?")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--backend", default="faiss:ivf,sq8")
    parser.add_argument("--folder", type=Path, help="folder on the disk to measure (default: that of temporary files)")
    parser.add_argument(
        "--keep", type=Path, help="folder in which the index is stored, or from which an existing one is opened"
    )
    parser.add_argument("--plot", action="store_true")
    arguments = parser.parse_args()
    if arguments.plot:
        plot()
        return
    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)
    world, name = World(arguments.memories, arguments.dim), f"scaling/growth_{arguments.memories}"
    if arguments.keep is not None:
        if not arguments.keep.exists():
            report.write(name, build(arguments.keep, world, arguments.backend))
        written = json.loads((report.RESULTS / f"{name}.json").read_text())
        result = {key: value for key, value in written.items() if key not in ("command", "finished", "hardware")}
        ask(arguments.keep, world, result)
    else:
        folder = Path(tempfile.mkdtemp(dir=arguments.folder))
        try:
            result = build(folder / "index", world, arguments.backend)
            ask(folder / "index", world, result)
        finally:
            shutil.rmtree(folder)
    print(json.dumps(result, indent=1))
    print(f"written to {report.write(name, result)}")


def now() -> Clock:
    """Returns wall time and processor time: on a shared core, wall time includes the work of others."""
    return time.perf_counter(), time.process_time()


def add_up(result: dict[str, Any], name: str, started: Clock) -> None:
    wall, cpu = now()
    result["seconds"][name] = result["seconds"].get(name, 0.0) + wall - started[0]
    result["cpu_seconds"][name] = result["cpu_seconds"].get(name, 0.0) + cpu - started[1]


def build(path: Path, world: World, backend: str) -> dict[str, Any]:
    """Adds and fits; returns the times."""
    result: dict[str, Any] = {"memories": world.memories, "dim": world.dim, "backend": backend}
    result["seconds"], result["cpu_seconds"] = {}, {}
    # separates the cost of adding from that of the ANN index, which is built only once
    with PredictiveAssociativeIndex.open(path, dim=world.dim, backend=backend) as index:
        at = 0
        for chunk in world.chunks(BATCH):
            ids = [str(number) for number in range(at, at + len(chunk))]
            started = now()
            index.add(chunk, ids)
            add_up(result, "add", started)
            at += len(chunk)
        print("added", result["seconds"], flush=True)
        walks = ([str(n) for n in range(s, s + LENGTH)] for s in range(0, world.memories, LENGTH))
        config = FitConfig(passes=1, hidden=HIDDEN)
        clocks: list[Clock] = []
        commit = SQLiteRebuild.commit

        class Timed(Trainer):
            def __init__(self, *arguments: Any, **settings: Any) -> None:
                clocks.append(now())
                super().__init__(*arguments, **settings)

            def run(self) -> Trained:
                trained = super().run()
                clocks.append(now())
                return trained

        def committing(*arguments: Any, **settings: Any) -> None:
            started = now()
            commit(*arguments, **settings)
            add_up(result, "of it, others wait", started)

        SQLiteRebuild.commit = committing
        mock.patch.object(learning, "Trainer", Timed).start()
        clocks.insert(0, now())
        fitted = index.fit(walks, config=config, buffer=BUFFER, progress=False)
        clocks.append(now())
        for name, before, after in zip(
            ("store trajectories", "train", "switch over"), clocks, clocks[1:], strict=False
        ):
            result["seconds"][name], result["cpu_seconds"][name] = after[0] - before[0], after[1] - before[1]
        result["fit"] = {"steps": fitted.steps, "parameters": fitted.parameters, "loss": fitted.losses[-1]}
        result["peak_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print("fitted", result["seconds"], flush=True)
        started = now()
    add_up(result, "close", started)
    result["disk_bytes"] = sum(file.stat().st_size for file in path.iterdir())
    return result


def ask(path: Path, world: World, result: dict[str, Any]) -> None:
    """Opens the closed index, without its files in the system's cache, and sends queries."""
    seconds = result["seconds"], result["cpu_seconds"]
    for name, cold in (("reopen", False), ("reopen, cold", True)):
        for file in path.iterdir() if cold else ():
            with file.open("rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for times in seconds:
            times.pop(name, None)
        started = now()
        with PredictiveAssociativeIndex.open(path) as index:
            add_up(result, name, started)
            assert len(index.recall("0", k=10)) == 10
            for times in seconds:
                times.pop("first answer and verification", None)
            database, keys = index._store.database, index._store.associative
            assert isinstance(database, SQLiteDatabase)
            assert isinstance(keys, FaissBackend)
            database.finish_verifying()
            add_up(result, "first answer and verification", started)
            if not cold:
                continue
            print("opened", result["seconds"], flush=True)
            result["look_up"] = look_up(index, keys)
            result["recall"] = recall(index, world)
            result["bytes_a_memory"] = keys.bytes / world.memories
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            result["resident_bytes"] = pages * os.sysconf("SC_PAGE_SIZE")


def look_up(index: PredictiveAssociativeIndex, backend: FaissBackend) -> dict[str, Any]:
    """Returns recall@10 of the compressed search against an exact scan of the same keys, and its speed."""
    rows = np.arange(1, len(index) + 1)
    random = np.random.default_rng(3)
    keys = backend.keys(np.sort(random.choice(rows, QUERIES, replace=False)))
    dim = index._store.dim
    p, f, e = keys[:, :dim], keys[:, dim : 2 * dim], keys[:, 2 * dim :]
    zero = np.zeros_like
    kinds = {
        "similarity": np.concatenate([p, zero(f), zero(e)], axis=1),
        "learnt": np.concatenate([0.25 * f, 0.25 * p + 0.5 * f, 4 * e], axis=1),
        "not learnt": np.concatenate([8 * f, 12 * p + 4 * f, zero(e)], axis=1),
    }
    best = {name: (np.full((QUERIES, 10), -np.inf), np.full((QUERIES, 10), -1)) for name in kinds}
    for part in np.array_split(rows, -(-len(rows) // 50_000)):
        stored = backend.keys(part)
        for name, queries in kinds.items():
            scores = queries @ stored.T
            top = np.argpartition(-scores, 10, axis=1)[:, :10]
            both = np.concatenate([best[name][0], np.take_along_axis(scores, top, axis=1)], axis=1)
            which = np.concatenate([best[name][1], part[top]], axis=1)
            order = np.argsort(-both, axis=1)[:, :10]
            best[name] = np.take_along_axis(both, order, axis=1), np.take_along_axis(which, order, axis=1)
    cells = backend._cells
    assert cells is not None
    result: dict[str, Any] = {"cells": backend.choice.cells, "probed": cells.usual, "measured": cells.measured}
    for share in SHARES:
        backend.probed = None if share == 1 else max(1, int(share * cells.usual))
        one = {name: searched(backend, queries, best[name][1]) for name, queries in kinds.items()}
        if share == 1:
            result |= one
        else:
            result[f"{backend.probed} probed"] = one
    backend.probed = None
    return result


def searched(backend: Any, queries: np.ndarray, best: np.ndarray) -> dict[str, float]:
    """Returns recall@10 and speed of single searches."""
    times, hits = [], []
    for at in range(len(queries)):
        started = now()
        found = backend.search(queries[at : at + 1], 10)[1]
        times.append(since(started))
        hits.append(np.isin(found[0], best[at]).mean())
    return {"recall@10": float(np.mean(hits)), **quantiles(times)}


def recall(index: PredictiveAssociativeIndex, world: World) -> dict[str, Any]:
    """Returns the speed of default recall by id and by a noisy vector, and the number of associates in its hits."""
    random = np.random.default_rng(4)
    chosen = random.integers(0, world.memories, QUERIES)
    by_id, by_vector, found = [], [], []
    for cue in chosen.tolist():
        started = now()
        hits = index.recall(str(cue), k=10)
        by_id.append(since(started))
        first = cue - cue % LENGTH
        near = {n for n in range(max(first, cue - 5), min(first + LENGTH, cue + 6)) if n != cue}
        found.append(len(near & {int(hit.id) for hit in hits}) / len(near))
        vector = index.get([str(cue)])[0].vector
        vector = vector + 0.03 * random.standard_normal(world.dim) * np.linalg.norm(vector) / np.sqrt(world.dim / 128)
        started = now()
        index.recall(vector.astype(np.float32), k=10)
        by_vector.append(since(started))
    return {"by id": {**quantiles(by_id), "associates found": float(np.mean(found))}, "by vector": quantiles(by_vector)}


def since(started: Clock) -> Clock:
    wall, cpu = now()
    return wall - started[0], cpu - started[1]


def quantiles(times: list[Clock]) -> dict[str, float]:
    (p50, p99), (cpu50, cpu99) = np.quantile(np.array(times), [0.5, 0.99], axis=0).T
    return {"p50_ms": 1e3 * p50, "p99_ms": 1e3 * p99, "p50_cpu_ms": 1e3 * cpu50, "p99_cpu_ms": 1e3 * cpu99}


def plot() -> None:
    """Fits log-log exponents over all sizes, and draws the figure."""
    import matplotlib.pyplot as plt

    files = report.RESULTS.glob("scaling/growth_[0-9]*.json")
    runs = sorted((json.loads(file.read_text()) for file in files), key=lambda run: run["memories"])
    sizes = np.array([run["memories"] for run in runs], float)
    costs = {
        **{f"{name} (s)": [run["cpu_seconds"][name] for run in runs] for name in PARTS},
        "recall by id, p50 (ms)": [run["recall"]["by id"]["p50_cpu_ms"] for run in runs],
        "recall by vector, p50 (ms)": [run["recall"]["by vector"]["p50_cpu_ms"] for run in runs],
        "peak memory (GB)": [run["peak_bytes"] / 1e9 for run in runs],
        "disk (GB)": [run["disk_bytes"] / 1e9 for run in runs],
    }
    large = sizes >= 100_000  # at smaller sizes, constant costs dominate
    lines = {
        name: np.polyfit(np.log(sizes[large]), np.log(np.array(values)[large]), 1) for name, values in costs.items()
    }
    exponents = {name: float(line[0]) for name, line in lines.items()}
    figure, axes = plt.subplots(figsize=(7, 5))
    for name, values in costs.items():
        axes.loglog(sizes, values, marker="o", label=f"{name}: n^{exponents[name]:.2f}")
    axes.set_xlabel("memories")
    axes.legend(fontsize=8)
    axes.grid(visible=True, alpha=0.3)
    figure.tight_layout()
    picture = Path(__file__).parents[1] / "notes" / "images" / "scaling_growth.png"
    figure.savefig(picture, dpi=110)
    path = report.write("scaling/growth", {"sizes": sizes.tolist(), "costs": costs, "exponents_from_100000": exponents})
    print(exponents, f"written to {path} and {os.path.relpath(picture)}")


if __name__ == "__main__":
    main()
