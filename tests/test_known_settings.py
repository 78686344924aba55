"""A writer reads a setting once, and never answers from a value that was changed or rolled back."""

import random

import pytest

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.store.sqlite.database import SQLiteDatabase

KEYS = ("one", "two", "three")


@pytest.fixture(params=["file", "memory"])
def database(request, tmp_path):
    opened = SQLiteDatabase(tmp_path / "memories-00000000.sqlite" if request.param == "file" else None)
    yield opened
    opened.close()


def statements_of(database, call):
    """Returns the number of settings that a call reads from the database."""
    read = []
    fetch = database.connection.fetch

    def count(sql, parameters=()):
        read.extend([sql] * sql.startswith("SELECT value FROM settings"))
        return fetch(sql, parameters)

    database.connection.fetch = count
    try:
        call()
    finally:
        del database.connection.fetch
    return len(read)


def test_random_changes_are_seen_at_once_and_rollbacks_too(database):
    settings, stored, chosen = database.settings, {}, random.Random(0)
    for number in range(400):
        expected, fails = dict(stored), chosen.random() < 0.3
        try:
            with database.transaction():
                for _ in range(chosen.randrange(4)):
                    key = chosen.choice(KEYS)
                    if chosen.random() < 0.3:
                        settings.remove(key)
                        expected.pop(key, None)
                    else:
                        settings.set(key, number)
                        expected[key] = number
                    if chosen.random() < 0.5:
                        assert {key: settings.get(key) for key in KEYS} == {key: expected.get(key) for key in KEYS}
                if fails:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            expected = stored
        stored = expected
        if chosen.random() < 0.5:
            assert {key: settings.get(key) for key in KEYS} == {key: stored.get(key) for key in KEYS}


def test_a_setting_that_did_not_change_is_read_once(tmp_path):
    database = SQLiteDatabase(tmp_path / "memories-00000000.sqlite")
    with database.transaction():
        database.settings.set("one", 1)
    assert database.settings.get("one") == 1

    def change():
        with database.transaction():
            database.settings.set("two", 2)
            assert database.settings.get("one") == 1
        assert database.settings.get("one") == 1

    change()
    assert statements_of(database, change) == 0
    database.close()


def test_an_add_reads_no_setting_twice(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=2) as index:
        for id in ("a", "b"):
            index.add([[1, 0]], [id], ["some words"])
        assert statements_of(index._store.database, lambda: index.add([[0, 1]], ["c"], ["more words"])) == 0


def test_a_reader_that_follows_sees_a_changed_setting(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=2) as index:
        index.add([[1, 0]], ["a"], ["some words"])
        with PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True, follow=True) as reader:
            assert reader._store.database.settings.get("capacity") is None
            index.set_capacity(7)
            reader.refresh()
            assert reader._store.database.settings.get("capacity")["memories"] == 7
