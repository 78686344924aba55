"""Documents of a source are linked when they are stored, so recall uses words and neighbours before any ``fit``."""

from __future__ import annotations

import random
from datetime import date, datetime
from functools import partial
from uuid import UUID

import dialogue_samples as dialogue
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_samples import TINY, TableEmbedder, ids_of

from langchain_pam import PAMRetriever, PAMVectorStore
from pam_retriever import InvalidInput

EMBEDDER = TableEmbedder({text: dialogue.embed(text) for text, _ in dialogue.questions()}, dialogue.DIM)
EMBEDDER.table |= {turn.text: dialogue.embed(turn.text) for turn in dialogue.turns()}


def documents(shuffled: bool = False, group: str = "source", position: str = "start_index") -> list[Document]:
    made = [
        Document(turn.text, id=turn.id, metadata={group: turn.session, position: 100 * turn.position})
        for turn in dialogue.turns()
    ]
    if shuffled:
        random.Random(0).shuffle(made)
    return made


def orders(store: PAMVectorStore, ids) -> set[tuple[str, str, int]]:
    """Fits the store; returns the distances between documents in the evidence of recall."""
    store.fit(config=TINY, progress=False)
    return {
        (cue, hit.id, met.offset)
        for cue in ids
        for hit in store.index.recall(cue, k=100, explain=True)
        for met in hit.evidence or ()
    }


def chunk(id: str, source: str, start: int, text: str | None = None, **more) -> Document:
    return Document(text or f"text of {id}", id=id, metadata={"source": source, "start_index": start, **more})


# ---- as good as the core, before fit


def test_an_unfitted_store_finds_in_a_dialogue_what_the_core_finds():
    expected = {
        text: [hit.id for hit in dialogue.core().recall(dialogue.embed(text), 10, text=text)]
        for text, _ in dialogue.questions()
    }
    assert dialogue.recall_at_10(expected) > 0.9
    for group, position in (("source", "start_index"), ("session", "turn")):
        keys = {} if group == "source" else {"group_by": group, "order_by": position}
        store = PAMVectorStore(EMBEDDER, **keys)
        store.add_documents(documents(shuffled=True, group=group, position=position))
        retriever = PAMRetriever(vectorstore=store, k=10)
        associative = store.as_retriever(search_type="associative", search_kwargs={"k": 10})
        for ask in (retriever.invoke, partial(store.recall, k=10), associative.invoke):
            found = {text: ids_of(ask(text)) for text in expected}
            assert abs(dialogue.recall_at_10(found) - dialogue.recall_at_10(expected)) <= 0.01
        similar = {text: ids_of(store.similarity_search(text, k=10)) for text in expected}
        assert dialogue.recall_at_10(similar) < dialogue.recall_at_10(expected) - 0.3


async def test_an_unfitted_store_does_so_asynchronously():
    store = PAMVectorStore(EMBEDDER)
    await store.aadd_documents(documents())
    retriever = PAMRetriever(vectorstore=store, k=10)
    for text, _ in dialogue.questions()[:4]:
        expected = [hit.id for hit in dialogue.core().recall(dialogue.embed(text), 10, text=text)]
        assert set(ids_of(await retriever.ainvoke(text))) == set(expected)
        assert await store.arecall(text, k=10) == store.recall(text, k=10)


def test_a_question_defaults_to_everything_that_helps_and_an_id_to_association():
    store = PAMVectorStore(EMBEDDER)
    store.add_documents(documents())
    text = dialogue.questions()[0][0]
    assert store.recall_with_score(text, k=5) == store.recall_with_score(text, k=5, mode="hybrid")
    store.fit(config=TINY, progress=False)
    assert store.recall_with_score(text, k=5) == store.recall_with_score(text, k=5, mode="hybrid")
    assert store.recall_with_score(id="0-0", k=5) == store.recall_with_score(id="0-0", k=5, mode="association")


# ---- the order within a source


