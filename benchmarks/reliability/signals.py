"""Ctrl-C at random moments of every call; memory, database and the reopened index are compared with the model.

    python -m benchmarks.reliability.signals --count 1000            # every call 1,000 times
    python -m benchmarks.reliability.signals --calls add close --count 200 --memory

A timer raises KeyboardInterrupt in the main thread, as SIGINT does. The moment is random within the usual duration of
the call; calls that end before it do not count. Afterwards, the index must contain the call completely or not at all.
It must answer like a reopened index, from memory and from the database. Its vectors must equal the added vectors, and
its keys must follow from them by the stored weights. Another thread must be able to write to it, and the folder must
open again after it is closed.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from benchmarks import report
from benchmarks.reliability.kills import warm_up
from benchmarks.reliability.load import CONFIG, DIM, WINDOW, Model, Operation
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.model.keys import unit

CALLS = ("add", "update", "append", "delete", "observe", "feedback", "erase", "fit", "save", "close", "lock")
PATIENCE = 60.0  # seconds after which a waiting thread counts as locked out
LIVES = 50  # interrupts per folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="number of interrupts of each call")
    parser.add_argument("--calls", nargs="+", choices=CALLS, default=CALLS)
    parser.add_argument("--memory", action="store_true", help="test an index in memory instead of one in a folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", default="signals", help="name of the JSON file in benchmarks/results")
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    warm_up()
    results = {}
    for call in parsed.calls:
        with tempfile.TemporaryDirectory() as folder:
            campaign = Campaign(call, None if parsed.memory else Path(folder) / "index", parsed.seed)
            results[call] = campaign.run(parsed.count)
        print(call, results[call], flush=True)
    out_of_step = sum(len(found["failures"]) for found in results.values())
    about = {"seed": parsed.seed, "count": parsed.count, "memory": parsed.memory, "out_of_step": out_of_step}
    print(report.write(f"reliability/{parsed.name}", {**about, "calls": results}))
    sys.exit(bool(out_of_step))


class Campaign:
    """Interrupts of one call.

    Args:
        call: the name of the call.
        path: folder of the index; None for one in memory.
        seed: seed of all random draws.
    """

    def __init__(self, call: str, path: Path | None, seed: int) -> None:
        self._call, self._path = call, path
        self._random = np.random.default_rng((seed, CALLS.index(call)))
        self._begin()

    def _begin(self) -> None:
        self.index, self.model = self._open(), Model()
        self._number = 0
        for ids in (tuple(f"id{n}" for n in range(30)), tuple(f"id{n}" for n in range(20, 40))):
            self._do(Operation("add", ids, self._next()))
        for first in range(0, 36, 4):
            self._do(Operation("observe", tuple(f"id{n}" for n in range(first, first + 4)), self._next()))
        self._do(Operation("fit", (), self._next()))

    def _open(self) -> PredictiveAssociativeIndex:
        if self._path is None:
            return PredictiveAssociativeIndex(DIM)
        return PredictiveAssociativeIndex.open(self._path, DIM)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _do(self, operation: Operation) -> None:
        operation.run(self.index, Path())
        self.model = self.model.after(operation)

    def run(self, count: int) -> dict[str, object]:
        """Interrupts the call ``count`` times; returns the counts, and every difference."""
        counts: Counter[str] = Counter()
        failures: list[str] = []
        usual: deque[float] = deque(maxlen=9)  # durations of the last calls that were done before their interrupt
        at = 0
        progress = tqdm(total=count, disable=None, desc=self._call)
        while counts["interrupted"] < count:
            function, after = self._draw()
            began = time.perf_counter()
            interrupted = at >= 3 and interrupt(function, float(self._random.uniform(0, 1.1 * np.median(usual))))
            if at < 3:  # measures the duration of the call
                function()
            if interrupted:
                progress.update()
            else:
                usual.append(time.perf_counter() - began)
            counts["interrupted" if interrupted else "done before"] += 1
            wrong = self._compare([self.model, after] if interrupted else [after], counts)
            failures += [f"{at}: {line}" for line in wrong]
            if wrong or at % LIVES == LIVES - 1 or len(self.model.memories) < 12 or self._call == "close":
                failures += [f"{at}: {line}" for line in self._reopen(fresh=bool(wrong))]
            at += 1
        progress.close()
        self.index.close()
        return {"counts": dict(counts), "failures": failures, "usual_s": round(float(np.median(usual)), 4)}

    def _draw(self) -> tuple[Callable[[], object], Model]:
        """Returns a call, and the model after it."""
        index, ids, number = self.index, sorted(self.model.memories), self._next()
        some = tuple(self._random.choice(ids, 3, replace=False).tolist())
        new = tuple(f"id{n}" for n in self._random.choice(60, 6, replace=False))
        kind = {"update": "add", "append": "add", "erase": "delete"}.get(self._call, self._call)
        operation = Operation(kind, new if kind == "add" else some, number)
        if self._call in ("update", "append"):
            operation = replace(operation, ids=(some[0],))
        after = self.model.after(operation) if kind in ("add", "delete", "observe", "fit") else self.model
        vectors, texts = operation.vectors(), operation.texts()
        if self._call == "update":
            return lambda: index.update(some[0], text=texts[0], vector=vectors[0]), after
        if self._call == "append":
            name, steps = f"t{number % 20}", self.model.trajectories.get(f"t{number % 20}", ())
            while steps and steps[-1] is None:
                steps = steps[:-1]
            after = Model(after.memories, {**after.trajectories, name: (*steps, some[0])}, after.fitted)
            return lambda: index.append(name, vectors[0], texts[0], some[0], {"seed": number}), after
        if self._call == "lock":
            return lambda: [enter(index) for _ in range(50)], after
        calls: dict[str, Callable[[], object]] = {
            "erase": lambda: index.erase(list(some)),
            "feedback": lambda: index.feedback(vectors[0], some, id=f"f{number % 9}"),
            "close": index.close,
            "fit": lambda: index.fit(config=CONFIG, window=WINDOW, seed=number, progress=False, from_scratch=True),
            "save": lambda: operation.run(index, self._spare()),
        }
        return calls.get(self._call, lambda: operation.run(index, Path())), after

    def _spare(self) -> Path:
        return (self._path or Path(tempfile.gettempdir()) / f"signals-{id(self)}").with_name("spare")

    def _compare(self, candidates: list[Model], counts: Counter[str]) -> list[str]:
        """Returns the faults of the index in memory, and of another thread's writes to it."""
        if self._call == "close":
            return []
        problems: list[str] = []
        thread = threading.Thread(target=lambda: problems.extend(self._look(candidates, counts)), daemon=True)
        thread.start()
        thread.join(PATIENCE)
        return ["locked for ever"] if thread.is_alive() else problems

    def _look(self, candidates: list[Model], counts: Counter[str]) -> list[str]:
        try:
            same = [model for model in candidates if model.differs(self.index) is None]
            if not same:
                return [f"memory: {candidates[-1].differs(self.index)}"]
            self.model = same[-1]
            counts["there" if same[-1] is candidates[-1] else "not there"] += 1
            wrong = list(differences(self.index, self.model))
            if self._path is not None and not wrong:
                with PredictiveAssociativeIndex.open(self._path, read_only=True) as reader:
                    found = self.model.differs(reader)
                    wrong += [f"database: {found}"] if found else []
                    wrong += [f"database: {line}" for line in differences(reader, self.model)]
            self._do(Operation("add", ("id59",), self._next()))  # another thread can write
        except Exception as error:  # noqa: BLE001
            return [repr(error)]
        return wrong

    def _reopen(self, fresh: bool) -> list[str]:
        """Closes the index and opens it again, or creates a new one after a failure."""
        wrong: list[str] = []
        try:
            if self._path is not None and not fresh:
                self.index.close()
                self.index = self._open()
                found = self.model.differs(self.index)
                wrong += [f"reopened: {found}"] if found else []
        except Exception as error:  # noqa: BLE001
            wrong.append(f"reopened: {error!r}")
        if fresh or wrong or len(self.model.memories) < 12:
            if self._path is not None:
                self.index = None  # type: ignore[assignment]  # deleting the index releases its folder
                shutil.rmtree(self._path, ignore_errors=True)
            self._begin()
        return wrong


