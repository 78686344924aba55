"""The best of many scores, and scores that are added up term by term."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.arrays import best, largest, union
from pam_retriever.retrieval import lexical
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.postings import TermScoreCache, TermScores

numbers = st.lists(st.integers(0, 6), min_size=1, max_size=60)


@given(numbers, st.data())
def test_the_largest_are_those_of_a_stable_sort(numbers, data):
    """Of equal values ``largest`` takes the first, as a stable sort does."""
    values = np.array(numbers, np.float32)
    n = data.draw(st.integers(1, len(values)))
    assert largest(values, n).tolist() == sorted(np.argsort(-values, kind="stable")[:n].tolist())


@given(numbers, st.integers(1, 70), st.integers(0, 2_000))
def test_the_best_are_the_largest_above_0(numbers, n, zeros):
    """Whether many values are above 0 or few changes nothing."""
    values = np.array([*numbers, *[0] * zeros], np.float32)
    expected = [at for at in np.argsort(-values, kind="stable")[:n].tolist() if values[at] > 0]
    assert best(values, n).tolist() == sorted(expected)


@given(numbers, numbers)
def test_a_union_holds_each_value_once(one, other):
    assert union(np.array(one), np.array(other)).tolist() == sorted({*one, *other})


@pytest.mark.parametrize("size", [4, 5, 100])
def test_scores_of_a_frequent_term_are_those_of_all_texts(size):
    rows, values = np.array([0, 3]), np.array([2, 0.5], np.float32)
    scores, expected = np.ones((2, size), np.float32)
    TermScores.of(rows, values, size).add_to(scores)
    expected[rows] += values
    assert scores.tolist() == expected.tolist()


def test_the_cache_of_terms_is_emptied_when_it_is_full():
    made: list[str] = []

    def make(term: str) -> TermScores:
        made.append(term)
        return TermScores.of(np.arange(3), np.ones(3, np.float32), 100)

    cache = TermScoreCache(most=5)
    for term in ("a", "b", "a", "b", "c", "c", "a"):
        assert len(cache.of(term, make).values) == 3
    assert made == ["a", "b", "c", "a"]


def test_the_best_texts_are_the_same_however_many_hold_the_words(monkeypatch):
    """Texts differ in length, so no two have the same score."""
    texts = [f"red{' blue' * (at % 7 == 0)} {'x' * at}" for at in range(60)]
    with PredictiveAssociativeIndex(dim=2) as index:
        index.add(np.ones((60, 2)), [str(at) for at in range(60)], texts)
        lexicon = Lexicon(index._store.database)
        scores = lexicon.scores(["blue", "red"])
        expected = np.sort(np.argsort(-scores)[:12]).tolist()
        assert sorted(lexicon.best(["blue", "red"], 12, None).tolist()) == expected
        monkeypatch.setattr(lexical, "MANY", 20)
        assert sorted(lexicon.best(["blue", "red"], 12, None).tolist()) == expected
