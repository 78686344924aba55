"""Bad input raises a clear error and leaves the index unchanged."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import numpy as np
import pytest
from conftest import DIM, TINY, new_index

from pam_retriever import (
    Channels,
    FitConfig,
    InvalidInput,
    PAMError,
    PredictiveAssociativeIndex,
    TrainingDiverged,
    Trajectory,
    UnknownId,
    evaluate,
)

good = np.ones((2, DIM), np.float32)
bad_rows = {"nan": np.nan, "inf": np.inf, "too large for float32": 1e39}


def state(index: PredictiveAssociativeIndex) -> tuple:
    records = [(r.id, r.vector.tobytes(), r.text, str(r.metadata)) for r in index.find()]
    hits = [(hit.id, hit.score) for hit in index.search(np.ones(DIM), k=300)]
    return repr(index), records, hits


ADD = {
    "wrong dimension": ((np.ones((2, DIM + 1)),), {}, r"\(2, 17\).*16"),
    "a single vector": ((np.ones(DIM),), {}, r"\[vector\]"),
    "an empty batch": ((np.ones((0, DIM)),), {}, "no vectors"),
    "ragged": (([[1.0] * DIM, [1.0]],), {}, "not an array"),
    "words": ((["no vector"],), {}, "not an array"),
    "zeros": ((np.zeros((1, DIM)),), {}, "all zeros"),
    "too few ids": ((good,), {"ids": ["a"]}, "ids of length 1 for 2 vectors"),
    "an id twice": ((good,), {"ids": ["a", "a"]}, "'a' comes twice"),
    "an id that is a number": ((good,), {"ids": ["a", 7]}, "7 .*int"),
    "an empty id": ((good,), {"ids": ["a", ""]}, "non-empty"),
    "an id with NUL": ((good,), {"ids": ["a", "b\x00"]}, "NUL"),
    "an id that UTF-8 cannot hold": ((good,), {"ids": ["a", "\ud800"]}, "surrogate"),
    "a string of ids": ((good,), {"ids": "ab"}, "Wrap"),
    "too many texts": ((good,), {"texts": ["a"] * 3}, "texts of length 3 for 2 vectors"),
    "a text that is a number": ((good,), {"texts": ["a", 1]}, "texts"),
    "too few metadatas": ((good,), {"metadatas": [{}]}, "metadatas of length 1 for 2 vectors"),
    "one dict": ((good,), {"metadatas": {"a": 1}}, "Wrap"),
    "NaN in metadata": ((good,), {"metadatas": [{}, {"a": float("nan")}]}, r"metadatas\[1\].*JSON"),
    "an object in metadata": ((good,), {"metadatas": [{"a": object()}, {}]}, r"metadatas\[0\].*JSON"),
    "a number as key": ((good,), {"metadatas": [{1: 2}, {}]}, "string keys"),
    "a number as key of a dict inside": ((good,), {"metadatas": [{"a": [{"b": {1: 2, "1": 3}}]}, {}]}, "string keys"),
    "NUL in metadata": ((good,), {"metadatas": [{"a": "\x00"}, {}]}, "NUL"),
}


@pytest.mark.parametrize("case", ADD)
def test_add_refuses(index, case):
    arguments, options, message = ADD[case]
    before = state(index)
    with pytest.raises(InvalidInput, match=re.compile(message, re.DOTALL)):
        index.add(*arguments, **options)
    assert state(index) == before


@pytest.mark.parametrize("case", bad_rows)
def test_add_refuses_a_batch_with_one_bad_row(index, case):
    vectors, before = np.ones((3, DIM)), state(index)
    vectors[1, 4] = bad_rows[case]
    with pytest.raises(InvalidInput, match="Vector 1 "), np.errstate(over="raise"):
        index.add(vectors, ["new1", "m000", "new2"])
    assert state(index) == before


FIT = {
    "unknown ids": ([["m000", "nobody"]], {}, UnknownId, "nobody"),
    "a trajectory of one state": ([["m000"]], {}, InvalidInput, "1 state"),
    "an empty trajectory": ([[]], {}, InvalidInput, "0 states"),
    "no trajectories": ([], {}, InvalidInput, "no trajectories"),
    "a flat list of ids": (["m000", "m001"], {}, InvalidInput, "string 'm000'"),
    "a single array": (np.ones((3, DIM)), {}, InvalidInput, "Wrap"),
    "an array of another dimension": ([np.ones((3, DIM - 1))], {}, InvalidInput, "16"),
    "NaN in an array": ([np.full((3, DIM), np.nan)], {}, InvalidInput, "NaN"),
    "ids that are numbers": ([[1, 2]], {}, InvalidInput, "int"),
    "lists of numbers": ([[[0.0] * DIM, [1.0] * DIM]], {}, InvalidInput, "np.array"),
    "a list of arrays": ([[good[0], good[1]]], {}, InvalidInput, "np.array"),
    "the same state only": ([["m000", "m000"]], {}, InvalidInput, "two different"),
    "neither ids nor vectors": ([Trajectory()], {}, InvalidInput, "neither"),
    "both": ([Trajectory(ids=["m000"], vectors=good)], {}, InvalidInput, "both"),
    "two of one name": ([Trajectory(ids=["m000", "m001"], id="x")] * 2, {}, InvalidInput, "'x'"),
    "falling time": ([Trajectory(ids=["m000", "m001"], timestamps=[2, 1])], {}, InvalidInput, "fall"),
    "too few times": ([Trajectory(ids=["m000", "m001"], timestamps=[2])], {}, InvalidInput, "1 for 2"),
    "NaN as time": ([Trajectory(ids=["m000", "m001"], timestamps=[2, np.nan])], {}, InvalidInput, "finite"),
    "negative salience": ([Trajectory(ids=["m000", "m001"], salience=[1, -1])], {}, InvalidInput, "-1"),
    "window 0": ([["m000", "m001"]], {"window": 0}, InvalidInput, "window=0"),
    "window 1.5": ([["m000", "m001"]], {"window": 1.5}, InvalidInput, "window=1.5"),
    "an unknown config": ([["m000", "m001"]], {"config": "faster"}, InvalidInput, "faster"),
    "an unknown device": ([["m000", "m001"]], {"device": "abacus"}, InvalidInput, "abacus"),
    "no time": ([["m000", "m001"]], {"time_budget": 0}, InvalidInput, "time_budget"),
    "trajectories and groups": ([["m000", "m001"]], {"group_by": "parity"}, InvalidInput, "both"),
    "an unknown group": (None, {"group_by": "nothing"}, InvalidInput, "'nothing'"),
    "an order that is missing": (None, {"group_by": "parity", "order_by": "nothing"}, InvalidInput, "'nothing'"),
    "nothing stored": (None, {}, InvalidInput, "no trajectories"),
}


@pytest.mark.parametrize("case", FIT)
def test_fit_refuses(index, case):
    trajectories, options, kind, message = FIT[case]
    before = state(index)
    with pytest.raises(kind, match=message):
        index.fit(trajectories, **{"config": TINY, "progress": False, **options})
    assert state(index) == before


def test_rows_of_complex_numbers_are_refused_not_cut(index):
    for rows in ([np.full(index.dim, 1 + 1j)], np.full((1, index.dim), 1 + 1j)):
        with pytest.raises(InvalidInput, match="complex"):
            index.add(rows)
        with pytest.raises(InvalidInput, match="complex"):
            index.search(rows, k=1)


@pytest.mark.parametrize("device", ["gpu7", "meta"])
def test_fit_refuses_an_unknown_device_where_nothing_is_new(index, device):
    index.fit([["m000", "m001", "m002"]], config=TINY, progress=False)
    assert index.fit(config=TINY, progress=False).stopped_by == "nothing new"
    with pytest.raises(InvalidInput, match=device):
        index.fit(config=TINY, device=device, progress=False)


def test_a_loss_that_diverges_leaves_the_index_as_it_was(index, planted):
    before = state(index)
    with pytest.raises(TrainingDiverged, match="learning_rate"):
        index.fit(planted.outings, config=FitConfig(hidden=8, learning_rate=1e38, warmup=0), progress=False)
    assert state(index) == before


def test_observe_refuses_and_stores_nothing(index):
    before = state(index)
    for trajectory in (["m000", "nobody"], ["m000"], np.ones((2, DIM + 1)), "m000"):
        with pytest.raises(PAMError):
            index.observe(trajectory)
    assert state(index) == before


RECALL = {
    "k of 0": (("m000",), {"k": 0}, InvalidInput, "k=0"),
    "negative k": (("m000",), {"k": -1}, InvalidInput, "k=-1"),
    "k of 1.5": (("m000",), {"k": 1.5}, InvalidInput, "k=1.5"),
    "k of True": (("m000",), {"k": True}, InvalidInput, "k=True"),
    "no k": (("m000",), {"k": None}, InvalidInput, "min_score"),
    "hops of 0": (("m000",), {"hops": 0}, InvalidInput, "hops=0"),
    "hops of similarity": (("m000",), {"hops": 2, "mode": "similarity"}, InvalidInput, "association"),
    "an unknown mode": (("m000",), {"mode": "psychic"}, InvalidInput, "psychic"),
    "an unknown id": (("nobody",), {}, UnknownId, "nobody"),
    "an unknown id in a batch": ((["m000", "nobody"],), {}, UnknownId, "nobody"),
    "ids and vectors": ((["m000", [1.0] * DIM],), {}, InvalidInput, "list"),
    "a wrong dimension": ((np.ones(DIM - 1),), {}, InvalidInput, "16"),
    "NaN": ((np.full(DIM, np.nan),), {}, InvalidInput, "NaN"),
    "zeros": ((np.zeros(DIM),), {}, InvalidInput, "zeros"),
    "an empty batch": (([],), {}, InvalidInput, "empty"),
    "None": ((None,), {}, InvalidInput, "query"),
    "three dimensions": ((np.ones((1, 1, DIM)),), {}, InvalidInput, "shape"),
    "an unknown operator": (("m000",), {"where": {"a": {"$near": 1}}}, InvalidInput, "near"),
}


@pytest.mark.parametrize("case", RECALL)
def test_recall_refuses(fitted, case):
    arguments, options, kind, message = RECALL[case]
    with pytest.raises(kind, match=message):
        fitted.recall(*arguments, **options)


@pytest.mark.parametrize("weights", [{}, {"forward": -1}, {"mutual": float("nan")}, {"reverse": "much"}])
def test_channels_refuse_weights_that_make_no_sense(weights):
    with pytest.raises(InvalidInput, match="Channels"):
        Channels(**weights)


def test_an_empty_index_has_no_hits_and_still_refuses_what_is_wrong(planted):
    full = new_index(planted)
    full.delete(planted.ids)
    for index in (PredictiveAssociativeIndex(dim=DIM), full):
        assert index.search(np.ones(DIM)) == []
        assert index.recall(np.ones(DIM)) == []
        assert index.recall(np.ones(DIM), mode="specific", text=None) == []
        assert index.recall(np.ones(DIM), text="words", where={"a": 1}) == []
        assert index.search(np.ones((2, DIM))) == [[], []]
        with pytest.raises(InvalidInput, match="shape"):
            index.search(np.ones(DIM + 1))
        with pytest.raises(InvalidInput, match="like"):
            index.search(np.ones(DIM), where={"a": {"$like": 1}})
        with pytest.raises(UnknownId, match="m000"):
            index.search("m000")


@pytest.mark.parametrize("call", ["search", "recall"])
@pytest.mark.parametrize("words", ["what is c?", "c?", "two words", ["m000", "what is c?"]])
def test_a_text_given_as_an_id_gets_a_helpful_error(index, fitted, call, words):
    for one in (index, fitted, PredictiveAssociativeIndex(dim=DIM)):
        with pytest.raises(UnknownId, match="text="):
            getattr(one, call)(words)


@pytest.mark.parametrize("dim", [0, -1, 1.5, "8", None, True])
def test_invalid_dimensions_are_refused(dim):
    with pytest.raises(InvalidInput, match="dim"):
        PredictiveAssociativeIndex(dim=dim)


def test_unknown_ids_are_ignored_by_delete_and_named_by_get(index):
    assert index.delete(["nobody"]) == 0
    assert index.delete("m000") == 1
    with pytest.raises(UnknownId, match="m000"):
        index.get(["m001", "m000"])
    assert [record.id for record in index.get(["m001", "m000"], missing_ok=True)] == ["m001"]


def test_pages_of_any_size_and_none_below_zero(index):
    index.feedback(good[0], used=["m000"])
    for call in (index.find, index.feedbacks, index.trajectories):
        assert call(limit=10**30) == call()
        assert call(offset=10**30) == []
        for wrong in ({"limit": 0}, {"offset": -1}, {"offset": True}):
            with pytest.raises(InvalidInput, match=next(iter(wrong))):
                call(**wrong)


@pytest.mark.parametrize("query", [{"a": 1}, [["a"], ["b"]], [[1.0], [1.0, 2.0]], b"text", 5])
def test_feedback_for_what_is_no_request_is_refused(index, query):
    with pytest.raises(InvalidInput):
        index.feedback(query, used=["m000"])


def test_an_id_that_cannot_be_stored_is_not_there_and_cannot_be_asked_for(index):
    """An invalid id is not in the index, and every call that takes an id refuses it."""
    for id in ("\ud800", "a\x00", "", 7):
        assert id not in index
        for call in (lambda id=id: index.get([id], missing_ok=True), lambda id=id: index.delete([id])):
            with pytest.raises(InvalidInput, match=r"id|surrogate"):
                call()
    for id in ("\ud800", "a\x00", ""):
        for call in (index.delete, index.search, lambda id: index.recall(id, mode="similarity")):
            with pytest.raises(InvalidInput, match=r"id|surrogate"):
                call(id)


def test_a_backslash_before_u0000_is_no_nul():
    index = PredictiveAssociativeIndex(dim=1)
    for text in ("\\u0000", "\\\\u0000"):
        index.add([[1.0]], ["id"], metadatas=[{"a": text}])
        assert index.find({"a": text})[0].metadata == {"a": text}
    with pytest.raises(InvalidInput, match="NUL"):
        index.add([[1.0]], metadatas=[{"a": "\\\x00"}])


def test_metadata_are_copied_in_and_out(index):
    metadata = {"tags": ["a"]}
    index.add(good[:1], ["new"], metadatas=[metadata])
    metadata["tags"].append("b")
    first = index.search(good[0], k=1)[0]
    assert first.metadata == {"tags": ["a"]}
    first.metadata["tags"].append("c")
    assert index.search(good[0], k=1)[0].metadata == {"tags": ["a"]}


@pytest.mark.parametrize("text", ["", "\x00", "\U0001d54c \u202e e\u0301 \ufeff", "x" * 1_000_000])
def test_any_text_is_stored_unchanged(text):
    index = PredictiveAssociativeIndex(dim=1)
    index.add([[1.0]], [text[:1000].replace("\x00", "") or "id"], texts=[text])
    assert index.find()[0].text == text


JUNK = {
    "numbers": [0, 1, 2],
    "an array": np.ones((3, DIM), np.float32),
    "an array of three axes": np.zeros((2, 2, 2)),
    "a mapping": {"user": "ann", "$gt": 2},
    "a document": "x" * 100_000,
    "an object": object(),
    "NaN": float("nan"),
    "a negative number": -1,
    "a huge number": 10**30,
    "True": True,
    "the word False": "False",
    "bytes": b"bytes",
    "a set": {1, 2},
    "nothing in a list": [None],
    "lists": [[["a"]]],
    "a class": int,
    "a lone surrogate": "\ud800",
    "NUL": "a\x00b",
    "a trajectory": Trajectory(ids=["a", "b"]),
    "trajectories": [Trajectory(ids=["a", "b"])],
}
CALLS = {  # calls and valid arguments for each
    "add": {"vectors": good},
    "append": {"session": "s", "vector": good[0]},
    "auto_fit": {},
    "allow_training": {"allowed": True},
    "delete": {},
    "delete_feedback": {},
    "delete_trajectory": {},
    "drop_tenant": {"name": "ann"},
    "erase": {},
    "expand": {"found": {"a": 1.0}},
    "feedback": {"query": good[0], "used": ["a"]},
    "feedbacks": {},
    "find": {},
    "fit": {"config": TINY, "time_budget": 0.01},
    "get": {"ids": ["a"]},
    "imagine": {"query": "a"},
    "load": {"path": "nothing"},
    "observe": {"trajectory": ["a", "b"]},
    "observe_many": {"trajectories": [["a", "b"]]},
    "open": {"path": "nothing", "read_only": True},
    "project": {},
    "prune": {"keep": 100},
    "recall": {"query": good[0]},
    "recall_many": {"queries": good},
    "recall_next": {"trajectory": ["a"]},
    "recall_next_many": {"trajectories": [["a"]]},
    "save": {"path": "saved"},
    "search": {"query": good[0]},
    "search_many": {"queries": good},
    "set_capacity": {"memories": 100},
    "set_popularity_cap": {},
    "surprise": {"trajectory": ["a", "b"]},
    "tenant": {"name": "ann"},
    "time_counts": {},
    "trajectories": {},
    "update": {"id": "a"},
}
UNCHECKED = {"close", "explore", "last_fit", "overview", "reencode", "refresh", "spread", "tenants"}
FLAGS = {
    *("allowed", "background", "complete", "explain", "faithful", "follow", "from_scratch", "missing_ok"),
    *("overwrite", "read_only", "same_embedder", "snap", "train"),
}


def test_every_call_is_in_the_list():
    public = {name for name, _ in inspect.getmembers(PredictiveAssociativeIndex, callable) if name[0] != "_"}
    assert public - UNCHECKED == set(CALLS)


def refusal(call: Callable[[], object]) -> PAMError | None:
    try:
        call()
    except PAMError as error:
        return error
    return None


@pytest.mark.parametrize("call", CALLS)
def test_no_argument_of_a_wrong_kind_gets_another_error(call, tmp_path, monkeypatch):
    """A call either accepts a value, or raises a short error of this library and changes nothing."""
    monkeypatch.chdir(tmp_path)
    index = PredictiveAssociativeIndex(DIM)
    index.add(np.eye(3, DIM), ids=["a", "b", "c"], texts=["one", "two", "three"])
    index.observe(["a", "b", "c"])
    index.feedback(np.ones(DIM), ["a"], text="one")
    for name in list(inspect.signature(getattr(index, call)).parameters):
        if name == "options":
            continue
        before = state(index)
        for kind, value in JUNK.items():
            error = refusal(lambda: getattr(index, call)(**{**CALLS[call], name: value}))  # noqa: B023 called at once
            assert name not in FLAGS or value is True or f"Got {name}=" in str(error), (name, kind)
            if error is None:
                before = state(index)
            assert len(str(error)) < 1200, (name, kind)
            assert state(index) == before, (name, kind)
    index.close()


@pytest.mark.parametrize("name", ["index", "questions", "relevant", "ks", "recall", "seed"])
def test_evaluate_refuses_a_wrong_kind(index, name):
    given = {"index": index, "questions": ["m001"], "relevant": [["m002"]]}
    for kind, value in JUNK.items():
        if kind == "a class" and name == "recall":  # a class can be called, so it is valid here
            continue
        error = refusal(lambda: evaluate(**{**given, name: value}))  # noqa: B023 called at once
        assert error is None or len(str(error)) < 1200, (name, kind)


@pytest.mark.parametrize("name", inspect.signature(FitConfig).parameters)
def test_a_configuration_refuses_a_wrong_kind(name):
    for kind, value in JUNK.items():
        error = refusal(lambda: FitConfig(**{name: value}))  # noqa: B023 called at once
        valid = {"a huge number": float, "True": bool}.get(kind)
        assert error is not None or type(getattr(FitConfig(), name)) is valid or value == 10**30, (name, kind)
    with pytest.raises(InvalidInput, match="info_nce"):
        FitConfig(objective="info-nce")


def test_the_texts_of_a_batch_are_called_texts():
    index = PredictiveAssociativeIndex(2)
    index.add([[1.0, 0.0]], ["a"], ["a plaster"])
    with pytest.raises(InvalidInput, match="texts="):
        index.recall_many([[1.0, 0.0]], text=["a plaster"])
    assert index.recall_many([[1.0, 0.0]], texts=["a plaster"])[0].ids == ["a"]
