"""Inspection of an index: its sizes, the report of its last fit, a map of its memories."""

from __future__ import annotations

import json
from datetime import datetime

import numpy as np
import pytest
from conftest import DIM, QUICK, TINY, new_index
from dialogue_samples import core, embed, questions
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever import IndexFormatError, InvalidInput, MissingExtra, PredictiveAssociativeIndex, UnknownId
from pam_retriever.evaluation import Interval, ReliabilityBin, Validation, Worth
from pam_retriever.store.last_fit import from_stored, to_stored
from pam_retriever.types import FitReport


def with_feedback() -> PredictiveAssociativeIndex:
    """Returns the dialogue with enough requests for a fit to hold some out."""
    index, asked = core(), questions() * 4
    index.feedback([embed(text) for text, _ in asked], [sorted(ids) for _, ids in asked], text=[t for t, _ in asked])
    return index


def test_the_report_of_a_fit_is_kept_with_the_index(tmp_path):
    index = with_feedback()
    report = index.fit(window=2, config=QUICK, progress=False)
    assert index.last_fit() == report
    assert report.finished is not None
    assert report.finished.utcoffset().total_seconds() == 0
    index.save(tmp_path / "index")
    with PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True) as opened:
        kept = opened.last_fit()
    assert kept == report
    assert kept.losses
    assert kept.validation.mixture().reliability


def test_no_report_before_the_first_fit(index):
    assert index.last_fit() is None


def test_a_fit_with_nothing_new_leaves_the_losses(index, planted):
    first = index.fit(planted.outings[:4], window=2, config=QUICK, progress=False)
    again = index.fit(window=2, config=QUICK, progress=False)
    assert again.stopped_by == "nothing new"
    assert index.last_fit() == first
    index.feedback(planted.vectors[:30], [["m001"]] * 30)
    later = index.fit(window=2, config=QUICK, progress=False)
    assert later.requests == 30
    assert index.last_fit().losses == first.losses
    assert index.last_fit().requests == 30
    assert index.last_fit().finished == first.finished


def test_a_stored_report_comes_back_as_it_was():
    worth = Worth("question", "mixture", 9, Interval(0.5, 0.4, 0.6), 0.1, 0.2, (ReliabilityBin(0.3, 0.25, 8),))
    report = FitReport(
        (2.0, 1.0), 3, 0.5, "cpu", "float32", 4, 5, 6, 1.0, 7, {"passes": 2}, validation=Validation((worth,))
    )
    assert from_stored(json.loads(json.dumps(to_stored(report)))) == report


@pytest.mark.parametrize("stored", [3, {}, {"losses": 3}, {"finished": None, "validation": None}])
def test_a_damaged_report_is_an_error(index, stored):
    index._store.set_setting("last_fit", stored)
    with pytest.raises(IndexFormatError, match="invalid report of its last fit"):
        index.last_fit()


def test_the_reliability_diagram_shows_accuracy_by_confidence():
    report = with_feedback().fit(window=2, config=QUICK, progress=False)
    mixture = report.validation.mixture()
    bins = mixture.reliability
    assert [one.confidence for one in bins] == sorted(one.confidence for one in bins)
    total = sum(one.count for one in bins)
    gap = sum(one.count * abs(one.confidence - one.frequency) for one in bins) / total
    assert gap == pytest.approx(mixture.calibration_error)
    others = [worth for worth in report.validation.worths if worth.source != "mixture"]
    assert others
    assert all(worth.reliability == () for worth in others)


def test_the_report_lists_the_sources_that_say_something():
    """The index has texts and feedback, but no times and no titles."""
    validation = with_feedback().fit(window=2, config=QUICK, progress=False).validation
    for kind in ("question", "seen cue"):
        listed = {worth.source for worth in validation.worths if worth.kind == kind}
        assert {"similarity", "requests", "mixture"} <= listed
        assert not listed & {"times", "mentions", "names"}


