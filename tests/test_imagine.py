"""``imagine`` and ``surprise`` agree with the known structure of the planted world."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import DIM, QUICK, TINY, WINDOW, agree, new_index

from pam_retriever import EmptyIndex, InvalidInput, NotFitted, PredictiveAssociativeIndex, Trajectory, UnknownId
from pam_retriever.errors import IndexFormatError
from pam_retriever.retrieval.imagination import Imagination
from pam_retriever.store.learnt import SPREAD


def test_the_point_is_the_prediction_and_the_nearest_are_the_nearest(fitted, planted):
    """``imagine`` returns the prediction f, and the memories nearest to it by cosine."""
    f = fitted._store.predictor(planted.vectors[30:31])[0, :DIM]
    p = planted.vectors / np.linalg.norm(planted.vectors, axis=1, keepdims=True)
    found = fitted.imagine("m030", k=6)
    np.testing.assert_allclose(found.point, f, atol=1e-5)
    cosine = p @ f
    cosine[30] = -2  # the query is no associate of itself
    order = np.argsort(-cosine)[:6]
    assert [hit.id for hit in found.nearest] == [planted.ids[at] for at in order]
    np.testing.assert_allclose([hit.score for hit in found.nearest], cosine[order], atol=1e-5)
    np.testing.assert_allclose([hit.similarity for hit in found.nearest], p[order] @ p[30], atol=1e-5)
    assert found.distance == pytest.approx(np.linalg.norm(f - p[order[0]]), abs=1e-4)


def test_imaginations_are_equal_by_value(fitted):
    one, same, other = fitted.imagine("m030"), fitted.imagine("m030"), fitted.imagine("m140")
    assert one == same and one != other and one != "m030"
    assert len({one, same, other}) == 2


def test_batches_ids_vectors_and_points_agree(fitted, planted):
    many = fitted.imagine(["m030", "m140"])
    for id, one in zip(["m030", "m140"], many, strict=True):
        agree(one.nearest, fitted.imagine(id).nearest)
    np.testing.assert_allclose(fitted.imagine(planted.vectors[30]).point, many[0].point, atol=1e-5)
    further = fitted.imagine(many[0].point, complete=False)
    np.testing.assert_allclose(further.point, fitted._store.predictor(many[0].point[None])[0, :DIM], atol=1e-5)


def true_spreads(index, planted) -> tuple[np.ndarray, np.ndarray]:
    """Returns the predicted spread of each memory, and the true spread of its associates around the point."""
    p = planted.vectors / np.linalg.norm(planted.vectors, axis=1, keepdims=True)
    said, true = [], []
    for id, found in zip(planted.ids, index.imagine(planted.ids), strict=True):
        met = p[[planted.ids.index(other) for other in planted.associates(id)]]
        said.append(found.spread)
        true.append(((met - found.point) ** 2).sum(1).mean())
    return np.array(said), np.array(true)


def test_the_spread_is_that_of_the_associates(fitted, planted):
    said, true = true_spreads(fitted, planted)
    assert (said**2).mean() == pytest.approx(true.mean(), rel=0.02)
    # the same must hold within the larger half and within the smaller half of the predictions
    for half in (said >= np.median(said), said < np.median(said)):
        assert (said[half] ** 2).mean() == pytest.approx(true[half].mean(), rel=0.1)


def test_a_predictor_that_knows_nothing_has_a_wide_spread(fitted, planted):
    index = new_index(planted)
    shuffled = np.random.default_rng(0).permutation(planted.ids).reshape(20, 10).tolist()
    index.fit(shuffled, window=WINDOW, config=TINY, progress=False)
    for outing in planted.outings:  # the predictor has not learnt the real outings
        index.observe(outing)
    assert index.imagine("m030").spread > 1.1 * fitted.imagine("m030").spread


def test_samples_lie_as_far_from_the_point_as_the_associates(fitted):
    found = fitted.imagine("m030")
    sample = found.sample(500, seed=3)
    np.testing.assert_allclose(np.linalg.norm(sample, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(sample - found.point, axis=1), found.spread, atol=1e-4)
    np.testing.assert_array_equal(sample, found.sample(500, seed=3))
    assert np.abs(sample - found.sample(500, seed=4)).max() > 0.01


def test_samples_in_one_dimension_are_one_of_both_unit_vectors():
    samples = Imagination(np.ones(1, np.float32), 0.5, 0.0, ()).sample(3)
    np.testing.assert_array_equal(samples, np.ones((3, 1), np.float32))


def test_deleted_memories_are_not_near_and_a_bare_index_has_nothing_to_imagine(planted):
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=TINY, progress=False)
    first = index.imagine("m030", k=1).nearest[0].id
    index.delete(first)
    assert first not in {hit.id for hit in index.imagine("m030", k=300).nearest}
    assert len(index.imagine("m030", k=300).nearest) == 198
    index.delete(planted.ids[1:])
    with pytest.raises(EmptyIndex, match="two"):
        index.imagine("m000")


def test_bad_queries_are_refused(fitted, index):
    with pytest.raises(NotFitted):
        index.imagine("m000")
    with pytest.raises(InvalidInput, match="k=0"):
        fitted.imagine("m000", k=0)
    with pytest.raises(UnknownId):
        fitted.imagine("nobody")
    with pytest.raises(InvalidInput, match="16"):
        fitted.imagine(np.ones(DIM - 1), complete=False)


def test_what_was_learnt_does_not_surprise_and_what_was_not_does(fitted, planted):
    """The surprise is low in learnt trajectories, high in others, and high at the joint of two learnt halves."""
    known = fitted.surprise(planted.outings[3])
    strange = fitted.surprise([planted.ids[n] for n in range(0, 200, 20)])
    assert len(known) == 10
    assert max(known) < 0.4
    assert np.mean(known) < 0.2
    assert min(strange) > 0.5
    again = fitted.surprise(Trajectory(vectors=planted.vectors[30:40]))
    np.testing.assert_allclose(again, known, atol=1e-4)
    mixed = fitted.surprise([*planted.outings[3][:5], *planted.outings[9][5:]])
    assert np.argmax(mixed) in (4, 5)
    assert len(fitted) == 200


def test_surprise_refuses(fitted, index):
    with pytest.raises(NotFitted):
        index.surprise(["m000", "m001"])
    with pytest.raises(UnknownId, match="nobody"):
        fitted.surprise(["m000", "nobody"])
    with pytest.raises(InvalidInput, match="1 state"):
        fitted.surprise(["m000"])
    assert isinstance(fitted, PredictiveAssociativeIndex)


@pytest.mark.parametrize(("count", "seed"), [(0, 0), (-1, 0), (1.5, 0), (True, 0), (3, -1), (3, "a")])
def test_bad_samples_are_refused(fitted, count, seed):
    with pytest.raises(InvalidInput):
        fitted.imagine("m030").sample(count, seed)


def test_a_damaged_spread_is_named(planted):
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=QUICK, progress=False)
    stored = index._store.database.settings.get(SPREAD)
    index._store.set_setting(SPREAD, {**stored, "slope": "NaN"})
    with pytest.raises(IndexFormatError, match="Fit again"):
        index.imagine("m030")


def test_the_spread_is_the_same_for_each_reader_and_after_each_write(planted, tmp_path):
    """``fit`` calibrates it: it depends neither on the first call of ``imagine``, nor on who asks."""
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM) as index:
        index.add(planted.vectors, planted.ids)
        index.fit(planted.outings, window=WINDOW, config=TINY, progress=False)
        reader = PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True, follow=True)
        before = index.imagine("m030").spread
        index.delete(planted.ids[60:62])
        for outing in planted.outings[10:]:
            index.observe(outing[::-1] * 3)
        late = PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True)
        spreads = {round(one.imagine("m030").spread, 5) for one in (index, reader, late)}
        assert spreads == {round(before, 5)}
        reader.close()
        late.close()


def _documents(**options):
    """An index in which "a" names "b" and "c", and "d" names "a"; nothing happened."""
    index = PredictiveAssociativeIndex(DIM, **options)
    vectors = np.random.default_rng(5).normal(size=(24, DIM)).astype(np.float32)
    texts = {"a": "Anna Alder met Bert Birch and Carl Cedar.", "d": "Dora Dogwood wrote to Anna Alder."}
    titles = {"a": "Anna Alder", "b": "Bert Birch", "c": "Carl Cedar", "d": "Dora Dogwood"}
    ids = [*titles, *(f"filler {at}" for at in range(20))]
    index.add(vectors, ids, [texts.get(id, "Nothing.") for id in ids], [{"title": titles.get(id, "")} for id in ids])
    return index, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_memory_that_was_never_experienced_is_expected_near_its_mentions():
    """Before a fit, too. The point is the mean by the shares of ``expand``, and the spread is their distance to it."""
    index, vectors = _documents()
    shares = index.expand({"a": 1.0})
    assert set(shares) == {"b", "c", "d"}
    rows = ["abcd".index(id) for id in shares]
    mean = np.array(list(shares.values())) @ vectors[rows] / sum(shares.values())
    found = index.imagine("a", k=3)
    np.testing.assert_allclose(found.point, mean / np.linalg.norm(mean), atol=1e-5)
    squared = ((vectors[rows] - found.point) ** 2).sum(axis=1) @ np.array(list(shares.values())) / sum(shares.values())
    assert found.spread == pytest.approx(np.sqrt(squared), abs=1e-4)
    assert found.nearest[0].score == pytest.approx(np.delete(vectors @ found.point, 0).max(), abs=1e-5)
    assert found.distance == pytest.approx(np.sqrt(2 - 2 * found.nearest[0].score), abs=1e-4)
    fewer = index.imagine("a", where={"title": {"$in": ["Anna Alder", "Bert Birch"]}})
    np.testing.assert_allclose(fewer.point, vectors[1], atol=1e-5)


def test_without_a_fit_there_is_no_point_for_others():
    index, vectors = _documents()
    for query in ("filler 3", ["a", "filler 3"], vectors[0]):
        with pytest.raises(NotFitted, match="never fitted"):
            index.imagine(query)
    silent, _ = _documents(names=())
    with pytest.raises(NotFitted, match="names"):
        silent.imagine("a")


def test_before_a_fit_a_memory_in_a_trajectory_is_not_said_to_have_no_mentions():
    index, _ = _documents()
    index.observe(["a", "filler 1"])
    with pytest.raises(NotFitted, match=r"'a' has no mentions or is in a trajectory"):
        index.imagine("a")


def test_experience_comes_before_mentions():
    """After a fit the predictor gives the point of what was experienced, and of what names nobody."""
    index, _ = _documents()
    silent, _ = _documents(names=())
    for one in (index, silent):
        one.observe(["b", "filler 1", "filler 2"])
        one.fit(config=TINY, progress=False)
    for id in ("b", "filler 5"):
        np.testing.assert_allclose(index.imagine(id).point, silent.imagine(id).point, atol=1e-5)
        assert index.imagine(id).spread == pytest.approx(silent.imagine(id).spread, abs=1e-5)
    before, _ = _documents()
    both = index.imagine(["a", "b"])
    np.testing.assert_allclose(both[0].point, before.imagine("a").point, atol=1e-5)
    np.testing.assert_allclose(both[1].point, index.imagine("b").point, atol=1e-5)
