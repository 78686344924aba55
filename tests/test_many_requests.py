"""Many past requests: their projections say which of them deserve an exact comparison."""

from dataclasses import replace

import numpy as np
import pytest

from pam_retriever.retrieval.mixture import narrow, requests
from pam_retriever.retrieval.mixture.pools import Cues
from pam_retriever.retrieval.mixture.requests import RequestLog, Uses, joint

DIM, TOPICS = 256, 40


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch):
    monkeypatch.setattr(narrow, "FROM", 100 * DIM)


def vectors_of(n, seed):
    """Returns vectors (n, DIM) of unit length on a few topics."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((TOPICS, DIM))
    vectors = centres[random.integers(0, TOPICS, n)] + random.standard_normal((n, DIM))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def words_of(n, seed):
    random = np.random.default_rng(seed)
    return [[f"w{word}" for word in random.integers(0, 50, 5)] for _ in range(n)]


def log_of(n):
    return RequestLog(vectors_of(n, 1), words_of(n, 2), Uses.of([[at % 7] for at in range(n)]), 7)


def questions(n):
    return Cues(vectors_of(n, 3), words_of(n, 4), np.full(n, -1))


def test_the_nearest_requests_have_their_exact_similarity():
    log, cues = log_of(3_000), questions(20)
    dense, lexical = log.likeness(cues)
    exact = log.cosines(cues)
    wanted = np.argsort(-joint(exact, lexical), axis=1)[:, :192]
    wanted = np.concatenate([wanted, np.argsort(-exact, axis=1)[:, :50]], axis=1)
    same = np.isclose(np.take_along_axis(dense, wanted, 1), np.take_along_axis(exact, wanted, 1), atol=1e-6)
    assert same.mean() > 0.999
    assert not np.allclose(dense, exact, atol=1e-6)  # the others are approximate
    assert np.abs(dense - exact).mean() < 0.05


def test_requests_that_arrive_later_have_the_same_similarity():
    whole, cues = log_of(1_000), questions(5)
    grown = log_of(0)
    vectors, words, uses = vectors_of(1_000, 1), words_of(1_000, 2), whole.uses
    for start, end in ((0, 300), (300, 301), (301, 700), (700, 1_000)):
        grown.extend(vectors[start:end], words[start:end], uses.take(np.arange(start, end)))
        grown.likeness(questions(2))
    for one, other in zip(grown.likeness(cues), whole.likeness(cues), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_question_has_the_same_similarity_alone_and_in_a_batch():
    log, cues = log_of(1_000), questions(9)
    both = log.likeness(cues)
    for at in range(len(cues)):
        alone = log.likeness(cues.take(np.array([at])))
        for one, other in zip(alone, both, strict=True):
            np.testing.assert_allclose(one[0], other[at], atol=1e-5)


def test_few_requests_are_compared_exactly():
    log, cues = log_of(90), questions(3)
    np.testing.assert_array_equal(log.likeness(cues)[0], log.cosines(cues))


def test_short_vectors_are_compared_exactly():
    log = log_of(1_000)
    short = RequestLog(log.vectors[:, :100].copy(), words_of(1_000, 2), log.uses, 7)
    cues = replace(questions(3), vectors=questions(3).vectors[:, :100].copy())
    np.testing.assert_array_equal(short.likeness(cues)[0], short.cosines(cues))


def test_equal_requests_have_projections():
    vectors = np.repeat(vectors_of(1, 5), 500, axis=0)
    log = RequestLog(vectors, words_of(500, 2), Uses.of([[0]] * 500), 1)
    cues = replace(questions(1), vectors=vectors[:1])
    assert log.likeness(cues)[0].shape == (1, 500)
    np.testing.assert_allclose(log.likeness(cues)[0], 1, atol=1e-5)
    assert requests.EXACT > 500
