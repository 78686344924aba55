"""The start-up time relative to ``import numpy``: new processes, in turns, in one run.

    python -m benchmarks.performance.start [--rounds 7] [--memories 600]

The ratios use processor seconds, because other load on the machine changes them less than clock seconds; both are
stored. The start of Python itself is measured separately, and subtracted from each time. The first round compiles the
modules, as at a user's first start.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import report
from pam_retriever import FitConfig, PredictiveAssociativeIndex

DIM = 384


def steps(folder: Path) -> dict[str, list[str]]:
    """Returns the work of each process by name, as arguments of Python."""
    opened = f"from pam_retriever import PredictiveAssociativeIndex as I; i = I.open({str(folder)!r}, read_only=True)"
    vector = f"[1.0] * {DIM}"
    return {
        "python": ["-c", "pass"],
        "import numpy": ["-c", "import numpy"],
        "import pam_retriever": ["-c", "import pam_retriever"],
        "open": ["-c", opened],
        "first search": ["-c", f"{opened}; i.search({vector})"],
        "first recall": ["-c", f"{opened}; i.recall({vector})"],
        "pam-retriever recall --id": ["-m", "pam_retriever.apps.cli", "recall", str(folder), "--id", "7"],
        "import faiss": ["-c", "import faiss"],
        "import torch": ["-c", "import torch"],
    }


def seconds_of(arguments: list[str]) -> tuple[float, float]:
    """Returns the processor and clock seconds of a new process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.perf_counter() - began


def fitted(folder: Path, memories: int) -> None:
    """Writes a small fitted index with texts to a folder."""
    vectors = np.random.default_rng(0).standard_normal((memories, DIM), np.float32)
    ids = [str(row) for row in range(memories)]
    with PredictiveAssociativeIndex.open(folder, dim=DIM) as index:
        index.add(vectors, ids, texts=[f"memory {id}" for id in ids])
        outings = [ids[start : start + 20] for start in range(0, memories, 20)]
        index.fit(outings, config=FitConfig(hidden=512, passes=2), progress=False)


def main() -> None:
    """Measures, prints the table and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memories", type=int, default=600)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "index"
        fitted(folder, given.memories)
        what = steps(folder)
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in what}
        for turn in range(given.rounds + 1):
            for name, arguments in what.items():
                one = seconds_of(arguments)
                if turn:  # the first round fills the caches
                    taken[name].append(one)
    processor = {name: median(used for used, _ in of) for name, of in taken.items()}
    clock = {name: median(wall for _, wall in of) for name, of in taken.items()}
    base = processor["import numpy"] - processor["python"]
    ratios = {name: (processor[name] - processor["python"]) / base for name in what if name != "python"}
    print(f"{'':28}{'processor s':>12}{'clock s':>10}{'x import numpy':>16}")
    for name in what:
        ratio = f"{ratios[name]:16.2f}" if name in ratios else ""
        print(f"{name:28}{processor[name]:12.3f}{clock[name]:10.3f}{ratio}")
    result = {"memories": given.memories, "rounds": given.rounds, "processor": processor, "clock": clock}
    print(f"written to {report.write('performance/start', result | {'ratios': ratios, 'every': taken})}")


if __name__ == "__main__":
    main()
