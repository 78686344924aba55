"""The probability for never-used memories, and the words of long questions, agree with plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.retrieval.mixture.mixture import Mixture
from pam_retriever.retrieval.mixture.pools import Cues, Pools
from pam_retriever.retrieval.mixture.reserved_mass import MOST, STEEP, reserve_mass
from pam_retriever.retrieval.mixture.sources import BM25_UNIT, LONG, by_length

finite = st.floats(-20, 20)
candidates = st.lists(st.tuples(finite, st.booleans(), finite), min_size=1, max_size=6)


def shares(scores):
    """Returns the softmax of the scores of one question."""
    odds = [math.exp(score - max(scores)) for score in scores]
    return [odd / sum(odds) for odd in odds]


@given(st.lists(candidates, min_size=1, max_size=4))
@example([[(16.0, False, 0.0), (-15.0, True, 0.0)]])
@example([[(90.0, False, 0.0), (-90.0, True, 0.0)]])
def test_probability_is_reserved_for_memories_that_were_never_used(questions):
    flat = [pair for question in questions for pair in question]
    scores = np.array([score for score, _, _ in flat], np.float32)
    never = np.array([new for _, new, _ in flat])
    plain = np.array([vectors for _, _, vectors in flat], np.float32)
    starts = np.cumsum([0, *(len(question) for question in questions[:-1])])
    added = reserve_mass(scores, never, plain, starts)
    assert not added[~never].any()
    for start, question in zip(starts.tolist(), questions, strict=True):
        end = start + len(question)
        by_mixture = shares(scores[start:end].tolist())
        without_feedback = shares((np.float32(STEEP) * plain[start:end]).tolist())
        mass = [MOST * share * new for share, new in zip(without_feedback, never[start:end].tolist(), strict=True)]
        expected = [m + (1 - sum(mass)) * p for m, p in zip(mass, by_mixture, strict=True)]
        assert shares((scores + added)[start:end].tolist()) == pytest.approx(expected, abs=1e-4)


def test_a_memory_that_recall_without_feedback_finds_is_ahead_of_many_that_look_alike():
    """Twenty never-used memories share what the mixture gives to them, and one of these is what the question says."""
    scores = np.array([9.0, 7.0, 5.0, *[1.0] * 20], np.float32)
    never, plain = np.arange(23) > 2, np.array([0.0, 0, 0, 2.0, *[0] * 19], np.float32)
    served = scores + reserve_mass(scores, never, plain, np.zeros(1, np.int64))
    assert np.argsort(-served)[:3].tolist() == [0, 3, 1]


def test_queries_that_are_stored_memories_reserve_nothing():
    features = np.array([[5.0, 0.0, 1.0], [0.0, 1.0, 1.0]], np.float32)
    mixture = Mixture(("a", "never_used", "plain"), np.tile(np.float32([1, 0, 0]), (3, 1)))
    pools = Pools.full(1, 2)
    question, cue = (mixture.score(features, pools, np.array([kind])) for kind in (0, 1))
    assert question.tolist() != cue.tolist() == [5.0, 0.0]


def test_words_of_a_long_question_count_less_each():
    words = [f"w{n}" for n in range(3 * LONG)]
    cues = Cues(np.zeros((3, 2), np.float32), [words[:1], words[:LONG], [*words, *words]], np.full(3, -1))
    assert by_length(cues, Pools.full(3, 2)) * BM25_UNIT == pytest.approx(np.float32([1, 1, 1, 1, 1 / 3, 1 / 3]))


def tools_of_long_requests(seed=0, requests=300):
    """Returns tools, of which a third is never used, and requests of thirty words that occur in no tool's text."""
    random = np.random.default_rng(seed)
    tools, used, dim = 60, 40, 24
    vectors = random.normal(size=(tools, dim))
    index = PredictiveAssociativeIndex(dim)
    index.add(vectors, [f"m{tool}" for tool in range(tools)], [f"tool number{tool}" for tool in range(tools)])

    def ask(tool):
        words = " ".join(f"common{n}" for n in random.integers(0, 60, 30))
        return vectors[tool] + 1.5 * random.normal(size=dim), words

    for tool in random.integers(0, used, requests).tolist():
        vector, text = ask(tool)
        index.feedback(vector, [f"m{tool}"], text=text)
    return index, [(f"m{tool}", *ask(tool)) for tool in range(used, tools) for _ in range(3)]


def test_tools_that_nothing_used_are_found_beside_long_requests_that_used_others():
    """Never-used tools are found, although used tools also match by the words of their requests."""
    index, asked = tools_of_long_requests()
    assert np.mean([tool in index.recall(vector, 5, text=text).ids for tool, vector, text in asked]) > 0.65


def test_nothing_is_reserved_if_every_memory_was_used():
    index, asked = tools_of_long_requests(requests=30)
    _, vector, text = asked[0]
    for hit in index.recall(vector, 20, text=text, without=["never used"], explain=True):
        assert hit.sources.get("never used", 0.0) == pytest.approx(0, abs=1e-4)
