"""An index in Milvus Lite answers as one in memory, is shared by processes, and raises clear errors."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
import pytest
from conftest import DIM, QUICK, THOROUGH, WINDOW, new_index
from engine_servers import fresh_milvus, milvus_folder
from test_interrupts import interrupted_at_any_call

from pam_retriever import (
    EngineUnavailable,
    FitConfig,
    IndexClosed,
    IndexFormatError,
    IndexLocked,
    InvalidInput,
    MilvusBackend,
    MissingExtra,
    PredictiveAssociativeIndex,
    StorageError,
    Trajectory,
    UnknownId,
)
from pam_retriever.engines.local_copy import LocalCopy
from pam_retriever.engines.milvus import backend, calls, client, database, filters, keys, trajectories
from pam_retriever.engines.store import EngineRebuild
from pam_retriever.filters import read_filter


@pytest.fixture(scope="module")
def learned(planted):
    """A fitted index in Milvus. Shared: tests must not change it."""
    index = new_index(planted, backend=fresh_milvus())
    index.fit(planted.outings, window=WINDOW, config=THOROUGH, progress=False)
    yield index
    index.close()


@contextmanager
def opened_twice():
    """Yields two indexes over the same data, as of two processes."""
    engine = fresh_milvus()
    with (
        PredictiveAssociativeIndex(dim=3, backend=engine) as index,
        PredictiveAssociativeIndex(dim=3, backend=engine) as other,
    ):
        yield index, other


def offsets(hits):
    return [[(one.cue_id, one.offset, one.hop) for one in hit.evidence or ()] for hit in hits]


@pytest.mark.slow
def test_it_answers_as_an_index_in_memory_does(planted, learned, fitted):
    for options in (
        {},
        {"mode": "hybrid"},
        {"mode": "specific", "where": {"number": {"$gte": 20, "$lt": 150}}, "cue_where": {}},
        {"hops": 2, "where": {"parity": {"$ne": "odd"}}, "cue_where": {}},
        {"where": {"number": {"$lt": 100}}, "cue_where": {}, "faithful": True, "explain": True},
        {"min_score": 0.05, "k": None},
    ):
        k = {"k": 5, **options}
        for asked in (planted.ids[:6], planted.vectors[:6] + 0.1):
            for found, expected in zip(learned.recall(asked, **k), fitted.recall(asked, **k), strict=True):
                assert [hit.id for hit in found] == [hit.id for hit in expected]
                assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-4)
                assert offsets(found) == offsets(expected)
    words = {"text": "text of m007", "k": 5}
    view = planted.vectors[0] + 0.1
    assert [hit.id for hit in learned.recall(view, **words)] == [hit.id for hit in fitted.recall(view, **words)]
    assert "200 memories, 20 trajectories, fitted with window 2, milvus" in repr(learned)


@pytest.mark.slow
def test_times_groups_and_long_trajectories(planted, monkeypatch):
    monkeypatch.setattr(trajectories, "CHUNK", 3)
    here, there = new_index(planted), new_index(planted, backend=fresh_milvus())
    steps = planted.ids[:10]
    for index in (here, there):
        index.observe(Trajectory(ids=steps, id="t", timestamps=list(range(10)), salience=[1.0, 0.5] * 5))
        index.observe(Trajectory(ids=steps[::-1], id="t", timestamps=list(range(5, 15))))
        index.delete("m003")
        index.fit(group_by="parity", order_by="number", window=WINDOW, config=QUICK, progress=False)
        index.prune(keep=150, half_life=5.0)
    assert {record.id for record in here.find()} == {record.id for record in there.find()}
    for options in ({"decay": 3.0}, {"explain": True}):
        cue = here.find()[0].id
        a, b = here.recall(cue, k=5, **options), there.recall(cue, k=5, **options)
        assert [hit.id for hit in a] == [hit.id for hit in b]
        assert [hit.score for hit in a] == pytest.approx([hit.score for hit in b], abs=1e-4)
        assert offsets(a) == offsets(b)
    there.close()


@pytest.mark.slow
def test_filters_that_milvus_only_narrows_down_stay_exact(learned, fitted, monkeypatch):
    monkeypatch.setattr(keys, "MOST", 40)  # if a search finds too few matches, it scans all memories
    asked = [fitted.get(["m010"])[0].vector]
    for where in (
        {"number": {"$in": list(range(0, 200, 13))}},
        {"$not": {"number": {"$lt": 195}}},
        {"parity": {"$contains": "od"}},
        {"number": {"$gt": 198.5}},
        {"missing": {"$exists": True}},
        {"$or": [{"$not": {"number": {"$lt": 195}}}, {"number": 3}]},
        {"$and": [{"$not": {"number": {"$lt": 195}}}, {"parity": "odd"}]},
    ):
        for k in (3, 50, 200):
            a, b = learned.search(asked, k, where)[0], fitted.search(asked, k, where)[0]
            assert [hit.id for hit in a] == [hit.id for hit in b]
    assert len(learned.search(asked[0], k=200)) == 200


def test_a_part_that_is_not_translated_excludes_no_memory():
    def expression(where):
        return filters.MilvusCompiler().compile(read_filter(where))[0]

    free, bound = {"$not": {"n": {"$lt": 5}}}, {"n": {"$lt": 3}}
    assert expression(free) == expression({"$or": [free, bound]}) == ""
    assert expression({"$and": [free, bound]}) == f"({expression(bound)})"
    assert expression({"$or": [bound, {"n": 7}]}) not in ("", expression(bound))


@pytest.mark.slow
def test_a_range_has_the_largest_numbers():
    numbers = [-1e308, -(2**63), -(2**53), -1, True, 2**53 - 1, 2**53 + 1, 2**63 - 1, 1e308]
    with PredictiveAssociativeIndex(dim=2, backend=fresh_milvus()) as index:
        index.add(np.ones((9, 2)), [f"m{n}" for n in range(9)], metadatas=[{"n": number} for number in numbers])
        for bound in (-(2**53) + 1, 0, 0.5, 2**53 - 1, 2**60):
            assert len(index.find({"n": {"$gt": bound}})) == sum(number > bound for number in numbers)
            assert len(index.find({"n": {"$lte": bound}})) == sum(number <= bound for number in numbers)


def test_metadata_with_very_many_entries_are_found(monkeypatch):
    monkeypatch.setattr(filters, "MOST_TAGS", 3)
    index = PredictiveAssociativeIndex(2, fresh_milvus())
    index.add([[1, 0], [0, 1]], ["many", "few"], metadatas=[{"tags": list("abcdefgh")}, {"tags": ["z"]}])
    assert [record.id for record in index.find({"tags": {"$contains": "h"}})] == ["many"]
    assert [record.id for record in index.find({"tags": ["z"]})] == ["few"]
    index.close()


@pytest.mark.slow
def test_a_fit_is_switched_over_to_at_once(planted, monkeypatch):
    index = new_index(planted, backend=fresh_milvus())
    index.fit(planted.outings, window=WINDOW, config=QUICK, progress=False)
    old = [[hit.id for hit in hits] for hits in index.recall(planted.ids[:10])]
    fill = database.MilvusGeneration.fill

    def fill_and_search(self, rows, vectors, predict):
        fill(self, rows[:100], vectors[:100], predict)
        # half of the new generation is stored
        assert [[hit.id for hit in hits] for hits in index.recall(planted.ids[:10])] == old
        index.add(-planted.vectors[:1], ["late"])
        index.delete("m199")
        fill(self, rows[100:], vectors[100:], predict)

    monkeypatch.setattr(database.MilvusGeneration, "fill", fill_and_search)
    index.fit(window=WINDOW, config=QUICK, seed=5, from_scratch=True, progress=False)
    assert len(index) == 200 and "m199" not in index
    assert "m199" not in {hit.id for hit in index.recall("m198", k=99)}
    row = index._store.database.memories.rows_of(["late"])["late"]
    key = index._store.associative.keys(np.array([row]))
    np.testing.assert_allclose(key[:, DIM:], index._store.view().predict(-planted.vectors[:1]), atol=1e-5)
    monkeypatch.undo()
    index.fit(window=WINDOW, config=QUICK, seed=6, from_scratch=True, progress=False)
    names = set(index._store.database.calls.connection.collections())
    generations = names - {"pam_settings", "pam_trajectories", "pam_kept"}
    assert len(generations) == 2  # the current one, and the previous one for calls that still read it
    index.close()


@pytest.mark.slow
def test_an_approximate_index_over_many(monkeypatch):
    monkeypatch.setattr(database, "FLAT_UP_TO", 100)
    random = np.random.default_rng(2)
    vectors = (random.standard_normal((20, 1, 8)) + 0.4 * random.standard_normal((20, 50, 8))).reshape(-1, 8)
    ids = [str(n) for n in range(1000)]
    exact, index = PredictiveAssociativeIndex(8, "exact"), PredictiveAssociativeIndex(8, fresh_milvus())
    for one in (exact, index):
        one.add(vectors, ids)
        one.fit(
            [ids[start : start + 50] for start in range(0, 1000, 50)],
            config=FitConfig(hidden=8, passes=1),
            progress=False,
        )
    asked = vectors[::20] + 0.05
    agreeing = [
        len({a.id for a in found} & {b.id for b in right}) / 10
        for found, right in zip(index.search(asked), exact.search(asked), strict=True)
    ]
    assert np.mean(agreeing) > 0.95
    index.close()


# ---- several processes, over a server


SERVER = """
import sys
from milvus_lite.adapter.grpc.server import run_server
run_server(data_dir=sys.argv[1], host="127.0.0.1", port=int(sys.argv[2]))
"""
WRITER = """
import sys
from pam_retriever import FitConfig, MilvusBackend, PredictiveAssociativeIndex
with PredictiveAssociativeIndex(backend=MilvusBackend(sys.argv[1], prefix="shared")) as index:
    index.add([[9.0] * 16], ["other"], ["another text"], [{"number": 1000}])
    index.delete("m000")
    index.observe(["other", "m050", "m051"])
    index.fit(window=2, config=FitConfig(hidden=64, passes=20), seed=3, progress=False)
