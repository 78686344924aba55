"""Closed indexes raise errors, collected ones release their folders, readers can be saved; no descriptor leaks."""

from __future__ import annotations

import copy
import gc
import pickle
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import (
    FitConfig,
    IndexClosed,
    InvalidInput,
    PAMError,
    PredictiveAssociativeIndex,
    Trajectory,
)

DIM = 8
VECTOR = np.ones(DIM)


def filled(path: Path | None = None, **given: object) -> PredictiveAssociativeIndex:
    opened = path is not None
    index = PredictiveAssociativeIndex.open(path, DIM, **given) if opened else PredictiveAssociativeIndex(DIM)  # type: ignore[arg-type]
    index.add(np.random.default_rng(1).normal(size=(20, DIM)), [f"m{at}" for at in range(20)], ["a word"] * 20)
    index.observe(Trajectory(ids=["m1", "m2", "m3"], id="t"))
    return index


CALLS = {
    "add": lambda index: index.add([VECTOR]),
    "append": lambda index: index.append("s", vector=VECTOR),
    "delete": lambda index: index.delete("m1"),
    "delete_feedback": lambda index: index.delete_feedback("f"),
    "delete_trajectory": lambda index: index.delete_trajectory("t"),
    "drop_tenant": lambda index: index.drop_tenant("ann"),
    "erase": lambda index: index.erase("m1"),
    "expand": lambda index: index.expand({"m1": 1.0}),
    "feedback": lambda index: index.feedback(VECTOR, ["m1"]),
    "feedbacks": lambda index: index.feedbacks(),
    "find": lambda index: index.find(),
    "fit": lambda index: index.fit(progress=False),
    "get": lambda index: index.get(["m1"]),
    "imagine": lambda index: index.imagine("m1"),
    "observe": lambda index: index.observe(["m1", "m2"]),
    "prune": lambda index: index.prune(3),
    "recall": lambda index: index.recall(VECTOR, text="a word"),
    "recall_many": lambda index: index.recall_many([VECTOR]),
    "refresh": lambda index: index.refresh(),
    "save": lambda index: index.save("/nowhere/at/all"),
    "search": lambda index: index.search(VECTOR),
    "search_many": lambda index: index.search_many([VECTOR]),
    "set_capacity": lambda index: index.set_capacity(3),
    "surprise": lambda index: index.surprise(["m1", "m2"]),
    "tenant": lambda index: index.tenant("ann"),
    "tenants": lambda index: index.tenants(),
    "trajectories": lambda index: index.trajectories(),
    "update": lambda index: index.update("m1", text="x"),
    "observe_many": lambda index: index.observe_many([["m1", "m2"]]),
    "observe_many of nothing": lambda index: index.observe_many([]),
    "recall_next": lambda index: index.recall_next(["m1"]),
    "recall_next_many of nothing": lambda index: index.recall_next_many([]),
    "explore": lambda index: index.explore(browser=False, wait=False).close(),
    "overview": lambda index: index.overview(),
    "last_fit": lambda index: index.last_fit(),
    "project": lambda index: index.project(),
    "len": len,
    "in": lambda index: "m1" in index,
    "is_fitted": lambda index: index.is_fitted,
    "embedder_name": lambda index: index.embedder_name,
}


def raised(call) -> Exception | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001
        return error
    return None


@pytest.mark.parametrize("where", ["folder", "memory"])
@pytest.mark.parametrize("fitted", [False, True])
def test_every_call_of_a_closed_index_raises_index_closed(tmp_path, where, fitted):
    index = filled(tmp_path / "i" if where == "folder" else None)
    if fitted:
        index.fit(progress=False, config=FitConfig(passes=1))
    index.close()
    index.close()
    errors = {name: raised(lambda call=call: call(index)) for name, call in CALLS.items()}
    assert {name: error for name, error in errors.items() if not isinstance(error, IndexClosed)} == {}
    assert "closed" in repr(index)


@pytest.mark.parametrize("follow", [False, True])
def test_a_call_that_races_with_close_answers_or_raises_index_closed(tmp_path, follow):
    filled(tmp_path / "i").close()
    for _ in range(20):
        how = {"read_only": True, "follow": True} if follow else {}
        index = PredictiveAssociativeIndex.open(tmp_path / "i", **how)
        wrong: list[BaseException] = []
        begin = threading.Barrier(4)

        def ask(index=index, wrong=wrong, begin=begin) -> None:
            begin.wait()
            try:
                while True:
                    assert len(index.recall(VECTOR, 3, text="a word")) == 3
            except IndexClosed:
                return
            except BaseException as error:  # noqa: BLE001
                wrong.append(error)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        begin.wait()
        index.close()
        for thread in threads:
            thread.join()
        assert not wrong