def test_group_and_order_may_lie_deeper_in_the_metadata():
    store = PAMVectorStore(EMBEDDER, group_by="file.name", order_by="file.at")
    positions = [("x", 2), ("y", 1), ("x", 1), ("x", 3)]
    store.add_texts(list("abcd"), [{"file": {"name": name, "at": at}} for name, at in positions], ids=list("abcd"))
    assert orders(store, "a") == {("a", "c", -1), ("a", "d", 1)}


def test_chunks_stand_in_the_order_of_page_and_start_index():
    store = PAMVectorStore(TableEmbedder())
    positions = {"d": (1, 50), "b": (0, 900), "a": (0, 0), "c": (1, 0)}
    store.add_documents([chunk(id, "s", start, page=page) for id, (page, start) in positions.items()])
    assert {(a, b) for a, b, offset in orders(store, "abcd") if offset == 1} == {("a", "b"), ("b", "c"), ("c", "d")}


def test_documents_without_a_position_are_not_linked():
    store = PAMVectorStore(TableEmbedder())
    store.add_texts(["x", "y"], [{"source": "tweet"}, {"source": "tweet"}])
    store.add_texts(["z", "w"], [{"source": "s", "start_index": 0}, {"start_index": 9}])
    with pytest.raises(InvalidInput, match="no trajectories"):
        store.fit(config=TINY, progress=False)


def test_dates_with_offsets_order_a_group_by_their_instants():
    store = PAMVectorStore(EMBEDDER, group_by="s", order_by="at")
    whens = ["2026-05-18T23:30:00-05:00", "2026-05-19", "2026-05-19T05:00:00Z"]
    store.add_texts(list("abc"), [{"s": 1, "at": when} for when in whens], ids=list("abc"))
    assert [trajectory.ids for trajectory in store.index.trajectories()] == [("b", "a", "c")]


def test_several_keys_of_order_and_none():
    store = PAMVectorStore(TableEmbedder(), group_by="session", order_by=["day", "turn"])
    given = {"c": (2, 0), "a": (1, 3), "d": (2, 1), "b": (1, 10)}
    store.add_texts(
        list(given), [{"session": "s", "day": day, "turn": turn} for day, turn in given.values()], ids=list(given)
    )
    assert {(a, b) for a, b, offset in orders(store, "abcd") if offset == 1} == {("a", "b"), ("b", "c"), ("c", "d")}
    store = PAMVectorStore(TableEmbedder(), group_by="session", order_by=None)
    store.add_texts(list("cab"), [{"session": 1}] * 3, ids=list("cab"))
    assert {(a, b) for a, b, offset in orders(store, "abc") if offset == 1} == {("c", "a"), ("a", "b")}
    store = PAMVectorStore(TableEmbedder(), order_by=[])
    store.add_texts(list("cab"), [{"source": "s"}] * 3, ids=list("cab"))
    assert {(a, b) for a, b, offset in orders(store, "abc") if offset == 1} == {("c", "a"), ("a", "b")}
    off = PAMVectorStore(TableEmbedder(), group_by=None)
    off.add_documents([chunk("a", "s", 0), chunk("b", "s", 1)])
    with pytest.raises(InvalidInput, match="no trajectories"):
        off.fit(config=TINY, progress=False)


def test_an_order_without_a_group_is_refused():
    with pytest.raises(InvalidInput, match="order_by"):
        PAMVectorStore(TableEmbedder(), group_by=None, order_by="turn")
    store = PAMVectorStore.from_texts(["x", "y"], TableEmbedder(), ids=["x", "y"])
    with pytest.raises(InvalidInput, match="order_by"):
        store.fit([["x", "y"]], order_by="turn", config=TINY, progress=False)


def test_numbers_that_order_a_group_are_its_times():
    store = PAMVectorStore(TableEmbedder(), group_by="session", order_by="time")
    store.add_texts(["old", "new"], [{"session": 1, "time": 0}, {"session": 1, "time": 10}], ids=["old", "new"])
    plain, faded = (
        dict(_scores(store.recall_with_score("old", mode="similarity", **decay))) for decay in ({}, {"decay": 10.0})
    )
    assert faded["old"] == pytest.approx(plain["old"] / 2, abs=1e-6)


