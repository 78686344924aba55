"""What was shown and did not help is not what ``fit`` learns to find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_retrieval_mixture import maker, world

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.retrieval.mixture.holdout import ask_held_out
from pam_retriever.retrieval.mixture.requests import Uses

DIM, N, REQUESTS = 24, 40, 160


def test_held_out_questions_want_only_what_helped():
    """As many did not help as helped; or more; or nothing helped."""
    plain = world(requests=90)
    helped = [plain.uses.take(np.array([at])).rows.tolist() for at in range(len(plain))]
    size, random = len(plain.stored), np.random.default_rng(0)
    useless = [sorted(set(random.choice(size, 1 + at % 4).tolist()) - set(rows)) for at, rows in enumerate(helped)]
    helped = [rows if at % 5 else [] for at, rows in enumerate(helped)]
    weights = [[1.0] * len(rows) + [-1.0] * len(more) for rows, more in zip(helped, useless, strict=True)]
    both = [rows + more for rows, more in zip(helped, useless, strict=True)]
    history = replace(plain, uses=Uses.of(both, weights), timed=True)
    with np.errstate(all="raise"):
        held_out = ask_held_out(history, maker(history), 0)
    assert held_out[0] is not None
    for asked in filter(None, held_out):
        assert asked.choices.target.min() >= 0
        for start, end in zip(asked.choices.starts, [*asked.choices.starts[1:], len(asked.row)], strict=True):
            wanted = set(asked.row[start:end][asked.choices.target[start:end] > 0].tolist())
            assert any(wanted <= set(rows) for rows in helped)


@pytest.mark.parametrize("unused", [1, 2, 3])
def test_a_fit_does_not_turn_to_what_did_not_help(unused):
    """Each request was served by the memory that past requests like it used, and shown others that look like it."""
    random = np.random.default_rng(0)
    index = PredictiveAssociativeIndex(DIM)
    vectors = random.normal(size=(N, DIM))
    index.add(vectors, [str(at) for at in range(N)], [f"thing number{at}" for at in range(N)])
    topics = random.normal(size=(8, DIM))
    topic = random.integers(0, 8, REQUESTS + 40)
    asked = topics[topic] + 0.1 * random.normal(size=(len(topic), DIM))
    likely = np.argsort(-(asked @ vectors.T / np.linalg.norm(vectors, axis=1)), axis=1)
    shown = [[str(row) for row in rows if row != on][:unused] for rows, on in zip(likely, topic, strict=True)]
    index.feedback(asked[:REQUESTS], [[str(on)] for on in topic[:REQUESTS]], unused=shown[:REQUESTS])
    index.fit(progress=False)
    hits = index.recall_many(asked[REQUESTS:], k=1)
    assert [one.ids[0] for one in hits] == [str(on) for on in topic[REQUESTS:]]


@pytest.fixture
def index():
    vectors = np.random.default_rng(1).normal(size=(N, DIM))
    index = PredictiveAssociativeIndex(DIM)
    index.add(vectors, [f"m{at}" for at in range(N)], [f"thing number{at}" for at in range(N)])
    return index


def sources(index, query, id, **options):
    [hit] = [hit for hit in index.recall(query, k=N, explain=True, **options) if hit.id == id]
    return hit.sources


def test_the_words_of_a_request_do_not_describe_what_did_not_help(index):
    request, *others = np.random.default_rng(2).normal(size=(7, DIM))
    index.feedback(others, [["m8"]] * len(others))  # without repeated uses, the words of requests do not count
    index.feedback(request, ["m1"], text="umbrella", unused=["m2", "m3", "m4"])
    assert "expanded words" not in sources(index, request, "m2", text="umbrella")
    helped = sources(index, request, "m1", text="umbrella")["expanded words"]
    index.delete_feedback(where={})
    index.feedback(others, [["m8"]] * len(others))
    index.feedback(request, ["m1"], text="umbrella")
    assert sources(index, request, "m1", text="umbrella")["expanded words"] == pytest.approx(helped)


def test_what_did_not_help_together_was_not_used_together(index):
    for at in range(3):
        index.feedback(np.random.default_rng(at).normal(size=DIM), ["m1"], unused=["m2", "m3"])
    assert sources(index, "m2", "m3").get("used together", 0) == 0  # both failed
    assert sources(index, "m2", "m1").get("used together", 0) == 0  # m2 failed
    assert sources(index, "m1", "m3").get("used together", 0) <= 0  # m3 failed


def test_a_cue_that_only_did_not_help_is_answered_as_one_that_was_never_used(index):
    random = np.random.default_rng(5)
    requests = random.normal(size=(3, DIM))
    index.feedback(requests, [["m1", "m2"], ["m1"], ["m1"]])
    before = index.recall("m9", k=5).ids
    index.delete_feedback(where={})
    index.feedback(requests, [["m1", "m2"], ["m1"], ["m1"]], unused=[[], ["m9"], []])
    assert index.recall("m9", k=5).ids == before


def test_requests_that_nothing_served_leave_every_recall_an_answer(index):
    vector = np.random.default_rng(6).normal(size=DIM)
    index.feedback(vector, unused=["m1", "m2"], text="question")
    for id in ("m1", "m9"):
        assert len(index.recall(id, k=5)) == 5
    assert len(index.recall(vector, k=5)) == 5
    assert len(index.recall(vector, k=5, text="question")) == 5
    index.fit(progress=False)
    assert len(index.recall("m1", k=5)) == 5
