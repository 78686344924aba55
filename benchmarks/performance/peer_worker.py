"""One store in its own process, for ``peers``: it reads a command, executes and times it, and answers."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.performance.peer_compressed import COMPRESSED
from benchmarks.performance.peer_data import K, World
from benchmarks.performance.peer_stores import STORES

Answer = dict[str, Any]


class Worker:
    """Executes commands, and reports their cost.

    Args:
        name: name of the store.
        folder: folder of the store's files.
        world: folder of the rows and questions.
        compressed: whether the store uses the index that it recommends for a million rows.
    """

    def __init__(self, name: str, folder: Path, world: Path, compressed: bool) -> None:
        self._world, self._store = World(world), (COMPRESSED if compressed else STORES)[name]()
        self._folder = folder

    def open(self, first: int) -> Answer:
        """Opens the store. If ``first`` is not negative, also runs that query before it returns."""

        def run() -> None:
            self._store.open(self._folder, self._world.dim)
            if first >= 0:
                self._store.search(self._world.queries[first], K, None)

        return clocked(run)

    def add(self, start: int, end: int) -> Answer:
        """Stores some rows."""
        rows = self._world.rows(start, end)
        return clocked(lambda: self._store.add(rows))

    def settle(self) -> Answer:
        """Runs the store's maintenance after adding."""
        return clocked(self._store.settle)

    def search(self, kind: str, at: int) -> Answer:
        """Runs one query, given by its number; returns the recall of the exact answer."""
        query, bounds = self._world.queries[at], self._world.filter_of(kind, at)
        if bounds is not None:
            _ = bounds.bits  # computed before the timing, for FAISS
        found: list[str] = []
        taken = clocked(lambda: found.extend(self._store.search(query, K, bounds)))
        return {**taken, "recall": self._world.recall(kind, at, found)}

    def batch(self, size: int) -> Answer:
        """Runs many queries in one call."""
        return clocked(lambda: self._store.batch(self._world.queries[:size], K))

    def close(self) -> Answer:
        """Closes the store; returns its disk space, its peak memory, and the memory before closing that is no file."""
        held = status("RssAnon")
        taken = clocked(self._store.close)
        disk = sum(file.stat().st_size for file in self._folder.rglob("*") if file.is_file())
        return {**taken, "disk": disk, "peak_memory": status("VmHWM"), "held_memory": held}


def clocked(run: Callable[[], object]) -> Answer:
    """Returns clock seconds, and processor seconds of all cores."""
    began, processor = time.perf_counter(), time.process_time()
    run()
    return {"clock": time.perf_counter() - began, "processor": time.process_time() - processor}


def status(what: str) -> int:
    """Returns a memory figure of this process in bytes, from Linux's status file; 0 on other systems."""
    file = Path("/proc/self/status")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{what}:")), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(STORES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("world", type=Path, help="folder of the rows and questions")
    parser.add_argument("--compressed", action="store_true")
    worker = Worker(**vars(parser.parse_args()))
    answers = sys.stdout
    sys.stdout = sys.stderr  # output of a store must not mix with the answers
    before = {"memory_before": status("VmRSS"), "held_before": status("RssAnon")}
    print(json.dumps(before), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        call: Callable[..., Answer] = getattr(worker, request.pop("do"))
        print(json.dumps(call(**request)), file=answers, flush=True)


if __name__ == "__main__":
    main()