def _scores(scored):
    return [(document.id, score) for document, score in scored]


@pytest.mark.parametrize(
    ("group", "times"),
    [
        (UUID(int=5), [datetime(2024, 3, day) for day in (1, 2, 3)]),
        (np.int64(5), [date(2024, 3, day) for day in (1, 2, 3)]),
        ("s", np.arange(3)),
    ],
)
def test_values_that_are_stored_as_strings_or_numbers_link_at_once(group, times):
    """Documents are linked when they are added, even if JSON stores their group or order in another form."""
    store = PAMVectorStore(TableEmbedder(), group_by="session", order_by="time")
    metadatas = [{"session": group, "time": time} for time in times]
    store.add_texts(list("cba"), metadatas[::-1], ids=list("cba"))
    assert [record.ids for record in store.index.trajectories()] == [("a", "b", "c")]


def test_numbers_too_large_for_times_order_a_group():
    """JSON has whole numbers of any length."""
    store = PAMVectorStore(EMBEDDER, group_by="run", order_by="n")
    numbers = {"c": 10**400, "a": -(10**400), "b": 7}
    made = [Document(f"text of {id}", id=id, metadata={"run": 1, "n": n}) for id, n in numbers.items()]
    store.add_documents(made)
    ((ids, times),) = ((one.ids, one.timestamps) for one in store.index.trajectories())
    assert (ids, times) == (("a", "b", "c"), None)


def test_a_source_longer_than_an_id_is_linked_and_counted_once():
    store = PAMVectorStore(TableEmbedder())
    store.add_documents([chunk("a", "data:" + "x" * 5_000, 0), chunk("b", "data:" + "x" * 5_000, 1)])
    store.fit(group_by="source", order_by="start_index", config=TINY, progress=False)
    assert [record.ids for record in store.index.trajectories()] == [("a", "b")]


# ---- changes


def test_a_reindexed_chunk_takes_its_right_position():
    store = PAMVectorStore(TableEmbedder())
    store.add_documents([chunk("a", "s", 0), chunk("b", "s", 100), chunk("c", "s", 200)])
    store.delete(["b"])
    store.add_documents([chunk("b2", "s", 100)])
    expected = {("a", "b2", 1), ("a", "c", 2), ("b2", "c", 1)}
    assert {found for found in orders(store, ["a", "b2", "c"]) if found[2] > 0} == expected


def test_a_source_with_one_chunk_left_is_no_trajectory():
    """A trajectory of a chunk with itself would count as an experience, and the chunk as its own successor."""
    for leave in (lambda store: store.delete(["b"]), lambda store: store.add_documents([chunk("b", "three", 0)])):
        store = PAMVectorStore(TableEmbedder())
        store.add_documents([chunk("a", "one", 0), chunk("b", "one", 100), chunk("c", "two", 0)])
        leave(store)
        assert store.index.trajectories() == []


def test_a_chunk_that_moves_to_another_source_leaves_the_first():
    store = PAMVectorStore(TableEmbedder())
    store.add_documents([chunk(id, "s", at) for at, id in enumerate("abc")] + [chunk("x", "t", 0)])
    store.add_documents([chunk("b", "t", 1)])
    found = {(a, b, offset) for a, b, offset in orders(store, "abcx") if offset > 0}
    assert found == {("a", "c", 1), ("x", "b", 1)}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["index", "aindex"])
async def test_langchains_indexing_keeps_the_order(asynchronous):
    store, records = PAMVectorStore(TableEmbedder()), InMemoryRecordManager("test")
    records.create_schema()

    async def run(texts):
        pages = [Document(text, metadata={"source": "s", "start_index": 10 * at}) for at, text in enumerate(texts)]
        options = {"cleanup": "incremental", "source_id_key": "source", "key_encoder": "sha256", "batch_size": 2}
        if asynchronous:
            await aindex(pages, records, store, **options)
        else:
            index(pages, records, store, **options)

    await run(["one", "two", "three", "four"])
    await run(["one", "TWO", "three", "four", "five"])
    text = {record.id: record.text for record in store.index.find()}
    found = {(text[a], text[b]) for a, b, offset in orders(store, text) if offset == 1}
    assert found == {("one", "TWO"), ("TWO", "three"), ("three", "four"), ("four", "five")}


