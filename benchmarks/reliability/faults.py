"""A mixed load on a disk that fills up, with failing writes, and with a folder that disappears.

    python -m benchmarks.reliability.faults --rounds 200

In each round an operation runs on a full disk (a small tmpfs, if the process may mount one) or under a varying limit on
the size of files, beyond which every write fails. The call must raise ``StorageError`` or succeed. After a failed
call the open index and the reopened folder must have their earlier contents. Then space is freed, and the load
continues.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import resource
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from tqdm import tqdm

from benchmarks import report
from benchmarks.reliability.load import DIM, Model, draw
from pam_retriever import PredictiveAssociativeIndex, StorageError
from pam_retriever.ann import factory as choice
from pam_retriever.store.folder.repair import check

TMPFS = 3_000_000  # bytes
REOPENED_EVERY = 10
BACKENDS = {"": "faiss", ", compressed": "faiss:flat,sq8"}  # the second also has a file of full keys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    results, failures = {}, []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for kind, backend in BACKENDS.items():
            position = folder / backend.replace(":", "-")
            results[f"failing writes{kind}"], wrong = run(
                position / "a", parsed.rounds, parsed.seed, limited_files, backend
            )
            failures += wrong
        mounted = folder / "small"
        mounted.mkdir()
        if mount(mounted):
            try:
                for kind, backend in BACKENDS.items():
                    name = f"full disk{kind}"
                    results[name], wrong = run(mounted / "a", parsed.rounds, parsed.seed, full_disk, backend)
                    failures += wrong
                    for left in mounted.iterdir():
                        shutil.rmtree(left)
            finally:
                gc.collect()  # releases objects that the errors refer to
                ctypes.CDLL(None).umount(str(mounted).encode())
        else:
            results["full disk"] = {"not run: no right to mount a tmpfs": 1}
    path = report.write("reliability/faults", {"seed": parsed.seed, **results, "failures": failures})
    print(results, failures, path, sep="\n")
    sys.exit(bool(failures))


def run(folder: Path, rounds: int, seed: int, fault: object, backend: str) -> tuple[dict[str, int], list[str]]:
    """Runs every operation with a fault; repeats failed operations without the fault."""
    with patch.object(choice, "IVF_FROM", 1):  # also compresses the few memories of this load
        return _run(folder, rounds, seed, fault, backend)


def _run(folder: Path, rounds: int, seed: int, fault: object, backend: str) -> tuple[dict[str, int], list[str]]:
    random = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    model = Model()
    folder.parent.mkdir(exist_ok=True)
    index = PredictiveAssociativeIndex.open(folder, dim=DIM, backend=backend)
    for number in tqdm(range(rounds), disable=None):
        operation = draw(seed, number, model)
        try:
            with fault(folder.parent, random):  # type: ignore[operator]
                operation.run(index, folder.with_name("saved"))
            counts["succeeded all the same"] += 1
            model = model.after(operation)
        except StorageError as error:
            counts[f"{operation.kind} refused"] += 1
            counts[f"said: {_reason(str(error))}"] += 1
            stored = "stored already" in str(error)  # the operation is in the database; only the full keys did not fit
            wrong = (model.after(operation) if stored else model).differs(index)
            if wrong:
                failures.append(f"round {number}, {operation}: after the failure {wrong}")
            operation.run(index, folder.with_name("saved"))  # there is space again
            counts["repeated with room, and succeeded"] += 1
            model = model.after(operation)
        wrong = model.differs(index)
        if wrong:
            failures.append(f"round {number}, {operation}: {wrong}")
        if number % REOPENED_EVERY == 0:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                index.close()
            failures += [f"round {number}: {line}" for line in check(folder)]
            index = PredictiveAssociativeIndex.open(folder)
            wrong = model.differs(index)
            counts["reopened"] += 1
            if wrong:
                failures.append(f"round {number}: reopened: {wrong}")
    index.close()
    return dict(counts), failures


@contextmanager
def limited_files(_: Path, random: np.random.Generator) -> Iterator[None]:
    """Limits the size of files, so that a write fails in the middle, as on a disk with a bad sector."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(random.integers(100, 60_000)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def full_disk(folder: Path, random: np.random.Generator) -> Iterator[None]:
    """Fills the disk with a file, except a few kilobytes."""
    ballast = folder / "ballast"
    left = shutil.disk_usage(folder).free - int(random.integers(0, 60_000))
    descriptor = os.open(ballast, os.O_CREAT | os.O_WRONLY)
    try:
        if left > 0:
            os.posix_fallocate(descriptor, 0, left)
        yield
    finally:
        os.close(descriptor)
        ballast.unlink()


def mount(folder: Path) -> bool:
    """Mounts a small disk; returns False without the permission to mount."""
    return ctypes.CDLL(None).mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, f"size={TMPFS}".encode()) == 0


def _reason(message: str) -> str:
    reasons = ["File too large", "No space left", "full", "disk I/O error", "unable to open"]
    return next((reason for reason in reasons if reason in message), message)


if __name__ == "__main__":
    main()
