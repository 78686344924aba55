"""A folder that is opened for writing does not change before the first write."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from test_durability import Limit, make

from pam_retriever import IndexLocked, PredictiveAssociativeIndex, StorageError
from pam_retriever.store.folder.manifest import read_manifest
from pam_retriever.store.folder.repair import check

ONE = np.ones((1, 3), np.float32)


@pytest.fixture
def saved(tmp_path) -> Path:
    with make(tmp_path / "index") as index:
        index.tenant("ann").add(ONE, ["own"], ["a text"])
    return tmp_path / "index"


def state(folder: Path) -> dict[str, tuple[int, int]]:
    """Returns the inode and the time of modification of every file."""
    found = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {str(path): (one.st_ino, one.st_mtime_ns) for path, one in found.items()}


def test_queries_change_no_file(saved):
    before = state(saved)
    with PredictiveAssociativeIndex.open(saved) as index:
        index.recall("m0", k=3)
        index.recall(ONE[0], text="text m1")
        assert index.tenant("ann").recall(ONE[0], text="a text")[0].id == "own"
        with pytest.raises(IndexLocked):
            PredictiveAssociativeIndex.open(saved)
    assert state(saved) == before


def test_the_first_write_takes_the_checksum_away_and_close_gives_one(saved):
    sealed = read_manifest(saved)["database_sha256"]
    with PredictiveAssociativeIndex.open(saved) as index:
        assert read_manifest(saved)["database_sha256"] == sealed
        index.delete("nobody")
        index.add(ONE, ["later"], ["something else"])
        assert read_manifest(saved)["database_sha256"] is None
        assert index.recall(ONE[0], text="something else", mode="hybrid", k=1)[0].id == "later"
        index.erase(["m1"])
    assert read_manifest(saved)["database_sha256"] not in (None, sealed)
    assert check(saved) == []
    with PredictiveAssociativeIndex.open(saved) as index:
        assert "later" in index
        assert "m1" not in index


def test_a_reader_follows_a_writer_that_wakes(saved):
    with (
        PredictiveAssociativeIndex.open(saved) as writer,
        PredictiveAssociativeIndex.open(saved, read_only=True, follow=True) as reader,
        PredictiveAssociativeIndex.open(saved, read_only=True) as frozen,
    ):
        writer.add(ONE, ["later"])
        assert reader.search(ONE[0], k=1)[0].id == "later"
        assert "later" not in frozen
        assert "later" in PredictiveAssociativeIndex.load(saved)


def test_a_write_that_does_not_fit_leaves_an_index_that_answers_and_writes_later(saved):
    before = state(saved)
    with PredictiveAssociativeIndex.open(saved) as index:
        hits = index.recall("m0", k=3)
        # the disk fills up in the manifest, or in a file that SQLite writes next to the database
        for limit in (10, 700, 3000):
            with Limit(limit), pytest.raises(StorageError):
                index.add(ONE, ["later"])
            assert index.recall("m0", k=3) == hits
        index.add(ONE, ["later"])
    assert state(saved) != before
    assert check(saved) == []
    with PredictiveAssociativeIndex.open(saved) as index:
        assert "later" in index


def test_a_tenant_is_made_while_another_thread_writes_first(saved):
    """A new tenant and the first write of another thread both change the manifest; neither change is lost."""
    for turn in range(20):
        with PredictiveAssociativeIndex.open(saved) as index:
            index.drop_tenant("bob")
        with PredictiveAssociativeIndex.open(saved) as index:
            begin = threading.Barrier(2)

            def make_tenant(begin=begin, index=index) -> None:
                begin.wait()
                index.tenant("bob").add(ONE, ["of bob"])

            thread = threading.Thread(target=make_tenant)
            thread.start()
            begin.wait()
            index.add(ONE, [f"turn {turn}"])
            thread.join()
            assert read_manifest(saved)["database_sha256"] is None
        assert check(saved) == []
    with PredictiveAssociativeIndex.open(saved) as index:
        assert index.tenants() == ["ann", "bob"]
        assert "of bob" in index.tenant("bob")


@pytest.mark.parametrize("writes", [False, True])
def test_a_writer_that_is_killed_leaves_a_checksum_only_if_it_wrote_nothing(saved, writes):
    child = os.fork()
    if not child:
        index = PredictiveAssociativeIndex.open(saved)
        if writes:
            index.add(ONE, ["later"])
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert (read_manifest(saved)["database_sha256"] is None) == writes
    assert check(saved) == []
    with PredictiveAssociativeIndex.open(saved) as index:
        assert ("later" in index) == writes