"""


@pytest.fixture(scope="module")
def server():
    """Runs Milvus Lite as a server in a separate process, like Milvus Standalone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(milvus_folder() / "served.db"), str(port)])
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait()


@pytest.mark.slow
def test_what_another_process_wrote_is_in_the_next_answer(planted, server):
    index = new_index(planted, backend=MilvusBackend(server, prefix="shared"))
    index.fit(planted.outings, window=WINDOW, config=THOROUGH, progress=False)
    before = [hit.score for hit in index.recall("m050")]
    subprocess.run([sys.executable, "-W", "ignore", "-c", WRITER, server], check=True, timeout=120)
    assert len(index) == 200 and "m000" not in index
    assert index.find({"number": 1000})[0].text == "another text"
    assert "other" in {hit.id for hit in index.recall("m050")} | {hit.id for hit in index.recall("m051")}
    assert {hit.id for hit in index.recall("m001", k=99, faithful=True)} == planted.associates("m001") - {"m000"}
    assert [hit.score for hit in index.recall("m050")] != before
    fresh = PredictiveAssociativeIndex(backend=MilvusBackend(server, prefix="shared"))
    assert fresh.recall("m007")[0].score == pytest.approx(index.recall("m007")[0].score)
    index.close()
    fresh.close()


@pytest.mark.slow
def test_one_process_writes_at_a_time(planted, server, monkeypatch):
    monkeypatch.setattr(calls, "LEASE", 1.0)
    first = new_index(planted, backend=MilvusBackend(server, prefix="locked"))
    second = PredictiveAssociativeIndex(backend=MilvusBackend(server, prefix="locked"))
    with first._store.database.transaction():
        assert len(second) == 200
        refused = []

        def add():
            try:
                second.add(planted.vectors[:1], ["x"])
            except IndexLocked as error:
                refused.append(error)

        monkeypatch.setattr(calls, "LEASE", 0.3)
        thread = threading.Thread(target=add)
        thread.start()
        while thread.is_alive():  # the lease never expires
            held = first._store.database.calls
            held._write(replace(held._read(), since=time.time()))
            time.sleep(0.05)
        monkeypatch.undo()
        assert "another process" in str(refused[0])
    second.add(planted.vectors[:1], ["x"])
    assert "x" in first
    monkeypatch.setattr(calls, "LEASE", 0.2)
    first._store.database.calls._take_over()  # takes the lease but does not renew it, like a stopped process
    second.add(planted.vectors[:1], ["y"])
    assert len(first) == 202
    first._store.database.calls._take_over()
    now = time.time()
    monkeypatch.setattr(calls.time, "time", lambda: now - 3_600)  # then the clock is set back by an hour
    second.add(planted.vectors[:1], ["z"])
    assert len(first) == 203
    first.close()
    second.close()


