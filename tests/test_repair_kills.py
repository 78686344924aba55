"""``repair`` never loses its input, even if it is killed before any of its steps on the disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_durability import Limit, contents, make

from pam_retriever import PredictiveAssociativeIndex, StorageError
from pam_retriever.store.folder.repair import check, repair

MEMORIES = 120
STEPS = ((os, "fsync"), (os, "rename"), (os, "replace"), (os, "unlink"))


def flip(database: Path) -> None:
    """Flips a letter in the text of m3."""
    damaged = database.read_bytes().replace(b"text m3\n", b"text mX\n").replace(b"text m3", b"text mX", 1)
    assert damaged != database.read_bytes()
    database.write_bytes(damaged)


def closed(folder: Path) -> None:
    with make(folder, MEMORIES):
        pass
    flip(next(folder.glob("memories-*.sqlite")))


def left_by_a_killed_writer(folder: Path) -> None:
    """Creates the folder of a killed writer, whose journal contains the latest memories."""
    with make(folder.with_name("first"), MEMORIES):
        pass
    with PredictiveAssociativeIndex.open(folder.with_name("first")) as index:
        index.add(np.ones((5, 3)), [f"later{n}" for n in range(5)])
        shutil.copytree(folder.with_name("first"), folder)
    flip(next(folder.glob("memories-*.sqlite")))


def without_a_manifest(folder: Path) -> None:
    closed(folder)
    (folder / "manifest.json").unlink()


def killed_before_step(number: int, call: Callable[[], object]) -> bool:
    """Runs a call in a child that is killed before step ``number`` on the disk; returns False if it has fewer steps."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    try:
        left = [number]

        def counted(real):
            def step(*given, **named):
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                return real(*given, **named)

            return step

        for module, name in STEPS:
            setattr(module, name, counted(getattr(module, name)))
        call()
    finally:
        os._exit(0)
    return False


@pytest.mark.parametrize(
    "damage",
    [left_by_a_killed_writer, *(pytest.param(one, marks=pytest.mark.slow) for one in (closed, without_a_manifest))],
)
def test_a_repair_that_is_killed_anywhere_can_be_repeated(tmp_path, damage):
    damage(tmp_path / "damaged")
    shutil.copytree(tmp_path / "damaged", tmp_path / "whole")
    repair(tmp_path / "whole")
    with PredictiveAssociativeIndex.open(tmp_path / "whole") as index:
        expected = contents(index)
    assert len(expected) >= MEMORIES - 1
    for number in range(100):
        folder = tmp_path / f"killed{number}"
        shutil.copytree(tmp_path / "damaged", folder)
        if not killed_before_step(number, lambda folder=folder: repair(folder)):
            break
        repair(folder)
        assert check(folder) == [], number
        with PredictiveAssociativeIndex.open(folder) as index:
            assert contents(index) == expected, number
        shutil.rmtree(folder)
    assert 5 < number < 99


def test_the_damaged_database_is_kept_with_its_journal(tmp_path):
    left_by_a_killed_writer(tmp_path / "index")
    before = {path.name: path.read_bytes() for path in (tmp_path / "index").glob("memories-*")}
    repair(tmp_path / "index")
    kept = {path.name: path.read_bytes() for path in (tmp_path / "index").glob("damaged-*")}
    assert kept == {f"damaged-{name}": content for name, content in before.items() if not name.endswith("-shm")}


@pytest.mark.parametrize("limit", [10, 700, 20_000])
def test_a_repair_without_disk_space_leaves_the_folder_as_it_was(tmp_path, limit):
    closed(tmp_path / "index")
    before = {path.name: path.read_bytes() for path in (tmp_path / "index").iterdir()}
    with Limit(limit), pytest.raises(StorageError):
        repair(tmp_path / "index")
    assert {path.name: path.read_bytes() for path in (tmp_path / "index").iterdir()} == before
    assert repair(tmp_path / "index")
    assert check(tmp_path / "index") == []


@pytest.mark.parametrize("far", [2**40, 2**62])
def test_forged_large_numbers_do_not_keep_repair_busy(tmp_path, far):
    closed(tmp_path / "index")
    (database,) = (tmp_path / "index").glob("memories-*.sqlite")
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE sqlite_sequence SET seq = ?", [far])
        connection.execute("INSERT INTO settings (rowid, key, value) VALUES (?, 'far', '1')", [far])
        connection.execute("INSERT INTO trajectories VALUES (?, 'far away')", [far - 1])
    assert repair(tmp_path / "index")
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert len(index) == MEMORIES - 1
