"""Errors of the disk and of SQLite become errors of the library, which name the file and a remedy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pam_retriever import IndexFormatError, IndexLocked, PredictiveAssociativeIndex, StorageError
from pam_retriever.store.faults import explained, for_sqlite

FILE = Path("memories.sqlite")


def test_a_database_that_another_process_locks_is_named(tmp_path):
    path = tmp_path / FILE
    with closing(sqlite3.connect(path)) as first, closing(sqlite3.connect(path, timeout=0)) as second:
        first.execute("BEGIN EXCLUSIVE")
        with pytest.raises(IndexLocked, match=FILE.name), explained(path):
            second.execute("BEGIN EXCLUSIVE")


def test_text_that_is_no_unicode_is_damage():
    with pytest.raises(IndexFormatError, match=r"memories.sqlite is damaged"), explained(FILE):
        b"\xff".decode()


def test_an_error_of_the_disk_names_its_own_file_or_else_the_given_one(tmp_path):
    with pytest.raises(StorageError, match=r"gone: No such file"), explained(FILE):
        (tmp_path / "gone").stat()
    with pytest.raises(StorageError, match=r"memories.sqlite: the cable is out\..*Check the disk\."), explained(FILE):
        raise OSError("the cable is out")


def test_a_name_or_a_path_that_is_too_long_is_said_to_be(tmp_path):
    """SQLite takes shorter paths than the system, and only says that it cannot open the file."""
    with pytest.raises(StorageError, match=r"name too long.*shorter name"):
        PredictiveAssociativeIndex.open(tmp_path / ("n" * 250), 2)  # of which the hidden folder has a longer name
    deep = Path(tmp_path, *["d" * 100] * 5)
    deep.mkdir(parents=True)
    with pytest.raises(StorageError, match=r"has \d+ bytes.*at most 504 bytes.*shorter path"):
        PredictiveAssociativeIndex.open(deep / "index", 2)
    longest = Path("/" + "e" * 503)
    for path, advice in (longest, "Check who may write there"), (Path(f"{longest}e"), "shorter path"):
        with pytest.raises(StorageError, match=advice), explained(path):
            raise sqlite3.OperationalError("unable to open database file")


def test_a_mistake_in_a_program_stays_as_it_is():
    for mistake in (ValueError("wrong"), sqlite3.OperationalError("no such table: x")):
        with pytest.raises(type(mistake)) as found, explained(FILE):
            raise mistake
        assert found.value is mistake


def test_an_error_of_a_function_that_sqlite_called_is_raised_once():
    def fail(text):
        raise KeyboardInterrupt

    with closing(sqlite3.connect(":memory:")) as database:
        database.create_function("fail", 1, for_sqlite(fail))
        with pytest.raises(KeyboardInterrupt), explained(None):
            database.execute("SELECT fail('a')")
        database.create_function("odd", 1, lambda text: 1 / 0)  # not wrapped
        with pytest.raises(sqlite3.OperationalError), explained(None):
            database.execute("SELECT odd('a')")
        with pytest.raises(sqlite3.OperationalError, match="no such column"), explained(None):
            database.execute("SELECT missing")
