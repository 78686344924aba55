"""The best hits of ``recall`` are the same for every k."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

from pam_retriever import FitConfig, PredictiveAssociativeIndex

DIM, COUNT = 16, 1_500
IDS = [f"m{n}" for n in range(COUNT)]
BEGIN = datetime(2024, 1, 1)
KS = (3, 10, 40, 60, 100, 250, 1_000)


def vectors_and_texts() -> tuple[np.ndarray, list[str]]:
    random = np.random.default_rng(0)
    topics, of = random.standard_normal((30, DIM)), random.integers(0, 30, COUNT)
    vectors = topics[of] + 0.7 * random.standard_normal((COUNT, DIM))
    words = (random.zipf(1.4, (COUNT, 10)) + 5 * of[:, None]) % 300
    return vectors, [" ".join(f"word{one}" for one in row) for row in words.tolist()]


@pytest.fixture(
    scope="module",
    params=[
        *("stored", "observed and used", "fitted", "fitted and used"),
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("observed", "used")),
    ],
)
def index(request) -> PredictiveAssociativeIndex:
    """An index in which not every memory is a candidate."""
    random, (vectors, texts) = np.random.default_rng(1), vectors_and_texts()
    index = PredictiveAssociativeIndex(DIM)
    times = [BEGIN + timedelta(hours=12 * n) for n in range(COUNT)]
    index.add(vectors, IDS, texts, [{"n": n % 3} for n in range(COUNT)], timestamps=times)
    walks = [[IDS[(begin + 3 * step) % 900] for step in range(7)] for begin in random.integers(0, 900, 60)]
    if "observed" in request.param:
        index.observe_many(walks)
    if "fitted" in request.param:
        index.fit(walks, config=FitConfig(hidden=8, passes=1), progress=False)
    if "used" in request.param:
        for at in random.integers(0, COUNT, 60):
            used = [IDS[at], *(IDS[other] for other in random.integers(0, COUNT, 2))]
            index.feedback(vectors[at] + 0.3 * random.standard_normal(DIM), used, text=texts[at])
    return index


def assert_same_for_every_k(index: PredictiveAssociativeIndex, **question: object) -> None:
    most = index.recall(k=KS[-1], **question)
    assert list(most.scores) == sorted(most.scores, reverse=True)
    assert len(set(most.ids)) == len(most.ids)
    for k in KS[:-1]:
        few = index.recall(k=k, **question)
        assert len(few) == min(k, len(most))
        assert few.ids == most.ids[:k]
        # the products of a vector with more of the keys may be rounded in another way
        np.testing.assert_allclose(few.scores, most.scores[:k], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("where", [None, {"n": {"$gte": 1}}, {"n": 0}])
def test_a_question_in_words(index, where):
    vectors, texts = vectors_and_texts()
    for at in (0, 700, 1_300):
        words = " ".join(texts[at].split()[:4])
        assert_same_for_every_k(index, query=vectors[at] + 0.3, text=words, where=where)


def test_a_question_that_names_a_time(index):
    vectors, texts = vectors_and_texts()
    question = f"{texts[500]} in October 2024"
    assert_same_for_every_k(index, query=vectors[900] + 0.3, text=question, now=BEGIN + timedelta(days=900))


def test_a_question_in_words_with_a_direction(index):
    vectors, texts = vectors_and_texts()
    assert_same_for_every_k(index, query=vectors[3] + 0.3, text=texts[3], direction="after")


@pytest.mark.parametrize("where", [None, {"n": {"$gte": 1}}, {"n": 0}])
@pytest.mark.parametrize("at", [30, 700, 1_300])
def test_a_vector_or_an_id(index, where, at):
    vectors, _ = vectors_and_texts()
    for query in (vectors[at] + 0.2, vectors[at] + 1e-3, IDS[at]):
        assert_same_for_every_k(index, query=query, where=where, cue_where={})


def test_hits_that_score_too_little_are_dropped(index):
    vectors, texts = vectors_and_texts()
    question = {"query": vectors[40] + 0.3, "text": texts[40]}
    every = index.recall(k=1_000, **question)
    for place in (20, 120):
        least = float(every.scores[place])
        expected = [id for id, score in zip(every.ids, every.scores, strict=True) if score >= least]
        assert index.recall(k=1_000, min_score=least, **question).ids == expected


@pytest.mark.parametrize("query", ["vector", "id", "words"])
def test_without_a_k_all_hits_that_reach_the_score_are_returned(index, query):
    vectors, texts = vectors_and_texts()
    question = {"query": IDS[40] if query == "id" else vectors[40] + 0.3}
    if query == "words":
        question["text"] = texts[40]
    every = index.recall(k=COUNT, **question)
    least = float(every.scores[150])
    expected = [hit.id for hit in every if hit.score >= least]
    assert index.recall(k=None, min_score=least, **question).ids == expected
    assert index.recall(k=None, min_score=least, where={"n": 3}, cue_where={}, **question) == []


@pytest.mark.parametrize("options", [{}, {"fan_out": 5}, {"hops": 3, "mode": "hybrid"}])
def test_several_hops(index, options):
    if not index.is_fitted:
        pytest.skip("paths need a fit")
    for query in (IDS[30], vectors_and_texts()[0][40]):
        assert_same_for_every_k(index, **{"query": query, "mode": "association", "hops": 2, **options})


def test_the_parts_of_every_score_add_up(index):
    if index.feedbacks(limit=1):
        pytest.skip("with feedback, they are parts of log odds")
    vectors, texts = vectors_and_texts()
    for question in ({"query": vectors[40] + 0.3, "text": texts[40]}, {"query": IDS[40]}):
        for hit in index.recall(k=1_000, explain=True, **question):
            assert sum(hit.sources.values()) == pytest.approx(hit.score, abs=1e-5)


@pytest.fixture(params=["observed", "observed and used"])
def hub(request) -> PredictiveAssociativeIndex:
    """An index with a memory that was experienced with 150 others, with some of them more often."""
    random = np.random.default_rng(2)
    index = PredictiveAssociativeIndex(DIM)
    index.add(random.standard_normal((400, DIM)), IDS[:400])
    others = random.permutation(np.arange(1, 151))
    index.observe_many([[IDS[0], IDS[other]] for other in [*others, *others[:20]]])
    index.observe_many([[IDS[other], IDS[200 + other]] for other in others[:20]])  # links of links
    if "used" in request.param:
        index.feedback(random.standard_normal(DIM), [IDS[0], IDS[300]], text="question")
    return index


@pytest.mark.parametrize("mode", [None, "association"])
@pytest.mark.parametrize("query", ["id", "look-alike"])
def test_a_memory_that_was_experienced_with_many_others(hub, mode, query):
    """A walk follows 64 links of a memory: the others come behind these, before memories that are only similar."""
    cue = IDS[0] if query == "id" else hub.get(IDS[:1])[0].vector + 0.01 * hub.get(IDS[9:10])[0].vector
    if mode == "association" or query == "id":
        assert set(IDS[1:151]) <= set(hub.recall(cue, k=180, mode=mode).ids)
        assert len(set(IDS[1:151]) & set(hub.recall(cue, k=100, mode=mode).ids)) >= 75  # links of links, too
        assert set(IDS[1:151]) <= set(hub.recall(cue, k=None, min_score=1e-9, mode=mode).ids)
    assert_same_for_every_k(hub, query=cue, mode=mode)