changes = st.lists(
    st.tuples(
        st.sampled_from(["add", "delete"]),
        st.lists(
            st.tuples(st.sampled_from("abcdef"), st.sampled_from("st"), st.integers(0, 9)), min_size=1, max_size=4
        ),
    ),
    min_size=1,
    max_size=6,
)


@given(changes=changes)
@settings(max_examples=60, deadline=None)
def test_whatever_is_added_and_deleted_the_links_are_those_of_the_sorted_sources(changes):
    store, there = PAMVectorStore(TableEmbedder()), {}
    observed: dict[str, list[str]] = {}
    for kind, entries in changes:
        if kind == "add":
            given = {id: (source, start) for id, source, start in entries}
            store.add_documents([chunk(id, source, start) for id, (source, start) in given.items()])
            there |= given
        else:
            store.delete([id for id, _, _ in entries])
            for id, _, _ in entries:
                there.pop(id, None)
    if store.index is None:
        return
    order = [record.id for record in store.index.find()]
    for source in "st":
        members = [id for id in order if there[id][0] == source]
        observed[source] = sorted(members, key=lambda id: there[id][1])
    expected = {
        (a, b, bs - at)
        for ids in observed.values()
        if len(ids) > 1
        for at, a in enumerate(ids)
        for bs, b in enumerate(ids)
        if a != b
    }
    assert co_occurrences(store.index) == expected


def co_occurrences(index) -> set[tuple[str, str, int]]:
    """Returns all pairs of memories in the same trajectory, with their distance."""
    documents = index._store.database
    rows, trajectories, positions, _ = documents.trajectories.experienced()
    names = {row: id for id, row in documents.memories.rows_of([record.id for record in index.find()]).items()}
    steps = list(zip(rows.tolist(), trajectories.tolist(), positions.tolist(), strict=True))
    return {
        (names[a], names[b], later - first)
        for a, one, first in steps
        for b, other, later in steps
        if one == other and a != b
    }


def test_links_survive_a_restart_and_go_on_growing(tmp_path):
    store = PAMVectorStore(TableEmbedder(), path=tmp_path / "store")
    store.add_documents([chunk("a", "s", 0), chunk("c", "s", 200)])
    store.close()
    store = PAMVectorStore(TableEmbedder(), path=tmp_path / "store")
    store.add_documents([chunk("b", "s", 100)])
    assert {found for found in co_occurrences(store.index) if found[2] == 1} == {("a", "b", 1), ("b", "c", 1)}
    store.close()


def test_fit_by_the_same_key_counts_a_source_once():
    store = PAMVectorStore(TableEmbedder())
    store.add_documents([chunk(id, "s", at) for at, id in enumerate("abc")])
    assert store.fit(group_by="source", order_by="start_index", config=TINY, progress=False).trajectories == 1


def test_many_sources_are_linked_in_one_transaction(monkeypatch):
    store, observed = PAMVectorStore(EMBEDDER), []
    store.add_documents(documents()[:1])
    observe = store.index._store.observe
    monkeypatch.setattr(
        store.index._store, "observe", lambda episodes: observed.append(len(episodes)) or observe(episodes)
    )
    store.add_documents(documents())
    assert observed == [len({turn.session for turn in dialogue.turns()})]


def test_a_store_describes_its_contents():
    store = PAMVectorStore(EMBEDDER)
    assert repr(store) == "PAMVectorStore(empty, TableEmbedder)"
    store.add_documents(documents())
    assert f"{len(store.index):,} memories" in repr(store)
    assert repr(store) in repr(PAMRetriever(vectorstore=store))