@pytest.mark.parametrize("repeats", [True, False])
def test_the_report_has_the_recall_of_new_requests_if_others_are_repeated(repeats):
    """Half of the requests are made for the second time; what a new one needs cannot be known."""
    random = np.random.default_rng(0)
    index = PredictiveAssociativeIndex(DIM)
    index.add(random.standard_normal((60, DIM)), [f"m{at}" for at in range(60)])
    vectors, needed = random.standard_normal((120, DIM)), random.integers(0, 60, 120)
    for at in range(120):
        again = random.integers(0, at) if repeats and at % 2 else at
        index.feedback(vectors[again], [f"m{needed[again]}"])
        vectors[at], needed[at] = vectors[again], needed[again]
    validation = index.fit(progress=False).validation
    mixture = validation.mixture()
    new = [worth for worth in validation.worths if worth.source == "mixture, new requests"]
    assert len(new) == repeats
    if new:
        assert 0.3 * mixture.questions < new[0].questions < 0.7 * mixture.questions
        assert new[0].recall.high < mixture.recall.low
        assert f"{new[0].recall} of {new[0].questions} questions" in repr(validation)


def test_an_index_in_numbers(planted):
    index = new_index(planted)
    empty = index.overview()
    assert (empty.memories, empty.dim, empty.experienced, empty.trajectories, empty.requests) == (200, DIM, 0, 0, 0)
    assert (empty.fitted, empty.new_trajectories, empty.location, empty.embedder) == (False, 0, "in memory", None)
    index.fit(planted.outings[:6], window=2, config=QUICK, progress=False)
    index.observe(planted.outings[7])
    index.feedback(planted.vectors[0], ["m001"])
    seen = index.overview()
    assert (seen.experienced, seen.trajectories, seen.requests) == (70, 7, 1)
    assert (seen.fitted, seen.window, seen.new_trajectories) == (True, 2, 1)
    index.append("a chat", planted.vectors[3], id="m003")
    assert index.overview().new_trajectories == 2


def test_a_trajectory_that_grew_is_new(planted):
    index = new_index(planted)
    index.append("a chat", id="m001")
    index.append("a chat", id="m002")
    index.fit(window=2, config=QUICK, progress=False)
    assert index.overview().new_trajectories == 0
    index.append("a chat", id="m003")
    assert index.overview().new_trajectories == 1


