"""The lock of a folder: what a full disk, a killed process, or another folder at the same path leaves of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_durability import Limit

from pam_retriever import IndexLocked, PredictiveAssociativeIndex, StorageError
from pam_retriever.store.folder.lock import NAME


@pytest.fixture
def folder(tmp_path) -> Path:
    """An empty index, closed."""
    PredictiveAssociativeIndex.open(tmp_path / "index", dim=2).close()
    return tmp_path / "index"


def open_files() -> list[str]:
    """Returns what this process has open, by name."""
    listed = [one for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]  # not the listing itself
    return sorted(str(one.readlink()) for one in listed)


def test_a_lock_that_does_not_fit_on_the_disk_is_not_held(folder):
    with Limit(0), pytest.raises(StorageError, match=NAME):
        PredictiveAssociativeIndex.open(folder)
    assert not (folder / NAME).exists()
    with PredictiveAssociativeIndex.open(folder) as index:
        index.add([[1.0, 2.0]], ["a"])


@pytest.mark.parametrize("left", [b"", b"{", b"x" * 5_000])
def test_the_holder_is_named_over_what_a_killed_process_left(folder, left):
    (folder / NAME).write_bytes(left)
    with (
        PredictiveAssociativeIndex.open(folder),
        pytest.raises(IndexLocked, match=f"process {os.getpid()} on "),
    ):
        PredictiveAssociativeIndex.open(folder)


def test_closing_an_index_that_was_moved_does_not_unlock_the_one_in_its_place(folder, tmp_path):
    moved = PredictiveAssociativeIndex.open(folder)
    folder.rename(tmp_path / "moved")
    with PredictiveAssociativeIndex.open(folder, dim=2) as index:
        with pytest.warns(RuntimeWarning, match="without a checksum"):
            moved.close()
        with pytest.raises(IndexLocked):
            PredictiveAssociativeIndex.open(folder)
        index.add([[1.0, 2.0]], ["a"])


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list open files")
def test_no_file_stays_open_after_close_or_a_refused_open(folder):
    """A program that keeps its closed indexes, or the errors, would run out of files."""
    before = open_files()
    index = PredictiveAssociativeIndex.open(folder)
    with pytest.raises(IndexLocked) as refused:
        PredictiveAssociativeIndex.open(folder)
    index.close()
    assert open_files() == before
    assert refused.value.__traceback__ is not None
