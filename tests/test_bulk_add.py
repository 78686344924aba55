"""One call that adds many memories checks and stores them together; many single calls have the same result."""

from __future__ import annotations

import json
import sqlite3
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever import InvalidInput, PredictiveAssociativeIndex
from pam_retriever.filters.metadata import check_metadatas
from pam_retriever.filters.stored import SEPARATOR
from pam_retriever.limits import MAX_ID_BYTES, MAX_METADATA_DEPTH
from pam_retriever.store.columns import checksum
from pam_retriever.validation import check_id, check_ids, check_text, check_texts

DIM = 4
STRINGS = st.text(st.characters() | st.sampled_from('\x00\x1e"\\[{é\ud800\udc00'), max_size=6)
ANYTHING = STRINGS | st.none() | st.integers() | st.just("u" * MAX_ID_BYTES) | st.just("é" * MAX_ID_BYTES)
VALUES = st.recursive(
    STRINGS | st.none() | st.integers() | st.floats() | st.just(np.float32(1.5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STRINGS, inner, max_size=3),
    max_leaves=6,
)
METADATA = st.none() | st.dictionaries(STRINGS, VALUES, max_size=3) | st.dictionaries(st.integers(), VALUES, max_size=1)


def outcome(call):
    """Returns the result of a call, or the message of its error."""
    try:
        return call()
    except InvalidInput as error:
        return str(error)


@given(st.lists(ANYTHING, max_size=4, unique=True))
def test_ids_are_checked_as_one_by_one(ids):
    def one_by_one():
        return [check_id(id, f"ids[{at}]") for at, id in enumerate(ids)]

    assert outcome(lambda: check_ids(ids, len(ids))) == outcome(one_by_one)


def test_new_ids_are_uuid4_and_those_of_a_call_lie_side_by_side(monkeypatch):
    made = [check_ids(None, count) for count in (0, 1, 3000, 3000)]
    assert [len(ids) for ids in made] == [0, 1, 3000, 3000]
    together = [id for ids in made for id in ids]
    assert len(set(together)) == len(together)
    assert {uuid.UUID(id).version for id in together} == {4}
    assert all(str(uuid.UUID(id)) == id and id[:-8] == ids[0][:-8] for ids in made for id in ids)
    # the last of all numbers is followed by the first
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID("6f1c9d1e-0000-4000-8000-0000ffffffff"))
    assert [id[-8:] for id in check_ids(None, 2)] == ["ffffffff", "00000000"]


@given(st.lists(ANYTHING, max_size=4))
def test_texts_are_checked_as_one_by_one(texts):
    def one_by_one():
        return [None if text is None else check_text(text, f"texts[{at}]") for at, text in enumerate(texts)]

    assert outcome(lambda: check_texts(texts, len(texts))) == outcome(one_by_one)


@given(st.lists(METADATA, min_size=1, max_size=4))
def test_metadata_are_checked_as_one_by_one(metadatas):
    together = outcome(lambda: check_metadatas(metadatas, len(metadatas)))
    alone = [outcome(lambda one=one: check_metadatas([one], 1)) for one in metadatas]
    refused = [found for found in alone if isinstance(found, str)]
    if refused:
        first = next(at for at, found in enumerate(alone) if isinstance(found, str))
        assert together == alone[first].replace("metadatas[0]", f"metadatas[{first}]")
    else:
        assert together == [found[0] for found in alone]
        assert all("\x00" not in str(json.loads(stored)) for stored in together)


def test_metadata_that_hold_what_separates_them_are_stored_as_they_are():
    given = [{"a": ["b", SEPARATOR, "c", SEPARATOR]}, {SEPARATOR: SEPARATOR}, {}, {"a": {"b": SEPARATOR}}]
    for some in (given, given[:1], given[1:3], []):
        assert [json.loads(stored) for stored in check_metadatas(some, len(some))] == some


def test_metadata_that_is_nested_too_deep_is_refused_among_others():
    deep: object = 1
    for _ in range(MAX_METADATA_DEPTH):
        deep = [deep]
    with pytest.raises(InvalidInput, match=r"metadatas\[1\] is nested"):
        check_metadatas([{"a": 1}, {"a": deep}], 2)


@given(st.text(), st.none() | st.text(), st.dictionaries(st.text(), st.text(), max_size=2), st.binary(max_size=8))
def test_a_checksum_is_of_the_same_bytes_as_in_folders_that_are_there(id, text, metadata, vector):
    """The checksum equals the checksum of the JSON form, which existing folders contain."""
    import zlib

    stored = json.dumps(metadata, ensure_ascii=False, separators=(",", ":"))
    contents = json.dumps([id, text, stored], ensure_ascii=False, separators=(",", ":"))
    try:
        encoded = contents.encode()
    except UnicodeEncodeError:
        return  # a lone surrogate, which is refused elsewhere
    assert checksum(id, text, stored, vector) == zlib.crc32(vector, zlib.crc32(encoded))


def filled(folder, calls):
    index = PredictiveAssociativeIndex.open(folder, dim=DIM)
    for vectors, ids, texts, metadatas in calls:
        index.add(vectors, ids, texts, metadatas)
    return index


@pytest.mark.parametrize("count", [1, 2, 127, 128, 300])
def test_one_call_stores_what_many_calls_store(tmp_path, count):
    vectors = np.random.default_rng(0).standard_normal((count, DIM)).astype(np.float32)
    ids = [f"m{at}" for at in range(count)]
    texts = [None if at % 5 == 4 else f"moment {at} of room {at % 7}" for at in range(count)]
    metadatas = [{"room": f"room {at % 3}", "at": at} for at in range(count)]
    rows = [(vectors[at : at + 1], ids[at : at + 1], texts[at : at + 1], metadatas[at : at + 1]) for at in range(count)]
    stored = []
    for name, calls in (("together", [(vectors, ids, texts, metadatas)]), ("alone", rows)):
        with filled(tmp_path / name, calls) as index:
            again = slice(count // 2, None)  # replace the second half, then delete a third
            index.add(vectors[again] + 1, ids[again], [f"{text} again" for text in texts[again]], metadatas[again])
            index.delete(ids[::3])
            found = index.find({})
            words = [[hit.id for hit in index.recall(vectors[0], k=count, text=text)] for text in ("room 2", "again")]
            stored.append(([(one.id, one.text, one.metadata, one.vector.tolist()) for one in found], words))
    assert stored[0] == stored[1]


def test_the_texts_of_a_call_are_one_segment_of_the_word_index(tmp_path):
    vectors = np.random.default_rng(0).standard_normal((8, DIM)).astype(np.float32)
    with filled(tmp_path / "index", [(vectors, None, [f"moment {at}" for at in range(8)], None)]):
        file = next((tmp_path / "index").glob("memories-*.sqlite"))
        reader = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
        try:
            assert reader.execute("SELECT count(DISTINCT segid) FROM words_idx").fetchone() == (1,)
        finally:
            reader.close()
