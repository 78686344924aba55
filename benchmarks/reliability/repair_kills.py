"""kill -9 at random moments of ``repair`` and of the command line: no loss, and a second call completes the work.

    python -m benchmarks.reliability.repair_kills --kills 500

Three kinds of damaged folders (a flipped letter in a closed index; the same next to the journal of a killed writer; no
manifest) are repaired, by the function and by ``pam-retriever repair``. A file of events is read by
``pam-retriever fit``, into an index and into a tenant. After a kill, a complete repair must have the same result as an
uninterrupted one; the index of ``fit`` must be sound, and the same command must then store all events. Each child is
forked from a process that has imported the library.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.reliability.kills import campaign
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.apps.cli import main as command_line
from pam_retriever.store.folder.repair import check, repair

MEMORIES, DIM, EVENTS, TENANT = 200, 6, 60, "ann"
SMALL = FitConfig(hidden=8, passes=1)
Contents = list[tuple[Any, ...]]


def contents(index: PredictiveAssociativeIndex) -> Contents:
    """Returns every memory, and every trajectory."""
    memories = [(one.id, one.vector.tobytes(), one.text, one.metadata) for one in index.find()]
    return [*memories, *((one.id, tuple(one.ids)) for one in index.trajectories())]


def opened(folder: Path, tenant: bool) -> Contents:
    with PredictiveAssociativeIndex.open(folder) as index:
        return contents(index.tenant(TENANT)) if tenant else contents(index)


def make(folder: Path, seed: int) -> None:
    ids = [f"m{number}" for number in range(MEMORIES)]
    with PredictiveAssociativeIndex.open(folder, DIM) as index:
        vectors = np.random.default_rng(seed).standard_normal((MEMORIES, DIM))
        index.add(vectors, ids, [f"text {id}." for id in ids])
        index.fit([ids[:50]], window=1, config=SMALL, progress=False)


def damage(folder: Path, kind: str, seed: int) -> None:
    """Creates an index with damage of the given kind."""
    if kind == "journal":
        make(folder.with_name("writing"), seed)
        with PredictiveAssociativeIndex.open(folder.with_name("writing")) as index:
            index.add(np.ones((5, DIM)), [f"later{number}" for number in range(5)])
            shutil.copytree(folder.with_name("writing"), folder)
    else:
        make(folder, seed)
    (database,) = folder.glob("memories-*.sqlite")
    database.write_bytes(database.read_bytes().replace(b"text m3.", b"text mX."))
    if kind == "no manifest":
        (folder / "manifest.json").unlink()


def killed(call: Callable[[], object], seconds: float) -> bool:
    """Runs a call in a child, and kills the child after some seconds; returns whether the call was still running."""
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            call()
        os._exit(0)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


class Campaign:
    """Kills, and their results.

    Args:
        folder: an empty folder for the indexes.
        seed: seed of the indexes, and of the moments of the kills.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._random = folder, np.random.default_rng(seed)
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._expected: dict[str, Contents] = {}
        self._longest: dict[str, float] = {}
        for kind in ("letter", "journal", "no manifest"):
            damage(folder / kind, kind, seed)
            shutil.copytree(folder / kind, folder / "tried")
            self._time(kind, lambda: repair(folder / "tried"))
            self._expected[kind] = opened(folder / "tried", False)
            shutil.rmtree(folder / "tried")
            shutil.rmtree(folder / "writing", ignore_errors=True)
        self._events = folder / "events.jsonl"
        vectors = np.random.default_rng(seed).standard_normal((EVENTS, DIM)).round(4)
        lines = [
            {"id": f"e{at}", "text": f"event {at}", "vector": vector.tolist(), "session": f"s{at // 10}"}
            for at, vector in enumerate(vectors)
        ]
        self._events.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        for kind in ("fit", "fit of a tenant"):
            self._time(kind, lambda kind=kind: command_line(self._fit(kind, folder / "tried")))  # type: ignore[misc]
            self._expected[kind] = opened(folder / "tried", kind != "fit")
            shutil.rmtree(folder / "tried")

    def _time(self, kind: str, call: Callable[[], object]) -> None:
        began = time.perf_counter()
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123 - no file
            call()
        self._longest[kind] = 1.2 * (time.perf_counter() - began)

    def _fit(self, kind: str, index: Path) -> list[str]:
        tenant = [] if kind == "fit" else ["--tenant", TENANT]
        return ["fit", str(self._events), str(index), "--window=1", *tenant]

    def round(self, number: int) -> None:
        """Runs one kill, and returns the outcome."""
        kind = list(self._longest)[number % len(self._longest)]
        index, seconds = self._folder / "index", float(self._random.uniform(0, self._longest[kind]))
        if kind.startswith("fit"):
            command = self._fit(kind, index)
            self.counts[f"killed in {kind}"] += killed(lambda: command_line(command), seconds)
            self._fitted(kind, index, command)
        else:
            shutil.copytree(self._folder / kind, index)
            ways: list[Callable[[], object]] = [
                lambda: repair(index),
                lambda: command_line(["repair", str(index)]),
            ]
            self.counts[f"killed in repair ({kind})"] += killed(ways[number % 2], seconds)
            self._compare(kind, index, lambda: repair(index))
        left = [path.name for path in self._folder.iterdir() if path.name.startswith(".")]
        self.counts["hidden folders left"] += len(left)
        for path in (index, *(self._folder / name for name in left)):
            shutil.rmtree(path, ignore_errors=True)

    def _fitted(self, kind: str, index: Path, command: list[str]) -> None:
        if (index / "manifest.json").exists():
            self.failures += [f"{kind}: {line}" for line in check(index)]
        elif index.exists():
            self.failures.append(f"{kind}: a folder without a manifest")

        def again() -> None:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123 - no file
                command_line(command)

        self._compare(kind, index, again)

    def _compare(self, kind: str, index: Path, again: Callable[[], object]) -> None:
        """Checks that a second call, without a kill, has the result of an uninterrupted call."""
        self.counts["rounds"] += 1
        try:
            again()
            self.failures += [f"{kind}: {line}" for line in check(index)]
            if opened(index, kind == "fit of a tenant") != self._expected[kind]:
                self.failures.append(f"{kind}: other contents")
        except Exception as error:  # noqa: BLE001 - reported
            self.failures.append(f"{kind}: {error!r}")


def run(kills: int, seed: int, folder: Path) -> tuple[dict[str, int], list[str]]:
    """Runs ``kills`` kills; returns the counts, and every fault."""
    every = Campaign(folder, seed)
    for number in tqdm(range(kills), disable=None):
        every.round(number)
    return dict(every.counts), every.failures


def main() -> None:
    campaign(__doc__, run, "reliability/repair_kills")


if __name__ == "__main__":
    main()
