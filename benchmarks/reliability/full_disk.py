"""Every call on a disk with 0 to 156 kB of space: an error must state which part of the call was stored.

    python -m benchmarks.reliability.full_disk

There are 40 levels of space, 4 kB apart, on a small tmpfs (which needs the permission to mount). The call must complete
or raise ``StorageError``. After an error, the open index and the reopened folder must have their earlier contents, or
the contents that the error reports as stored. A copy that ``save`` was replacing must be completely old or completely
new.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from tqdm import tqdm

from benchmarks import report
from benchmarks.reliability.faults import full_disk, mount
from pam_retriever import FitConfig, PredictiveAssociativeIndex, StorageError, Trajectory
from pam_retriever.store.folder.repair import check, repair
from pam_retriever.store.sqlite.store import SQLiteStore

LEVELS, PAGE, DIM, MEMORIES = 40, 4096, 6, 40
SMALL = FitConfig(hidden=8, passes=1)
NEW = np.random.default_rng(9).standard_normal((30, DIM)).astype(np.float32)
IDS = [f"m{number}" for number in range(MEMORIES)]
Call = Callable[[PredictiveAssociativeIndex], object]
CALLS: dict[str, Call] = {
    "add": lambda index: index.add(NEW, [f"n{at}" for at in range(30)], [f"a new text {at}" for at in range(30)]),
    "add, replacing": lambda index: index.add(NEW, IDS[:30], ["another text"] * 30),
    "append": lambda index: index.append("s9", NEW[0], "one more", id="step"),
    "update": lambda index: index.update("m3", text="changed", metadata={"n": -1}),
    "delete": lambda index: index.delete(IDS[5:9]),
    "delete, by filter": lambda index: index.delete(where={"n": {"$lt": 10}}),
    "erase": lambda index: index.erase(IDS[5:9]),
    "observe": lambda index: index.observe(Trajectory(ids=IDS[:9], id="seen")),
    "observe_many": lambda index: index.observe_many([Trajectory(ids=IDS[at : at + 9], id=f"o{at}") for at in (0, 9)]),
    "feedback": lambda index: index.feedback(NEW[0], ["m1"], text="what was it?", id="asked"),
    "delete_feedback": lambda index: index.delete_feedback("first"),
    "delete_trajectory": lambda index: index.delete_trajectory("s1"),
    "prune": lambda index: index.prune(10),
    "set_capacity": lambda index: index.set_capacity(20),
    "add, over its capacity": lambda index: index.tenant("bounded").add(NEW, [f"n{at}" for at in range(30)]),
    "set_popularity_cap": lambda index: index.set_popularity_cap("user"),
    "tenant, made": lambda index: index.tenant("new"),
    "tenant, train=False": lambda index: index.tenant("ann", train=False),
    "tenant, written": lambda index: index.tenant("ann").add(NEW, [f"n{at}" for at in range(30)]),
    "drop_tenant": lambda index: index.drop_tenant("ann"),
    "fit": lambda index: index.fit(window=1, config=SMALL, seed=1, progress=False),
}


def make(folder: Path) -> None:
    """Creates an index with trajectories, feedback, and two tenants, one of which has a full capacity."""
    vectors = np.random.default_rng(1).standard_normal((MEMORIES, DIM)).astype(np.float32)
    with PredictiveAssociativeIndex.open(folder, DIM) as index:
        for one in (index, index.tenant("ann")):
            one.add(vectors, IDS, [f"text {id}." for id in IDS], [{"n": at} for at in range(MEMORIES)])
            for at in range(4):
                for id in IDS[at * 10 : at * 10 + 10]:
                    one.append(f"s{at}", id=id)
            one.feedback(vectors[0], ["m2"], text="a question", id="first")
        bounded = index.tenant("bounded")
        bounded.set_capacity(30)
        bounded.add(vectors[:30], IDS[:30])
        bounded.observe(IDS[:30])


def state(index: PredictiveAssociativeIndex, tenants: bool = True) -> dict[str, Any]:
    """Returns all data that a caller can read from the store."""
    found: dict[str, Any] = {
        "memories": [(one.id, one.vector.tobytes(), one.text, one.metadata) for one in index.find()],
        "trajectories": [(one.id, tuple(one.ids)) for one in index.trajectories()],
        "feedback": [(one.id, one.text, sorted(one.used)) for one in index.feedbacks()],
        "fitted": index.is_fitted,
        "settings": {key: index._store.database.settings.get(key) for key in ("capacity", "train", "popularity")},
        "found": sorted(hit.id for hit in index.search(NEW[1], k=1000)),
        "words": [hit.id for hit in index.recall(NEW[1], k=3, text="text new another", mode="hybrid")],
    }
    if tenants:
        found["tenants"] = {name: state(index.tenant(name), False) for name in index.tenants()}
    return found


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    return [key for key in expected if found[key] != expected[key]]


class Disk:
    """The small disk, with the start and the expected result of every call.

    Args:
        folder: the mount point.
        spare: a folder on another disk.
    """

    def __init__(self, folder: Path, spare: Path) -> None:
        self._folder, self._index, self._spare = folder, folder / "index", spare
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        make(spare / "made")
        with PredictiveAssociativeIndex.open(spare / "made") as index:
            self._before = state(index)

    def run(self, name: str, call: Call, level: int) -> None:
        """Runs one call on a disk with the given number of free bytes."""
        where = f"{name}, {level} bytes left"
        shutil.copytree(self._spare / "made", self._index)
        try:
            index = PredictiveAssociativeIndex.open(self._index)
            index.tenant("ann")
            index.tenant("bounded")
            allowed = [self._after(name, call), {**self._before, "fitted": True}]
            if "capacity" in name:
                with patch.object(SQLiteStore, "forget", lambda *_, **__: 0):
                    allowed.append(self._after(f"{name}, beyond it", call))
            expected = self._try(where, lambda: call(index), level, allowed)
            self._agree(f"{where}: at once", state(index), expected)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                index.close()
            self.failures += [f"{where}: {line}" for line in check(self._index)]
            with PredictiveAssociativeIndex.open(self._index) as index:
                self._agree(f"{where}: reopened", state(index), expected)
        except Exception as error:  # noqa: BLE001 - reported
            self.failures.append(f"{where}: {error!r}")
        finally:
            shutil.rmtree(self._index)

    def _try(
        self, where: str, call: Callable[[], object], level: int, after: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Makes a call; returns allowed states: ``after[:1]``; ``after`` if the error reports parts; else the old."""
        self.counts["calls"] += 1
        try:
            with full_disk(self._folder, _Exactly(level)):  # type: ignore[arg-type]
                call()
        except StorageError as error:
            self.counts["refused"] += 1
            if "stored already" in str(error):
                self.counts["said: stored already"] += 1
                return after
            if "as it was" not in str(error):
                self.failures.append(f"{where}: says nothing of the index: {error}")
            return [self._before]
        return after[:1]

    def _after(self, name: str, call: Call) -> dict[str, Any]:
        """Returns the state after the call on a disk with enough space."""
        copy = self._spare / f"{name}.after"
        if not copy.exists():
            shutil.copytree(self._spare / "made", copy)
            with PredictiveAssociativeIndex.open(copy) as index:
                call(index)
        with PredictiveAssociativeIndex.open(copy, read_only=True) as index:
            return state(index)

    def _agree(self, where: str, found: dict[str, Any], allowed: list[dict[str, Any]]) -> None:
        wrong = [differences(found, one) for one in allowed]
        if all(wrong):
            self.failures.append(f"{where}: other {', '.join(min(wrong, key=len))}")

    def save(self, level: int, overwrite: bool) -> None:
        """Runs ``save`` next to the index, into a folder that is new or contains an older copy."""
        where = f"save{', overwriting' if overwrite else ''}, {level} bytes left"
        shutil.copytree(self._spare / "made", self._index)
        target = self._folder / "copy"
        with PredictiveAssociativeIndex.open(self._index) as index:
            if overwrite:
                index.save(target)
                index.add(NEW[:1], ["later"])
            before = state(index)
            allowed = self._try(where, lambda: index.save(target, overwrite=overwrite), level, [before])
            self._agree(f"{where}: at once", state(index), [before])
        if target.exists():
            self.failures += [f"{where}: the copy: {line}" for line in check(target)]
            with PredictiveAssociativeIndex.open(target) as copy:
                self._agree(f"{where}: the copy", state(copy), allowed)
            shutil.rmtree(target)
        left = [path.name for path in self._folder.iterdir() if path.name != "index"]
        self.failures += [f"{where}: left {name}" for name in left]
        shutil.rmtree(self._index)

    def repair(self, level: int) -> None:
        """Runs ``repair`` on an index with a flipped letter."""
        where = f"repair, {level} bytes left"
        shutil.copytree(self._spare / "made", self._index)
        (database,) = self._index.glob("memories-*.sqlite")
        database.write_bytes(database.read_bytes().replace(b"text m3.", b"text mX."))
        before = {path.name: path.read_bytes() for path in self._index.iterdir() if path.is_file()}
        refused = self.counts["refused"]
        self._try(where, lambda: repair(self._index), level, [])
        if self.counts["refused"] > refused:
            now = {path.name: path.read_bytes() for path in self._index.iterdir() if path.is_file()}
            if now != before:
                self.failures.append(f"{where}: {sorted(set(now) ^ set(before))} changed")
            repair(self._index)
        self.failures += [f"{where}: {line}" for line in check(self._index)]
        shutil.rmtree(self._index)


