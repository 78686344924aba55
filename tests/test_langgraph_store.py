"""PAMStore keeps LangGraph's contract, uses experience, is durable, and refuses invalid calls."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from langchain_core.language_models import ParrotFakeChatModel
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_store
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from benchmarks.reliability import langgraph_store as compared
from langgraph_pam import PAMStore
from langgraph_pam.memories import Memories
from langgraph_pam.rows import Change
from pam_retriever import IndexClosed, IndexFormatError, IndexLocked, InvalidInput, StorageError, UnknownId

AXES = ["stairs", "wrist", "coffee", "train", "plaster", "wet", "late", "other"]
MINUTE = 60_000_000


def embed(texts: list[str]) -> list[list[float]]:
    """Returns a dimension for each known word; texts without known words look like "other"."""
    rows = [[float(word in text.split()) for word in AXES] for text in texts]
    return [row if any(row) else [*row[:-1], 1.0] for row in rows]


INDEX: Any = {"dims": len(AXES), "embed": embed, "fields": ["text"]}


def new(path: Path | None = None, **settings: Any) -> PAMStore:
    return PAMStore(path, index=INDEX, **settings)


def keys(found: Any) -> list[str]:
    return [item.key for item in found]


# ---- compared with LangGraph's own stores


def test_it_answers_as_the_store_in_memory_does(tmp_path):
    results = compared.run(600, seed=5, folder=tmp_path)
    assert {name: result["difference"] for name, result in results.items()} == dict.fromkeys(results)
    assert sum(result["operations"] for result in results.values()) >= 600


def test_the_comparison_sees_a_difference(monkeypatch):
    monkeypatch.setattr("langgraph_pam.answers.passes", lambda value, filter: True)
    comparison = compared.Comparison(5, None, None)
    assert comparison.run(400) is not None


def test_it_answers_as_the_store_in_sqlite_does():
    """The two stores agree, except where that store has faults: TTL, comparisons in filters, the order of items."""
    made, ours = compared.Generator(3), PAMStore()
    with sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False) as connection:
        theirs = SqliteStore(connection)
        theirs.setup()
        for _ in range(150):
            ops = [made.put()._replace(ttl=None, index=None) for _ in range(2)]
            ops[0] = ops[0]._replace(value=None) if made.chance(0.3) else ops[0]
            prefix = made.namespace()[:2]
            ops += [
                GetOp(made.namespace(), made.choice("12345")),
                SearchOp(prefix, made.choice([None, {"colour": "red"}, {"colour": {"$ne": "blue"}}]), 1000),
                ListNamespacesOp((MatchCondition("prefix", prefix), MatchCondition("suffix", ("a",))), 2),
            ]
            for op, one, other in zip(ops, ours.batch(ops), theirs.batch(ops), strict=True):
                if isinstance(op, SearchOp):
                    # that store finds no item with None for $ne, because SQL's NULL is unequal to nothing
                    if op.filter and "$ne" in str(op.filter):
                        one = [item for item in one if item.value["colour"] is not None]
                    one, other = ({(i.namespace, i.key): i.value for i in some} for some in (one, other))
                elif isinstance(op, GetOp):
                    one, other = (None if item is None else item.value for item in (one, other))
                assert one == other, op


# ---- experience


@pytest.mark.parametrize("given", [date(2024, 3, 1), datetime(2024, 3, 1, 12), UUID(int=5), np.int64(5)])
def test_a_filter_takes_what_a_value_takes(given):
    """A filter may contain any value that an item may contain, and compares it in its stored form."""
    with new() as store:
        store.put(("ann",), "with", {"text": "wet", "at": given, "deep": {"at": [given]}})
        store.put(("ann",), "without", {"text": "wet"})
        for query in (None, "wet"):
            for same in ({"at": given}, {"at": {"$eq": given}}, {"deep": {"at": [given]}}):
                assert keys(store.search(("ann",), query=query, filter=same)) == ["with"]
            assert keys(store.search(("ann",), query=query, filter={"at": {"$ne": given}})) == ["without"]


def test_what_was_put_next_to_it_is_found():
    store, fillers = new(), 20
    for number in range(2 * fillers):
        if number == fillers:
            store.put(("ann",), "cause", {"text": "the stairs"})
            store.put(("ann",), "effect", {"text": "the wrist"})
        store.put(("ann",), f"filler {number}", {"text": f"nothing {number}"})
    found = keys(store.search(("ann",), query="stairs", limit=5))
    assert found[0] == "cause"
    assert set(found[1:]) == {"effect", "filler 18", "filler 19", "filler 20"}


def test_a_batch_is_experience_in_its_order():
    store = new()
    texts = [*(f"nothing {number}" for number in range(20)), "the stairs", "the wrist", "coffee"]
    store.batch([PutOp(("ann",), text, {"text": text}) for text in texts])
    (trajectory,) = store.tenant("ann").trajectories()
    by_id = {record.id: record.text for record in store.tenant("ann").find()}
    assert [by_id[id] for id in trajectory.ids] == texts
    store.batch([PutOp(("ann",), f"{n}", {"text": f"later {n}"}) for n in range(12)])
    assert [step.length for step in store.tenant("ann").trajectories()] == [len(texts) + 12]


def test_observed_items_are_found():
    store = new()
    for number in range(30):
        store.put(("ann", str(number)), "filler", {"text": f"nothing {number}"})
    store.put(("ann", "places"), "cause", {"text": "the stairs"})
    store.put(("ann", "doctors"), "alone", {"text": "the plaster"})
    for number in range(8):
        store.put(("ann", "places"), f"filler {number}", {"text": f"nothing {number}"})
    store.put(("ann", "places"), "effect", {"text": "the wrist"})
    assert "effect" not in keys(store.search(("ann",), query="stairs", limit=2))
    store.observe(("ann", "places"), ["cause", "effect"])
    assert "effect" in keys(store.search(("ann",), query="stairs", limit=3))


def test_what_served_a_question_is_found_by_the_next():
    store = new()
    for word in [*AXES[:-1], *(f"filler {number}" for number in range(20))]:
        store.put(("ann", word), word, {"text": word})
    assert set(keys(store.search(("ann",), query="late train", limit=2))) == {"train", "late"}
    assert "coffee" not in keys(store.search(("ann",), query="late train", limit=3))
    store.feedback(("ann", "coffee"), "late train", used={"coffee": 2.0})
    assert "coffee" in keys(store.search(("ann",), query="late train", limit=3))


@pytest.mark.parametrize("prefix", [("ann", "a"), ("ann",)])
def test_a_search_keeps_to_its_prefix(prefix):
    """Items outside the prefix are not found, and do not change the answer by vectors, words, links or feedback."""
    alone, among = new(), new()
    for store in (alone, among):
        for number, word in enumerate(AXES):
            store.put(("ann", "a"), word, {"text": f"{word} {number}"})
    others = [("ann", "ab"), ("ann", "a b")] if len(prefix) > 1 else [("ann2",), ("bob", "ann", "a")]
    for namespace in others:
        for word in AXES:
            among.put(namespace, word, {"text": f"wet stairs {word}"})
    if len(prefix) == 1:
        among.feedback(("bob", "ann", "a"), "wet stairs", used=["late"])
    asked = [store.search(prefix, query="wet stairs", limit=50) for store in (alone, among)]
    assert [(item.key, item.namespace) for item in asked[0]] == [(item.key, item.namespace) for item in asked[1]]
    if len(prefix) == 1:  # scores are equal, too; within a tenant they depend on the words of all its items
        assert [item.score for item in asked[0]] == [item.score for item in asked[1]]


def test_among_tenants_the_score_is_the_cosine():
    store = new()
    store.put(("ann",), "near", {"text": "wet stairs"})
    store.put(("bob",), "half", {"text": "wet coffee"})
    store.put(("eve",), "far", {"text": "late train"})
    store.feedback(("eve",), "wet stairs", used=["far"])
    found = store.search((), query="wet stairs")
    assert keys(found) == ["near", "half", "far"]
    assert [item.score for item in found] == pytest.approx([1, 0.5, 0], abs=1e-6)
    store.drop_tenant("eve")
    assert keys(store.search((), query="wet coffee")) == ["half", "near"]


def test_an_item_with_several_vectors_is_found_once_by_its_best():
    store = PAMStore(index={**INDEX, "fields": ["text", "tags[*]"], "mode": "similarity"})
    store.put(("ann",), "many", {"text": "coffee", "tags": [*AXES, "wet stairs"]})
    for number in range(5):
        store.put(("ann",), str(number), {"text": f"late {number}"})
    found = store.search(("ann",), query="wet stairs", limit=6)
    assert keys(found)[0] == "many"
    assert found[0].score == pytest.approx(1)
    assert len(set(keys(found))) == 6
    store.put(("ann",), "many", {"text": "coffee"})
    assert len(store.tenant("ann")) == 6
    assert store.search(("ann",), query="wet stairs", limit=1)[0].score == pytest.approx(0, abs=1e-6)
    store.put(("ann",), "many", {"text": "coffee", "tags": AXES})
    store.delete(("ann",), "many")
    assert len(store.tenant("ann")) == 5


def test_items_without_a_vector_come_last_once_on_all_pages():
    """Items without a vector come after all others, and each is on exactly one page."""
    store = new()
    for number in range(3):
        store.put(("ann",), f"bare {number}", {"text": "wet stairs", "n": number}, index=False)
        store.put(("ann",), f"found {number}", {"text": "wet stairs", "n": number})
    pages = [store.search(("ann",), query="wet", limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [len(page) for page in pages] == [2, 2, 2, 0]
    everything = [item for page in pages for item in page]
    assert sorted(keys(everything)[:3]) == ["found 0", "found 1", "found 2"]
    assert keys(everything)[3:] == ["bare 0", "bare 1", "bare 2"]
    assert [item.score for item in everything[3:]] == [None] * 3
    assert keys(store.search(("ann",), query="wet", filter={"n": 1})) == ["found 1", "bare 1"]


def test_a_put_may_index_the_whole_value():
    with new() as store:
        store.put(("ann",), "whole", {"other": "wet"}, index=["$"])
        (found,) = store.search(("ann",), query="wet")
        assert found.score is not None


def test_texts_that_look_like_nothing_have_no_vector():
    index: Any = {"dims": 2, "embed": lambda texts: [[0.0, 0.0] if not text else [1.0, 0.0] for text in texts]}
    store = PAMStore(index={**index, "fields": ["text"]})
    store.put(("ann",), "empty", {"text": ""})
    store.put(("ann",), "full", {"text": "a\0b"})
    assert [(item.key, item.score is None) for item in store.search(("ann",), query="a\0b")] == [
        ("full", False),
        ("empty", True),
    ]
    assert keys(store.search(("ann",), query="\ud800")) == ["full", "empty"]


# ---- durable


def test_everything_is_there_after_opening_again(tmp_path):
    with new(tmp_path / "store") as store:
        store.put(("ann", "a"), "stairs", {"text": "wet stairs"}, ttl=5)
        store.put(("ann", "a"), "wrist", {"text": "wrist"}, index=False)
        store.put(("bob",), "coffee", {"text": "coffee", "nested": {"list": [1, None, "é"]}})
        before = [store.search((), query="wet"), store.search(("ann",)), store.list_namespaces()]
        item = store.get(("ann", "a"), "stairs")
    assert not (tmp_path / "store" / "items.sqlite-wal").exists()  # the file is closed
    with new(tmp_path / "store") as store:
        assert [store.search((), query="wet"), store.search(("ann",)), store.list_namespaces()] == before
        assert store.get(("ann", "a"), "stairs") == item
        assert store.get(("bob",), "coffee").value == {"text": "coffee", "nested": {"list": [1, None, "é"]}}


def test_a_folder_is_refused_to_another_embedder(tmp_path):
    def reversed_axes(texts: list[str]) -> list[list[float]]:
        return [row[::-1] for row in embed(texts)]

    with new(tmp_path) as store:
        store.put(("ann",), "a", {"text": "wet stairs"})
    with pytest.raises(InvalidInput, match=r"test_langgraph_store\.embed"):
        PAMStore(tmp_path, index={**INDEX, "embed": reversed_axes})
    with new(tmp_path) as store:  # the refused call has released the folder
        assert keys(store.search(("ann",), query="wet")) == ["a"]
    with PAMStore(tmp_path, index={**INDEX, "embed": reversed_axes, "same_embedder": True}) as store:
        assert keys(store.search(("ann",))) == ["a"]
    with pytest.raises(InvalidInput, match="same_embedder"):
        PAMStore(index={**INDEX, "same_embedder": "yes"})


def test_a_kill_between_items_and_index_leaves_the_name_of_the_embedder(tmp_path, monkeypatch):
    """The vectors of the pending changes are of this embedder, too."""

    def reversed_axes(texts: list[str]) -> list[list[float]]:
        return [row[::-1] for row in embed(texts)]

    def killed(*_: object) -> None:
        raise StorageError("The disk is full.", "room", "Make some.")

    with monkeypatch.context() as patch, new(tmp_path) as store:
        patch.setattr(Memories, "apply", killed)
        with pytest.raises(StorageError):
            store.put(("ann",), "a", {"text": "wet stairs"})
    with pytest.raises(InvalidInput, match=r"test_langgraph_store\.embed"):
        PAMStore(tmp_path, index={**INDEX, "embed": reversed_axes})
    with new(tmp_path) as store:
        assert keys(store.search(("ann",), query="wet")) == ["a"]


@pytest.mark.parametrize("durable", [False, True])
def test_an_index_that_could_not_follow_does_so_at_the_next_call(tmp_path, monkeypatch, durable):
    """After a kill between the commits of items and index, the next call completes the index."""
    store = new(tmp_path / "store" if durable else None)
    store.put(("ann",), "old", {"text": "coffee"})
    apply = Memories.apply

    def half(self: Memories, changes: Any) -> None:
        apply(self, list(changes)[:1])
        raise StorageError("The disk is full.", "room", "Make some.")

    monkeypatch.setattr(Memories, "apply", half)
    with pytest.raises(StorageError):
        store.batch(
            [
                PutOp(("ann",), "first", {"text": "stairs"}),
                PutOp(("ann",), "second", {"text": "wrist"}),
                PutOp(("bob",), "third", {"text": "train"}),
                PutOp(("ann",), "old", None),
            ]
        )
    assert store.get(("ann",), "second") is not None
    assert "old" not in keys(store.search(("ann",), query="coffee"))  # its memory is there
    with pytest.raises(StorageError):
        store.put(("eve",), "more", {"text": "late"})
    assert store.get(("eve",), "more") is None
    if durable:
        store.close()
        with pytest.raises(StorageError):
            new(tmp_path / "store")
    monkeypatch.setattr(Memories, "apply", apply)
    if durable:
        store = new(tmp_path / "store")
    else:
        store.put(("eve",), "more", {"text": "late"})
    assert sorted(keys(store.search(("ann",), query="stairs"))) == ["first", "second"]
    assert keys(store.search(("bob",), query="train")) == ["third"]
    assert [record.text for record in store.tenant("ann").find()] == ["stairs", "wrist"]
    # the position of the deleted item "old"
    assert [one.length - len(one.ids) for one in store.tenant("ann").trajectories()] == [1]
    store.close()


def test_changes_of_one_item_are_applied_together():
    """A store without an index may replace an item just before a store with one puts it again."""
    with new() as store:
        store.put(("ann",), "one", {"text": "wet"})
        memories, (item,) = store._memories, (int(record.id) for record in store.tenant("ann").find())
        vector = np.eye(len(AXES), dtype=np.float32)[0].tobytes()
        replaced = Change(8, "ann", 1, item, MINUTE, 1, 1, [], b"")
        memories.apply([replaced, Change(9, "ann", 1, item, MINUTE, 0, 1, ["stairs"], vector)])
        assert [record.text for record in store.tenant("ann").find()] == ["stairs"]
        memories.apply([Change(10, "ann", 1, item, MINUTE, 0, 1, ["late"], vector), replaced])
        assert store.tenant("ann").find() == []


def test_threads_and_tasks_write_and_ask_at_once():
    store = new()

    def work(number: int) -> None:
        for at in range(12):
            store.put((f"user {number % 2}", "notes"), f"{number} {at}", {"text": f"wet {AXES[at % 8]}"}, ttl=5)
            assert store.search((f"user {number % 2}",), query="wet stairs", limit=3)
            store.get((f"user {number % 2}", "notes"), f"{number} {at}")
        store.delete((f"user {number % 2}", "notes"), f"{number} 0")

    async def tasks() -> None:
        await asyncio.gather(*(store.aput(("eve",), str(at), {"text": "wet"}) for at in range(12)))

    with ThreadPoolExecutor(4) as pool:
        done = [*pool.map(work, range(4)), pool.submit(asyncio.run, tasks()).result()]
    assert done == [None] * 5
    for tenant in ("user 0", "user 1"):
        assert len(store.search((tenant,), limit=100)) == len(store.tenant(tenant)) == 22
    assert len(store.search(("eve",), query="wet", limit=100)) == 12


@pytest.mark.slow
def test_a_kill_loses_nothing_that_returned(tmp_path):
    """A killed process loses no write that had returned. The test needs a new process: it forks before any thread."""
    program = (
        "import sys; from pathlib import Path; from benchmarks.reliability.langgraph_kills import run; "
        "counts, failures = run(12, 5, Path(sys.argv[1])); "
        "assert counts['kills within a batch']; assert not failures, failures"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_call_that_fails_changes_nothing():
    store = new()
    store.put(("ann",), "one", {"text": "wet"})
    bad: list[Any] = [
        PutOp(("ann",), "two", {"text": object()}),
        PutOp(("ann",), "two", {"text": float("nan")}),
        PutOp(("ann",), "two", {"nested": [{1: 2}]}),
        PutOp(("ann",), "two", ["no", "dict"]),
        PutOp(("ann",), "two", {"text": "\ud800"}),
        PutOp(("ann",), "\ud800", {"text": "wet"}),
        PutOp(("ann",), 3, {"text": "wet"}),
        PutOp(("ann",), "two", {"text": "wet"}, ttl=-1),
        PutOp(("ann",), "two", {"text": "wet"}, ttl=float("nan")),
        PutOp(("ann",), "two", {"text": "wet"}, index="text"),
        PutOp(("ann", "x" * 5000), "two", {"text": "wet"}),
        SearchOp(("ann",), limit=-1),
        SearchOp(("ann",), offset=True),
        SearchOp(("ann",), {"text": {"$like": "w"}}),
        SearchOp(("ann",), {"deep": [{"n": {"$gt": None}}]}),
        SearchOp(("ann",), ["text"]),
        *(SearchOp(("ann",), query=query) for query in (3, ["wet"], b"wet", {"text": "wet"})),
        *(ListNamespacesOp(max_depth=depth) for depth in (-1, 1.5, "2", True)),
        ListNamespacesOp((MatchCondition("middle", ("a",)),)),
        "put",
    ]
    for op in bad:
        with pytest.raises(InvalidInput):
            store.batch([PutOp(("ann",), "one", None), PutOp(("eve",), "new", {"text": "wet"}), op])
    either = (InvalidNamespaceError, InvalidInput)  # which one refuses a NUL depends on the version of LangGraph
    for namespace in ((), ("a.b",), ("",), (1,), ("a\0",)):
        with pytest.raises(either if namespace == ("a\0",) else InvalidNamespaceError):
            store.batch([PutOp(("ann",), "one", None), PutOp(namespace, "new", {"text": "wet"})])
    with pytest.raises(InvalidNamespaceError):
        store.put(("langgraph",), "one", {})
    assert [item.key for item in store.search(())] == ["one"]
    assert store.list_namespaces() == store.list_namespaces(max_depth=1) == [("ann",)]
    assert store.list_namespaces(max_depth=0) == [()]


@pytest.mark.parametrize(
    "settings",
    [
        {"index": {"dims": 0, "embed": embed}},
        {"index": {"dims": True, "embed": embed}},
        {"index": {"dims": 8}},
        {"index": {"dims": 8, "embed": embed, "fields": "text"}},
        {"index": {"dims": 8, "embed": embed, "field": ["text"]}},
        {"index": {"dims": 8, "embed": embed, "mode": "hybrid"}},
        {"ttl": {"default_ttl": -1}},
        {"ttl": {"sweep_interval_minutes": float("inf")}},
        {"ttl": {"refresh": True}},
    ],
)
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(InvalidInput):
        PAMStore(**settings)


def test_a_string_is_no_namespace():
    """("ann") is "ann": its first letter would be the tenant, for all whose names begin with it."""
    store = new()
    store.put(("a", "n", "n"), "one", {"text": "wet"})
    calls: list[Any] = [
        lambda: store.put("ann", "two", {"text": "wet"}),
        lambda: store.get("ann", "one"),
        lambda: store.delete("ann", "one"),
        lambda: store.search("ann"),
        lambda: store.list_namespaces(prefix="ann"),
        lambda: store.observe("ann", ["one"]),
        lambda: store.feedback("ann", "wet", ["one"]),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match=r"\('ann',\)"):
            call()
    listed: Any = ["ann", "notes"]
    store.put(listed, "two", {"text": "wet"})
    assert keys(store.search(("ann",))) == ["two"]


def test_calls_of_a_closed_store_say_that_it_is_closed(tmp_path):
    for store in (new(), new(tmp_path / "store"), PAMStore(tmp_path / "bare")):
        store.close()
        store.close()
        calls: list[Any] = [
            lambda store=store: store.put(("ann",), "one", {"text": "wet"}),
            lambda store=store: store.get(("ann",), "one"),
            lambda store=store: store.search(("ann",), query="wet"),
            lambda store=store: store.list_namespaces(),
            lambda store=store: store.drop_tenant("ann"),
            store.sweep_ttl,
        ]
        for call in calls:
            with pytest.raises(IndexClosed):
                call()


def test_an_embedder_that_returns_something_else_is_refused():
    answers: Any = [[[1.0] * 7], [[1.0] * 8] * 2, [[float("nan")] * 8], [["x"] * 8], []]
    for answer in answers:
        store = PAMStore(index={"dims": 8, "embed": lambda texts, answer=answer: answer})
        with pytest.raises(InvalidInput):
            store.put(("ann",), "one", {"text": "wet"})
        assert store.search(()) == []


def test_folders_that_are_no_store_are_refused(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("Dear Ann")
    with pytest.raises(InvalidInput):
        new(tmp_path / "other")
    with new(tmp_path / "store"), pytest.raises(IndexLocked):
        new(tmp_path / "store")
    with pytest.raises(InvalidInput):
        PAMStore(tmp_path / "store", index={**INDEX, "dims": 3})
    with sqlite3.connect(tmp_path / "store" / "items.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(IndexFormatError):
        new(tmp_path / "store")
    (tmp_path / "store" / "items.sqlite").write_bytes(b"no database at all, but long enough to be read" * 100)
    with pytest.raises(IndexFormatError):
        new(tmp_path / "store")


# ---- LangGraph's contract beyond the store in memory


def test_without_an_index_a_query_is_ignored(tmp_path):
    with PAMStore(tmp_path / "store") as store:
        store.put(("ann",), "one", {"text": "wet"})
        assert [(item.key, item.score) for item in store.search(("ann",), query="anything")] == [("one", None)]
        for call in (lambda: store.tenant("ann"), lambda: store.observe(("ann",), ["one"])):
            with pytest.raises(InvalidInput):
                call()
    with new(tmp_path / "store") as store:  # with an index
        store.put(("ann",), "two", {"text": "wet"})
        assert keys(store.search(("ann",), query="wet")) == ["two", "one"]
    with PAMStore(tmp_path / "store") as store:  # without an index: items deleted now must not be found later
        store.delete(("ann",), "two")
    with new(tmp_path / "store") as store:
        assert keys(store.search(("ann",), query="wet")) == ["one"]
        assert len(store.tenant("ann")) == 0


def test_an_update_keeps_the_time_of_creation_and_its_place():
    """An update of an item keeps its time of creation, and its place in the order of items."""
    store = new()
    for key in ("one", "two"):
        store.put(("ann",), key, {"text": "wet"})
    before = store.get(("ann",), "one")
    store.put(("ann",), "one", {"text": "late"})
    after = store.get(("ann",), "one")
    assert before.created_at == after.created_at < after.updated_at
    assert keys(store.search(("ann",))) == ["one", "two"]
    after.value["text"] = "changed by the caller"
    assert store.get(("ann",), "one").value == {"text": "late"}


def test_times_never_fall_between_two_stores_of_one_folder(tmp_path):
    """Stores without an index may share a folder: their clocks may differ."""
    with PAMStore(tmp_path) as ahead, PAMStore(tmp_path) as behind:
        ahead._items.clock, behind._items.clock = (lambda: 9 * MINUTE), (lambda: 5 * MINUTE)
        for store, key in ((behind, "one"), (ahead, "two"), (behind, "three")):
            store.put(("ann",), key, {})
        times = [item.created_at for item in ahead.search(("ann",))]
        assert times == sorted(times)


def test_reading_refreshes_the_ttl_if_configured():
    now = [1_700_000_000_000_000]
    store = new(ttl={"default_ttl": 10, "refresh_on_read": False, "omit_expired": True})
    store._items.clock = lambda: now[0]
    for key in ("read", "asked", "refreshed", "for ever"):
        store.put(("ann",), key, {"text": key}, **({"ttl": None} if key == "for ever" else {}))
    now[0] += 6 * MINUTE
    store.get(("ann",), "read")
    store.search(("ann",), query="asked", limit=10)
    store.get(("ann",), "refreshed", refresh_ttl=True)
    now[0] += 6 * MINUTE
    assert keys(store.search(("ann",))) == ["refreshed", "for ever"]
    assert set(keys(store.search(("ann",), query="read"))) == {"refreshed", "for ever"}
    assert store.get(("ann",), "read") is None
    assert (store.sweep_ttl(), store.sweep_ttl()) == (2, 0)
    assert len(store.tenant("ann")) == 2


def test_a_refresh_while_the_clock_is_set_back_shortens_no_ttl():
    now = [1_700_000_000_000_000]
    store = new(ttl={"default_ttl": 10, "refresh_on_read": True})
    store._items.clock = lambda: now[0]
    store.put(("ann",), "one", {"text": "wet"})
    now[0] -= 60 * MINUTE
    assert store.get(("ann",), "one") is not None
    now[0] += 61 * MINUTE  # the clock is right again, a minute later
    assert store.sweep_ttl() == 0


def test_expired_items_are_seen_until_the_sweep_unless_they_are_omitted():
    store = new()
    store.put(("ann",), "one", {"text": "wet"}, ttl=0)
    assert store.get(("ann",), "one", refresh_ttl=False) is not None
    assert store.sweep_ttl() == 1
    assert store.list_namespaces() == []


def test_the_sweeper_sweeps_and_stops():
    store = new(ttl={"sweep_interval_minutes": 0.0002})
    store.put(("ann",), "one", {"text": "wet"}, ttl=0)
    sweeping = store.start_ttl_sweeper()
    assert store.start_ttl_sweeper() is sweeping
    until = time.monotonic() + 30
    while store.list_namespaces() and time.monotonic() < until:
        time.sleep(0.01)
    assert store.list_namespaces() == []
    assert store.stop_ttl_sweeper(30)
    sweeping.result(30)
    assert store.start_ttl_sweeper(1).cancel()
    assert store.stop_ttl_sweeper(30)
    assert store.stop_ttl_sweeper()  # there is none
    done: Future[None] = new().start_ttl_sweeper()
    assert done.done()


async def test_an_embedder_that_is_async_answers_async_calls_alone():
    async def later(texts: list[str]) -> list[list[float]]:
        return embed(texts)

    store = PAMStore(index={**INDEX, "embed": later})
    await store.aput(("ann",), "one", {"text": "wet stairs"})
    await store.aput(("ann",), "two", {"text": "coffee"})
    assert keys(await store.asearch(("ann",), query="wet", limit=1)) == ["one"]
    assert await store.alist_namespaces() == [("ann",)]
    await store.adelete(("ann",), "one")
    assert await store.aget(("ann",), "one") is None
    with pytest.raises(ValueError, match="async"):
        store.put(("ann",), "three", {"text": "late"})
    assert len(store.search(("ann",))) == 1


def test_a_tenant_that_is_dropped_is_gone(tmp_path):
    secret = "an unmistakable sentence of ann"
    with new(tmp_path / "store") as store:
        for tenant in ("ann", "bob", "x" * 400):
            store.put((tenant, "notes"), "one", {"text": f"{secret} stairs" if tenant == "ann" else "stairs"})
            store.put((tenant, "more"), "two", {"text": "wrist"}, index=False)
        store.feedback(("ann", "notes"), secret, used=["one"])
        assert (store.drop_tenant("ann"), store.drop_tenant("ann"), store.drop_tenant("x" * 400)) == (2, 0, 2)
        assert store.list_namespaces() == [("bob", "more"), ("bob", "notes")]
        assert keys(store.search((), query="stairs")) == ["one", "two"]
        store.put(("ann",), "one", {"text": "new"})
        assert len(store.tenant("ann")) == 1
        files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize("name", ["", "ann.notes", 5])
def test_a_name_that_no_namespace_has_drops_no_tenant(name):
    """Labels are joined by dots in the file: such a name would be read as another place, "" as every place."""
    store = new()
    for tenant in ("ann", "bob"):
        store.put((tenant, "notes"), "one", {"text": "wet"})
    for act in (store.drop_tenant, store.tenant):
        with pytest.raises(InvalidNamespaceError):
            act(name)
    assert store.list_namespaces() == [("ann", "notes"), ("bob", "notes")]
    assert keys(store.search((), query="wet")) == ["one", "one"]


def test_observe_and_feedback_refuse_a_label_with_a_dot():
    store = new()
    for key in "ab":
        store.put(("ann", "notes"), key, {"text": f"wet {key}"})
    for place in (("ann.notes",), ("ann", "notes", "")):
        with pytest.raises(InvalidNamespaceError):
            store.observe(place, ["a", "b"])
    with pytest.raises(InvalidNamespaceError):
        store.feedback(("ann.notes",), "wet", ["a"])


def test_a_question_that_is_no_string_is_refused():
    store = new()
    store.put(("ann",), "one", {"text": "wet"})
    for query in (3, ["wet"]):
        with pytest.raises(InvalidInput, match=r"query.*Expected a string"):
            store.search(("ann",), query=query)
        with pytest.raises(InvalidInput, match=r"query.*Expected a string"):
            store.feedback(("ann",), query, ["one"])


def test_observe_and_feedback_refuse_one_string_as_keys():
    store = new()
    for key in "ab":
        store.put(("ann",), key, {"text": f"wet {key}"})
    with pytest.raises(InvalidInput, match="keys='ab'"):
        store.observe(("ann",), "ab")
    with pytest.raises(InvalidInput, match="used='a'"):
        store.feedback(("ann",), "wet", "a")
    with pytest.raises(InvalidInput, match="unused='b'"):
        store.feedback(("ann",), "wet", ["a"], "b")
    assert store.tenant("ann").feedbacks() == []
    assert len(store.tenant("ann").trajectories()) == 1  # by the puts


def test_observe_and_feedback_refuse_unknown_items():
    store = new()
    store.put(("ann",), "bare", {"text": "wet"}, index=False)
    store.put(("ann",), "one", {"text": "wet"})
    with pytest.raises(UnknownId):
        store.observe(("ann",), ["one", "nobody"])
    with pytest.raises(InvalidInput):
        store.observe(("ann",), ["one", "bare"])
    with pytest.raises(UnknownId):
        store.feedback(("ann",), "wet", used=["nobody"])
    with pytest.raises(InvalidNamespaceError):
        store.observe((), ["one"])
    assert store.tenant("ann").feedbacks() == []


def test_the_faults_of_the_reference_are_there():
    """``InMemoryStore`` still has the faults that ``Reference`` corrects; otherwise its list must get shorter."""
    store = InMemoryStore(index={**INDEX, "fields": ["text"]})
    assert store.get(("nobody",), "one") is None
    assert store.list_namespaces() == [("nobody",)]
    store.put(("ann",), "one", {"text": "wet"})
    store.put(("ann",), "one", {"text": "wet"}, index=False)
    assert store.search(("ann",), query="wet")[0].score is not None
    with pytest.raises(ValueError, match="embeddings"):
        store.batch([PutOp(("ann",), key, {"text": "same"}) for key in "ab"])
    with pytest.raises(TypeError):
        store.search(("ann",), filter={"absent": {"$gt": 1}})
    store.put(("ann",), "whole", {"text": "wet"}, index=["$"])
    assert {item.key: item.score for item in store.search(("ann",), query="wet")}["whole"] is None
    store.put(("ann",), "bare", {}, index=False)
    assert "bare" in keys(store.search(("ann",), query="wet", limit=2, offset=2))


# ---- in a graph


def test_a_graph_knows_in_the_next_run_what_was_said(tmp_path):
    """A second run of a graph recalls turns of the first run; the chat model is a fake."""

    def answer(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        store, said = get_store(), state["messages"][-1].text
        namespace = (config["configurable"]["user"], "said")
        known = [item.value["text"] for item in store.search(namespace, query=said, limit=2)]
        store.put(namespace, said, {"text": said})
        return {"messages": [ParrotFakeChatModel().invoke([HumanMessage(f"{said}, knowing {known}")])]}

    def run(user: str, *turns: str) -> list[str]:
        with new(tmp_path / "store") as store:
            graph = StateGraph(MessagesState).add_node("answer", answer)
            agent = graph.add_edge(START, "answer").add_edge("answer", END).compile(store=store)
            whose: Any = {"configurable": {"user": user}}
            states = [agent.invoke({"messages": [HumanMessage(turn)]}, whose) for turn in turns]
            return [state["messages"][-1].text for state in states]

    assert run("ann", "wet stairs", "my wrist", "late coffee")[0] == "wet stairs, knowing []"
    assert run("ann", "the stairs") == ["the stairs, knowing ['wet stairs', 'my wrist']"]
    assert run("bob", "the stairs") == ["the stairs, knowing []"]
