"""NumPy's numbers and arrays are accepted wherever Python's numbers and lists are."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
import torch

from pam_retriever import Channels, InvalidInput, PredictiveAssociativeIndex, Trajectory


@pytest.fixture
def index():
    index = PredictiveAssociativeIndex(dim=4)
    index.add(np.eye(4), list("abcd"), timestamps=np.arange(4))
    index.observe(Trajectory(ids=["a", "b", "c"], timestamps=[1, 2, 3]))
    return index


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.int8])
def test_numbers_of_numpy_are_numbers(index, kind):
    def answer(**options):
        return [(hit.id, hit.score) for hit in index.recall("a", **options)]

    assert answer(decay=kind(2), now=kind(3)) == answer(decay=2, now=3)
    assert answer(min_score=kind(1)) == answer(min_score=1)
    assert Channels(similarity=kind(1), mutual=kind(2)) == Channels(similarity=1, mutual=2)
    later = index.find({"$time": {"$gt": kind(1)}})
    assert [record.id for record in later] == [record.id for record in index.find({"$time": {"$gt": 1}})]
    assert index.prune(4, half_life=kind(2)) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda index, rows: index.add(rows, ["x", "y"]),
        lambda index, rows: index.add([*rows], ["x", "y"]),
        lambda index, rows: index.search(rows[1]),
        lambda index, rows: index.recall(rows),
    ],
)
def test_a_masked_number_is_a_missing_one(index, call):
    """What lies under a mask must not become a part of a vector."""
    rows = np.ma.masked_array(np.ones((2, 4)), mask=[[0, 0, 0, 0], [0, 1, 0, 0]])
    with pytest.raises(InvalidInput, match="NaN"):
        call(index, rows)
    assert "x" not in index
    index.add(rows[:1], ["x"])
    assert "x" in index.search(rows[0]).ids


def test_a_duration_is_no_time(index):
    with pytest.raises(InvalidInput, match="timestamp"):
        index.add(np.eye(4)[:1], ["x"], timestamps=[np.timedelta64(3, "s")])


@pytest.mark.parametrize("wrong", [np.float32("nan"), np.float32("inf"), np.complex64(1), np.bool_(True)])
def test_what_is_no_finite_number_is_refused(index, wrong):
    for options in ({"decay": wrong}, {"min_score": wrong}, {"decay": 1, "now": wrong}):
        with pytest.raises(InvalidInput):
            index.recall("a", **options)
    with pytest.raises(InvalidInput):
        index.feedback(np.ones(4), used={"a": wrong})
    with pytest.raises(InvalidInput):
        Channels(similarity=wrong)


def test_the_ids_of_a_trajectory_may_be_an_array(index):
    stored = index.observe(Trajectory(ids=np.array(["a", "b"]), salience=np.ones(2), timestamps=np.arange(2), id="s"))
    assert stored == ["a", "b"]
    assert index.trajectories(ids=["s"])[0].ids == ("a", "b")


@pytest.mark.parametrize("wrong", ["abc", {"a": 1, "b": 2}, 5, np.array("a")])
def test_the_ids_of_a_trajectory_are_a_list(index, wrong):
    """A string is not read as its characters, and a dict not as its keys: both are refused."""
    for call in (index.observe, index.surprise, lambda one: index.fit([one], progress=False)):
        with pytest.raises(InvalidInput, match="list"):
            call(Trajectory(ids=wrong))


@pytest.mark.parametrize("options", [{"requires_grad": True}, {"dtype": torch.bfloat16}, {"dtype": torch.float16}])
def test_a_tensor_of_any_kind_is_an_array(options):
    """A model that is called without ``no_grad`` returns tensors that NumPy does not read."""
    tensor = torch.eye(4, **options)
    index = PredictiveAssociativeIndex(embedder=lambda texts: torch.eye(4, **options)[: len(texts)])
    index.add(texts=["one", "two"])
    index.add(tensor, list("abcd"))
    assert index.search(tensor[2], k=1).ids == ["c"]
    assert [hits.ids for hits in index.search(tensor[2:], k=1)] == [["c"], ["d"]]


@pytest.mark.parametrize("options", [{"requires_grad": True}, {"dtype": torch.bfloat16}, {"dtype": torch.float16}])
def test_a_list_of_tensors_is_a_list_of_vectors(options):
    rows = [*torch.eye(4, **options)]
    index = PredictiveAssociativeIndex(embedder=lambda texts: rows[: len(texts)])
    index.add(rows[:2], ["a", "b"])
    index.add(texts=["one"], ids=["c"])
    index.append("session", rows[3], id="d")
    index.feedback([rows[1]], used=[["d"]])
    np.testing.assert_array_equal([one.vector for one in index.get([*"abcd"])], np.eye(4)[[0, 1, 0, 3]])
    assert [hits.ids[0] for hits in index.search(rows[1:2])] == ["b"]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    "wrong",
    [
        torch.ones(4, dtype=torch.complex64),
        torch.ones(4, device="meta"),
        torch.ones(4).to_sparse(),
    ],
    ids=["complex", "without data", "sparse"],
)
def test_a_tensor_that_is_no_vector_is_refused(index, wrong, batch):
    given = [wrong] if batch else wrong
    with pytest.raises(InvalidInput, match=r"no vector|no array|not an array"):
        index.search(given)
    with pytest.raises(InvalidInput, match="not an array"):
        index.add([wrong], ["x"])
    with pytest.raises(InvalidInput, match="not an array"):
        index.append("session", wrong)


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (["1", "2", "3", "4"], "str"),
        ([1, "2", 3, 4], "str"),
        ([b"1", b"2", b"3", b"4"], "bytes"),
        (np.array(["1", "2", "3", "4"]), "str"),
        (np.array([1, "2", 3, 4], object), "str"),
        (np.array([1, 2, 3, 4], "M8[s]"), "datetime64"),
        ([np.timedelta64(1, "s")] * 4, "timedelta64"),
        ([np.complex64(1)] * 4, "complex64"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
@pytest.mark.parametrize("form", [list, tuple, np.array, pandas.DataFrame])
def test_what_numpy_would_read_as_numbers_is_no_vector(index, row, kind, form):
    """NumPy converts "1", a date and a duration to a number, and drops the imaginary part of a complex one."""
    batch = form([row, row])
    for call in (
        lambda: index.add(batch, ["x", "y"]),
        lambda: index.append("session", row),
        lambda: index.update("a", vector=row),
        lambda: index.feedback(batch, [["a"], ["b"]]),
        lambda: index.observe(Trajectory(vectors=batch)),
        lambda: index.search(batch),
        lambda: index.recall(batch),
        lambda: index.recall_next([row]),
    ):
        with pytest.raises(InvalidInput, match=rf"{kind}.* float\("):
            call()
    assert (len(index), len(index.trajectories()), index.feedbacks()) == (4, 1, [])


@pytest.mark.parametrize("salience", [["1", "2"], np.array(["1", "2"]), [b"1", b"2"], np.array([1, 2], "m8[ns]")])
def test_a_salience_of_texts_or_durations_is_refused(index, salience):
    with pytest.raises(InvalidInput, match=r"salience of trajectory 0.* float"):
        index.observe(Trajectory(["a", "b"], salience=salience))
    assert len(index.trajectories()) == 1
