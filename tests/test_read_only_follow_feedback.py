"""Evidence from feedback follows every write: recall answers like a newly opened index, but reads only changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pam_retriever import InvalidInput, PredictiveAssociativeIndex
from pam_retriever.retrieval.mixture.feedback_evidence import FeedbackEvidence

DIM, WORDS = 8, ["amber", "birch", "cobalt", "delta", "ember"]
# numbers of memories: with few, all are candidates; with many, sources propose candidates
UNDER_FULL, OVER_FULL = 12, 600

operations = st.lists(
    st.tuples(
        st.sampled_from(["feedback", "feedback", "old feedback", "again", "add", "replace", "delete", "forget", "cap"]),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=12,
)

FIRST_OF_BEN = [("feedback", 1), ("feedback", 0)]  # no feedback satisfies the filter at its first use


def vector(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=DIM).astype(np.float32)


def text(seed: int) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, 3))


def filled(memories: int) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(dim=DIM, backend="exact")
    ids = [f"m{at}" for at in range(memories)]
    names = [{"title": text(at)} for at in range(memories)]
    index.add(np.stack([vector(at) for at in range(memories)]), ids, [text(at + 7) for at in range(memories)], names)
    index.feedback(vector(1), ["m1", "m2"], text=text(1), metadata={"session": "a"})
    return index


def change(index: PredictiveAssociativeIndex, step: int, operation: str, at: int) -> None:
    some = sorted(record.id for record in index.find(limit=20))
    which, seed = some[at % len(some)], 100 * step + at
    user = {"session": f"s{at % 3}", "user": "ann" if at % 2 else "ben"}
    if operation in ("feedback", "again"):
        id = "same" if operation == "again" else None
        index.feedback(vector(seed), {which: 1 + at % 2}, text=text(seed), metadata=user, id=id)
    elif operation == "old feedback":
        index.feedback(vector(seed), [which], text=text(seed), timestamp=1000 - seed % 7)
    elif operation == "add":
        index.add(vector(seed)[None], [f"new{seed}"], [text(seed)], [{"title": text(at)}])
    elif operation == "replace":
        index.add(vector(seed)[None], [which], [text(seed)], [{"title": text(seed + 1)}] if at % 2 else None)
    elif operation == "delete" and len(some) > 5:
        index.delete(which)
    elif operation == "forget":
        index.delete_feedback(where={"user": "ann"})
    elif operation == "cap":
        index.set_popularity_cap("user" if at % 2 else "session", 1 + at)


def answers(index: PredictiveAssociativeIndex, at: int) -> list:
    asked = [vector(at), vector(at + 1)]
    found = [index.recall(one, 6, text=text(at)) for one in asked]
    found.append(index.recall(asked[0], 6, text=text(at), feedback_where={"user": "ben"}))
    stored = sorted(record.id for record in index.find(limit=20))[at % 5]
    return [*found, index.recall(stored, 6, mode="association")] if len(index.feedbacks()) else found


@settings(max_examples=3, deadline=None)
@example(FIRST_OF_BEN)
@given(operations)
def test_after_any_writes_it_answers_as_if_it_had_just_been_opened(done):
    """After any writes an index with few memories answers like a newly opened index."""
    check(UNDER_FULL, done)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@example(FIRST_OF_BEN)
@given(operations)
def test_and_so_it_does_where_the_sources_propose_candidates(done):
    """After any writes an index with many memories, where sources propose candidates, answers like a new one."""
    check(OVER_FULL, done)


def check(memories: int, done: list[tuple[str, int]]) -> None:
    index = filled(memories)
    for step, (operation, at) in enumerate(done, start=1):
        change(index, step, operation, at)
        found = answers(index, at)
        index._evidence.clear()
        for one, other in zip(found, answers(index, at), strict=True):
            assert one.ids == other.ids
            np.testing.assert_allclose(one.scores, other.scores, rtol=1e-4, atol=1e-6)


def test_more_feedback_and_more_memories_are_taken_in_and_nothing_is_read_again(monkeypatch):
    """New feedback and new memories are added to the evidence in memory, which is not read again."""
    made, read = [], []
    begin = FeedbackEvidence.__init__

    def counted(self, *given):
        made.append(1)
        begin(self, *given)

    monkeypatch.setattr(FeedbackEvidence, "__init__", counted)
    index = filled(UNDER_FULL)
    table = index._store.database.feedback
    requests = table.requests

    def count_reads(*given):
        past = requests(*given)
        read.append(len(past))
        return past

    monkeypatch.setattr(table, "requests", count_reads)
    answers(index, 0)
    of_two_filters = len(made)
    read.clear()
    for step, (operation, at) in enumerate([("feedback", 1), ("add", 2), ("replace", 3), ("feedback", 4)] * 3):
        change(index, step + 1, operation, at)
        answers(index, at)
    assert len(made) == of_two_filters == 2
    assert max(read) == 1


# ---- one writer cannot control popularity


def popularity(index: PredictiveAssociativeIndex) -> np.ndarray:
    index.recall(vector(1), 3, text=text(1))
    (known,) = index._evidence.values()
    return np.bincount(known.log.popular.rows, known.log.popular.weights, len(index))


@pytest.mark.parametrize("follows", [False, True])
def test_what_one_session_adds_to_popularity_is_capped(follows):
    index = filled(UNDER_FULL)
    index.delete_feedback(where={})
    if follows:
        index.feedback(vector(3), ["m5"])
        popularity(index)
    many, vectors = 40, np.stack([vector(at) for at in range(40)])
    index.feedback(vectors, [["m3"]] * many, metadata=[{"session": "one"}] * many)
    index.feedback(vectors, [["m4"]] * many, metadata=[{"session": f"s{at}"} for at in range(many)])
    index.feedback(vectors[:9], [["m6"]] * 9)  # without a session there is no cap
    counted = popularity(index)
    assert (counted[3], counted[4], counted[6]) == (3, many, 9)
    index.set_popularity_cap("session", 7.5)
    assert popularity(index)[3] == 7.5


def test_the_popularity_key_can_be_set_and_is_stored(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "i", DIM) as index:
        index.add(np.stack([vector(at) for at in range(3)]), ["m0", "m1", "m2"])
        index.set_popularity_cap("user")
        for who in ({"user": ["ann", 1], "session": 1}, {"user": ["ann", 1], "session": 2}, {"user": "ben"}):
            index.feedback(np.stack([vector(at) for at in range(5)]), [["m1"]] * 5, metadata=[who] * 5)
    with PredictiveAssociativeIndex.open(tmp_path / "i") as index:
        assert popularity(index)[1] == 6
    for wrong in (0, -1, float("nan"), "x"):
        with pytest.raises(InvalidInput):
            index.set_popularity_cap(most=wrong)


def test_a_flood_of_one_writer_moves_no_question_but_its_own():
    """300 uses by one session count as 3 for popularity, which ranks memories that have no other evidence."""
    index = filled(UNDER_FULL)
    index.delete_feedback(where={})
    random = np.random.default_rng(0)
    honest = [f"m{at}" for at in random.integers(0, 4, 60)]
    asked = random.normal(size=(60, DIM)).astype(np.float32)
    index.feedback(asked, [[one] for one in honest], metadata=[{"session": f"s{at}"} for at in range(60)])
    before = popularity(index)
    spam = random.normal(size=(300, DIM)).astype(np.float32)
    index.feedback(spam, [["m9"]] * 300, metadata=[{"session": "spammer"}] * 300)
    after = popularity(index)
    assert after[9] - before[9] == 3
    assert np.array_equal(np.delete(after, 9), np.delete(before, 9))


# ---- nothing to learn from


def test_without_feedback_default_recall_is_that_of_hybrid_and_fit_learns_nothing_of_use():
    index = filled(UNDER_FULL)
    index.delete_feedback(where={})
    fresh = PredictiveAssociativeIndex(dim=DIM, backend="exact")
    records = index.find()
    fresh.add(
        np.stack([one.vector for one in records]),
        [one.id for one in records],
        [one.text for one in records],
        [one.metadata for one in records],
    )
    for at in range(10):
        default = index.recall(vector(at), 6, text=text(at))
        assert (
            default
            == index.recall(vector(at), 6, text=text(at), mode="hybrid")
            == fresh.recall(vector(at), 6, text=text(at))
        )
        assert index.recall(vector(at), 6, mode="similarity").ids == index.search(vector(at), 6).ids
