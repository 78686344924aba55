"""The metadata index in memory follows every write, for any segments, and while other threads work."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_filters import KEYS, filters, holds, nested, values

from pam_retriever import IndexFormatError, PredictiveAssociativeIndex
from pam_retriever.ann import scan as scanning
from pam_retriever.filters import read_filter
from pam_retriever.store.sqlite import memories as stored_memories
from pam_retriever.store.sqlite import metadata_columns, metadata_index
from pam_retriever.store.sqlite.metadata_index import MetadataIndex, Segment

IDS = [str(n) for n in range(12)]
metadata = st.dictionaries(st.sampled_from(KEYS), st.one_of(values, nested), max_size=3)
added = st.dictionaries(st.sampled_from(IDS), metadata, min_size=1, max_size=5).map(lambda m: ("add", m))
steps = st.one_of(
    added,
    added.map(lambda step: ("undo", step[1])),
    st.lists(st.sampled_from(IDS), min_size=1, max_size=4, unique=True).map(lambda ids: ("delete", ids)),
)


class UndoneError(Exception):
    """Ends a transaction, which is then rolled back."""


def write(index, model, step):
    what, given_ = step
    if what == "delete":
        index.delete(given_)
        for id in given_:
            model.pop(id, None)
    elif what == "add":
        index.add([[1.0]] * len(given_), list(given_), metadatas=list(given_.values()))
        model.update(given_)
    else:
        with pytest.raises(UndoneError):
            remove_and_undo(index, given_)


def remove_and_undo(index, ids):
    documents = index._store.database
    with documents.transaction():
        documents.memories.remove(np.array(sorted(documents.memories.rows_of(ids).values()), np.int64))
        index.find({"a": 1})  # reads uncommitted data
        raise UndoneError


@pytest.mark.parametrize(
    ("segment", "growth"),
    [(3, 1), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((100_000, 4), (6, 100)))],
)
def test_filters_follow_every_write(segment, growth, monkeypatch):
    monkeypatch.setattr(metadata_index, "SEGMENT", segment)
    monkeypatch.setattr(stored_memories, "SEGMENT", segment)
    monkeypatch.setattr(metadata_index, "GROWTH", growth)

    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(st.tuples(steps, filters), min_size=1, max_size=8),
        st.sampled_from([0, 2, metadata_index.LATE]),
        st.sampled_from([0, metadata_columns.MANY]),
        st.sampled_from([1, metadata_index.SPARSE]),
    )
    def follow(calls, late, many, sparse):
        monkeypatch.setattr(metadata_index, "LATE", late)
        monkeypatch.setattr(metadata_columns, "MANY", many)
        monkeypatch.setattr(metadata_index, "SPARSE", sparse)
        index, model = PredictiveAssociativeIndex(dim=1, backend="exact"), {}
        for step, where in calls:
            write(index, model, step)
            expected = {id for id, one in model.items() if holds(one, where)}
            assert {record.id for record in index.find(where)} == expected
            rows = index._store.database.memories.rows_where(where)
            assert (np.diff(rows) > 0).all()
            assert len(rows) == len(expected)

    follow()


def test_segments_stay_few_however_much_is_written_one_by_one():
    index = PredictiveAssociativeIndex(dim=1)
    for n in range(200):
        index.add([[1.0]], [str(n)], metadatas=[{"n": n, "parity": n % 2}])
        assert len(index.find({"parity": 1})) == (n + 1) // 2
        assert len(index._store.database.memories.metadata()._segments) <= 8
    index.delete([str(n) for n in range(150)])
    assert len(index.find({"n": {"$gte": 0}})) == 50
    segments = index._store.database.memories.metadata()._segments
    assert sum(len(one.rows) for one in segments) <= 100  # deleted rows do not remain


def test_none_is_found_in_the_first_memory_of_merged_segments(monkeypatch):
    monkeypatch.setattr(metadata_index, "LATE", 0)
    index = PredictiveAssociativeIndex(dim=1)
    for n in range(8):
        index.add([[1.0]], [str(n)], metadatas=[{"n": n or None}])
        assert [record.id for record in index.find({"n": None})] == ["0"]


def exactly(value):
    """Returns a number as filters compare it: a 64-bit integer is exact, a larger one becomes a double."""
    return float(value) if abs(value) >= 2**63 else value


around = st.one_of(
    *(st.integers(2**bits - 3, 2**bits + 3) for bits in (53, 54, 62, 63, 64)),
    st.integers(2**53 - 3, 2**64).map(float),
    st.integers(-(2**54), 2**54),
    st.just(10**400).map(lambda n: n // 10**100),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(around, min_size=1, max_size=8), around)
def test_whole_numbers_are_compared_exactly(stored, asked):
    index = MetadataIndex.of([(np.arange(len(stored)), [f'{{"n":{value!r}}}' for value in stored])])
    value = exactly(asked)
    for op, expected in {
        "$eq": [exactly(one) == value for one in stored],
        "$lt": [exactly(one) < value for one in stored],
        "$gte": [exactly(one) >= value for one in stored],
    }.items():
        assert np.asarray(index.matching({"n": {op: asked}})).tolist() == np.flatnonzero(expected).tolist(), op


def test_numbers_too_large_for_a_double_are_infinite():
    index = MetadataIndex.of([(np.arange(3), ['{"n":1' + "0" * 400 + "}", '{"n":-1' + "0" * 400 + "}", '{"n":5}'])])
    assert np.asarray(index.matching({"n": {"$gt": 1e300}})).tolist() == [0]
    assert np.asarray(index.matching({"n": {"$lt": 10**400}})).tolist() == [1, 2]


@pytest.mark.parametrize("collide", [False, True])
def test_many_texts_are_looked_up_at_once(collide, monkeypatch):
    if collide:
        monkeypatch.setattr(metadata_columns, "hash", lambda value: len(value), raising=False)
    random = np.random.default_rng(0)
    words = [f"{'ж' * (n % 3)}word-{n}" for n in range(300)]
    given_ = [words[at] for at in random.integers(0, 300, 500)]
    segment = Segment.of(np.arange(500), [f'{{"w":"{word}"}}' for word in given_])
    for count in (1, 15, 16, 100, 300):
        asked = [*random.choice(words, count, replace=False).tolist(), "absent", "absent"]
        found = segment.matching(read_filter({"w": {"$in": asked}})).tolist()
        assert found == [at for at, word in enumerate(given_) if word in asked]
    assert segment.matching(read_filter({"w": {"$contains": "ж"}})).tolist() == [
        at for at, word in enumerate(given_) if "ж" in word
    ]


def test_readers_see_whole_commits_while_another_thread_writes():
    index = PredictiveAssociativeIndex(dim=1)
    index.add([[1.0]] * 10, [f"0-{n}" for n in range(10)], metadatas=[{"user": {"name": "ann"}}] * 10)
    done, wrong = threading.Event(), []

    def read():
        while not done.is_set():
            found = len(index.search([1.0], k=10_000, where={"user.name": "ann"}))
            if found % 10:
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for batch in range(1, 40):
            ids = [f"{batch}-{n}" for n in range(10)]
            index.add([[1.0]] * 10, ids, metadatas=[{"user": {"name": "ann"}}] * 10)
            if batch % 3 == 0:
                index.delete(ids)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not wrong
    assert len(index.find({"user.name": "ann"})) == 270


def test_an_index_that_is_opened_again_filters_by_what_is_on_disk(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=1) as index:
        index.add([[1.0]] * 3, ["a", "b", "c"], metadatas=[{"n": n} for n in range(3)])
        assert [record.id for record in index.find({"n": {"$gt": 0}})] == ["b", "c"]
        index.add([[1.0]], ["b"], metadatas=[{"n": -1}])
    with PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True) as index:
        assert [record.id for record in index.find({"n": {"$gt": 0}}, limit=1)] == ["c"]


def test_metadata_that_are_no_dict_are_damage():
    for stored in ("[1]", "5", "{"):
        with pytest.raises(IndexFormatError, match="metadata"):
            Segment.of(np.arange(1), [stored])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_scan_of_some_keys_finds_their_best(data):
    """A scan of some keys finds their best, for few, some and many queries, in one tile and in several."""
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    count, width = data.draw(st.integers(1, 300)), data.draw(st.sampled_from([1, 3, 8]))
    keys = random.integers(-3, 4, (count, width)).astype(np.float32)
    queries = random.integers(-3, 4, (data.draw(st.integers(1, 12)), width)).astype(np.float32)
    positions = np.flatnonzero(random.random(count) < data.draw(st.sampled_from([0.05, 0.3, 0.7, 1.0])))
    if not len(positions):
        return
    k, cut = min(data.draw(st.integers(1, 60)), len(positions)), data.draw(st.integers(0, width - 1))
    blocks = [np.ascontiguousarray(block) for block in np.split(keys, [cut] if cut else [], axis=1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "GATHERED", data.draw(st.sampled_from([1, 20, 1000])))
        patch.setattr(scanning, "TILE", data.draw(st.sampled_from([32, 64, 4096])))
        patch.setattr(scanning, "TOGETHER", data.draw(st.sampled_from([5, 1024])))
        patch.setattr(scanning, "AT_ONCE", data.draw(st.sampled_from([0, 2_000_000])))  # 0: as for many queries
        patch.setattr(scanning, "COPIED", data.draw(st.sampled_from([16, 1024])))
        rows = np.arange(count) * 2
        scores, found = scanning.scan(queries, blocks, rows, k, positions)
    every = queries @ keys[positions].T
    order = np.argsort(-every, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found, 2 * positions[order])
    np.testing.assert_array_equal(scores, np.take_along_axis(every, order, axis=1))
