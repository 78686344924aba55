"""Tables of keys in PostgreSQL: what fits leave that fail, are killed, or run beside each other; and their answers."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from engine_servers import fresh_postgres

from pam_retriever import EngineUnavailable, FitConfig, PredictiveAssociativeIndex
from pam_retriever.engines.postgres import database, generations
from pam_retriever.engines.postgres.generations import PostgresGeneration

DIM, IDS = 4, [f"m{number}" for number in range(40)]
VECTORS = np.random.default_rng(11).standard_normal((40, DIM)).astype(np.float32)
QUICK = FitConfig(hidden=8, passes=2)


@pytest.fixture
def engine():
    return fresh_postgres()


@pytest.fixture
def index(engine):
    made = PredictiveAssociativeIndex(DIM, engine)
    made.add(VECTORS, IDS, metadatas=[{"number": number} for number in range(40)])
    made.observe(IDS)
    yield made
    made.close()


def fit(index: PredictiveAssociativeIndex, seed: int = 1) -> None:
    index.fit(window=1, config=QUICK, seed=seed, from_scratch=True, progress=False)


def tables(index: PredictiveAssociativeIndex) -> list[str]:
    """Returns the names of the tables of keys."""
    statement = (
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'keys_%' ORDER BY 1"
    )
    return [name for (name,) in index._store.database.connections.fetch(statement)]


def numbered(index: PredictiveAssociativeIndex) -> list[str]:
    """Returns the names of the tables that the index knows."""
    return [
        f"keys_{n}" for (n,) in index._store.database.connections.fetch("SELECT number FROM generations ORDER BY 1")
    ]


def test_a_fit_that_fails_leaves_no_table(index, monkeypatch):
    fit(index)
    before = tables(index)

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(PostgresGeneration, "fill", fail)
        for _ in range(2):
            with pytest.raises(MemoryError):
                fit(index, 2)
            assert tables(index) == numbered(index) == before


def test_the_next_fit_drops_the_table_of_a_killed_one(index):
    fit(index)
    store = index._store
    killed = store.database.begin_generation(2 * DIM)
    killed._own.close()  # as the server does when the process ends
    assert killed.column.table in tables(index)
    again = store.database.begin_generation(2 * DIM)
    again._own.close()
    assert killed.column.table not in tables(index)  # however often it is killed, one table stays
    fit(index, 2)
    assert again.column.table not in tables(index)
    assert tables(index) == numbered(index)
    assert len(tables(index)) == 2  # the current one, and the one before for calls that still read it


def test_a_fit_that_loses_its_connection_says_so_and_leaves_nothing(index, monkeypatch):
    fit(index)
    before, hits = tables(index), [hit.id for hit in index.recall("m5")]
    fill = PostgresGeneration.fill

    def lose(self, rows, vectors, associate) -> None:
        index._store.database.connections.fetch("SELECT pg_terminate_backend(%s)", [self._own.info.backend_pid])
        fill(self, rows, vectors, associate)

    with monkeypatch.context() as patched:
        patched.setattr(PostgresGeneration, "fill", lose)
        with pytest.raises(EngineUnavailable, match="again"):
            fit(index, 2)
    assert [hit.id for hit in index.recall("m5")] == hits
    fit(index, 3)
    assert tables(index) == numbered(index)
    assert len(tables(index)) == len(before) + 1


def test_erase_drops_the_table_before_the_current_one(index):
    """It holds the keys of what is erased."""
    fit(index)
    fit(index, 2)
    assert len(tables(index)) == 2
    index.erase(["m3"])
    assert tables(index) == numbered(index)
    assert len(tables(index)) == 1


@pytest.mark.parametrize("dim", [1_024, 2_000, 2_100])
def test_vectors_that_fill_a_page_are_stored_and_learnt(engine, monkeypatch, dim):
    """A row of PostgreSQL has 8,160 bytes, and a key is twice as long as a vector.."""
    monkeypatch.setattr(database, "INDEXED_FROM", 5)
    monkeypatch.setattr(generations, "INDEXED_FROM", 5)
    vectors = np.random.default_rng(3).standard_normal((8, dim)).astype(np.float32)
    words = " ".join(map(str, range(999)))
    ids = [f"{at}" + words[:900] for at in range(8)]
    with PredictiveAssociativeIndex(dim, engine) as wide:
        wide.add(vectors, ids, [words] * 8, [{"words": words}] * 8)
        assert [hit.id for hit in wide.search(vectors[3], k=1)] == [ids[3]]
        np.testing.assert_array_equal(wide.get(ids[5:6])[0].vector, vectors[5])
        if dim == 1_024:
            wide.observe(ids)
            fit(wide)
            assert ids[4] in {hit.id for hit in wide.recall(ids[3], k=3)}


def test_a_fit_that_has_ended_holds_no_connection(index):
    def connected() -> bool:
        return bool(index._store.database.connections.fetch("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [process]))

    ended = index._store.database.begin_generation(2 * DIM)
    process = ended._own.info.backend_pid
    assert connected()
    ended.close()
    for _ in range(200):  # the server takes a moment to notice
        if not connected():
            return
        time.sleep(0.05)
    pytest.fail("the connection is still open")


def test_a_fit_does_not_drop_the_table_of_one_that_runs(index, engine, monkeypatch):
    """The last fit to end decides; the table of each stays until then."""
    fill, begun, goes_on = PostgresGeneration.fill, threading.Event(), threading.Event()

    def slow(self, rows, vectors, associate) -> None:
        begun.set()
        assert goes_on.wait(60)
        fill(self, rows, vectors, associate)

    other = PredictiveAssociativeIndex(backend=engine)
    monkeypatch.setattr(PostgresGeneration, "fill", slow)
    running = index.fit(window=1, config=QUICK, seed=2, background=True)
    assert begun.wait(60)
    monkeypatch.setattr(PostgresGeneration, "fill", fill)
    fit(other, 3)
    other.add(VECTORS[:1] + 1, ["meanwhile"])
    other.delete("m39")
    goes_on.set()
    running.result(60)
    assert tables(index) == numbered(index)
    for one in (index, other):
        found = {hit.id for hit in one.recall("m5", k=99)}
        assert "meanwhile" in found
        assert "m39" not in found
    ids = IDS[:5]
    assert [[hit.id for hit in hits] for hits in index.recall(ids)] == [
        [hit.id for hit in hits] for hits in other.recall(ids)
    ]
    other.close()


@pytest.mark.parametrize("where", [None, {"number": {"$lt": 3}}, {"number": -1}, {"number": {"$gte": 0}}], ids=str)
def test_a_search_finds_what_an_exact_one_finds(index, where):
    exact = PredictiveAssociativeIndex(DIM, "exact")
    exact.add(VECTORS, IDS, metadatas=[{"number": number} for number in range(40)])
    asked = np.concatenate([VECTORS[:3] + 0.1, 100 * VECTORS[3:5]])
    for k in (1, 7, 40, 501, 5_000):
        for found, right in zip(index.search(asked, k, where), exact.search(asked, k, where), strict=True):
            assert [hit.id for hit in found] == [hit.id for hit in right]
            np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in right], atol=1e-5)
