"""Snapshots of a reader that follows its writer: queries that overlap see one state, and later ones a newer one."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import pytest

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.store.folder.manifest import MANIFEST
from pam_retriever.store.sqlite import snapshots as module
from pam_retriever.store.sqlite.connection import Connection
from pam_retriever.store.sqlite.schema import SCHEMA
from pam_retriever.store.sqlite.snapshots import Snapshots


class Writer:
    """A database beside a manifest, with a reader of it; ``seen`` is what the reader sees."""

    def __init__(self, folder):
        (folder / MANIFEST).write_text("{}")
        self.connection = Connection(folder / "memories.sqlite", SCHEMA)
        self.reader = Connection(folder / "memories.sqlite", SCHEMA, "follow")
        self.snapshots = Snapshots(self.reader, folder)
        self.write()

    def write(self):
        with self.connection.transaction():
            self.connection.fetch("INSERT INTO trajectories (id) VALUES (hex(randomblob(8)))")

    def seen(self):
        return self.reader.fetch("SELECT count(*) FROM trajectories")[0][0]


@pytest.fixture
def writer(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "OLDEST", time.monotonic())  # longer than any test
    made = Writer(tmp_path)
    with closing(made.connection), closing(made.reader):
        yield made


def test_queries_that_overlap_see_one_state(writer):
    with writer.snapshots.one() as recent:
        with writer.snapshots.one() as inner:
            assert (recent, inner) == (True, True)
            assert writer.seen() == 1
            writer.write()
        assert writer.seen() == 1
        with writer.snapshots.one():
            assert writer.seen() == 1
    with writer.snapshots.one() as recent:
        assert recent
        assert writer.seen() == 2
        writer.write()
        assert writer.seen() == 2


def test_the_writer_can_empty_its_journal_between_queries(writer):
    assert writer.connection.settle()
    with writer.snapshots.one():
        writer.write()
        assert not writer.connection.settle()
    assert writer.connection.settle()


def test_a_refresh_leaves_the_journal_to_the_writer(tmp_path):
    """A reader that refreshes and then rests must not make the journal of the writers grow without end."""
    with PredictiveAssociativeIndex.open(tmp_path / "x", dim=2) as index:
        index.add([[1, 0]], ["first"], texts=["a secret"])
    with PredictiveAssociativeIndex.open(tmp_path / "x", read_only=True, follow=True) as reader:
        for id in ("second", "third"):
            with PredictiveAssociativeIndex.open(tmp_path / "x") as index:
                index.delete(["first"])
                index.add([[0, 1]], [id])
            assert reader.refresh()
            assert sum(file.stat().st_size for file in (tmp_path / "x").glob("*-wal")) == 0
        assert not any(b"a secret" in file.read_bytes() for file in (tmp_path / "x").iterdir() if file.is_file())
        assert reader.search([0, 1], k=3).ids == ["second", "third"]


def test_a_renewed_snapshot_is_that_of_the_next_query(writer):
    writer.snapshots.renew()
    writer.write()
    with writer.snapshots.one() as recent:
        assert recent
        assert writer.seen() == 1
    with writer.snapshots.one():
        assert writer.seen() == 2


def test_a_snapshot_that_is_too_old_is_renewed_when_nobody_reads(writer, monkeypatch):
    writer.snapshots.renew()
    monkeypatch.setattr(module, "OLDEST", -1)
    writer.write()
    with writer.snapshots.one() as recent:
        assert recent
        assert writer.seen() == 2
        with writer.snapshots.one() as inner:
            assert not inner


def test_a_snapshot_that_could_not_be_renewed_is_taken_by_the_next_query(writer, monkeypatch):
    writer.snapshots.renew()
    with monkeypatch.context() as failing:
        failing.setattr(writer.reader, "renew_snapshot", _fail)
        with pytest.raises(sqlite3.OperationalError):
            writer.snapshots.renew()
    writer.write()
    with writer.snapshots.one():
        assert writer.seen() == 2


def _fail():
    raise sqlite3.OperationalError("disk I/O error")


def test_another_manifest_makes_the_snapshot_old(writer, tmp_path):
    (tmp_path / MANIFEST).write_text('{"other": 1}')
    with writer.snapshots.one() as recent:
        assert not recent
    writer.snapshots.renew()
    with writer.snapshots.one() as recent:
        assert recent
    writer.snapshots.forget()
    with writer.snapshots.one() as recent:
        assert not recent
    (tmp_path / MANIFEST).unlink()
    writer.snapshots.renew()
    with writer.snapshots.one() as recent:
        assert not recent