def test_the_axes_are_those_of_most_variance(fitted, planted):
    drawn = fitted.project()
    assert list(drawn.ids) == planted.ids
    assert drawn.total == 200
    unit = planted.vectors / np.linalg.norm(planted.vectors, axis=1, keepdims=True)
    centred = unit - unit.mean(axis=0)
    _, lengths, directions = np.linalg.svd(centred, full_matrices=False)
    assert drawn.explained == pytest.approx(tuple(lengths[:2] ** 2 / (lengths**2).sum()), abs=1e-4)
    for axis in (0, 1):
        assert abs(np.corrcoef(drawn.points[:, axis], centred @ directions[axis])[0, 1]) == pytest.approx(1, abs=1e-3)
    assert drawn.sessions.tolist() == [number // 10 for number in range(200)]


def test_values_of_a_key_come_with_the_points(fitted):
    assert fitted.project(limit=3, by="parity").values == ("even", "odd", "odd")
    assert fitted.project(limit=2, by="nothing").values == (None, None)
    assert fitted.project(limit=2).values == ()


def test_values_of_a_path_come_with_the_points():
    index = PredictiveAssociativeIndex(dim=2)
    index.add(np.eye(2), metadatas=[{"user": {"name": "ann"}}, {"user.name": "bob", "user": 3}])
    assert index.project(by="user.name").values == ("ann", "bob")
    assert index.project(by="user.age").values == (None, None)


def test_of_many_memories_some_are_drawn_evenly(fitted):
    some = fitted.project(limit=20)
    assert len(some.ids) == 20
    assert some.total == 200
    assert (some.ids[0], some.ids[-1]) == ("m000", "m199")


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_few_memories_of_few_dimensions_are_drawn(dim):
    index = PredictiveAssociativeIndex(dim=dim)
    assert index.project().points.shape == (0, 2)
    index.add(np.ones((1, dim)), ["alone"])
    assert np.isfinite(index.project().points).all()
    assert index.project().sessions.tolist() == [-1]


def test_what_cannot_be_drawn_is_said(fitted):
    with pytest.raises(InvalidInput, match="'pca' or 'umap'"):
        fitted.project(method="tsne")
    with pytest.raises(InvalidInput, match="limit"):
        fitted.project(limit=0)


@pytest.mark.slow
def test_umap_keeps_what_is_alike_together():
    pytest.importorskip("umap", reason="umap-learn is not here: pip install 'pam-retriever[umap]'")
    random = np.random.default_rng(0)
    centres = 10 * np.eye(8)[:3]
    vectors = (centres[:, None] + random.standard_normal((3, 40, 8))).reshape(120, 8)
    index = PredictiveAssociativeIndex(dim=8)
    index.add(vectors, [str(row) for row in range(120)])
    drawn = index.project(method="umap")
    assert (drawn.points.shape, drawn.explained, len(drawn.ids)) == ((120, 2), (0.0, 0.0), 120)
    groups = drawn.points.reshape(3, 40, 2)
    middle = groups.mean(axis=1)
    wide = max(np.linalg.norm(groups - middle[:, None], axis=2).max(axis=1))
    assert min(np.linalg.norm(middle[a] - middle[b]) for a, b in ((0, 1), (0, 2), (1, 2))) > wide
    np.testing.assert_array_equal(index.project(method="umap").points, drawn.points)  # projections are equal


def test_umap_names_its_extra_where_it_is_missing(fitted, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "umap", None)
    with pytest.raises(MissingExtra, match="umap"):
        fitted.project(method="umap")


def test_trajectories_by_name_and_by_what_they_hold(planted):
    index = new_index(planted)
    for number in (0, 1, 2):
        index.observe(planted.outings[number])
    index.append("a chat", id="m012")
    first, second, _, chat = index.trajectories()
    assert index.trajectories(ids=[chat.id, "nobody", first.id]) == [first, chat]
    assert index.trajectories(holding=["m012"]) == [second, chat]
    assert index.trajectories(holding=["m012"], limit=1, offset=1) == [chat]
    assert index.trajectories(holding=["nobody"]) == []
    with pytest.raises(InvalidInput, match="two of where, ids and holding"):
        index.trajectories({}, ids=["a"])


def test_feedback_that_names_a_memory(index, planted):
    index.feedback(planted.vectors[:3], [["m001"], ["m002"], ["m003"]], unused=[["m002"], (), ["m001"]])
    assert [list(one.used) for one in index.feedbacks(naming="m001")] == [["m001", "m002"], ["m001", "m003"]]
    assert len(index.feedbacks(naming="m001", limit=1, offset=1)) == 1
    assert index.feedbacks(naming="m100") == []
    with pytest.raises(UnknownId, match="nobody"):
        index.feedbacks(naming="nobody")


def test_a_report_of_the_full_recipe_is_kept(planted):
    index = new_index(planted)
    report = index.fit(planted.outings, window=2, config=TINY, progress=False)
    assert index.last_fit().config == json.loads(json.dumps(report.config))


@settings(max_examples=25)
@given(times=st.lists(st.one_of(st.none(), st.integers(-50, 50)), min_size=1, max_size=30), bins=st.integers(1, 20))
def test_times_are_counted_in_equal_stretches(times, bins):
    index = PredictiveAssociativeIndex(dim=2)
    index.add(np.ones((len(times), 2)), [str(at) for at in range(len(times))], timestamps=times)
    counted, known = index.time_counts(bins), [time for time in times if time is not None]
    if not known:
        assert counted is None
        return
    first, last = min(known), max(known)
    expected = [0] * bins
    for time in known:
        expected[min(int((time - first) * (bins / ((last - first) or 1))), bins - 1)] += 1
    assert (counted.kind, counted.start, counted.end, list(counted.counts)) == ("numbers", first, last, expected)


def test_times_of_deleted_memories_do_not_count():
    index = PredictiveAssociativeIndex(dim=2)
    index.add(np.eye(2), ["a", "b"], timestamps=[datetime(2026, 1, 1), datetime(2026, 1, 2)])
    index.delete(["b"])
    counted = index.time_counts()
    assert (counted.kind, sum(counted.counts), counted.end - counted.start) == ("dates", 1, 0)
    with pytest.raises(InvalidInput, match="bins"):
        index.time_counts(0)
