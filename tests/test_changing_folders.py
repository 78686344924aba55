"""A folder that changes while it is read, a write that cannot begin, and what an interrupt left."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import IndexFormatError, PredictiveAssociativeIndex, StorageError
from pam_retriever.store.folder import snapshot
from pam_retriever.store.folder.manifest import Manifest, read_manifest
from pam_retriever.store.sqlite.connection import Connection
from pam_retriever.store.sqlite.copies import Copies
from pam_retriever.store.sqlite.database import SQLiteDatabase


def holding(*ids: str) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(3)
    index.add(np.eye(3)[: len(ids)], ids)
    return index


def ids(index: PredictiveAssociativeIndex) -> list[str]:
    return [record.id for record in index.find()]


@pytest.mark.parametrize("times", [0, 3, snapshot.ATTEMPTS])
def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(tmp_path, times):
    folder, read = tmp_path / "index", []
    holding("first").save(folder)

    def build(database: SQLiteDatabase, manifest: Manifest) -> int:
        read.append(database)
        if len(read) <= times:
            holding(*"abc"[: len(read) % 3 + 1]).save(folder, overwrite=True)
        return len(database.memories)

    if times == snapshot.ATTEMPTS:
        with pytest.raises(IndexFormatError, match="replaced over and over"):
            snapshot.load(folder, build)
    else:
        assert snapshot.load(folder, build) == 1
    assert len(read) == min(times + 1, snapshot.ATTEMPTS)
    closed = [database.connection._closed for database in read]
    assert closed == [True] * times + [False] * (len(read) - times)


@pytest.mark.parametrize("changes", [True, False])
def test_a_file_that_is_gone_because_the_folder_changed_is_no_damage(tmp_path, changes):
    """A fit of the writer replaces the weights that a reader is about to read. In a folder that stays it is damage."""
    folder, read = tmp_path / "index", []
    holding("a").save(folder)

    def build(database: SQLiteDatabase, manifest: Manifest) -> int:
        read.append(database)
        if len(read) < 3:
            if changes:
                (folder / f"predictor-{len(read):012}.safetensors").touch()
            raise IndexFormatError("the weights are missing", "weights", "Restore them.")
        return len(database.memories)

    if changes:
        assert snapshot.view(folder, build) == 1
    else:
        with pytest.raises(IndexFormatError, match="weights are missing"):
            snapshot.view(folder, build)
    assert [database.connection._closed for database in read] == ([True, True, False] if changes else [True])
    read[-1].close()


def test_a_save_over_what_a_killed_writer_began_with_takes_another_name(tmp_path):
    """Equal contents give equal names, and the journal of the writer would be applied to the new file."""
    folder, base = tmp_path / "index", holding("a", "b")
    base.save(folder)
    with PredictiveAssociativeIndex.open(folder) as writer:
        writer.add(np.ones((1, 3)), ["later"])
        killed = shutil.copytree(folder, tmp_path / "killed")
    assert ids(PredictiveAssociativeIndex.load(killed)) == ["a", "b", "later"]
    name = read_manifest(killed)["database"]
    base.save(killed, overwrite=True)
    assert read_manifest(killed)["database"] != name
    assert sorted(path.name for path in killed.iterdir()) == ["manifest.json", str(read_manifest(killed)["database"])]
    assert ids(PredictiveAssociativeIndex.load(killed)) == ["a", "b"]
    base.save(killed, overwrite=True)
    assert read_manifest(killed)["database"] == name  # of a closed index it may be the same


@pytest.mark.parametrize("changes", [True, False])
def test_a_reader_that_fails_while_the_folder_changes_reads_again(tmp_path, monkeypatch, changes):
    folder, catch_up, tried = tmp_path / "index", Copies._catch_up, []
    holding("a").save(folder)

    def fail_first(copies: Copies) -> bool:
        tried.append(copies)
        if len(tried) < 4:
            if changes:  # as a fit of the writer does
                (folder / f"predictor-{len(tried):012}.safetensors").touch()
            raise IndexFormatError("the weights are missing", "weights", "Restore them.")
        return catch_up(copies)

    with PredictiveAssociativeIndex.open(folder, read_only=True) as reader:
        with PredictiveAssociativeIndex.open(folder) as writer:
            writer.add(np.ones((1, 3)), ["b"])
        monkeypatch.setattr(Copies, "_catch_up", fail_first)
        if changes:
            assert reader.refresh()
            assert ids(reader) == ["a", "b"]
        else:
            with pytest.raises(IndexFormatError, match="weights are missing"):
                reader.refresh()
    assert len(tried) == (4 if changes else 1)


def test_a_write_without_a_free_descriptor_leaves_an_index_that_answers_and_writes_later(tmp_path):
    """The first write opens the file again; until that succeeds, the index answers from the file as it was opened."""
    holding("a", "b").save(tmp_path / "index")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, limits[1]))  # for the manifest, not for SQLite's files
        try:
            for _ in range(2):
                with pytest.raises(StorageError, match="unable to open"):
                    index.add(np.ones((1, 3)), ["c"])
                assert ids(index) == ["a", "b"]
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
            with pytest.raises(StorageError, match=r"Too many open files.*ulimit -n"):
                PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        index.add(np.ones((1, 3)), ["d"])
        assert ids(index) == ["a", "b", "d"]
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert ids(index) == ["a", "b", "d"]


@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_transaction_that_an_interrupt_left_open_is_rolled_back_by_the_next(tmp_path: Path, where):
    schema = ("CREATE TABLE settings (key TEXT, value TEXT)",)
    connection = Connection(tmp_path / "file" if where == "file" else None, schema)
    connection.fetch("BEGIN IMMEDIATE")
    connection.fetch("INSERT INTO settings VALUES ('interrupted', '')")
    with connection.transaction():
        connection.fetch("INSERT INTO settings VALUES ('next', '')")
    kept = "SELECT key FROM settings WHERE key NOT LIKE 'changes:%'"
    assert connection.fetch(kept) == [("next",)]
    connection.close()