def interrupt(function: Callable[[], object], seconds: float) -> bool:
    """Calls a function, and interrupts it after some seconds; returns whether it was interrupted."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        function()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return False


def enter(index: PredictiveAssociativeIndex) -> None:
    """Acquires and releases the lock, as every call does."""
    with index._lock.exclusive(), index._lock.shared():
        pass
    with index._lock.shared():
        pass


def differences(index: PredictiveAssociativeIndex, model: Model) -> list[str]:
    """Returns vectors in memory that differ from the added ones, and keys that do not follow from the vectors."""
    store, wrong = index._store, []
    rows = store.database.memories.rows_of(sorted(model.memories))
    ids = sorted(rows)
    found = store.similar.keys(np.array([rows[id] for id in ids], np.int64))
    given = np.array([np.frombuffer(model.memories[id][0], np.float32) for id in ids])
    if not np.allclose(found, unit(given), atol=1e-5):
        wrong.append("vectors in memory")
    if store.associative is not None and store.predictor is not None:
        keys = store.associative.keys(np.array([rows[id] for id in ids], np.int64))[:, DIM : 2 * DIM]
        if not np.allclose(unit(keys), unit(store.predictor(given)[:, :DIM]), atol=1e-3):
            wrong.append("association vectors")
    if len(store.similar) != len(model.memories):
        wrong.append(f"{len(store.similar)} vectors of {len(model.memories)} memories")
    return wrong


if __name__ == "__main__":
    main()
