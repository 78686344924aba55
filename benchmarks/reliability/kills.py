"""kill -9 at random moments of a mixed load; every reopened index is compared with the model.

    python -m benchmarks.reliability.kills --kills 500

The writer logs the start and the end of each operation. After the kill, the index must contain every
operation that returned, the operation in flight completely or not at all, and nothing else; ``check`` must find no
fault. After every second kill a reader opens the index first, and must recover the journal. The writer is forked from a
process that has imported the library, so that each run takes a fraction of a second.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from benchmarks import report
from benchmarks.reliability.load import CONFIG, DIM, Model, draw
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.store.folder.repair import check

LIVES = 25  # kills per folder
LONGEST = 0.8  # seconds until the kill


def main() -> None:
    campaign(__doc__, run, "reliability/kills")


def campaign(
    description: str | None, run: Callable[[int, int, Path], tuple[dict[str, int], list[str]]], name: str
) -> None:
    """Runs kills from the command line: writes the results, and exits with 1 on a failure.

    Args:
        description: the text of ``--help``.
        run: takes the number of kills, the seed and an empty folder; returns counts and failures.
        name: name of the result file.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args()
    torch.set_num_threads(1)  # threads do not survive a fork
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        counts, failures = run(parsed.kills, parsed.seed, Path(folder))
    path = report.write(name, {"seed": parsed.seed, "counts": counts, "failures": failures})
    print(counts, failures, path, sep="\n")
    sys.exit(bool(failures))


def warm_up() -> None:
    """Loads the lazy parts of torch before the forks; otherwise every kill would hit a writer in its first fit."""
    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(np.eye(DIM), [str(number) for number in range(DIM)])
    index.fit([[str(number) for number in range(DIM)]], config=CONFIG, progress=False)


def run(kills: int, seed: int, folder: Path) -> tuple[dict[str, int], list[str]]:
    """Kills a writer ``kills`` times; returns the counts, and every difference from the model."""
    random = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    model, number = Model(), 0
    for life in tqdm(range(kills), disable=None):
        path, log = folder / f"index{life // LIVES}", folder / "log"
        if life % LIVES == 0:
            model = Model()
        log.write_bytes(b"")
        _live_and_die(path, log, folder / "spare", seed, number, model, float(random.uniform(0, LONGEST)))
        begun, done = _read(log)
        counts["kills"] += 1
        for at in range(number, number + done):
            operation = draw(seed, at, model)
            counts[f"acknowledged {operation.kind}"] += 1
            model = model.after(operation)
        number += done
        candidates = [model]
        if begun > done:
            inflight = draw(seed, number, model)
            counts[f"killed in {inflight.kind}"] += 1
            candidates.append(model.after(inflight))
            number += 1
        else:
            counts["killed between operations, or while opening"] += 1
        if not path.exists():
            counts["killed before the folder was there"] += 1
            if done:
                failures.append(f"life {life}: the folder is gone")
            continue
        model, wrong = _compare(path, candidates, read_first=bool(life % 2))
        counts["in flight: there"] += begun > done and model is candidates[-1]
        counts["in flight: not there"] += begun > done and model is candidates[0]
        failures += [f"life {life}: {line}" for line in wrong]
        if (folder / "spare").exists() and life % 10 == 9:
            failures += [f"life {life}: saved copy: {line}" for line in _check_spare(folder / "spare")]
        if life % LIVES == LIVES - 1:
            shutil.rmtree(path)
    return dict(counts), failures


def _live_and_die(path: Path, log: Path, spare: Path, seed: int, number: int, model: Model, seconds: float) -> None:
    """Runs a writer in its own process, and kills it after some seconds."""
    child = os.fork()
    if not child:
        status = 1
        try:
            written = os.open(log, os.O_WRONLY | os.O_APPEND)
            index = PredictiveAssociativeIndex.open(path, dim=DIM)
            while True:
                operation = draw(seed, number, model)
                os.write(written, b"begin\n")
                operation.run(index, spare)
                os.write(written, b"done\n")
                model, number = model.after(operation), number + 1
        except BaseException as error:  # noqa: BLE001 - a child must not run on as its parent
            os.write(written, f"error {error!r}\n".encode())
        finally:
            os._exit(status)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _read(log: Path) -> tuple[int, int]:
    """Returns how many operations began, and how many returned."""
    lines = log.read_text().splitlines()
    errors = [line for line in lines if line.startswith("error")]
    if errors:
        raise SystemExit(f"the writer failed: {errors}")
    return lines.count("begin"), lines.count("done")


def _compare(path: Path, candidates: list[Model], read_first: bool) -> tuple[Model, list[str]]:
    """Returns the candidate that equals the index, and the differences if no candidate does."""
    wrong: list[str] = []
    if read_first:
        with PredictiveAssociativeIndex.open(path, read_only=True) as index:
            if all(candidate.differs(index) for candidate in candidates):
                wrong.append(f"read-only: {candidates[-1].differs(index)}")
    wrong += check(path)
    with PredictiveAssociativeIndex.open(path) as index:
        for candidate in candidates:
            if candidate.differs(index) is None:
                return candidate, wrong
        return candidates[0], [*wrong, str(candidates[0].differs(index))]


def _check_spare(spare: Path) -> list[str]:
    """Checks that a folder that was being overwritten contains exactly the old index or the new index."""
    return check(spare)


if __name__ == "__main__":
    main()
