"""A database is opened with few statements, and they say the same as many."""

import numpy as np
import pytest

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.errors import IndexFormatError, InvalidInput
from pam_retriever.store.sqlite import words
from pam_retriever.store.sqlite.connection import Connection
from pam_retriever.store.sqlite.damage import check_types
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.schema import SCHEMA, WRONG


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "memories-0123456789ab.sqlite"
    database = SQLiteDatabase(path)
    with database.transaction():
        database.settings.set("names", ["title"])
        database.settings.set("mentions", "searched")
    database.close()
    return path


def roll_back(database, change):
    """Makes a change in a transaction that does not commit."""

    def fail():
        with database.transaction():
            change()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_all_settings_are_read_at_once(path, monkeypatch):
    database, run = SQLiteDatabase(path, "write"), []
    fetch = database.connection.fetch
    monkeypatch.setattr(database.connection, "fetch", lambda *given: (run.append(given[0]), fetch(*given))[1])
    assert database.connection.version  # known from now on
    run.clear()
    assert database.settings.get("names") == ["title"]
    assert database.settings.get("mentions") == "searched"
    assert [database.settings.get(name) for name in ("model", "ann", "encoder")] == [None, None, None]
    assert len(run) == 1
    database.close()


def test_settings_that_change_are_read_again(path):
    database = SQLiteDatabase(path, "write")
    settings = database.settings
    assert (database.connection.version, settings.get("names"), settings.get("model")) == (2, ["title"], None)
    with database.transaction():
        settings.set("model", 1)
        settings.remove("names")
        assert (settings.get("names"), settings.get("model"), settings.get("ann")) == (None, 1, None)
    assert (settings.get("names"), settings.get("model"), settings.get("mentions")) == (None, 1, "searched")
    roll_back(database, lambda: (settings.set("ann", 1), settings.set("model", 2)))
    assert (settings.get("ann"), settings.get("model"), settings.get("mentions")) == (None, 1, "searched")
    with database.transaction():
        settings.set("ann", 3)
    assert (settings.get("ann"), settings.get("encoder"), settings.get("model")) == (3, None, 1)
    database.close()


def test_words_first_read_in_a_transaction_are_read_after_its_rollback(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", 2) as index:
        index.add(np.eye(2), ["a", "b"], ["one word", "lake"])
        database = index._store.database
        roll_back(database, lambda: database.memories.positions("word", "text", 9))
        assert database.memories.positions("word", "text", 9)[0].tolist() == [1]
        assert words.VOCABULARY in database.connection._own
        with database.transaction():
            pass
        assert database.memories.positions("lake", "text", 9)[0].tolist() == [2]


@pytest.mark.parametrize("table", sorted(WRONG))
def test_a_wrong_type_is_found_in_every_table(path, table):
    connection = Connection(path, SCHEMA, "write")
    check_types(connection)
    connection.fetch("PRAGMA foreign_keys = OFF")
    columns = [name for _, name, *_ in connection.fetch(f"PRAGMA table_info({table})")]
    values = [-5 if name in ("row", "number", "trajectory") else b"\x00\xff" for name in columns]
    values = [
        5.5 if isinstance(value, bytes) and name in ("vector", "observed", "safetensors") else value
        for name, value in zip(columns, values, strict=True)
    ]
    connection.fetch("PRAGMA ignore_check_constraints = ON")
    for trigger in ("words_added", "words_removed", "words_changed"):
        connection.fetch(f"DROP TRIGGER IF EXISTS {trigger}")
    connection.fetch(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)
    with pytest.raises(IndexFormatError, match=table):
        check_types(connection)
    connection.close()


def test_tables_that_were_empty_in_the_last_database_are_checked(path, tmp_path):
    plain = SQLiteDatabase(tmp_path / "memories-000000000000.sqlite")
    check_types(plain.connection)  # all tables are empty
    database = SQLiteDatabase(path, "write")
    database.connection.fetch("PRAGMA foreign_keys = OFF")
    database.connection.fetch("INSERT INTO uses VALUES (1, 1, x'00')")
    for _ in range(2):
        with pytest.raises(IndexFormatError, match="The table uses"):
            check_types(database.connection)
    check_types(plain.connection)
    for opened in (plain, database):
        opened.close()


def test_a_tenant_with_files_that_a_killed_call_left_is_opened_without_them(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", 2) as index:
        index.tenant("ann").add(np.eye(2), ["a", "b"])
    (folder,) = (tmp_path / "index").glob("tenants-*/*")
    own = sorted(path.name for path in folder.iterdir())
    left = [
        "manifest.json.new",
        "ann-0123456789ab.rows.npy",
        "keys-0123456789ab.f32",
        f"predictor-{'0' * 12}.safetensors",
    ]
    for name in left:
        (folder / name).write_bytes(b"left")
        with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
            assert index.tenant("ann").search([1, 0.1], k=1)[0].id == "a"
        assert sorted(path.name for path in folder.iterdir()) == own, name


def test_a_tenant_of_another_dimension_is_refused_and_stays_free(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", 2) as index:
        index.tenant("ann").add(np.eye(2), ["a", "b"])
    (folder,) = (tmp_path / "index").glob("tenants-*/*")
    own = sorted(path.name for path in folder.iterdir())
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"dim": 2', '"dim": 3'))
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        for _ in range(2):
            with pytest.raises(InvalidInput, match="dim=2"):
                index.tenant("ann")
            assert sorted(path.name for path in folder.iterdir()) == own