class _Exactly:
    """Stands in for a random generator; always returns the given number of bytes."""

    def __init__(self, level: int) -> None:
        self._level = level

    def integers(self, *_: int) -> int:
        return self._level


def run(folder: Path, spare: Path, levels: range) -> tuple[dict[str, Any], list[str]]:
    """Runs every call at every level; returns the counts, and every wrong message."""
    disk, refused = Disk(folder, spare), {}
    for name in tqdm([*CALLS, "save", "save, overwriting", "repair"], disable=None):
        before = disk.counts["refused"]
        for level in levels:
            if name in CALLS:
                disk.run(name, CALLS[name], level)
            elif name == "repair":
                disk.repair(level)
            else:
                disk.save(level, name != "save")
        refused[name] = disk.counts["refused"] - before
    return {**disk.counts, "refused, of each": refused}, disk.failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", type=int, default=LEVELS, help="number of levels of free space, 4 kB apart")
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as made:
        folder, spare = Path(made) / "small", Path(made) / "spare"
        folder.mkdir()
        spare.mkdir()
        if not mount(folder):
            sys.exit("There is no right to mount a small disk.")
        try:
            counts, failures = run(folder, spare, range(0, parsed.levels * PAGE, PAGE))
        finally:
            gc.collect()  # releases objects that the errors refer to
            ctypes.CDLL(None).umount(str(folder).encode())
    path = report.write("reliability/full_disk", {"levels": parsed.levels, "counts": counts, "failures": failures})
    print(counts, failures, path, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
