"""An index in an engine that an older version wrote gets the words and names of today when it is opened."""

import multiprocessing

import numpy as np
import psycopg
import pytest
from engine_servers import ENGINES, fresh_engine, postgres
from test_scripts import EXPECTED, add_named, found_by_words, named

from pam_retriever import IndexFormatError, PgVectorBackend, PredictiveAssociativeIndex
from pam_retriever.engines import words
from pam_retriever.store.sqlite.words import OLD_TOKENIZER

TEXTS = {"code": "class HTTPDigestAuth:", "hindi": "मैं दिल्ली गया था", "plain": "the kettle boils"}


def as_format_2(engine):
    """Removes what the older version did not find, and names its format."""
    if isinstance(engine, PgVectorBackend):
        with psycopg.connect(postgres().get_uri(), autocommit=True) as connection:
            connection.execute(f"UPDATE {engine.schema}.kept SET data = NULL WHERE kind IN ('names', 'mentions')")
            connection.execute(f"UPDATE {engine.schema}.state SET format = 2")
        return
    store = engine.open_store(None)
    documents = store.database.calls.connection
    documents.delete("pam_kept", 'name like "names:%" or name like "mentions:%"')
    store.database.settings.write("$index", f"2 {store.database.dim}")
    store.close()


def made_in_format_2(kind, texts, monkeypatch):
    """Returns an engine with these texts, by id, and with the words that the older version counted."""
    engine = fresh_engine(kind)
    with monkeypatch.context() as patched:
        patched.setattr(words, "cut", lambda text: text)
        patched.setattr(words, "TOKENIZER", OLD_TOKENIZER)
        with PredictiveAssociativeIndex(2, backend=engine) as index:
            index.add(np.ones((len(texts), 2)), list(texts), list(texts.values()))
    as_format_2(engine)
    return engine


@pytest.mark.parametrize("kind", ENGINES)
def test_the_words_of_an_older_version_are_counted_again(kind, monkeypatch):
    engine = made_in_format_2(kind, TEXTS, monkeypatch)
    with PredictiveAssociativeIndex(backend=engine) as index, PredictiveAssociativeIndex(backend=engine) as other:
        for one in (index, other):
            assert found_by_words(one, "digest") == ["code"]
            assert found_by_words(one, "दिल्ली") == ["hindi"]
            assert found_by_words(one, "kettle") == ["plain"]
        index.delete(["code"])
        assert found_by_words(other, "digest") == []


@pytest.mark.parametrize("kind", ENGINES)
def test_the_names_of_an_older_version_are_searched_for_again(kind):
    engine = fresh_engine(kind)
    with PredictiveAssociativeIndex(6, backend=engine) as index:
        add_named(index)
    as_format_2(engine)
    with PredictiveAssociativeIndex(backend=engine) as index:
        assert named(index) == EXPECTED
    with PredictiveAssociativeIndex(backend=engine) as index:
        assert named(index) == EXPECTED


def _open(engine, done):
    with PredictiveAssociativeIndex(backend=engine) as index:
        done.put(found_by_words(index, "digest"))


def test_processes_that_open_an_older_index_together_count_once(monkeypatch):
    engine = made_in_format_2("pgvector", {f"m{at}": "getDigest of it" for at in range(300)}, monkeypatch)
    spawn = multiprocessing.get_context("spawn")
    done = spawn.Queue()
    processes = [spawn.Process(target=_open, args=(engine, done)) for _ in range(3)]
    for process in processes:
        process.start()
    found = [done.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    assert [len(one) for one in found] == [300] * 3
    with psycopg.connect(postgres().get_uri()) as connection:
        (times,) = connection.execute(f"SELECT count(*) FROM {engine.schema}.words WHERE term = 'digest'").fetchone()
    assert times == 300


def test_a_large_older_index_is_counted_in_parts(monkeypatch):
    monkeypatch.setattr("pam_retriever.engines.postgres.older.AT_ONCE", 2)
    texts = {f"m{at}": "getDigest of it" if at % 2 else None for at in range(10)}
    engine = made_in_format_2("pgvector", texts, monkeypatch)
    with PredictiveAssociativeIndex(backend=engine) as index:
        assert sorted(found_by_words(index, "digest")) == ["m1", "m3", "m5", "m7", "m9"]


def test_older_versions_refuse_an_index_that_was_updated():
    engine = fresh_engine("pgvector")
    PredictiveAssociativeIndex(2, backend=engine).close()
    as_format_2(engine)
    PredictiveAssociativeIndex(backend=engine).close()
    with psycopg.connect(postgres().get_uri(), autocommit=True) as connection:
        assert connection.execute(f"SELECT format FROM {engine.schema}.state").fetchall() == [(3,)]
        connection.execute(f"UPDATE {engine.schema}.state SET format = 4")
    with pytest.raises(IndexFormatError, match="has format 4"):
        PredictiveAssociativeIndex(backend=engine)


def test_an_update_that_fails_leaves_the_older_index(monkeypatch):
    engine = made_in_format_2("pgvector", TEXTS, monkeypatch)

    def fails(*_):
        raise RuntimeError("planned")

    with monkeypatch.context() as patched:
        patched.setattr(words.WordCounter, "__call__", fails)
        with pytest.raises(RuntimeError, match="planned"):
            PredictiveAssociativeIndex(backend=engine)
    with PredictiveAssociativeIndex(backend=engine) as index:
        assert found_by_words(index, "digest") == ["code"]
