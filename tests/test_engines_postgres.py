"""An index in PostgreSQL: other processes, generations, lost connections, and clear errors."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import psycopg
import pytest
from conftest import DIM, QUICK, THOROUGH, WINDOW, new_index
from engine_servers import fresh_postgres, postgres

from pam_retriever import (
    EngineUnavailable,
    IndexClosed,
    IndexFormatError,
    InvalidInput,
    MissingExtra,
    PgVectorBackend,
    PredictiveAssociativeIndex,
    StorageError,
)
from pam_retriever.engines.postgres import backend as postgres_backend
from pam_retriever.engines.postgres import connection, generations, schema
from pam_retriever.engines.postgres import database as tables

WRITER = """
import sys
from pam_retriever import FitConfig, PgVectorBackend, PredictiveAssociativeIndex
with PredictiveAssociativeIndex(backend=PgVectorBackend(sys.argv[1], schema=sys.argv[2])) as index:
    index.add([[9.0] * 16], ["other"], ["another text"], [{"number": 1000}])
    index.delete("m000")
    index.observe(["other", "m050", "m051"])
    if sys.argv[3] == "fit":
        index.fit(window=2, config=FitConfig(hidden=64, passes=20), seed=3, progress=False)
"""


def run_writer(engine, what):
    arguments = [sys.executable, "-W", "ignore", "-c", WRITER, postgres().get_uri(), engine.schema, what]
    subprocess.run(arguments, check=True, timeout=120)


def answers(index, ids, **options):
    """Returns the answers to several queries in one call, so that all come from the same state."""
    return [[(hit.id, round(hit.score, 4)) for hit in hits] for hits in index.recall(ids, k=5, **options)]


def offsets(hits):
    return [[(one.cue_id, one.offset, one.hop) for one in hit.evidence or ()] for hit in hits]


def terminate_all():
    """Ends every connection to the server."""
    with psycopg.connect(postgres().get_uri(), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid()")


@pytest.fixture(scope="module")
def learned(planted):
    """A fitted index in PostgreSQL. Shared: tests must not change it."""
    index = new_index(planted, backend=fresh_postgres())
    index.fit(planted.outings, window=WINDOW, config=THOROUGH, progress=False)
    yield index
    index.close()


def test_it_answers_as_an_index_in_memory_does(planted, learned, fitted):
    views = planted.vectors[:20] + 0.1
    for options in (
        {},
        {"mode": "hybrid"},
        {"mode": "specific"},
        {"hops": 2},
        {"where": {"parity": "odd"}, "cue_where": {}},
        {"where": {"number": {"$lt": 100}}, "cue_where": {}, "faithful": True},
        {"min_score": 0.05, "k": None},
        {"explain": True},
    ):
        k = {"k": 5, **options}
        for asked in (planted.ids[:20], views):
            for found, expected in zip(learned.recall(asked, **k), fitted.recall(asked, **k), strict=True):
                assert [hit.id for hit in found] == [hit.id for hit in expected]
                assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-4)
                assert offsets(found) == offsets(expected)
    words = {"text": "text of m007", "k": 5}
    assert [hit.id for hit in learned.recall(views[0], **words)] == [hit.id for hit in fitted.recall(views[0], **words)]
    assert learned.imagine(planted.ids[3]).point == pytest.approx(fitted.imagine(planted.ids[3]).point, abs=1e-4)
    assert learned.surprise(planted.outings[0]) == pytest.approx(fitted.surprise(planted.outings[0]), abs=1e-4)
    assert "200 memories, 20 trajectories, fitted with window 2, pgvector" in repr(learned)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["write", "fit"])
def test_what_another_process_wrote_is_in_the_next_answer(planted, what):
    engine = fresh_postgres()
    index = new_index(planted, backend=engine)
    index.fit(planted.outings, window=WINDOW, config=QUICK, progress=False)
    before = answers(index, ["m050"])
    assert len(index) == 200
    run_writer(engine, what)
    assert len(index) == 200 and "m000" not in index and "other" in index
    assert index.find({"number": 1000})[0].text == "another text"
    assert "other" in {hit.id for hit in index.recall("m050", k=10)} | {hit.id for hit in index.recall("m051", k=10)}
    assert {hit.id for hit in index.recall("m001", k=99, faithful=True)} == planted.associates("m001") - {"m000"}
    fresh = PredictiveAssociativeIndex(backend=engine)
    ids = planted.ids[1:60:3]
    assert answers(index, ids) == answers(fresh, ids)
    assert answers(index, ["m050"]) != before
    for one in (index, fresh):
        one.close()


@pytest.mark.slow
def test_a_fit_is_switched_over_to_at_once(planted, monkeypatch):
    engine = fresh_postgres()
    index, reader = new_index(planted, backend=engine), PredictiveAssociativeIndex(backend=engine)
    index.fit(planted.outings, window=WINDOW, config=QUICK, progress=False)
    ids = planted.ids[:10]
    old, seen, over = answers(index, ids), [], threading.Event()
    states = [old]
    fill = generations.PostgresGeneration.fill

    def fill_and_search(self, rows, vectors, predict):
        fill(self, rows[:100], vectors[:100], predict)
        assert answers(index, ids) == answers(reader, ids) == old  # half of the new keys are stored
        reader.add(planted.vectors[:1] + 3, ["late"])
        states.append(answers(reader, ids))
        reader.delete("m199")
        states.append(answers(reader, ids))
        fill(self, rows[100:], vectors[100:], predict)

    def watch():
        while not over.is_set():
            seen.append(answers(reader, ids))

    monkeypatch.setattr(generations.PostgresGeneration, "fill", fill_and_search)
    watcher = threading.Thread(target=watch)
    watcher.start()
    index.fit(window=WINDOW, config=QUICK, seed=5, from_scratch=True, progress=False)
    new = answers(index, ids)
    over.set()
    watcher.join()
    assert all(one in [*states, new] for one in seen) and answers(reader, ids) == new
    assert "m199" not in {hit.id for hit in index.recall("m198", k=99)}
    keys = index._store.associative.keys(np.array(list(index._store.database.memories.rows_of(["late"]).values())))
    expected = index._store.view().predict(planted.vectors[:1] + 3)
    np.testing.assert_allclose(keys[:, DIM:], expected, atol=1e-5)
    monkeypatch.undo()
    index.fit(window=WINDOW, config=QUICK, seed=6, from_scratch=True, progress=False)
    tables = index._store.database.connections.fetch(
        "SELECT count(*) FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'keys_%%'", [engine.schema]
    )
    # the current one, and the previous one for calls that still read it; older ones are deleted
    assert tables == [(2,)]
    index.close()
    reader.close()


def test_a_fit_that_fails_leaves_everything_as_it_was(planted, learned, monkeypatch):
    before = answers(learned, planted.ids[:5])

    def fail(self, rows, vectors, predict):
        raise MemoryError

    monkeypatch.setattr(generations.PostgresGeneration, "fill", fail)
    with pytest.raises(MemoryError):
        learned.fit([["m001", "m150"]], window=WINDOW, config=THOROUGH, progress=False)
    assert answers(learned, planted.ids[:5]) == before


@pytest.mark.slow
def test_many_memories_get_an_approximate_index_and_filters_stay_exact(monkeypatch):
    monkeypatch.setattr(tables, "INDEXED_FROM", 1000)
    monkeypatch.setattr(generations, "INDEXED_FROM", 1000)
    random = np.random.default_rng(2)
    vectors = (random.standard_normal((40, 1, 8)) + 0.4 * random.standard_normal((40, 100, 8))).reshape(-1, 8)
    exact, index = PredictiveAssociativeIndex(8, "exact"), PredictiveAssociativeIndex(8, fresh_postgres())
    ids = [str(n) for n in range(4000)]
    for one in (exact, index):
        one.add(vectors, ids, metadatas=[{"n": n} for n in range(4000)])
        one.fit([ids[start : start + 50] for start in range(0, 4000, 50)], config="fast", time_budget=2, progress=False)
    database = index._store.database.connections
    with database.reading():
        database.fetch("SELECT set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)")
        plan = database.fetch("EXPLAIN SELECT row FROM memories ORDER BY vector <=> '[1,2,3,4,5,6,7,8]' LIMIT 5")
        assert "memories_hnsw" in str(plan)
    asked = vectors[::80] + 0.05
    agreeing = [
        len({a.id for a in found} & {b.id for b in right}) / 10
        for found, right in zip(index.search(asked, k=10), exact.search(asked, k=10), strict=True)
    ]
    assert np.mean(agreeing) > 0.95
    for where in ({"n": {"$lt": 7}}, {"n": {"$in": list(range(0, 4000, 500))}}):
        for found, right in zip(index.search(asked, 8, where), exact.search(asked, 8, where), strict=True):
            assert [hit.id for hit in found] == [hit.id for hit in right]
    assert len(index.search(asked[0], k=4000)) == 4000
    index.close()


# ---- lost connections


def test_lost_connections_between_calls_are_not_noticed(planted):
    index = new_index(planted, backend=fresh_postgres())
    for _ in range(3):
        terminate_all()
        assert index.search(planted.vectors[3], k=1)[0].id == "m003"
        terminate_all()
        index.add(planted.vectors[:2], ["a", "b"])
        terminate_all()
        assert index.delete(["a", "b"]) == 2
    terminate_all()
    index.fit(planted.outings, window=WINDOW, config=THOROUGH, progress=False)
    index.close()


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_whose_answer_is_lost_happens_once(planted, monkeypatch, committed):
    index = new_index(planted, backend=fresh_postgres())
    index.observe(planted.outings[0])
    database, lost = index._store.database.connections, []
    commit = database._commit

    def lose_connection(call):
        if not lost:
            lost.append(call.state.version)
            if committed:
                call.connection.execute("COMMIT")
            call.connection.close()
        commit(call)

    monkeypatch.setattr(database, "_commit", lose_connection)
    assert index.delete(["m005", "m100", "nobody"]) == 2
    assert lost and len(index) == 198
    lost.clear()
    index.observe(["m001", "m002"])
    assert len(index._store.database.trajectories) == 2
    assert len(index._store.links) == 11
    index.close()


def test_a_connection_lost_in_a_transaction_leaves_nothing_and_is_tried_again(planted, monkeypatch):
    index = new_index(planted, backend=fresh_postgres())
    memories, lost = index._store.database.memories, []
    count = memories._count_words

    def lose_connection(*arguments):
        if not lost:
            lost.append(True)
            terminate_all()
        return count(*arguments)

    monkeypatch.setattr(memories, "_count_words", lose_connection)
    index.add(planted.vectors[:3], ["x", "y", "z"], ["text"] * 3)
    assert lost and len(index) == 203 and index.get(["x"])[0].text == "text"
    index.close()


def test_a_read_that_is_lost_goes_on_unless_something_else_was_written(planted, monkeypatch):
    """A read whose connection is lost is repeated, unless another process has written since: then it raises."""
    engine = fresh_postgres()
    index, other = new_index(planted, backend=engine), PredictiveAssociativeIndex(backend=engine)
    memories = index._store.database.memories
    contents, between = memories.contents, []

    def lose_connection(rows):
        terminate_all()
        for write in between:
            write()
        return contents(rows)

    monkeypatch.setattr(memories, "contents", lose_connection)
    assert index.search(planted.vectors[3], k=1)[0].id == "m003"
    between.append(lambda: other.add(planted.vectors[:1], ["x"]))
    with pytest.raises(EngineUnavailable, match="Call again"):
        index.search(planted.vectors[3], k=1)
    monkeypatch.undo()
    assert len(index.search(planted.vectors[3], k=300)) == 201
    index.close()
    other.close()


def test_a_server_that_stays_away_is_a_clear_error(planted):
    index = new_index(planted, backend=fresh_postgres(patience=0.2))
    index._store.database.connections._dsn = "postgresql://postgres@localhost:1/none"
    terminate_all()
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        index.search(planted.vectors[3], k=1)
    with pytest.raises(EngineUnavailable, match="Start it"):
        index.add(planted.vectors[:1], ["x"])
    index.close()


# ---- clear errors


@pytest.mark.parametrize(
    ("dsn", "error", "words"),
    [
        ("", InvalidInput, "Pass a DSN"),
        ("nonsense", InvalidInput, "Check it"),
        ("postgresql://postgres@localhost:1/none", EngineUnavailable, "cannot be reached"),
        ("postgresql://postgres@no.such.host.invalid/none", EngineUnavailable, "cannot be reached"),
        ("{uri}none", InvalidInput, "does not exist"),
    ],
)
def test_a_wrong_dsn_is_refused(dsn, error, words):
    if "{uri}" in dsn:
        dsn = postgres().get_uri(database="none")
    with pytest.raises(error, match=words):
        PredictiveAssociativeIndex(4, backend=PgVectorBackend(dsn, patience=0.2))


def test_a_server_without_a_free_connection_is_not_called_a_wrong_dsn():
    uri, held = postgres().get_uri(), []
    with psycopg.connect(uri, autocommit=True) as owner:
        owner.execute("CREATE ROLE guest LOGIN")
        dsn = psycopg.conninfo.make_conninfo(uri, user="guest")
        try:
            with pytest.raises(psycopg.OperationalError, match="slots are reserved"):
                held.extend(psycopg.connect(dsn) for _ in range(1000))
            with pytest.raises(EngineUnavailable, match="slots are reserved"):
                PredictiveAssociativeIndex(4, backend=PgVectorBackend(dsn, patience=0.2))
        finally:
            for one in held:
                one.close()
            owner.execute("DROP ROLE guest")


def test_another_dimension_or_none_is_refused():
    engine = fresh_postgres()
    with pytest.raises(InvalidInput, match="There is no index"):
        PredictiveAssociativeIndex(backend=engine)
    PredictiveAssociativeIndex(4, backend=engine).close()
    with pytest.raises(InvalidInput, match="Expected 4, its dimension"):
        PredictiveAssociativeIndex(5, backend=engine)
    with pytest.raises(InvalidInput, match="at most 7,900"):
        PredictiveAssociativeIndex(8000, backend=fresh_postgres())
    with PredictiveAssociativeIndex(embedder=lambda texts: [[1.0] * 4] * len(texts), backend=engine) as index:
        assert index.dim == 4


def test_an_engine_that_is_too_old_is_refused(monkeypatch):
    monkeypatch.setattr(schema, "LEAST_PGVECTOR", (99, 1))
    with pytest.raises(StorageError, match=r"has pgvector .* Expected 99.1 or later"):
        PredictiveAssociativeIndex(4, backend=fresh_postgres())
    monkeypatch.setattr(schema, "LEAST_POSTGRES", 990000)
    with pytest.raises(StorageError, match="is PostgreSQL 16"):
        PredictiveAssociativeIndex(4, backend=fresh_postgres())


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(postgres_backend, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pam-retriever\[pgvector\]"):
        fresh_postgres()


def test_tables_of_somebody_else_or_a_newer_version_are_left_alone(monkeypatch):
    with pytest.raises(IndexFormatError, match="other tables"):
        PredictiveAssociativeIndex(4, backend=PgVectorBackend(postgres().get_uri(), schema="pg_catalog"))
    engine = fresh_postgres()
    PredictiveAssociativeIndex(4, backend=engine).close()
    monkeypatch.setattr(schema, "FORMAT", 0)
    with pytest.raises(IndexFormatError, match="Upgrade"):
        PredictiveAssociativeIndex(4, backend=engine)


def test_what_postgresql_cannot_hold_is_refused_and_nothing_is_stored(tmp_path):
    index = PredictiveAssociativeIndex(2, backend=fresh_postgres())
    with pytest.raises(InvalidInput, match=r"at most 2,600"):
        index.add([[1, 2], [1, 3]], ["short", "x" * 3000])
    with pytest.raises(InvalidInput, match="NUL"):
        index.add([[1, 2]], ["a"], ["nul \x00"])
    assert len(index) == 0 and "a\x00" not in index
    index.close()
    index.close()
    with pytest.raises(IndexClosed):
        len(index)
    with pytest.raises(InvalidInput, match="opens an index in an engine"):
        PredictiveAssociativeIndex.open(tmp_path / "x", 2, backend=fresh_postgres())
    with pytest.raises(InvalidInput, match="a name or an engine"):
        PredictiveAssociativeIndex(2, backend=7)
    for name in ("Bad", "a b", "", "x" * 70):
        with pytest.raises(InvalidInput, match="schema"):
            PgVectorBackend("postgresql://", schema=name)


def test_a_password_is_in_no_message():
    engine = PgVectorBackend("postgresql://user:secret@localhost:1/none", patience=0.1)
    with pytest.raises(EngineUnavailable) as raised:
        PredictiveAssociativeIndex(4, backend=engine)
    assert "secret" not in str(raised.value) + repr(engine)


def test_a_query_that_the_server_cancels_is_an_error(planted):
    """It is no lost connection, after which the query would be repeated for ever."""
    engine, uri = fresh_postgres(), postgres().get_uri()
    index = new_index(planted, backend=engine)
    short = f"{uri}{'&' if '?' in uri else '?'}options=-c%20statement_timeout%3D500"
    other = PredictiveAssociativeIndex(backend=PgVectorBackend(short, schema=engine.schema))
    with pytest.raises(StorageError, match=r"statement timeout.*Raise statement_timeout"):
        other._store.database.connections.fetch("SELECT pg_sleep(20)")
    assert len(other) == 200
    other.close()
    index.close()


@pytest.mark.parametrize(("asked", "used"), [("off", "on"), ("local", "local")])
def test_a_commit_is_on_the_disk_of_the_server_whatever_its_user_has_set(asked, used):
    engine, uri = fresh_postgres(), postgres().get_uri()
    fast = f"{uri}{'&' if '?' in uri else '?'}options=-c%20synchronous_commit%3D{asked}"
    with PredictiveAssociativeIndex(4, backend=PgVectorBackend(fast, schema=engine.schema)) as index:
        assert index._store.database.connections.fetch("SHOW synchronous_commit") == [(used,)]


def test_a_writer_that_does_not_end_is_named_and_later_calls_go_on(planted, monkeypatch):
    monkeypatch.setattr(connection, "LOCKED_FOR", "300ms")
    engine = fresh_postgres()
    index = new_index(planted, backend=engine)
    with psycopg.connect(postgres().get_uri()) as other:
        other.execute(f"SELECT 1 FROM {engine.schema}.state FOR UPDATE")
        with pytest.raises(StorageError, match="Another process has been writing all the while"):
            index.add(planted.vectors[:1], ["new"])
        assert "new" not in index and len(index) == 200
    index.add(planted.vectors[:1], ["new"])
    assert len(index) == 201
    index.close()


def test_a_transaction_that_the_server_ended_because_it_was_idle_is_lost(planted, monkeypatch):
    monkeypatch.setattr(connection, "IDLE_FOR", "300ms")
    index = new_index(planted, backend=fresh_postgres())
    connections = index._store.database.connections
    with connections.reading():
        time.sleep(1)
        assert connections.fetch("SELECT count(*) FROM memories") == [(200,)]
    index.close()


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql:/me:secret@localhost/x",
        "me:secret@localhost",
        "postgresql://me:secret@[::1/x",
        "postgresql://me:secret%zz@localhost/x",
        "host=localhost password=my secret=1",
        "postgresql://me@localhost/x?password=secret=1",
        "postgresql://me@localhost/x?password=secret&secret",
    ],
)
def test_a_dsn_that_is_none_is_not_quoted(dsn):
    """libpq quotes it, and a log would show the password; the error has no cause that does."""
    with pytest.raises(InvalidInput, match="a DSN that is none") as raised:
        PredictiveAssociativeIndex(4, backend=PgVectorBackend(dsn, patience=0.1))
    assert "secret" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_server_is_killed():
    pytest.importorskip("pgserver")
    from benchmarks.scaling import engine_kills

    result = engine_kills.run(kills=1, seed=0, between=(0.5, 0.6))
    assert result["acknowledged_calls"] > 10
    assert result["errors"] == result["differences"] == []


def test_a_server_that_stays_away_during_a_commit_says_that_the_call_may_be_stored(planted, monkeypatch):
    index = new_index(planted, backend=fresh_postgres(patience=0.2))
    database = index._store.database.connections
    commit, dsn = database._commit, database._dsn

    def lose_connection(call):
        call.connection.execute("COMMIT")
        call.connection.close()
        database._dsn = "postgresql://postgres@localhost:1/none"
        commit(call)

    monkeypatch.setattr(database, "_commit", lose_connection)
    with pytest.raises(EngineUnavailable, match="wholly or not at all"):
        index.add(planted.vectors[:1], ["x"])
    monkeypatch.undo()
    database._dsn = dsn
    index.add(planted.vectors[:1], ["x"])
    assert len(index) == 201
    index.close()


def test_a_connection_lost_after_a_commit_does_not_say_that_nothing_was_stored(planted, monkeypatch):
    """If a connection is lost after the commit, the call repeats its reads, even if others have written since."""
    backend = fresh_postgres()
    index, other = new_index(planted, backend=backend), PredictiveAssociativeIndex(backend=backend)
    database = index._store.database.connections
    begin, commit = database._begin, database._commit
    to_lose = []  # connections of the reads after a commit

    def begin_and_lose(writing):
        call = begin(writing)
        if not writing and to_lose:
            to_lose.pop()
            other.add(planted.vectors[1:2], ["another"])
            call.connection.close()
        return call

    def commit_and_lose(call):
        commit(call)
        to_lose.extend(range(4))

    monkeypatch.setattr(database, "_begin", begin_and_lose)
    monkeypatch.setattr(database, "_commit", commit_and_lose)
    index.observe(["m000", "m001"])
    assert not to_lose
    index.close()
    other.close()
