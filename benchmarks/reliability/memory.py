"""RAM and disk space of an index per stored memory, at two sizes, each opened in its own process.

python -m benchmarks.reliability.memory --memories 50000 --dim 384
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from pam_retriever import FitConfig, PredictiveAssociativeIndex

TEXT = 200  # characters
CONFIG = FitConfig(hidden=64, passes=1)


def make(folder: Path, memories: int, dim: int, backend: str) -> None:
    random = np.random.default_rng(1)
    with PredictiveAssociativeIndex.open(folder, dim=dim, backend=backend) as index:
        for start in range(0, memories, 10_000):
            ids = [f"id{n}" for n in range(start, min(start + 10_000, memories))]
            vectors = random.standard_normal((len(ids), dim), dtype=np.float32)
            index.add(vectors, ids, ["x" * TEXT] * len(ids), [{"session": n // 20} for n in range(len(ids))])
        index.fit([[f"id{n}" for n in range(20)]], config=CONFIG, time_budget=1, progress=False)


def measure(folder: Path, how: str) -> dict[str, Any]:
    """Returns the resident memory and the time of opening, in this process."""
    before, started = _resident(), time.perf_counter()
    if how == "load":
        index = PredictiveAssociativeIndex.load(folder)
    else:
        index = PredictiveAssociativeIndex.open(folder, read_only=how == "read_only")
    index.recall("id0", k=10)
    index.recall(np.ones(index.dim), k=10)  # reads every key
    found = {"bytes": _resident() - before, "seconds": round(time.perf_counter() - started, 2), "backend": repr(index)}
    index.close()
    return found


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--backend", default="faiss:flat")
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "HOW"), help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.measure:
        print(json.dumps(measure(Path(parsed.measure[0]), parsed.measure[1])))
        return
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        for size in (parsed.memories // 2, parsed.memories):
            folder = Path(made) / str(size)
            make(folder, size, parsed.dim, parsed.backend)
            found[f"disk {size}"] = sum(path.stat().st_size for path in folder.iterdir())
            for how in ("open", "read_only", "load"):
                command = [sys.executable, "-m", "benchmarks.reliability.memory", "--measure", str(folder), how]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[f"{how} {size}"] = json.loads(done.stdout.splitlines()[-1])
    small, large = parsed.memories // 2, parsed.memories
    slope = {how: (found[f"{how} {large}"]["bytes"] - found[f"{how} {small}"]["bytes"]) / (large - small)
             for how in ("open", "read_only", "load")}  # fmt: skip
    slope["disk"] = (found[f"disk {large}"] - found[f"disk {small}"]) / (large - small)
    result = {**vars(parsed), "text_characters": TEXT, "bytes_per_memory": slope, "measured": found}
    print(slope, report.write(f"reliability/memory-{parsed.backend.replace(':', '-')}", result))


if __name__ == "__main__":
    sys.exit(main())
