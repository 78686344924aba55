"""A trajectory that grows step by step: stored, linked and found at once, in one transaction."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pytest
from conftest import DIM, QUICK, Planted, agree, new_index
from engine_servers import ENGINES, fresh_engine

from pam_retriever import InvalidInput, PredictiveAssociativeIndex, Trajectory, TrajectoryRecord, UnknownId


def letters(texts: list[str]) -> np.ndarray:
    """Returns a vector per text: how often each of the first letters occurs."""
    return np.array([[1 + text.lower().count(letter) for letter in "abcdefghijklmnop"] for text in texts], np.float32)


def linked(index: PredictiveAssociativeIndex, id: str, window: int = 5) -> set[str]:
    with index._lock.shared():  # in an engine, taking this lock reads the writes of other processes
        memories = index._store.database.memories
        _, found, _ = index._store.links.of(np.array(list(memories.rows_of([id]).values()), np.int64), window)
        return {content[0] for content in memories.contents(np.unique(found)).values()}


def test_what_is_appended_is_linked_to_the_steps_before_it(planted: Planted) -> None:
    index = PredictiveAssociativeIndex(dim=DIM)
    for at in range(4):  # steps of two sessions alternate
        for session in "ab":
            assert (
                index.append(session, planted.vectors[at + 10 * (session == "b")], id=f"{session}{at}")
                == f"{session}{at}"
            )
    assert len(index) == 8
    assert linked(index, "a1", window=1) == {"a0", "a2"}
    assert linked(index, "b3", window=2) == {"b1", "b2"}
    assert index.trajectories() == [
        TrajectoryRecord(session, tuple(f"{session}{at}" for at in range(4)), None, 4) for session in "ab"
    ]


def test_a_first_step_is_a_trajectory_of_one_and_outlives_a_save_and_a_prune(planted, tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM) as index:
        index.append("s", planted.vectors[0], id="first")
        index.append("t", planted.vectors[2], id="other")
        index.prune(2)
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert [one.ids for one in index.trajectories()] == [("first",), ("other",)]
        index.append("s", planted.vectors[1], id="second")
        assert linked(index, "first") == {"second"}
    index = PredictiveAssociativeIndex.load(tmp_path / "index")
    assert linked(index, "second") == {"first"}


def test_an_embedder_makes_a_step_of_text_alone():
    index = PredictiveAssociativeIndex(embedder=letters)
    index.append("chat", text="a cab", metadata={"user": "ann"}, timestamp=datetime(2024, 5, 1, tzinfo=timezone.utc))
    id = index.append("chat", text="a deed", timestamp=datetime(2024, 5, 2, tzinfo=timezone.utc))
    assert index.get([id])[0].text == "a deed"
    assert index.embedder_name
    (record,) = index.trajectories()
    assert record.timestamps == (1714521600.0, 1714608000.0)
    assert index.recall(text="deed", k=1)[0].id == id


def test_a_stored_memory_is_linked_as_it_is_or_replaced(index, planted):
    index.append("s", id="m000")
    index.append("s", id="m050")
    assert linked(index, "m050") == {"m000"}
    assert index.get(["m050"])[0].text == "text of m050"
    index.append("s", planted.vectors[7], id="m100", text="new")
    assert index.get(["m100"])[0].text == "new"
    np.testing.assert_array_equal(index.get(["m100"])[0].vector, planted.vectors[7])
    assert len(index) == 200
    assert linked(index, "m100") == {"m000", "m050"}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("s",), InvalidInput, "no vector"),
        ((7, np.ones(DIM)), InvalidInput, "id 7"),
        (("s", np.ones(DIM + 1)), InvalidInput, "shape"),
        (("s", None, "words alone"), InvalidInput, "embedder"),
        (("s", None, None, "nobody"), UnknownId, "nobody"),
        (("s", None, None, "m000", {"a": 1}), InvalidInput, "update"),
        (("s", np.ones(DIM), None, None, None, 4.0), InvalidInput, "fall"),
        (("s", np.ones(DIM), None, None, None, "noon"), InvalidInput, "timestamp"),
        (("s", {"image": 1}), InvalidInput, "encoder"),
    ],
)
def test_invalid_steps_are_refused_and_not_stored(index, planted, arguments, error, message):
    index.append("s", planted.vectors[0], id="first", timestamp=5)
    with pytest.raises(error, match=message):
        index.append(*arguments)
    assert len(index) == 201
    assert [one.ids for one in index.trajectories()] == [("first",)]


def test_a_step_without_a_time_follows_one_with_a_time(planted):
    index = PredictiveAssociativeIndex(dim=DIM)
    for at, time in enumerate([1.0, None, 1.0, 2.0]):
        index.append("s", planted.vectors[at], id=str(at), timestamp=time)
    assert index.trajectories()[0].timestamps == (1.0, None, 1.0, 2.0)


@pytest.mark.parametrize("timed", [False, True])
def test_a_step_reads_no_more_of_a_long_trajectory_than_of_a_short_one(planted, timed):
    """``append`` says that its cost does not grow with the length of the trajectory."""

    def instructions(length: int) -> int:
        index = PredictiveAssociativeIndex(dim=DIM)
        ids = index.add(planted.vectors[:20])
        times = list(range(length)) if timed else None
        index.observe(Trajectory(ids=[ids[at % 20] for at in range(length)], timestamps=times, id="s"))
        later = {"timestamp": length} if timed else {}
        index.append("s", planted.vectors[20], **later)  # prepares statements
        count, sqlite = [], index._store.database.connection._sqlite
        sqlite.set_progress_handler(lambda: count.append(1), 100)
        index.append("s", planted.vectors[21], **later)
        sqlite.set_progress_handler(None, 0)
        return len(count)

    assert instructions(5000) < 2 * instructions(50)


def test_a_step_and_its_memory_are_stored_together_or_not_at_all(planted, tmp_path, monkeypatch):
    index = PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM)
    index.append("s", planted.vectors[0], id="first")
    with monkeypatch.context() as broken:
        trajectories = type(index._store.database.trajectories)
        broken.setattr(trajectories, "extend", lambda *_: (_ for _ in ()).throw(OSError("no disk")))
        with pytest.raises(OSError, match="no disk"):
            index.append("s", planted.vectors[1], id="second")
    assert index.find()[0].id == "first"
    assert len(index) == 1
    index.append("s", planted.vectors[1], id="second")
    assert linked(index, "first") == {"second"}
    index.close()


def test_sending_a_session_again_with_more_steps_keeps_its_beginning_and_adds_the_rest(index, planted):
    ids = planted.ids[:10]
    index.observe(Trajectory(ids[:6], id="s"))
    before = index._store.database.trajectories.last_number()
    index.observe(Trajectory(ids, id="s"))
    assert index._store.database.trajectories.last_number() == before
    assert index.trajectories() == [TrajectoryRecord("s", tuple(ids), None, 10)]
    assert linked(index, "m005", window=1) == {"m004", "m006"}
    index.observe(Trajectory(ids[::-1], id="s"))  # no continuation of the stored steps, so they replace them
    assert index.trajectories()[0].ids == tuple(ids[::-1])
    assert linked(index, "m005", window=1) == {"m004", "m006"}


def test_fit_learns_only_steps_appended_since(planted):
    index = new_index(planted)
    index.fit(planted.outings, config=QUICK, progress=False)
    for id in planted.ids[:3]:
        index.append("new", id=id)
    learnt = index._store.learned_steps()
    _, trajectory, position, _ = index._store.database.trajectories.experienced()
    assert learnt.fresh(trajectory, position).sum() == 3
    assert index.fit(config=QUICK, progress=False).stopped_by == "passes"
    assert index.fit(config=QUICK, progress=False).stopped_by == "nothing new"
    index.append("new", id=planted.ids[3])  # for ``fit`` only this step is new; its memory is old
    learnt = index._store.learned_steps()
    _, trajectory, position, _ = index._store.database.trajectories.experienced()
    assert learnt.fresh(trajectory, position).sum() == 1
    assert index.fit(config=QUICK, progress=False).stopped_by == "passes"
    assert index.fit(config=QUICK, progress=False).stopped_by == "nothing new"


def test_a_deletion_of_no_trajectory_does_not_train_again(planted):
    index = new_index(planted)
    index.fit(planted.outings, config=QUICK, progress=False)
    for nothing in (["unknown"], []):
        assert index.delete_trajectory(nothing) == 0
        assert index.fit(config=QUICK, progress=False).stopped_by == "nothing new"


@pytest.mark.parametrize("parts", [{}, pytest.param({"buffer": 50}, marks=pytest.mark.slow)])
def test_a_step_that_comes_while_fit_learns_is_new_for_the_next_one(planted, monkeypatch, parts):
    from pam_retriever.training import fit as training

    index = new_index(planted)
    index.append("s", id="m000")
    index.append("s", id="m050")
    taking_over = training.switch_over

    def late(*arguments: object) -> None:
        index.append("s", id="m100")
        taking_over(*arguments)

    monkeypatch.setattr(training, "switch_over", late)
    index.fit(planted.outings, config=QUICK, progress=False, **parts)
    monkeypatch.setattr(training, "switch_over", taking_over)
    assert linked(index, "m100", 1) >= {"m050"}
    assert index.fit(config=QUICK, progress=False, **parts).stopped_by == "passes"
    assert index.fit(config=QUICK, progress=False, **parts).stopped_by == "nothing new"


@pytest.mark.parametrize("kind", ENGINES)
def test_an_engine_takes_steps_one_by_one_and_others_see_them(planted, kind, monkeypatch):
    engine = fresh_engine(kind)
    if kind == "milvus":
        from pam_retriever.engines.milvus import trajectories

        monkeypatch.setattr(trajectories, "CHUNK", 3)
    here, there = PredictiveAssociativeIndex(dim=DIM, backend=engine), PredictiveAssociativeIndex(backend=engine)
    for at in range(5):
        for session in "ab":
            here.append(session, planted.vectors[at + 10 * (session == "b")], id=f"{session}{at}", timestamp=at)
            if at % 2:
                assert linked(there, f"{session}{at}", window=2) == {
                    f"{session}{one}" for one in (at - 1, at - 2) if one >= 0
                }
    for index in (here, there):
        assert linked(index, "a2", window=1) == {"a1", "a3"}
        assert [record.ids for record in index.trajectories()] == [tuple(f"{s}{at}" for at in range(5)) for s in "ab"]
        assert index.trajectories()[1].timestamps == (0, 1, 2, 3, 4)
    with pytest.raises(InvalidInput, match="fall"):
        here.append("a", planted.vectors[7], timestamp=3)
    there.append("a", id="b0")
    assert linked(here, "b0", window=1) == {"a4", "b1"}
    assert here.trajectories(limit=1, offset=1)[0].id == "b"
    with monkeypatch.context() as broken:
        store = type(here._store)
        broken.setattr(store, "reserve_disk", lambda *_: (_ for _ in ()).throw(OSError("gone")), raising=False)
        with pytest.raises(OSError, match="gone"):
            here.append("b", planted.vectors[30], id="b5")
    here.append("b", planted.vectors[30], id="b5")
    assert here.trajectories()[1].ids == ("b0", "b1", "b2", "b3", "b4", "b5")
    here.delete([f"b{at}" for at in range(1, 6)])
    assert [record.ids for record in there.trajectories()] == [("a0", "a1", "a2", "a3", "a4", "b0"), ("b0",)]
    here.delete("b0")
    assert [record.id for record in there.trajectories()] == ["a"]
    assert here.delete_trajectory("a") == 1
    assert there.trajectories() == []
    assert linked(there, "a2") == set()
    here.close()
    there.close()


@pytest.mark.parametrize("kind", ENGINES)
def test_an_engine_learns_what_was_appended_and_no_more(planted, kind):
    index = new_index(planted, backend=fresh_engine(kind))
    index.fit(planted.outings[:3], config=QUICK, progress=False)
    index.append("s", id="m000")
    index.append("s", id="m050")
    for _ in range(2):
        assert index.fit(config=QUICK, progress=False).stopped_by == "passes"
        assert index.fit(config=QUICK, progress=False).stopped_by == "nothing new"
        index.append("s", id="m100")
    index.close()


CALLS = ["append", "delete", "observe", "append new", "forget"]


@pytest.mark.parametrize("seed", [0, 4, 7, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 40))])
def test_sessions_that_grow_in_turns_answer_the_same_after_reopening(tmp_path, seed):
    """Answers do not depend on the order of arrival: the database stores steps by trajectory and position."""
    random = np.random.default_rng(seed)
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=8) as index:
        index.add(random.normal(size=(15, 8)), [f"m{at}" for at in range(15)])
        for _ in range(random.integers(10, 60)):
            stored = sorted(record.id for record in index.find())
            match random.choice(
                ["append", "delete", "observe", "append new", "forget"], p=[0.8, 0.08, 0.06, 0.03, 0.03]
            ):
                case "append":
                    index.append(f"s{random.integers(4)}", id=random.choice(stored))
                case "delete":
                    index.delete(random.choice(stored) if len(stored) > 8 else [])
                case "observe":
                    index.observe(random.choice(stored, 4).tolist())
                case "append new":
                    index.append(f"s{random.integers(4)}", random.normal(size=8))
                case "forget":
                    index.delete_trajectory(f"s{random.integers(4)}")
        live = asked(index)
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        for one, other in zip(live, asked(index), strict=True):
            agree(one, other)


def asked(index):
    ids = sorted(record.id for record in index.find())
    directed = [index.recall(id, 12, direction=way) for id in ids[:8] for way in (None, "after", "before")]
    return [*directed, *index.recall_next_many([[id] for id in ids[:8]], 12), index.recall_next(ids[:3], 12)]


@pytest.mark.parametrize("gone", ["delete", "delete_trajectory", "replaced", "prune"])
def test_nothing_is_left_of_a_session_that_is_gone(planted: Planted, gone: str) -> None:
    """An agent that deletes old sessions and never fits keeps no setting of each session that there ever was."""
    index = PredictiveAssociativeIndex(dim=DIM)
    for at in range(3):
        for session in ("old", "older", "new"):
            index.append(session, planted.vectors[at], id=f"{session}{at}")
    if gone == "delete":
        index.delete([f"{session}{at}" for session in ("old", "older") for at in range(3)])
    elif gone == "delete_trajectory":
        index.delete_trajectory(["old", "older"])
    elif gone == "replaced":
        index.observe_many([Trajectory(ids=["new2", "new0"], id=session) for session in ("old", "older")])
    else:
        for _ in range(5):
            index.observe(["new0", "new1", "new2"])
        assert index.prune(keep=3) == 6
    number = next(iter(index._store.database.trajectories.numbers(ids=["new"])))
    assert index._store.database.settings.all("grew:") == {f"grew:{number}": 0}
    assert index.overview().new_trajectories == len(index.trajectories())
