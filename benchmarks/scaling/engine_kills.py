"""PostgreSQL is killed (kill -9) and restarted during a load: is any acknowledged call lost?

    python -m benchmarks.scaling.engine_kills --kills 20

Several writers add, replace, delete and observe without pause, each with its own ids, and each with a plain-Python
record of its acknowledged calls. The postmaster and all its children are killed at random moments, and started again.
At the end the index must contain exactly the acknowledged calls, and answer from them.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np
import psutil
from pgserver.postgres_server import get_server

from benchmarks import report
from pam_retriever import PgVectorBackend, PredictiveAssociativeIndex, Trajectory

DIM, WRITERS, NAMES = 16, 3, 200


class Writer(threading.Thread):
    """Writes until it is stopped, and records acknowledged calls."""

    def __init__(self, number: int, engine: PgVectorBackend, seed: int) -> None:
        super().__init__()
        self.number, self.over, self.error = number, threading.Event(), None
        self.index = PredictiveAssociativeIndex(backend=engine)
        self.random = np.random.default_rng((seed, number))
        self.texts: dict[str, str] = {}
        self.met: dict[str, list[str]] = {}
        self.calls = 0

    def run(self) -> None:
        try:
            while not self.over.is_set():
                self.write()
                self.calls += 1
        except Exception as error:  # noqa: BLE001 - reported by the main thread
            self.error = error

    def write(self) -> None:
        kind = self.random.random()
        names = [
            f"{self.number}-{n}" for n in self.random.choice(NAMES, int(self.random.integers(2, 6)), replace=False)
        ]
        there = [name for name in names if name in self.texts]
        if kind < 0.6:
            texts = [f"{name} of call {self.calls}" for name in names]
            self.index.add(self.random.standard_normal((len(names), DIM)), names, texts)
            self.texts.update(zip(names, texts, strict=True))
        elif kind < 0.75:
            gone = self.index.delete(names)
            assert gone == len(there), f"delete said {gone} instead of {len(there)}"
            for name in there:
                del self.texts[name]
                self.met = {id: [one for one in ids if one != name] for id, ids in self.met.items()}
        elif len(there) >= 2:
            id = f"{self.number}-t{self.calls % 20}"
            self.index.observe(Trajectory(ids=there, id=id))
            self.met[id] = there


def kill_and_restart(server: Any) -> float:
    """Kills the server and all its children; returns the time until it answers again."""
    master = psutil.Process(server.get_pid())
    master.suspend()  # a stopped postmaster cannot fork a child that is not in the list and would block the new server
    family = [master, *master.children(recursive=True)]
    for process in family:
        os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs(family, timeout=10)
    started = time.monotonic()
    server.ensure_postgres_running()
    return time.monotonic() - started


def run(kills: int, seed: int, between: tuple[float, float] = (0.5, 2.0)) -> dict[str, Any]:
    """Kills the server ``kills`` times under load; returns the acknowledged calls and the differences."""
    random = np.random.default_rng(seed)
    with get_server(tempfile.mkdtemp(prefix="pam-kills-"), cleanup_mode="delete") as server:
        engine = PgVectorBackend(server.get_uri(), patience=300)  # on a busy machine the server is often down
        PredictiveAssociativeIndex(DIM, backend=engine).close()
        writers = [Writer(number, engine, seed) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        recoveries = []
        for _ in range(kills):
            time.sleep(float(random.uniform(*between)))
            recoveries.append(kill_and_restart(server))
        time.sleep(0.5)
        for writer in writers:
            writer.over.set()
        for writer in writers:
            writer.join()
        return {
            "kills": kills,
            "writers": WRITERS,
            "acknowledged_calls": sum(writer.calls for writer in writers),
            "memories": sum(len(writer.texts) for writer in writers),
            "seconds_to_recover": [round(seconds, 2) for seconds in recoveries],
            "errors": [repr(writer.error) for writer in writers if writer.error],
            "differences": differences(engine, writers),
        }


def differences(engine: PgVectorBackend, writers: list[Writer]) -> list[str]:
    """Returns differences between the acknowledged calls and the index, read by each process."""
    expected = {name: text for writer in writers for name, text in writer.texts.items()}
    steps = {id: ids for writer in writers for id, ids in writer.met.items() if ids}
    found_wrong = []
    with PredictiveAssociativeIndex(backend=engine) as fresh:
        for who, index in [("a new process", fresh), *((f"writer {w.number}", w.index) for w in writers)]:
            held = {record.id: record.text for record in index.find()}
            if held != expected:
                found_wrong.append(f"{who} sees other memories: {sorted(held.items() ^ expected.items())[:5]}")
            if len(index) != len(expected):
                found_wrong.append(f"{who} counts {len(index)} instead of {len(expected)}")
            links = sum(map(len, steps.values()))
            if len(index._store.links) != links:
                found_wrong.append(f"{who} knows {len(index._store.links)} steps instead of {links}")
    for writer in writers:
        writer.index.close()
    return found_wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args()
    result = run(parsed.kills, parsed.seed)
    print(result, report.write("scaling/engine-kills", {"seed": parsed.seed, **result}))
    sys.exit(bool(result["differences"] or result["errors"]))


if __name__ == "__main__":
    main()