# ---- clear errors


def test_arguments_and_servers_that_are_not_there(tmp_path, monkeypatch):
    for uri in ("", "somewhere", "memories.sqlite"):
        with pytest.raises(InvalidInput, match=r"ends in \.db"):
            MilvusBackend(uri)
    with pytest.raises(InvalidInput, match="prefix"):
        MilvusBackend("x.db", prefix="no spaces")
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        PredictiveAssociativeIndex(2, MilvusBackend("http://127.0.0.1:1", patience=0.3))
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        PredictiveAssociativeIndex(2, MilvusBackend(tmp_path / "none" / "x.db"))
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pam-retriever\[milvus\]"):
        MilvusBackend("x.db")


def test_another_dimension_a_newer_format_and_an_old_server_are_refused(monkeypatch):
    engine = fresh_milvus()
    with pytest.raises(InvalidInput, match="There is no index"):
        PredictiveAssociativeIndex(backend=engine)
    PredictiveAssociativeIndex(4, engine).close()
    with pytest.raises(InvalidInput, match=r"index in Milvus at .*Expected 4, its dimension"):
        PredictiveAssociativeIndex(5, engine)
    monkeypatch.setattr(backend, "FORMAT", 0)
    with pytest.raises(IndexFormatError, match="Upgrade"):
        PredictiveAssociativeIndex(4, engine)
    monkeypatch.setattr(backend, "LEAST", (99, 0))
    with pytest.raises(StorageError, match=r"Expected 99\.0 or later"):
        PredictiveAssociativeIndex(4, engine)
    with pytest.raises(InvalidInput, match="at most 16,000"):
        PredictiveAssociativeIndex(20_000, engine)


