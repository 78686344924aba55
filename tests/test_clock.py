"""The machine's clock goes backwards: readers follow, copies and folders open, and tenants stay in the order of use."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.store.folder.repair import check

DIM = 8
VECTORS = np.random.default_rng(27).standard_normal((20, DIM)).astype(np.float32)


def set_back(folder: Path, seconds: int) -> None:
    """Gives all files times that are as long ago."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (time.time() - seconds,) * 2)


def test_a_reader_follows_files_that_become_older(tmp_path):
    folder = tmp_path / "i"
    with PredictiveAssociativeIndex.open(folder, DIM) as index:
        index.add(VECTORS, [f"m{at}" for at in range(len(VECTORS))])
        index.observe([f"m{at}" for at in range(10)])
    set_back(folder, 1_000)
    reader = PredictiveAssociativeIndex.open(folder, read_only=True, follow=True)
    writer = PredictiveAssociativeIndex.open(folder)
    for at, step in enumerate((1, 2, 3)):
        writer.add(VECTORS[:1] + step, [f"new{step}"])
        set_back(folder, 2_000 + 2_000 * at)
        assert f"new{step}" in reader
        writer.fit(progress=False, config=FitConfig(hidden=8, passes=2))
        set_back(folder, 3_000 + 2_000 * at)
        assert [hit.score for hit in reader.recall("m1")] == [hit.score for hit in writer.recall("m1")]
    writer.close()
    copy = PredictiveAssociativeIndex.load(folder)
    copy.delete("new1")
    copy.save(folder, overwrite=True)
    set_back(folder, 10_000)
    assert "new1" not in reader
    reader.close()
    assert check(folder) == []


def test_a_lock_of_the_future_that_nobody_holds_locks_nothing(tmp_path):
    PredictiveAssociativeIndex.open(tmp_path / "i", DIM).close()
    note = {"pid": os.getpid(), "host": "here", "since": "2999-01-01T00:00:00+00:00"}
    (tmp_path / "i" / "writer.lock").write_text(json.dumps(note))
    PredictiveAssociativeIndex.open(tmp_path / "i").close()


def test_the_last_used_tenants_stay_open(tmp_path, monkeypatch):
    clock = iter(range(10**9, 0, -1))
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    with PredictiveAssociativeIndex.open(tmp_path / "i", DIM, max_open_tenants=2) as index:
        for at in range(len(VECTORS)):
            index.tenant(f"t{at % 5}").add(VECTORS[at : at + 1], [f"m{at}"])
        assert list(index._tenants._recent) == ["t3", "t4"]
        assert [len(index.tenant(f"t{at}")) for at in range(5)] == [4] * 5
