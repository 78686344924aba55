"""A short form of every check in this folder, for the test suite: a minute on one core.

python -m benchmarks.reliability.short
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.reliability import compressed_kills, faults, flips, kills, operations, shared_kills
from benchmarks.reliability import fuzz as fuzzing
from benchmarks.reliability.threads import Soak
from benchmarks.report import no_arguments

OPERATIONS = 600  # per backend


def kill(folder: Path) -> list[str]:
    return kills.run(12, seed=7, folder=folder)[1]


def share(folder: Path) -> list[str]:
    return shared_kills.run(12, seed=7, folder=folder)[1]


def kill_compressed(folder: Path) -> list[str]:
    return compressed_kills.run(len(compressed_kills.BACKENDS), seed=7, folder=folder)[1]


def fail_writes(folder: Path) -> list[str]:
    found = []
    for backend in faults.BACKENDS.values():
        inside = folder / backend.replace(":", "-")
        counts, failures = faults.run(inside / "index", 40, 7, faults.limited_files, backend)
        found += failures if sum(n for kind, n in counts.items() if kind.endswith("refused")) else ["nothing failed"]
    return found


def flip(folder: Path) -> list[str]:
    flips.make_saved(folder / "saved")  # this runs a fit, so it must come after the forks
    counts = flips.damage_each_byte(folder / "saved", 100, np.random.default_rng(7))
    return [name for name in counts if "silently" in name or "other error" in name]


def operate(folder: Path) -> list[str]:  # noqa: ARG001 - makes its own folders
    results = {backend: operations.run(backend, OPERATIONS, 7) for backend in operations.BACKENDS}
    return [f"{backend}: {result['difference']}" for backend, result in results.items() if result["difference"]]


def soak(folder: Path) -> list[str]:
    result = Soak(folder / "index", memories=300, dim=8, seed=7).run(3, readers=8)
    missing = {"search", "faithful", "add, observe, delete", "fit"} - set(result["counts"])
    return [*result["errors"], *(f"no {kind} took place" for kind in missing)]


def fuzz(folder: Path) -> list[str]:
    """Runs three seconds of each target, from valid inputs, if atheris is installed."""
    failures = []
    for target in fuzzing.SEEDS if find_spec("atheris") else ():
        done = fuzzing.run(target, 3, 7, folder)
        if done.returncode:
            failures.append(f"{target}: {done.stderr[-2000:]}")
    return failures


# kill and share fork writers that fit, which torch allows only before the first fit of this process
CHECKS: list[Callable[[Path], list[str]]] = [kill, share, kill_compressed, flip, fail_writes, operate, soak, fuzz]


def main() -> None:
    torch.set_num_threads(1)
    failed: dict[str, Any] = {}
    for check in CHECKS:
        with tempfile.TemporaryDirectory() as made:
            failed[check.__name__] = check(Path(made))
        print(check.__name__, failed[check.__name__] or "held", flush=True)
    sys.exit(any(failed.values()))


if __name__ == "__main__":
    no_arguments(__doc__)
    main()
