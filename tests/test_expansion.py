"""``expand``, which adds associations to the hits of another retriever, equals sums that are written out."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import new_index
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pam_retriever import InvalidInput, NotFitted, PredictiveAssociativeIndex, UnknownId

found_by_another = st.dictionaries(
    st.integers(0, 199).map(lambda number: f"m{number:03}"), st.floats(-5, 5, width=32), min_size=1, max_size=6
)


@example([{"m000": 0.0, "m001": 1.1754943508222875e-38}])  # so small that its square is 0
@given(st.lists(found_by_another, min_size=1, max_size=3))
@settings(max_examples=30, deadline=None)
def test_each_hit_brings_up_its_recall_by_how_good_it_is(fitted, batch):
    for found, brought in zip(batch, fitted.expand(batch, k=None), strict=True):
        above = np.array(list(found.values())) - min(found.values())
        weights = (above / above.max()) ** 2 if above.any() else np.ones(len(found))
        expected: dict[str, float] = {}
        for id, weight in zip(found, weights / weights.sum(), strict=True):
            for hit in fitted.recall(id, k=40):
                expected[hit.id] = expected.get(hit.id, 0) + weight * hit.score
        assert brought == pytest.approx(expected, abs=1e-5)
        assert list(brought.values()) == sorted(brought.values(), reverse=True)
        assert sum(brought.values()) <= 1 + 1e-4


def test_it_brings_up_what_another_retriever_cannot_see(fitted, planted):
    """``expand`` returns associates of the hits, although they are not similar to the hits."""
    brought = fitted.expand({"m044": 0.9, "m123": 0.2}, k=4)
    assert set(brought) == planted.associates("m044")
    kept = fitted.expand({"m044": 0.9, "m123": 0.2}, k=4, where={"parity": "odd"}, cue_where={})
    assert set(kept) >= {id for id in planted.associates("m044") if int(id[1:]) % 2}
    assert all(int(id[1:]) % 2 for id in kept)
    assert fitted.expand({}) == {}
    assert fitted.expand([{}, {"m044": 1.0}], k=1)[0] == {}


@pytest.mark.parametrize(
    ("found", "error", "message"),
    [
        (["m044"], InvalidInput, "found=list"),
        ("m044", InvalidInput, "found=str"),
        ({"m044": float("nan")}, InvalidInput, "nan"),
        ({"m044": "good"}, InvalidInput, "good"),
        ({"nobody": 1.0}, UnknownId, "nobody"),
    ],
)
def test_bad_hits_are_refused(fitted, found, error, message):
    with pytest.raises(error, match=message):
        fitted.expand(found)


@pytest.mark.filterwarnings("error")
def test_scores_may_be_as_large_as_a_float(fitted):
    """The weights depend on the proportions of scores only."""
    largest = fitted.expand({"m044": 1.7e308, "m123": 0.0, "m150": -1.7e308})
    assert largest == pytest.approx(fitted.expand({"m044": 2.0, "m123": 1.0, "m150": 0.0}), abs=1e-6)


def test_names_without_a_fit_have_no_direction():
    index = PredictiveAssociativeIndex(2)
    index.add(np.eye(2), ["a", "b"], texts=["Ann met Berta Beckmann.", "x"], metadatas=[{}, {"name": "Berta Beckmann"}])
    assert index.expand({"a": 1.0}, direction=None) == {}
    with pytest.raises(NotFitted, match="Names have no direction"):
        index.expand({"a": 1.0}, direction="after")


def test_before_fit_there_is_nothing_to_spread(planted):
    with pytest.raises(NotFitted):
        new_index(planted).expand({"m044": 1.0})
