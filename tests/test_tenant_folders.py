"""The folders of tenants: what a full disk, other files and the loss of power do to them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from test_durability import Limit

from pam_retriever import IndexLocked, PredictiveAssociativeIndex, StorageError
from pam_retriever.store.folder.manifest import read_manifest

DIM = 4


def filled(index: PredictiveAssociativeIndex, *ids: str) -> PredictiveAssociativeIndex:
    index.add(np.eye(len(ids), DIM), list(ids))
    return index


@pytest.fixture
def folder(tmp_path) -> Path:
    """A closed index with the tenant ann."""
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        filled(index.tenant("ann"), "a")
    return tmp_path / "index"


def files(folder: Path) -> set[str]:
    """Returns all files and folders, without the journals of databases, which come and go."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.endswith(("-wal", "-shm"))}


def test_a_tenant_that_does_not_fit_on_the_disk_leaves_no_file(folder):
    with PredictiveAssociativeIndex.open(folder) as index:
        before = files(folder)
        with Limit(1_000), pytest.raises(StorageError):
            index.tenant("bob")
        assert files(folder) == before
        assert index.tenants() == ["ann"]
        filled(index.tenant("bob"), "b")


def test_a_copy_of_an_index_whose_tenants_were_dropped_has_no_folder_for_them(folder, tmp_path):
    with PredictiveAssociativeIndex.open(folder) as index:
        index.drop_tenant("ann")
        index.save(tmp_path / "copy")
    assert files(tmp_path / "copy") == {"manifest.json", read_manifest(tmp_path / "copy")["database"]}


def test_files_of_others_among_the_tenants_are_no_tenants(folder, tmp_path):
    """A file manager or a backup leaves such files."""
    tenants = folder / read_manifest(folder)["tenants"]
    (tenants / ".DS_Store").write_bytes(b"left")
    (tenants / "old copies").mkdir()
    with PredictiveAssociativeIndex.open(folder) as index:
        assert index.tenants() == ["ann"]
        index.save(tmp_path / "copy")
    with PredictiveAssociativeIndex.load(tmp_path / "copy") as copy:
        assert copy.tenants() == ["ann"]


def test_what_a_call_on_tenants_has_done_outlasts_the_loss_of_power(folder, tmp_path, monkeypatch):
    """Each new file, and each folder with new or removed entries, is flushed to the disk before the call returns."""
    fsync, flushed = os.fsync, set[tuple[int, int]]()

    def recorded(descriptor: int) -> None:
        found = os.fstat(descriptor)
        flushed.add((found.st_dev, found.st_ino))
        fsync(descriptor)

    def unflushed(*paths: Path) -> list[Path]:
        return [path for path in paths if (path.stat().st_dev, path.stat().st_ino) not in flushed]

    monkeypatch.setattr(os, "fsync", recorded)
    tenants = folder / read_manifest(folder)["tenants"]
    with PredictiveAssociativeIndex.open(folder) as index:
        flushed.clear()
        before = files(tenants)
        index.tenant("bob").close()
        new = [tenants / name for name in files(tenants) - before]
        assert len(new) == 3
        assert unflushed(tenants, *new) == []
        index.save(tmp_path / "copy")
        assert unflushed(tmp_path, tmp_path / "copy", *(tmp_path / "copy").rglob("*")) == []
        flushed.clear()
        index.drop_tenant("bob")
        assert unflushed(tenants) == []


def test_an_index_below_a_manifest_of_something_else_locks_its_own_folder(tmp_path):
    """A manifest.json is in many folders, as of a web page."""
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    with (
        PredictiveAssociativeIndex.open(tmp_path / "data" / "one", DIM),
        PredictiveAssociativeIndex.open(tmp_path / "data" / "two", DIM),
    ):
        assert not (tmp_path / "writer.lock").exists()
        with pytest.raises(IndexLocked):
            PredictiveAssociativeIndex.open(tmp_path / "data" / "one")