@pytest.mark.parametrize("how", [{"read_only": True}, {"read_only": True, "follow": True}])
def test_an_index_that_is_read_can_be_saved(tmp_path, how):
    writer = filled(tmp_path / "i")
    with PredictiveAssociativeIndex.open(tmp_path / "i", **how) as reader:
        reader.save(tmp_path / "copy")
        writer.save(tmp_path / "same")
        names = [sorted(path.name for path in (tmp_path / one).iterdir()) for one in ("copy", "same")]
        assert names[0] == names[1]  # equal bytes: the name of the database depends on them
        writer.add([VECTOR], ["later"])
        reader.save(tmp_path / "then")
        with PredictiveAssociativeIndex.open(tmp_path / "then") as then:
            assert ("later" in then) == ("follow" in how)
    writer.close()


@pytest.mark.parametrize(
    "how",
    [
        {},
        pytest.param({"read_only": True}, marks=pytest.mark.slow),
        pytest.param({"read_only": True, "follow": True}, marks=pytest.mark.slow),
    ],
)
def test_a_garbage_collected_index_releases_its_folder(tmp_path, how):
    filled(tmp_path / "i").close()
    index = PredictiveAssociativeIndex.open(tmp_path / "i", **how)
    index.search("m1")
    if not how:
        index.add([VECTOR], ["later"])
        with pytest.raises(PAMError, match="open for writing"):
            PredictiveAssociativeIndex.open(tmp_path / "i")
    before = descriptors()
    del index
    gc.collect()
    assert descriptors() < before
    with PredictiveAssociativeIndex.open(tmp_path / "i") as again:
        assert ("later" in again) == (not how)


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_index_is_neither_pickled_nor_copied(tmp_path, duplicate):
    with filled(tmp_path / "i") as index:
        with pytest.raises(InvalidInput, match=r"pickled or copied.*save\(path\)"):
            duplicate(index)
        assert len(index) == 20


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="there is no list of descriptors")
@pytest.mark.parametrize("how", [{"read_only": True}, {"read_only": True, "follow": True}])
def test_reloads_that_overlap_leave_no_descriptor_open(tmp_path, how):
    filled(tmp_path / "i").close()
    index = PredictiveAssociativeIndex.open(tmp_path / "i", **how)
    before = 0
    for at in range(40):
        fresh = PredictiveAssociativeIndex.open(tmp_path / "i", **how)
        assert len(PredictiveAssociativeIndex.load(tmp_path / "i")) == len(fresh) == 20
        index.close()
        index = fresh
        if at == 5:
            before = descriptors()
    assert descriptors() <= before
    index.close()


def test_a_fit_that_no_thread_could_start_does_not_prevent_close(tmp_path, monkeypatch):
    index = PredictiveAssociativeIndex.open(tmp_path / "i", 3)
    index.add(np.eye(3), ["a", "b", "c"])

    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(RuntimeError, match="new thread"):
        index.fit([["a", "b"]], background=True)
    monkeypatch.undo()
    index.close()
    assert len(PredictiveAssociativeIndex.load(tmp_path / "i")) == 3


def test_a_fit_in_the_background_cannot_be_cancelled():
    index = PredictiveAssociativeIndex(3)
    index.add(np.eye(3), ["a", "b", "c"])
    fit = index.fit([["a", "b", "c"]], config=FitConfig(hidden=4, passes=1), background=True)
    assert not fit.cancel()
    assert fit.result().steps


def test_an_index_in_memory_that_is_dropped_closes_its_databases():
    """Python 3.13 warns of connections that nobody closed."""
    others = {id(one) for one in gc.get_objects() if type(one) is sqlite3.Connection}
    index = PredictiveAssociativeIndex(dim=2)
    index.add([[1, 0]], ["a"], texts=["wet stairs"])
    connections = [one for one in gc.get_objects() if type(one) is sqlite3.Connection and id(one) not in others]
    assert connections
    del index
    gc.collect()
    for connection in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
