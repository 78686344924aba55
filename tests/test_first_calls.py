"""First calls of a new user: updates of parts of a memory, pages, trajectories, incremental fits."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import DIM, QUICK, WINDOW, new_index
from engine_servers import ENGINES, fresh_engine

from pam_retriever import (
    InvalidInput,
    PredictiveAssociativeIndex,
    TrainingDiverged,
    Trajectory,
    TrajectoryRecord,
    UnknownId,
)
from pam_retriever.index.background import BackgroundFits
from pam_retriever.store.bars import hidden


def letters(texts: list[str]) -> np.ndarray:
    """Returns a vector per text: how often each of the first letters occurs."""
    return np.array([[1 + text.lower().count(letter) for letter in "abcdefghijklmnop"] for text in texts], np.float32)


def made(folder, kind: str) -> PredictiveAssociativeIndex:
    """An empty index in a folder, or in an engine."""
    if kind == "folder":
        return PredictiveAssociativeIndex.open(folder / "index", dim=DIM)
    return PredictiveAssociativeIndex(dim=DIM, backend=fresh_engine(kind))


# ---- parts of memories


@pytest.mark.parametrize("kind", ["folder", *ENGINES])
def test_parts_of_a_memory_change_and_the_rest_stays(planted, tmp_path, kind):
    index = made(tmp_path, kind)
    index.add(planted.vectors[:2], ["a", "b"], texts=["one", "two"], metadatas=[{"n": 1}, {"n": 2}])
    index.observe(["a", "b"])
    index.update("a", metadata={"n": 7})
    index.update("b", text=None)
    a, b = index.get(["a", "b"])
    assert (a.text, a.metadata) == ("one", {"n": 7})
    assert (b.text, b.metadata) == (None, {"n": 2})
    np.testing.assert_array_equal(a.vector, planted.vectors[0])
    index.update("a", text="three", metadata=None)
    index.update("b", vector=planted.vectors[5])
    a, b = index.get(["a", "b"])
    assert (a.text, a.metadata) == ("three", {})
    np.testing.assert_array_equal(b.vector, planted.vectors[5])
    assert index.search(planted.vectors[5], k=1)[0].id == "b"
    assert index.trajectories()[0].ids == ("a", "b")
    index.close()


def test_a_new_text_is_embedded_again_and_add_replaces_the_whole_memory():
    index = PredictiveAssociativeIndex(embedder=letters)
    index.add(texts=["a cab"], ids=["a"], metadatas=[{"n": 1}])
    index.update("a", text="oooo")
    np.testing.assert_array_equal(index.get(["a"])[0].vector, letters(["oooo"])[0])
    index.update("a", text="pppp", vector=letters(["mmmm"])[0])
    np.testing.assert_array_equal(index.get(["a"])[0].vector, letters(["mmmm"])[0])
    index.add(letters(["nnnn"]), ["a"])
    assert (index.get(["a"])[0].text, index.get(["a"])[0].metadata) == (None, {})


def test_a_text_without_its_embedder_is_not_left_with_the_vector_of_another(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", embedder=letters) as index:
        index.add(texts=["a cab"], ids=["a"])
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        with pytest.raises(InvalidInput, match="embedder"):
            index.update("a", text="oooo")
        index.update("a", metadata={"n": 1})
        assert index.get(["a"])[0].text == "a cab"


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (("m000",), {}, InvalidInput, "no change"),
        (("nobody",), {"text": "new"}, UnknownId, "nobody"),
        (("m000",), {"text": 7}, InvalidInput, "7"),
        (("m000",), {"metadata": {"a": object()}}, InvalidInput, "JSON"),
        (("m000",), {"vector": np.ones(3)}, InvalidInput, "shape"),
    ],
)
def test_a_wrong_update_changes_nothing(index, arguments, options, error, message):
    before = index.get(["m000"])
    with pytest.raises(error, match=message):
        index.update(*arguments, **options)
    assert index.get(["m000"]) == before


# ---- pages, filters, trajectories


@pytest.mark.parametrize("kind", ["memory", *ENGINES])
def test_what_is_found_comes_in_pages(planted, kind):
    index = new_index(planted) if kind == "memory" else new_index(planted, backend=fresh_engine(kind))
    odd = [record.id for record in index.find({"parity": "odd"})]
    pages = [
        [record.id for record in index.find({"parity": "odd"}, limit=30, offset=at)] for at in (0, 30, 60, 90, 120)
    ]
    assert [id for page in pages for id in page] == odd
    assert [record.id for record in index.find(offset=198)] == ["m198", "m199"]
    assert index.delete(where={"parity": "odd"}) == 100
    assert len(index) == 100
    assert index.delete(where={"parity": "odd"}) == 0
    index.close()


@pytest.mark.parametrize("call", [lambda i: i.find(offset=-1), lambda i: i.trajectories(offset=True)])
def test_a_wrong_offset_is_refused(index, call):
    with pytest.raises(InvalidInput, match="offset"):
        call(index)


@pytest.mark.parametrize("call", ["delete", "delete_trajectory"])
def test_what_to_delete_is_said_in_one_way(index, call):
    """A deletion needs either ids or a filter: neither or both is an error."""
    for options in ({}, {"ids": ["m000"], "where": {}}):
        with pytest.raises(InvalidInput, match="ids nor where"):
            getattr(index, call)(**options)
    assert len(index) == 200


def test_trajectories_are_listed_and_deleted(index, planted):
    index.observe(Trajectory(planted.ids[:4], timestamps=[1, 2, 2, 5], id="first"))
    index.observe(Trajectory(["m001", "m150", "m150"], id="second"))
    index.observe(Trajectory(["m002", "m004"], id="third"))
    index.delete("m002")
    records = [
        TrajectoryRecord("first", ("m000", "m001", "m003"), (1, 2, 5), 4),
        TrajectoryRecord("second", ("m001", "m150", "m150"), None, 3),
        TrajectoryRecord("third", ("m004",), None, 2),
    ]
    assert index.trajectories() == records
    assert index.trajectories(limit=1, offset=1) == records[1:2]
    assert index.trajectories({"number": {"$gte": 4}}) == records[1:]
    assert index.delete_trajectory(["second", "nobody"]) == 1
    assert index.delete_trajectory(where={"number": 4}) == 1
    assert index.trajectories() == records[:1]
    assert len(index) == 199
    index.delete(where={"number": {"$lte": 3}})
    assert index.trajectories() == []


def test_the_next_fit_forgets_a_deleted_trajectory(index, planted):
    for at, outing in enumerate(planted.outings):
        index.observe(Trajectory(outing, id=str(at)))
    index.fit(window=WINDOW, config=QUICK, progress=False)
    index.delete_trajectory("0")
    assert not index.recall("m000", faithful=True)
    report = index.fit(window=WINDOW, config=QUICK, progress=False)
    assert (report.stopped_by, report.trajectories) == ("passes", 19)
    assert report.steps == index.fit(window=WINDOW, config=QUICK, progress=False, from_scratch=True).steps


# ---- fits whose cost depends on the new data


def grouped(planted, **numbers: int) -> PredictiveAssociativeIndex:
    """Returns an index with a number of memories per session."""
    index = PredictiveAssociativeIndex(dim=DIM)
    for at, (session, count) in enumerate(numbers.items()):
        extend(index, planted, session, 50 * at, 0, count)
    return index


def extend(index, planted, session: str, base: int, first: int, last: int) -> None:
    ids = [f"{session}{at}" for at in range(first, last)]
    index.add(
        planted.vectors[base + first : base + last], ids, metadatas=[{"s": session, "n": n} for n in range(first, last)]
    )


def fresh_steps(index) -> int:
    """Returns the number of stored steps that a fit would treat as new."""
    _, trajectory, position, _ = index._store.database.trajectories.experienced()
    return int(index._store.learned_steps().fresh(trajectory, position).sum())


@pytest.mark.parametrize("order", [None, "n"])
def test_groups_that_are_as_they_were_are_not_learnt_again(planted, order, monkeypatch):
    from pam_retriever.training import fit as training

    index = grouped(planted, a=20, b=20)
    options = {"group_by": "s", "order_by": order, "window": WINDOW, "config": QUICK, "progress": False}
    assert index.fit(**options).stopped_by == "passes"
    again = index.fit(**options)
    assert (again.stopped_by, again.steps, again.losses) == ("nothing new", 0, ())
    assert "nothing new" in repr(again)
    seen: list[int] = []

    def gather(*arguments):
        found = gathered(*arguments)
        seen.append(int(found.fresh.sum()))
        return found

    gathered = training.gather
    monkeypatch.setattr(training, "gather", gather)
    extend(index, planted, "b", 50, 20, 25)
    extend(index, planted, "c", 100, 0, 6)
    assert index.fit(**options).stopped_by == "passes"
    assert seen == [11]  # the 5 new memories of b, and the 6 of c
    assert [(one.id, one.length) for one in index.trajectories()] == [('s="a"', 20), ('s="b"', 25), ('s="c"', 6)]
    assert {hit.id for hit in index.recall("b20", faithful=True)} == {"b18", "b19", "b21", "b22"}
    assert fresh_steps(index) == 0
    assert index.fit(**options).stopped_by == "nothing new"
    index.update("a3", metadata={"s": "b", "n": 3.5})  # a3 moves from group a to group b, so both have changed
    assert index.fit(**options).stopped_by == "passes"
    assert [one.length for one in index.trajectories()] == [6, 19, 26]


@pytest.mark.parametrize("parts", [{}, pytest.param({"buffer": 60}, marks=pytest.mark.slow)])
def test_fit_without_new_data_returns_at_once_unless_from_scratch(planted, parts, monkeypatch):
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=QUICK, progress=False, **parts)
    before = index._store.predictor
    with monkeypatch.context() as without:
        # the import of this module fails, as if torch were not installed
        without.setitem(sys.modules, "pam_retriever.training.fit", None)
        report = index.fit(window=WINDOW, config=QUICK, progress=False, **parts)
        assert report.stopped_by == "nothing new"
        assert (report.memories, report.trajectories) == (200, 20)
    assert index._store.predictor is before
    again = index.fit(window=WINDOW, config=QUICK, progress=False, from_scratch=True, seed=3, **parts)
    assert (again.stopped_by, again.trajectories) == ("passes", 20)
    assert index._store.predictor is not before
    assert index.fit(window=WINDOW + 1, config=QUICK, progress=False, **parts).stopped_by == "passes"


def test_several_keys_order_a_group_and_whole_and_broken_numbers_are_numbers(planted):
    index = PredictiveAssociativeIndex(dim=DIM)
    order = [(2, 1), (1, 2), (1, 1.5), (1, 10), (2, 0)]
    index.add(planted.vectors[:5], list("abcde"), metadatas=[{"s": "x", "page": page, "at": at} for page, at in order])
    index.fit(group_by="s", order_by=["page", "at"], config=QUICK, progress=False)
    (record,) = index.trajectories()
    assert record.ids == ("c", "b", "d", "e", "a")
    assert record.timestamps == (1, 1, 1, 2, 2)
    index.fit(group_by="s", order_by="at", config=QUICK, progress=False)
    assert index.trajectories()[0].ids == ("e", "a", "c", "b", "d")


@pytest.mark.parametrize("kind", ["folder", *ENGINES])
def test_groups_and_their_order_may_lie_deeper_in_the_metadata(planted, tmp_path, kind):
    index = made(tmp_path, kind)
    of = [("ann", 3), ("bob", 2), ("ann", 1), ("bob", 5), ("ann", 2)]
    metadatas = [{"user": {"name": name, "a": {"t": at}}} for name, at in of]
    metadatas[1] = {"user.name": "bob", "user": {"name": "ann", "a": {"t": 2}}}  # the exact key has precedence
    index.add(planted.vectors[:7], list("abcdefg"), metadatas=[*metadatas, {"user": "name"}, {"user": ["name"]}])
    index.fit(group_by="user.name", order_by="user.a.t", config=QUICK, progress=False)
    assert {one.id: one.ids for one in index.trajectories()} == {
        'user.name="ann"': ("c", "e", "a"),
        'user.name="bob"': ("b", "d"),
    }
    with pytest.raises(InvalidInput, match="No two memories share"):
        index.fit(group_by=".".join("a" * 100), config=QUICK, progress=False)
    index.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_by": "parity", "order_by": [7]}, "order_by=7"),
        ({"group_by": "parity", "order_by": ["number", "missing"]}, "missing"),
        ({"trajectories": [["m000", "m001"]], "order_by": "number"}, "without group_by"),
        ({"order_by": ["number"]}, "without group_by"),
        ({"group_by": 7}, "group_by=7"),
    ],
)
def test_a_wrong_order_is_refused(index, options, message):
    with pytest.raises(InvalidInput, match=message):
        index.fit(config=QUICK, progress=False, **options)
    assert not index.is_fitted


# ---- in the background


def test_a_fit_in_the_background_lets_the_caller_go_on(index, planted):
    future = index.fit(planted.outings, window=WINDOW, config=QUICK, progress=False, background=True)
    index.append("meanwhile", id="m000")
    assert future.result(60).stopped_by == "passes"
    assert index.is_fitted
    failed = index.fit([["nobody", "m000"]], config=QUICK, progress=False, background=True)
    with pytest.raises(UnknownId, match="nobody"):
        failed.result(60)


def test_a_wrong_argument_of_a_fit_in_the_background_is_refused_at_once(index):
    with pytest.raises(InvalidInput, match="window"):
        index.fit(window=0, background=True)


def test_it_fits_by_itself_after_enough_new_experience(planted, tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM) as index:
        index.auto_fit(steps=10, window=WINDOW, config=QUICK)
        for at in range(11):  # 11, because the first step has no link
            assert not index.is_fitted
            index.append("s", planted.vectors[at], id=str(at))
        index._background.finish()
        assert index.is_fitted
        assert fresh_steps(index) == 0
        index.observe([str(at) for at in range(9, -1, -1)])
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert fresh_steps(index) == 0  # ``close`` waited for the second fit
        index.auto_fit(steps=2, config=QUICK)
        index.auto_fit(None)
        for at in range(5):
            index.append("t", planted.vectors[at])
        assert fresh_steps(index) == 5


def test_steps_that_are_stored_already_start_no_fit(index):
    index.auto_fit(steps=6, config=QUICK)
    index.observe(Trajectory(["m000", "m001", "m002"], id="s"))
    index.observe(Trajectory(["m000", "m001", "m002", "m003"], id="s"))  # the session, one step later
    index.observe(Trajectory(["m000", "m001", "m002", "m003"], id="s"))
    index._background.finish()
    assert not index.is_fitted
    index.observe(Trajectory(["m004", "m005"], id="t"))
    index._background.finish()
    assert index.is_fitted


def test_threads_start_one_fit_by_itself_at_a_time(monkeypatch):
    fits, started = BackgroundFits(), []

    def start(_self, _fit):
        started.append(1)
        time.sleep(0.05)
        return Future()

    monkeypatch.setattr(BackgroundFits, "start", start)
    fits.fit_after(1, lambda: None)
    threads = [threading.Thread(target=fits.experienced, args=(1,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(started) == 1


@pytest.mark.parametrize("told_by", ["append", "observe", "close"])
def test_an_error_of_auto_fit_is_raised_by_the_next_call(index, monkeypatch, told_by):
    from pam_retriever.training import fit as training

    def diverge(*_):
        raise TrainingDiverged("The loss became nan.", "a number", "Lower it.")

    monkeypatch.setattr(training, "learn", diverge)
    index.auto_fit(steps=2, config=QUICK)
    index.observe(["m000", "m001", "m002"])
    for thread in threading.enumerate():
        if thread.name == "fit":
            thread.join()
    call = {
        "append": lambda: index.append("s", id="m000"),
        "observe": lambda: index.observe(["m000"] * 2),
        "close": index.close,
    }
    with pytest.raises(TrainingDiverged):
        call[told_by]()
    call[told_by]()  # the error is raised only once


# ---- messages


def test_one_line_each_in_the_log(planted, tmp_path, caplog):
    with caplog.at_level("INFO", "pam_retriever"):
        with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM) as index:
            index.add(planted.vectors, planted.ids)
            index.fit(planted.outings, config=QUICK, progress=False)
            index.fit(config=QUICK, progress=False)
        lines = [record.getMessage() for record in caplog.records]
        assert sum(line.startswith("open: PredictiveAssociativeIndex(dim=16") for line in lines) == 1
        assert sum(line.startswith("fit: FitReport(") for line in lines) == 2
        assert sum(line.startswith("rebuild: ") for line in lines) == 1


@pytest.mark.parametrize(
    ("show", "notebook", "expected"),
    [(True, False, False), (False, True, True), (None, False, None), (None, True, False)],
)
def test_a_bar_is_shown_where_a_person_sees_it(monkeypatch, show, notebook, expected):
    shell = SimpleNamespace(kernel=object()) if notebook else SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert hidden(show) is expected


@pytest.mark.parametrize("mode", [None, "similarity", "association"])
@pytest.mark.parametrize("fitted", [False, True])
def test_a_stored_vector_is_as_faithful_as_its_id(mode, fitted):
    vectors = np.random.default_rng(0).standard_normal((20, 8)).astype(np.float32)
    index = PredictiveAssociativeIndex(dim=8)
    index.add(vectors, [f"m{n}" for n in range(20)])
    for start in range(0, 20, 5):
        index.observe([f"m{n}" for n in range(start, start + 5)])
    if fitted:
        index.fit(config=QUICK, progress=False)
    by_id, by_vector = (index.recall(cue, k=20, mode=mode, faithful=True) for cue in ("m1", 3 * vectors[1]))
    assert set(by_vector.ids) == set(by_id.ids) == {"m0", "m2", "m3", "m4"}
    if not fitted or mode == "similarity":  # a fitted index completes any vector to the likeliest memory
        assert index.recall(-vectors[1], k=20, mode=mode, faithful=True).ids == []
