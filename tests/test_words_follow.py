"""Words and times in memory follow writes, and are then those that a new reader finds."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever import PredictiveAssociativeIndex, Trajectory
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.timeline import Timeline

TERMS = ["boat", "harbour", "kettl", "tea", "ann", "zebra"]
TEXTS = st.lists(st.sampled_from(["boat", "harbours", "Kettle", "tea", "the", "é\x00 tea"]), max_size=6).map(" ".join)
IDS = st.sampled_from([f"m{at}" for at in range(6)])
FIRST = datetime(2024, 5, 1, tzinfo=timezone.utc)
NOW = FIRST + timedelta(days=40)
CALLS = st.one_of(
    st.tuples(
        st.just("add"),
        IDS,
        st.none() | TEXTS,
        st.sampled_from([{}, {"speaker": "Ann"}, {"speaker": "boat", "n": 3}]),
        st.none() | st.integers(0, 30),
    ),
    st.tuples(st.just("delete"), IDS),
    st.tuples(st.just("append"), TEXTS),
    st.tuples(st.just("observe"), IDS, IDS, st.integers(0, 30)),
    st.tuples(st.just("ask"), TEXTS),
)


def make(index: PredictiveAssociativeIndex, step: int, call: tuple) -> None:
    name, *arguments = call
    if name == "add":
        id, text, metadata, day = arguments
        times = None if day is None else [FIRST + timedelta(days=day)]
        index.add([[1, 0]], [id], None if text is None else [text], [metadata], timestamps=times)
    elif name == "append":
        index.append("chat", [0, 1], arguments[0], timestamp=NOW + timedelta(days=step))
    elif name == "observe":
        ids, day = [id for id in dict.fromkeys(arguments[:2]) if id in index], arguments[2]
        if len(ids) == 2:
            index.observe(Trajectory(ids=ids, timestamps=[FIRST + timedelta(days=day)] * 2))
    elif name == "delete":
        index.delete(arguments[0])
    else:
        index.recall([1, 1], text=f"{arguments[0]} on 3 May 2024", now=NOW)


def assert_words_are_new(index: PredictiveAssociativeIndex) -> None:
    known, new = index._lexicon, Lexicon(index._store.database)
    rows = index._store.database.memories.rows()
    for column in ("text", "labels"):
        for term in TERMS:
            one, other = known._posting(known._now(), term, column), new._posting(new._now(), term, column)
            assert one.rows.tolist() == other.rows.tolist()
            assert one.counts.tolist() == other.counts.tolist()
            assert one.frequent == other.frequent
    one, other = known._now(), new._now()
    assert (one.count, one.mean) == (other.count, other.mean)
    assert one.lengths[rows].tolist() == other.lengths[rows].tolist()
    assert not np.delete(one.lengths, rows).any()


def assert_times_are_new(index: PredictiveAssociativeIndex) -> None:
    known, new = index._timeline, Timeline(index._store.database, index._lexicon)
    one, other = known._now().stored, new._now().stored
    for name in ("rows", "times", "zones", "versions"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()


@pytest.mark.parametrize("frequent", [3, 100_000])
def test_after_any_writes_words_and_times_are_those_of_a_new_reader(frequent):
    @settings(max_examples=60, deadline=None)
    @given(st.lists(CALLS, max_size=12))
    def check(calls: list[tuple]) -> None:
        index = PredictiveAssociativeIndex(dim=2)
        assert_words_are_new(index)  # all terms are known from here on
        for step, call in enumerate(calls):
            make(index, step, call)
            assert_words_are_new(index)
            assert_times_are_new(index)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pam_retriever.retrieval.postings.MOST_OCCURRENCES", frequent)
        check()


def test_a_write_does_not_make_known_words_and_times_be_read_again(monkeypatch):
    """An agent asks after each turn that it stores: this must not read the postings of the whole index each time."""
    index = PredictiveAssociativeIndex(dim=2)
    index.add(np.ones((30, 2)), texts=["boat in the harbour"] * 30, timestamps=[FIRST] * 30)
    read = []
    memories, times = index._store.database.memories, index._store.database.times
    for table, name in ((memories, "positions"), (memories, "lengths"), (times, "all")):
        called = getattr(table, name)
        monkeypatch.setattr(table, name, lambda *given, called=called, name=name: read.append(name) or called(*given))
    index.recall([1, 1], text="the boat on 1 May 2024", now=NOW)
    assert set(read) == {"positions", "lengths", "all"}
    read.clear()
    for at in range(3):
        index.append("chat", [1, 1], f"another boat {at}", timestamp=NOW + timedelta(days=at))
        index.add([[1, 0]], ["note"], [f"a boat of note {at}"])
        index.delete(index.recall([1, 1], text="the boat on 1 May 2024", now=NOW, k=1).ids)
    assert read == []


def test_a_rolled_back_write_leaves_no_words(monkeypatch):
    index = PredictiveAssociativeIndex(dim=2)
    index.add([[1, 0]], ["a"], ["boat"])
    assert index.recall([1, 0], text="boat").ids == ["a"]
    monkeypatch.setattr(
        type(index._store.database.times), "put", lambda *_: (_ for _ in ()).throw(OSError("the disk is full"))
    )
    with pytest.raises(OSError, match="full"):
        index.add([[1, 0]], ["b"], ["boat boat"])
    monkeypatch.undo()
    assert_words_are_new(index)
    index.add([[1, 0]], ["c"], ["boat tea"])
    assert_words_are_new(index)


def test_a_write_keeps_the_postings_that_were_read_last(monkeypatch):
    """The postings of many terms do not fill the memory."""
    monkeypatch.setattr("pam_retriever.retrieval.postings.KEPT", 200)
    index = PredictiveAssociativeIndex(dim=2)
    index.add(np.ones((9, 2)), texts=[f"word{at} common" for at in range(9)])
    for at in range(9):
        index._lexicon.best([f"word{at}", "common"], 3, None)
    index.add([[1, 1]], ["more"], ["word8 common"])
    assert [term for term, _ in index._lexicon._now().postings] == ["word6", "word7", "word8"]
    assert_words_are_new(index)
