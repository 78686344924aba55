"""If a disk fills up after a call has committed a part of its work, the error says what is stored."""

from __future__ import annotations

import sqlite3
import tempfile

import numpy as np
import pytest
from test_durability import make

from pam_retriever import PredictiveAssociativeIndex, StorageError
from pam_retriever.index import open_tenants
from pam_retriever.store.faults import explained
from pam_retriever.store.folder import tenants
from pam_retriever.store.folder.repair import check
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.store import SQLiteStore


def full(*_: object, **__: object) -> None:
    raise StorageError("disk full.", "a disk that takes it; the index is as it was", "Make room.")


@pytest.mark.parametrize("call", ["prune", "erase"])
def test_space_that_cannot_be_freed_does_not_undo_what_is_gone(tmp_path, monkeypatch, call):
    """If the file cannot be shrunk after a deletion, the memories are still deleted, and the error says so."""
    with make(tmp_path / "index") as index:
        with monkeypatch.context() as patched:
            patched.setattr(SQLiteDatabase, "shrink", full)
            with pytest.raises(StorageError, match="stored already") as caught:
                index.prune(3) if call == "prune" else index.erase(["m1", "m2", "m3", "m4", "m5"])
        assert "as it was" not in str(caught.value)
        assert len(index) == 3
        if call == "erase":
            assert "erase again" in str(caught.value)
            index.erase(["m1"])
    assert check(tmp_path / "index") == []


def test_an_add_beyond_the_capacity_reports_that_it_is_stored(tmp_path, monkeypatch):
    with make(tmp_path / "index") as index:
        index.set_capacity(8)
        with monkeypatch.context() as patched:
            patched.setattr(SQLiteStore, "forget", full)
            with pytest.raises(StorageError, match="stored already; the index is beyond its capacity") as caught:
                index.add(np.eye(3), ["a", "b", "c"])
        assert "as it was" not in str(caught.value)
        assert {"a", "b", "c"} <= {one.id for one in index.find()}
        index.add(np.eye(3)[:1], ["d"])
        assert len(index) == 8


def test_a_tenant_that_cannot_be_opened_is_not_made(tmp_path, monkeypatch):
    with PredictiveAssociativeIndex.open(tmp_path / "index", 3) as index:
        with monkeypatch.context() as patched:
            patched.setattr(open_tenants, "open_tenant", full)
            with pytest.raises(StorageError):
                index.tenant("ann")
        assert index.tenants() == []
        index.tenant("ann")
        assert index.tenants() == ["ann"]


@pytest.fixture
def compressed(tmp_path):
    """A writer of a saved, compressed index, beside which a memory was added, and a reader that has not seen it."""
    path, vectors = tmp_path / "index", np.random.default_rng(0).standard_normal((2_000, 4))
    with PredictiveAssociativeIndex.open(path, 4, "faiss:ivf,sq8") as index:
        index.add(vectors, [f"m{at}" for at in range(2_000)])
    with (
        PredictiveAssociativeIndex.open(path) as writer,
        PredictiveAssociativeIndex.open(path, read_only=True) as reader,
    ):
        writer.add(5 * np.eye(4)[:1], ["new"])
        yield writer, reader


def test_a_reader_without_a_temporary_folder_says_so_and_goes_on_later(tmp_path, monkeypatch, compressed, built):
    """It copies the file of keys before it adds to it. An index in memory needs such a file, too."""
    _, reader = compressed
    calls = [
        reader.refresh,
        lambda: reader.search(np.eye(4)[0]),
        lambda: PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True),
        lambda: PredictiveAssociativeIndex.load(tmp_path / "index"),
        lambda: PredictiveAssociativeIndex(4, backend="faiss:hnsw,sq8").add(np.ones((2_000, 4))),
    ]
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
        for call in calls:
            built.clear()
            with pytest.raises(StorageError, match="TMPDIR"):
                call()
            assert built.count(2_001) <= 1  # a large index takes minutes to build
    assert reader.search(np.eye(4)[0], k=1)[0].id == "new"


def test_a_tenant_is_made_without_a_temporary_folder(tmp_path, monkeypatch):
    tenants._empty_database.clear()
    with PredictiveAssociativeIndex.open(tmp_path / "index", 3) as index:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
        index.tenant("ann").add(np.eye(3), ["a", "b", "c"])
        index.tenant("bob").add(np.eye(3), ["a", "b", "c"])
        assert len(index.tenant("ann")) == len(index.tenant("bob")) == 3
    assert check(tmp_path / "index") == []


def test_where_sqlite_has_no_temporary_folder_the_error_names_it(tmp_path):
    """SQLite reports that it cannot open a file, without its name: the database, or a temporary file beside it."""
    with pytest.raises(StorageError, match=r"temporary files.*TMPDIR"), explained(tmp_path):
        raise sqlite3.OperationalError("unable to open database file")
