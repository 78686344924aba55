"""PAMStore with labels, values and pages at their limits: nobody sees, or breaks, what belongs to others."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore
from test_langgraph_store import INDEX, embed, keys, new

from langgraph_pam import PAMStore
from langgraph_pam.items import FILE, Items
from langgraph_pam.memories import Memories
from langgraph_pam.reading import MAX_VALUE_DEPTH
from langgraph_pam.sweeper import Sweeper
from pam_retriever import IndexClosed, IndexFormatError, IndexLocked, InvalidInput, StorageError

LONG = "a label that is longer than the name of a tenant may be " * 4


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"text": "wet stairs"}
    for _ in range(levels - 1):
        value = {"inside": value}
    return value


def called_deep(frames: int, call: Callable[[], Any]) -> Any:
    return call() if frames == 0 else called_deep(frames - 1, call)


def test_a_label_that_reads_like_a_digest_is_a_tenant_of_its_own(tmp_path):
    digest = "sha256:" + hashlib.sha256(LONG.encode()).hexdigest()
    with new(tmp_path) as store:
        store.put((LONG, "notes"), "theirs", {"text": "wet stairs"})
        store.put((digest, "notes"), "own", {"text": "wet stairs"})
        assert keys(store.search((digest,), query="wet stairs")) == ["own"]
        assert keys(store.search((LONG,), query="wet stairs")) == ["theirs"]
        assert sorted(keys(store.search((), query="wet stairs"))) == ["own", "theirs"]
        store.drop_tenant(digest)
        assert keys(store.search((LONG,), query="wet stairs")) == ["theirs"]


def test_a_value_that_only_a_short_stack_can_read_is_not_stored():
    with new() as store:
        with pytest.raises(InvalidInput, match=f"{MAX_VALUE_DEPTH + 1} levels deep. Expected at most"):
            store.put(("ann",), "deep", nested(MAX_VALUE_DEPTH + 1))
        store.put(("ann",), "stairs", nested(MAX_VALUE_DEPTH))
        assert keys(called_deep(sys.getrecursionlimit() // 2, lambda: store.search(("ann",)))) == ["stairs"]


@pytest.mark.parametrize("number", [sys.maxsize, 2**64])
@pytest.mark.parametrize("query", [None, "stairs"])
@pytest.mark.parametrize("filter", [None, {"month": 5}])
def test_a_page_of_any_size_and_place_is_answered(number, query, filter):
    with new() as store:
        store.put(("ann",), "stairs", {"text": "stairs", "month": 5})
        assert keys(store.search(("ann",), query=query, filter=filter, limit=number)) == ["stairs"]
        assert store.search(("ann",), query=query, filter=filter, offset=number) == []


def test_a_new_folder_may_be_opened_by_several_at_once(tmp_path):
    """Workers of a server start at the same time."""
    together = threading.Barrier(6)

    def opened(folder: Path) -> None:
        together.wait()
        Items(folder).close()

    with ThreadPoolExecutor(6) as pool:
        for at in range(30):
            folder = tmp_path / str(at)
            folder.mkdir()
            list(pool.map(opened, [folder] * 6))


def test_a_store_waits_for_another_process_that_makes_the_same_file(tmp_path):
    with PAMStore(tmp_path / "memory"):
        pass
    other = sqlite3.connect(tmp_path / "memory" / FILE, isolation_level=None, check_same_thread=False)
    other.execute("PRAGMA journal_mode = DELETE")  # the journal of a new file
    other.execute("BEGIN IMMEDIATE")
    soon = threading.Timer(0.2, other.close)
    soon.start()
    with PAMStore(tmp_path / "memory") as store:
        store.put(("ann",), "stairs", {"text": "wet stairs"})
    soon.join()


def test_a_full_disk_is_named_and_changes_nothing(tmp_path):
    """SQLite ends the transaction itself then: there is nothing left to roll back."""
    with PAMStore(tmp_path) as store:
        store.put(("ann",), "one", {"text": "wet"})
        store._items._db.execute("PRAGMA max_page_count = 12")
        with pytest.raises(StorageError, match="disk is full"):
            store.batch([PutOp(("ann",), f"large {at}", {"text": "x" * 5_000}) for at in range(30)])
        assert keys(store.search(("ann",))) == ["one"]


def test_a_full_disk_at_the_end_closes_the_store_all_the_same(tmp_path):
    store = new(tmp_path)
    store.put(("ann",), "stairs", {"text": "wet stairs"})
    store._items._db.execute("PRAGMA query_only = ON")  # every write fails, as on a full disk
    with pytest.raises(StorageError):
        store.close()
    with pytest.raises(IndexClosed):
        store.get(("ann",), "stairs")
    store.close()
    with new(tmp_path) as again:
        assert keys(again.search(("ann",), query="stairs")) == ["stairs"]


def test_cancelling_a_sweeper_that_was_stopped_stops_no_other():
    sweeping, going = threading.Event(), threading.Event()

    def sweep() -> int:
        sweeping.set()
        going.wait(30)
        return 0

    sweeper = Sweeper(sweep)
    first = sweeper.start(0.001)
    assert sweeping.wait(30)
    assert not sweeper.stop(0)  # it is in the middle of a sweep
    second = sweeper.start(1000)
    assert first.cancel()
    assert not sweeper._stop.is_set()
    going.set()
    assert sweeper.stop(30)
    second.result(30)


def test_a_sweeper_that_was_cancelled_ends_and_may_start_again():
    swept = threading.Event()
    sweeper = Sweeper(lambda: swept.set() or 0)
    assert sweeper.start(1000).cancel()
    sweeper._thread.join(30)
    assert not sweeper._thread.is_alive()
    sweeper.start(0.001)
    assert swept.wait(30)
    assert sweeper.stop(30)


def test_a_sweep_that_fails_is_tried_again(caplog):
    sweeps, swept = [], threading.Event()

    def sweep():
        sweeps.append(1)
        if len(sweeps) == 1:
            raise StorageError("The disk is full.", "room", "Make some.")
        swept.set()
        return 0

    sweeper = Sweeper(sweep)
    sweeper.start(0.001)
    assert swept.wait(30)
    assert sweeper.stop(30)
    assert "The disk is full." in caplog.text


@pytest.mark.parametrize("fields", [[], ()])
def test_no_fields_are_the_whole_value_as_in_the_store_of_langgraph(fields):
    for store in (InMemoryStore(index={**INDEX, "fields": fields}), PAMStore(index={**INDEX, "fields": fields})):
        store.put(("ann",), "stairs", {"text": "wet stairs"})
        (found,) = store.search(("ann",), query="stairs")
        assert found.score is not None


def test_an_index_that_is_gone_is_an_error_and_its_items_are_kept(tmp_path):
    with new(tmp_path) as store:
        store.put(("ann",), "stairs", {"text": "wet stairs"})
        store.put(("ann",), "number", {"month": 5})
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(IndexFormatError, match="of 1 item is gone"):
        new(tmp_path)
    with PAMStore(tmp_path) as plain, new() as other:
        assert keys(plain.search(())) == ["stairs", "number"]
        other.batch([PutOp(item.namespace, item.key, item.value) for item in plain.search(())])
        assert keys(other.search((), query="stairs")) == ["stairs", "number"]
        plain.batch([PutOp(item.namespace, item.key, None) for item in plain.search(())])
    with new(tmp_path) as store:  # nothing is left that the index would have to hold
        assert store.search(()) == []


def test_a_process_that_ended_before_it_made_its_index_goes_on(tmp_path):
    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Memories, "apply", ended)
        store = new(tmp_path)
        with pytest.raises(KeyboardInterrupt):
            store.put(("ann",), "stairs", {"text": "wet stairs"})
        store.close()
    shutil.rmtree(tmp_path / "index")
    with new(tmp_path) as store:
        assert keys(store.search(("ann",), query="stairs")) == ["stairs"]


@pytest.mark.parametrize("minutes", [-1, float("nan"), "5", True])
def test_an_interval_that_is_no_time_is_refused(minutes):
    with PAMStore(ttl={}) as store, pytest.raises(InvalidInput, match="minutes"):
        store.start_ttl_sweeper(minutes)


def test_an_embedder_may_return_tensors():
    def embed_as_tensors(texts: list[str]) -> list[torch.Tensor]:
        return [torch.tensor(row, requires_grad=True) for row in embed(texts)]

    with PAMStore(index={**INDEX, "embed": embed_as_tensors}) as store:
        store.put(("ann",), "stairs", {"text": "wet stairs"})
        assert keys(store.search(("ann",), query="stairs")) == ["stairs"]


@pytest.mark.parametrize("wrong", ["", 3, b"store", "a\x00b"])
def test_a_path_that_names_nothing_is_refused(tmp_path, monkeypatch, wrong):
    """An empty path would be the current folder."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="path"):
        PAMStore(wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_store_stays_in_its_folder_if_the_program_changes_its_own(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with PAMStore("store", index=INDEX) as store, ThreadPoolExecutor(1) as other:
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.put(("a",), "k", {"text": "wet stairs"})
        assert [item.key for item in other.submit(store.search, ("a",), query="stairs").result()] == ["k"]


def test_the_error_of_a_second_store_advises_what_a_store_has(tmp_path):
    with PAMStore(tmp_path, index=INDEX), pytest.raises(IndexLocked) as caught:
        PAMStore(tmp_path, index=INDEX)
    assert "read_only" not in str(caught.value)
