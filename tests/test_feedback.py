"""Feedback is stored durably, listed, filtered and deleted. It is never a hit, and is not counted as a memory."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import Feedback, InvalidInput, PredictiveAssociativeIndex, ReadOnlyIndex, UnknownId
from pam_retriever.store.folder.manifest import FORMAT_VERSION

VECTORS = np.eye(4, dtype=np.float32)
GOLDEN = Path(__file__).parent / "golden" / "1" / "index"


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, float(len(text)), 0.0, 1.0] for text in texts]


@pytest.fixture
def index(anywhere) -> PredictiveAssociativeIndex:
    index = anywhere(dim=4, embedder=embed)
    index.add(VECTORS, ["a", "b", "c", "d"])
    return index


def test_it_is_listed_as_it_was_given_and_is_no_memory(index):
    moment = datetime(2023, 5, 8, tzinfo=timezone.utc)
    one = index.feedback(VECTORS[0], ["a", "b"], text="words", metadata={"user": "ann"}, timestamp=moment)
    other = index.feedback("a question", {"c": 0.5}, unused=["d"], id="mine")
    assert other == "mine"
    first, second = index.feedbacks()
    assert first == Feedback(one, VECTORS[0], "words", {"a": 1.0, "b": 1.0}, {"user": "ann"}, moment.timestamp())
    assert second.used == {"c": 0.5, "d": -1.0}
    assert second.text == "a question"
    assert second.vector.tolist() == embed(["a question"])[0]
    assert len(index) == 4
    assert {hit.id for hit in index.search(VECTORS[0], 10)} == {"a", "b", "c", "d"}
    assert "mine" not in index
    assert [f.id for f in index.feedbacks({"user": "ann"})] == [one]
    assert [f.id for f in index.feedbacks(limit=1, offset=1)] == ["mine"]


def test_batches(index):
    ids = index.feedback(VECTORS[:2], [["a"], {"b": 2}], metadata=[{"n": 1}, None], timestamp=[1, None])
    more = index.feedback(["x", "yy"], [["c"], []], unused=[[], ["d"]])
    assert [f.id for f in index.feedbacks()] == [*ids, *more]
    assert [f.used for f in index.feedbacks()] == [{"a": 1.0}, {"b": 2.0}, {"c": 1.0}, {"d": -1.0}]
    with pytest.raises(InvalidInput, match="2 requests"):
        index.feedback(VECTORS[:2], ["a", "b", "c"])
    with pytest.raises(InvalidInput, match="one string"):
        index.feedback(VECTORS[:2], ["a", "b"])
    assert len(index.feedbacks()) == 4


def test_the_same_id_replaces(index):
    index.feedback(VECTORS[0], ["a"], id="f")
    index.feedback(VECTORS[1], ["b"], id="f")
    (only,) = index.feedbacks()
    assert only.used == {"b": 1.0}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda index: index.feedback(VECTORS[0], ["nobody"]), UnknownId, "nobody"),
        (lambda index: index.feedback(VECTORS[0], []), InvalidInput, "used nothing"),
        (lambda index: index.feedback(VECTORS[0], "a"), InvalidInput, "one string"),
        (lambda index: index.feedback(VECTORS[0], {"a": 0}), InvalidInput, "weight"),
        (lambda index: index.feedback(VECTORS[0], {"a": float("nan")}), InvalidInput, "weight"),
        (lambda index: index.feedback(VECTORS[0], ["a"], unused=["a"]), InvalidInput, "unused"),
        (lambda index: index.feedback(None, ["a"]), InvalidInput, "neither"),
        (lambda index: index.feedback("", ["a"]), InvalidInput, "empty"),
        (lambda index: index.feedback("x", ["a"], text="y"), InvalidInput, "twice"),
        (lambda index: index.feedback([1.0, 2.0], ["a"]), InvalidInput, "4"),
        (lambda index: index.feedback([0.0] * 4, ["a"]), InvalidInput, "zeros"),
        (lambda index: index.feedback(VECTORS[0], ["a"], timestamp="monday"), InvalidInput, "timestamp"),
        (lambda index: index.feedback(VECTORS[0], ["a"], metadata={"x": 1j}), InvalidInput, "JSON"),
        (lambda index: index.feedback(VECTORS[0], ["a\x00"]), InvalidInput, "NUL"),
        (lambda index: index.delete_feedback(), InvalidInput, "neither"),
    ],
)
def test_invalid_feedback_is_refused_and_not_stored(index, call, error, message):
    with pytest.raises(error, match=message):
        call(index)
    assert index.feedbacks() == []


def test_an_id_that_is_named_twice_counts_once(index):
    id = index.feedback(VECTORS[0], ["a", "a"], unused=["b", "b"])
    (only,) = index.feedbacks()
    assert (only.id, only.used) == (id, {"a": 1.0, "b": -1.0})


def test_without_an_embedder_words_alone_are_refused():
    index = PredictiveAssociativeIndex(dim=4)
    index.add(VECTORS, ["a", "b", "c", "d"])
    with pytest.raises(InvalidInput, match="embedder"):
        index.feedback("words", ["a"])
    index.feedback(VECTORS[0], ["a"], text="words")


def test_it_is_deleted_by_id_by_filter_and_with_the_last_memory_that_it_used(index):
    index.feedback(
        VECTORS, [["a"], ["a", "b"], ["c"], ["d"]], id=["1", "2", "3", "4"], metadata=[{"n": n} for n in range(4)]
    )
    assert index.delete_feedback("3") == 1
    assert index.delete_feedback(["3", "nobody"]) == 0
    assert index.delete_feedback(where={"n": 3}) == 1
    assert [f.id for f in index.feedbacks()] == ["1", "2"]
    index.delete("a")
    (left,) = index.feedbacks()
    assert (left.id, left.used) == ("2", {"b": 1.0})
    assert index.delete_feedback(where={}) == 1
    assert index.feedbacks() == []


@pytest.mark.parametrize("how", ["delete", "erase", "prune"])
def test_a_memory_that_only_did_not_help_keeps_no_request(index, how):
    index.feedback(VECTORS[0], ["a"], unused=["b"], text="secret", id="of a")
    index.feedback(VECTORS[1], ["a", "b"], unused=["c"], id="of both")
    index.feedback(VECTORS[2], unused=["a", "b"], id="of none")
    if how == "prune":
        index.observe(sorted({record.id for record in index.find()} - {"a"}))
        index.prune(keep=len(index) - 1)
        assert "a" not in index
    else:
        report = getattr(index, how)("a")
        assert how == "delete" or report.feedback == 1
    assert [one.id for one in index.feedbacks()] == ["of both", "of none"]


def test_a_replaced_memory_keeps_its_uses(index):
    index.feedback(VECTORS[0], ["a"])
    index.add(VECTORS[1:2], ["a"])
    assert index.feedbacks()[0].used == {"a": 1.0}


def test_it_is_on_disk_when_the_call_returns_and_in_every_copy(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "i", dim=4) as index:
        index.add(VECTORS, ["a", "b", "c", "d"])
        id = index.feedback(VECTORS[0], {"a": 2.0}, text="words", metadata={"k": [1]})
        with PredictiveAssociativeIndex.open(tmp_path / "i", read_only=True) as reader:
            expected = reader.feedbacks()
            with pytest.raises(ReadOnlyIndex):
                reader.feedback(VECTORS[0], ["a"])
            with pytest.raises(ReadOnlyIndex):
                reader.delete_feedback(id)
        index.save(tmp_path / "copy")
    assert [f.id for f in expected] == [id]
    for path in ("i", "copy"):
        with PredictiveAssociativeIndex.open(tmp_path / path) as index:
            assert index.feedbacks() == expected
        assert PredictiveAssociativeIndex.load(tmp_path / path).feedbacks() == expected


@pytest.mark.parametrize("follow", [False, True])
def test_a_reader_of_format_1_sees_what_the_first_writer_adds(tmp_path, follow):
    """Its own empty tables stood for those that the format did not have."""
    shutil.copytree(GOLDEN, tmp_path / "old")
    with PredictiveAssociativeIndex.open(tmp_path / "old", read_only=True, follow=follow) as reader:
        assert reader.feedbacks() == []
        with PredictiveAssociativeIndex.open(tmp_path / "old") as index:
            index.feedback([1.0, 0.0, 0.0], ["m0"], id="f")
            index.update("m0", timestamp=datetime(2026, 5, 2, tzinfo=timezone.utc))
            reader.refresh()
            assert reader.feedbacks() == index.feedbacks()
            assert reader.get(["m0"]) == index.get(["m0"])
            index.feedback([0.0, 1.0, 0.0], ["m1"], id="g")
            reader.refresh()
            assert [one.id for one in reader.feedbacks()] == ["f", "g"]


def test_a_folder_of_format_1_takes_feedback(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "old")
    with PredictiveAssociativeIndex.open(tmp_path / "old", read_only=True) as reader:
        assert reader.feedbacks() == []  # reading does not convert the folder to the new format
    assert json.loads((tmp_path / "old" / "manifest.json").read_text())["format_version"] == 1
    assert PredictiveAssociativeIndex.load(tmp_path / "old").feedbacks() == []
    with PredictiveAssociativeIndex.open(tmp_path / "old") as index:
        before = index.recall("m0", k=3)
        index.feedback([1.0, 0.0, 0.0], ["m0"], id="f")
        assert index.recall("m0", k=3, mode="association").ids == before.ids
    assert json.loads((tmp_path / "old" / "manifest.json").read_text())["format_version"] == FORMAT_VERSION
    with PredictiveAssociativeIndex.open(tmp_path / "old") as index:
        assert [f.id for f in index.feedbacks()] == ["f"]