def test_the_model_of_long_vectors_fits_into_a_value_of_milvus():
    vectors = np.random.default_rng(0).standard_normal((120, 768)).astype(np.float32)
    engine = fresh_milvus()
    index = PredictiveAssociativeIndex(768, engine)
    index.add(vectors, [str(at) for at in range(120)])
    index.observe([str(at) for at in range(120)])
    index.fit(window=2, config=FitConfig(hidden=4, passes=1), progress=False)
    directions = index._store.calibration.directions
    stored = json.dumps(index._store.database.settings.get("model"))
    assert len(stored) <= client.MAX_BYTES  # a server refuses more; Milvus Lite does not
    index.close()
    again = PredictiveAssociativeIndex(768, engine)
    assert again._store.calibration.directions == directions
    assert len(directions) > 8 * 768
    again.close()


@pytest.mark.slow
def test_weights_go_with_their_setting_and_their_generation(planted):
    """Each fit stores up to 16 MB of them: nothing may stay of those that are replaced."""
    index = new_index(planted, backend=fresh_milvus())
    settings = index._store.database.settings
    settings.set("next", {"about": 1})
    settings.set_weights("next", bytes(100_000))
    settings.set("nexte", {"about": 2})
    settings.set_weights("nexte", b"another")
    settings.remove("next")
    assert settings.get("next") is None and settings.weights("next") is None
    assert settings.weights("nexte") == b"another"
    for count in (2, 3, 4, 5):  # a new generation each
        index.fit(planted.outings[:count], window=WINDOW, config=QUICK, progress=False, from_scratch=True)
    stored = index._store.database.settings
    names = {row["name"] for row in stored._milvus.query(stored._name, "key >= 0", ["name"])}
    generations = {name.rsplit("@", 1)[1] for name in names if name.startswith("$weights:")}
    assert len(generations) <= 2, names  # the one before is left for readers
    index.close()


