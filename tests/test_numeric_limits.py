"""Numbers that float32 cannot square, or a fit cannot weigh, are refused before anything is stored."""

from __future__ import annotations

import numpy as np
import pytest

from pam_retriever import InvalidInput, PredictiveAssociativeIndex, Trajectory


@pytest.mark.parametrize("length", [1e-30, 1e-20, 1e20, 1e38])
def test_a_vector_whose_length_is_beyond_float32_is_refused(length):
    index = PredictiveAssociativeIndex(2)
    index.add([[1.0, 0.0], [0.0, 1.0]], ["a", "b"])
    vector = [length, length]
    for call in (
        lambda: index.add([[1.0, 1.0], vector], ["c", "d"]),
        lambda: index.search(vector),
        lambda: index.recall(vector, mode="similarity"),
        lambda: index.observe(Trajectory(vectors=[[1.0, 1.0], vector])),
        lambda: index.feedback(vector, ["a"]),
    ):
        with pytest.raises(InvalidInput, match="length of"):
            call()
    assert len(index) == 2


@pytest.mark.parametrize("length", [1e-17, 1.0, 1e17])
def test_a_vector_within_it_equals_itself(length):
    """A vector of any allowed length has a cosine of 1 to itself."""
    index = PredictiveAssociativeIndex(3)
    vectors = np.array([[1.0, 2.0, 3.0], [-3.0, 1.0, 0.5]]) * length / 3
    index.add(vectors, ["a", "b"])
    hits = index.search_many(vectors, k=1)
    assert [hit[0].id for hit in hits] == ["a", "b"]
    assert [hit[0].similarity for hit in hits] == pytest.approx([1, 1], abs=1e-6)


def test_salience_is_bounded():
    index = PredictiveAssociativeIndex(2)
    index.add(np.eye(2), ["a", "b"])
    with pytest.raises(InvalidInput, match=r"salience .* 1e\+20"):
        index.observe(Trajectory(["a", "b"], salience=[1.0, 1e20]))
    index.observe(Trajectory(["a", "b"], salience=[0.0, 1e6]))


@pytest.mark.parametrize("option", ["fan_out", "beam"])
def test_hops_are_bounded(fitted, option):
    with pytest.raises(InvalidInput, match=f"{option}=100000"):
        fitted.recall("m010", hops=2, **{option: 100_000})
    assert fitted.recall("m010", hops=2, **{option: 1_000})


@pytest.mark.parametrize("weight", [1e7, 1e38, 1e308, 10**400], ids=["1e7", "1e38", "1e308", "an integer"])
def test_the_weight_of_a_request_is_bounded(weight):
    """A sum of products of weights beyond float32 would make every later score NaN."""
    index = PredictiveAssociativeIndex(2)
    index.add([[1.0, 0.0], [0.0, 1.0]], ["a", "b"])
    with pytest.raises(InvalidInput, match="at most 1e\\+06"):
        index.feedback([1.0, 0.5], {"a": weight})
    for at in range(30):
        index.feedback([1.0, at / 30], {"a": 1e6, "b": 1}, text=f"request {at}")
    for _ in range(2):
        assert all(np.isfinite(hit.score) for hit in index.recall([1.0, 0.1], text="request 3"))
        index.fit(progress=False)


def test_integers_that_no_float_holds_are_refused():
    index = PredictiveAssociativeIndex(2)
    for call in (
        lambda: index.add([[1.0, 0.0]], ["a"], timestamps=[10**400]),
        lambda: index.append("s", [1.0, 0.0], timestamp=10**400),
        lambda: index.observe(Trajectory(vectors=[[1.0, 1.0]], salience=[10**400])),
        lambda: index.set_popularity_cap(most=10**400),
        lambda: index.recall([1.0, 0.0], min_score=10**400),
    ):
        with pytest.raises(InvalidInput):
            call()
    assert len(index) == 0