def test_what_milvus_cannot_hold_is_refused_and_nothing_is_stored():
    index = PredictiveAssociativeIndex(2, fresh_milvus())
    with pytest.raises(InvalidInput, match=r"texts\[1\] has 70,000 bytes"):
        index.add([[1, 2], [1, 3]], ["a", "b"], ["short", "x" * 70_000])
    assert len(index) == 0
    index.close()
    with pytest.raises(IndexClosed):
        len(index)


@contextmanager
def failing(monkeypatch):
    """Lets calls fail after their data are written, and before these become visible."""

    def fail(_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(LocalCopy, "store", fail)
        with pytest.raises(RuntimeError):
            yield


@pytest.mark.slow
def test_what_a_failed_call_left_is_counted_and_never_replaced_by_others(monkeypatch):
    engine = fresh_milvus()
    with PredictiveAssociativeIndex(dim=3, backend=engine) as index:
        index.add(np.eye(3), ["a", "b", "c"])
        with failing(monkeypatch):
            index.add(np.eye(3)[:2], ["x", "y"])
        for new in ("z", "w"):
            index.add(np.eye(3)[:1], [new])
            found = sorted(one.id for one in index.find())
            assert {"a", "b", "c", "x", "y", new} <= set(found)
            assert len(index) == len(found)


@pytest.mark.slow
def test_ids_that_an_expression_has_to_quote():
    ids = ['a"b', "a\\b", "a\nb", "a\rb", '" or row >= 0 or id == "']
    with PredictiveAssociativeIndex(dim=5, backend=fresh_milvus()) as index:
        index.add(np.eye(5), ids)
        assert [one.id for one in index.get(ids)] == ids
        for id in ids[::-1]:
            index.delete(id)
            assert id not in index
        assert len(index) == len(index.find()) == 0


@pytest.mark.slow
def test_what_a_failed_delete_removed_is_not_counted(monkeypatch):
    with PredictiveAssociativeIndex(dim=3, backend=fresh_milvus()) as index:
        index.add(np.eye(3), ["a", "b", "c"])
        with failing(monkeypatch):
            index.delete("a")
        index.add(np.eye(3)[:1], ["new"])
        assert len(index) == len(index.find())


@pytest.mark.slow
def test_after_a_call_that_wrote_nothing_nothing_is_counted_again(monkeypatch):
    with PredictiveAssociativeIndex(dim=3, backend=fresh_milvus()) as index:
        index.add(np.eye(3), ["a", "b", "c"])
        state = index._store.database.calls._read()
        with pytest.raises(UnknownId):
            index.append("session", id="unknown")
        assert index._store.database.calls._read() == state
        with failing(monkeypatch):
            index.add(np.eye(3)[:1], ["x"])
        with pytest.raises(UnknownId):
            index.append("session", id="unknown")
        index.add(np.eye(3)[:1], ["y"])
        assert len(index) == len(index.find()) == 5


@pytest.mark.slow
def test_a_trajectory_that_a_failed_call_left_is_linked_in_every_process(monkeypatch):
    with opened_twice() as (index, other):
        index.add(np.eye(3), ["a", "b", "c"])
        with failing(monkeypatch):
            index.observe(Trajectory(ids=["a", "b"], id="failed"))
        other.observe(Trajectory(ids=["a", "c"], id="later"))
        for one in (index, other):
            assert {hit.id for hit in one.recall("a", 5, mode="association")} == {"b", "c"}
            assert [one.id for one in one.trajectories()] == ["failed", "later"]


@pytest.mark.slow
def test_a_fit_keeps_what_was_added_after_another_process_discarded_the_keys(monkeypatch):
    with opened_twice() as (index, other):
        index.add(np.eye(3), ["a", "b", "c"])
        index.fit([["a", "b"]], config=FitConfig(hidden=8, passes=1), progress=False)
        commit = EngineRebuild.commit

        def meanwhile(self: EngineRebuild, *given: object) -> None:
            other.delete("a")  # and with it all experience
            other.fit(progress=False)
            assert not other.is_fitted
            other.add(np.eye(3)[:1], ["new"])
            other.delete("c")
            commit(self, *given)

        monkeypatch.setattr(EngineRebuild, "commit", meanwhile)
        index.fit(from_scratch=True, config=FitConfig(hidden=8, passes=1), progress=False)
        for one in (index, other):
            assert sorted(record.id for record in one.find()) == ["b", "new"]


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", ["erase", "fit"])
def test_a_fit_makes_its_keys_again_if_another_process_dropped_them(monkeypatch, when, what):
    """An erasure, and the end of another fit, drop all collections that no call reads."""
    quick = {"config": FitConfig(hidden=8, passes=1), "progress": False}
    with opened_twice() as (index, other):
        index.add(np.eye(3), ["a", "b", "c"])
        index.observe(["a", "b"])
        fill = database.MilvusGeneration.fill

        def meanwhile() -> None:
            monkeypatch.undo()
            if what == "erase":
                other.erase("c")
            else:
                other.fit(**quick)

        def interrupted(self, *given):
            if when == "before":
                meanwhile()
            fill(self, *given)
            if when == "after":
                meanwhile()

        monkeypatch.setattr(database.MilvusGeneration, "fill", interrupted)
        index.fit(**quick)
        for one in (index, other):
            assert one.is_fitted
            assert sorted(record.id for record in one.find()) == ["a", "b"] + ["c"] * (what == "fit")
            assert one.recall("a", 1, mode="association")[0].id == "b"


@pytest.mark.slow
def test_a_fit_whose_keys_are_always_dropped_says_so(monkeypatch):
    with opened_twice() as (index, other):
        index.add(np.eye(3), ["a", "b", "c"])
        fill = database.MilvusGeneration.fill

        def interrupted(self, *given):
            other.erase("unknown")
            fill(self, *given)

        monkeypatch.setattr(database.MilvusGeneration, "fill", interrupted)
        with pytest.raises(EngineUnavailable, match=r"dropped.*erase.*Fit again"):
            index.fit([["a", "b"]], config=FitConfig(hidden=8, passes=1), progress=False)
        assert len(index) == len(other) == 3


@pytest.mark.slow
def test_no_collection_is_dropped_outside_a_transaction(monkeypatch):
    """Another process could make it the current one meanwhile."""
    inside, drop = [], database.MilvusDatabase.drop_generations

    def spy(self, *kept):
        inside.append(self.calls.inside)
        drop(self, *kept)

    monkeypatch.setattr(database.MilvusDatabase, "drop_generations", spy)
    with opened_twice() as (index, other):
        index.add(np.eye(3), ["a", "b", "c"])
        index.fit([["a", "b"]], config=FitConfig(hidden=8, passes=1), progress=False)
        made = index._store.database.begin_generation(4)
        other.erase("c")
        assert other._store.database.begin_generation(4).number != made.number
    assert len(inside) >= 2
    assert all(inside)


@pytest.mark.slow
def test_a_call_keeps_its_lease_for_longer_than_a_lease(monkeypatch):
    with opened_twice() as (index, other):
        monkeypatch.setattr(calls, "LEASE", 0.4)
        with index._store.database.transaction():
            time.sleep(0.6)
            with ThreadPoolExecutor() as threads, pytest.raises(IndexLocked):
                threads.submit(other.add, np.eye(3), ["a", "b", "c"]).result()
        other.add(np.eye(3), ["a", "b", "c"])
        assert len(index) == 3


class InMemory:
    """Stores entities by key, as a connection to Milvus does."""

    location, prefix, wrote = "in memory", "pam", False

    def __init__(self) -> None:
        self.rows: dict[int, client.Row] = {}

    def create(self, *_: object) -> None:
        """Does nothing: any collection exists."""

    def upsert(self, _: str, entities: list[client.Row]) -> None:
        self.rows.update({row["key"]: row for row in entities})

    def get(self, _: str, keys: list[int], __: object) -> list[client.Row]:
        return [self.rows[key] for key in keys if key in self.rows]


@pytest.mark.slow
def test_an_interrupt_at_any_call_of_a_write_leaves_no_lease_that_is_renewed(monkeypatch):
    monkeypatch.setattr(calls, "LEASE", 0.01)
    monkeypatch.setattr(calls, "PAUSE", 0.001)
    made = calls.Calls(InMemory())
    made.make()

    def write() -> None:
        try:
            with made.transaction(lambda _: None, lambda: None):
                pass
        except RuntimeError as error:  # an interrupted ``Thread.start`` of Python may raise another error
            raise KeyboardInterrupt from error

    def is_free() -> None:
        assert not made.inside
        if made._read().writer:
            time.sleep(0.02)  # the lease expires, unless a thread renews it
            assert time.time() - made._read().since > 0.01

    files = calls.__file__, threading.__file__  # not where Python calls back, and ignores what is raised
    assert interrupted_at_any_call(write, is_free, files) > 30


def test_of_two_processes_that_take_the_lease_at_once_one_waits(monkeypatch):
    monkeypatch.setattr(calls, "LEASE", 0.2)
    connection, counted = InMemory(), []
    first, second = calls.Calls(connection), calls.Calls(connection)
    first.make()
    write = calls.Calls._write

    def write_and_be_replaced(self: calls.Calls, state: calls.MilvusState) -> None:
        write(self, state)
        monkeypatch.undo()
        monkeypatch.setattr(calls, "LEASE", 0.2)
        write(self, replace(state, writer=second._me))  # it read the same free state, and wrote later

    monkeypatch.setattr(calls.Calls, "_write", write_and_be_replaced)
    with first.transaction(lambda _: None, lambda: counted.append("again")):
        pass
    assert counted == ["again"]  # after the lease of the other one, whose call did not end


def test_a_process_that_stood_still_does_not_replace_what_another_one_wrote(monkeypatch):
    """For example a computer that slept: its process does not renew its lease meanwhile."""
    monkeypatch.setattr(calls, "LEASE", 0.01)
    monkeypatch.setattr(calls.Calls, "_renew", lambda *_: None)
    connection = InMemory()
    asleep, awake = calls.Calls(connection), calls.Calls(connection)
    asleep.make()

    def write(process: calls.Calls, meanwhile: float = 0.0) -> None:
        with process.transaction(lambda _: None, lambda: None):
            time.sleep(meanwhile)
            if meanwhile:
                write(awake)
                write(awake)

    with pytest.raises(IndexLocked, match="took over"):
        write(asleep, 0.02)
    state = awake._read()
    assert (state.version, state.writer) == (2, "")
    assert state.since  # the next call counts what this one left
