"""A compressed index is not built again after a kill, or beside a writer: ``open`` adds what was committed since."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading

import numpy as np
import pytest

from pam_retriever import FitConfig, PredictiveAssociativeIndex, StorageError
from pam_retriever.ann import FaissBackend
from pam_retriever.store.folder import ann_cache
from pam_retriever.store.folder.repair import check
from pam_retriever.store.folder.verification import Verification
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.sqlite.settings import SQLiteSettings

DIM, COUNT, LENGTH = 16, 2_400, 6
VECTORS = np.random.default_rng(0).standard_normal((COUNT, DIM)).astype(np.float32)
IDS = [f"m{at}" for at in range(COUNT)]
CONFIG = FitConfig(hidden=8, passes=1)


@pytest.fixture(scope="module", params=["faiss:ivf,sq8", pytest.param("faiss:hnsw,sq8", marks=pytest.mark.slow)])
def saved(request, tmp_path_factory):
    """The folder of a fitted, closed index."""
    path = tmp_path_factory.mktemp("kept") / "index"
    with PredictiveAssociativeIndex.open(path, DIM, request.param) as index:
        index.add(VECTORS, IDS)
        trajectories = [IDS[at : at + LENGTH] for at in range(0, COUNT, LENGTH)]
        index.fit(trajectories, config=CONFIG, progress=False)
    return path


@pytest.fixture
def path(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "index")


def end(index) -> None:
    """Simulates the end of the process of a writer."""
    index._store._writable_folder.close()


def change(index) -> None:
    index.delete(IDS[:20])
    index.add(5 * np.eye(DIM)[:1], ["m30"])  # replaces a memory
    index.add(-7 * np.eye(DIM)[:2], ["new", "newer"])
    index.observe(["new", "m40", "newer"])


def assert_changed(index) -> None:
    assert len(index) == COUNT - 18
    assert index.search(np.eye(DIM)[0], k=1)[0].id == "m30"
    assert index.search(-np.eye(DIM)[1], k=1)[0].id == "newer"
    assert index.search(VECTORS[30], k=1)[0].id != "m30"
    assert "newer" in index.recall("new", k=5).ids
    assert not set(IDS[:20]) & set(index.search(VECTORS[3], k=COUNT).ids)
    found = index.search_many(VECTORS[40:], k=1)
    assert np.mean([hits[0].id == id for hits, id in zip(found, IDS[40:], strict=True)]) > 0.99


def test_what_was_committed_is_added(path, built):
    index = PredictiveAssociativeIndex.open(path)
    change(index)
    end(index)
    for _ in range(2):  # killed again, before anything was saved
        index = PredictiveAssociativeIndex.open(path)
        assert_changed(index)
        end(index)
    with PredictiveAssociativeIndex.open(path) as index:
        assert_changed(index)
        expected = [(hit.id, hit.score) for hits in index.recall_many(IDS[50:COUNT:97], k=5) for hit in hits]
    with PredictiveAssociativeIndex.open(path) as index:
        assert_changed(index)
        found = [(hit.id, hit.score) for hits in index.recall_many(IDS[50:COUNT:97], k=5) for hit in hits]
        assert found == expected
    assert not built
    assert check(path) == []


@pytest.mark.parametrize("follow", [False, True])
def test_readers_beside_a_writer_take_it_with_what_changed_since(path, built, follow):
    with PredictiveAssociativeIndex.open(path, read_only=True, follow=follow) as early:
        files = {file.name for file in path.iterdir()}
        with PredictiveAssociativeIndex.open(path) as writer:
            change(writer)
            with PredictiveAssociativeIndex.open(path, read_only=True, follow=follow) as reader:
                for one in (early, reader):
                    one.refresh()
                    assert_changed(one)
                writer.delete("new")
                writer.add(VECTORS[:1], ["last"])
                reader.refresh()
                assert "new" not in reader.search(-np.eye(DIM)[0], k=3).ids
                assert reader.search(VECTORS[0], k=1)[0].id == "last"
                assert writer.search(VECTORS[0], k=1)[0].id == "last"
        assert early.refresh() or follow
        assert early.search(VECTORS[0], k=1)[0].id == "last"
    assert {file.name.split(".")[0] for file in path.iterdir() if file.name.startswith("keys")} == {
        name.split(".")[0] for name in files if name.startswith("keys")
    }
    with PredictiveAssociativeIndex.open(path) as index:
        assert index.search(VECTORS[0], k=1)[0].id == "last"
    assert not built


@pytest.mark.parametrize("mode", [{}, {"read_only": True}, {"read_only": True, "follow": True}])
def test_damaged_keys_are_noticed_while_the_database_has_no_checksum(path, tmp_path, built, mode):
    """After a kill, or beside a writer, nothing is verified in the background."""
    writer = PredictiveAssociativeIndex.open(path)
    writer.add(-VECTORS[:1], ["new"])
    killed = shutil.copytree(path, tmp_path / "killed")
    (file,) = killed.glob("keys-*.f32")
    file.write_bytes(bytes(1_000) + file.read_bytes()[1_000:])
    with PredictiveAssociativeIndex.open(killed, **mode) as index:
        assert built
        assert index.search(VECTORS[3], k=1)[0].id == "m3"
        assert index.search(-VECTORS[0], k=1)[0].id == "new"
    writer.close()


@pytest.mark.parametrize("grows", [False, True])
def test_a_writer_that_replaces_the_file_of_keys_is_no_damage_for_a_reader(path, monkeypatch, grows):
    """It overwrites removed keys, or trains again. A background check of a reader may read the file after that."""
    begun, verify = threading.Event(), Verification._verify
    with monkeypatch.context() as patch:
        patch.setattr(Verification, "_verify", lambda self, copies: (begun.wait(), verify(self, copies)))
        reader = PredictiveAssociativeIndex.open(path, read_only=True)
    with PredictiveAssociativeIndex.open(path) as writer:
        writer.delete("m6")
        if grows:
            writer.add(np.tile(VECTORS, (4, 1)) + 1)
    begun.set()
    reader._store.database.finish_verifying()
    assert reader.search(VECTORS[9], k=1)[0].id == "m9"
    reader.close()


def test_changes_of_other_data_leave_it_as_it_is(path, built):
    index = PredictiveAssociativeIndex.open(path)
    index.feedback(VECTORS[3], ["m5"], text="which one?")
    index.set_capacity(None)
    end(index)
    with PredictiveAssociativeIndex.open(path) as index:
        assert index.search(VECTORS[3], k=1)[0].id == "m3"
    assert not built


def test_links_are_of_the_last_commit(path):
    index = PredictiveAssociativeIndex.open(path)
    index.observe(["m7", "m1000", "m2000"])
    end(index)
    with PredictiveAssociativeIndex.open(path) as index:
        assert {"m1000", "m2000"} <= set(index.recall("m7", k=12).ids)


def test_after_a_fit_it_is_built(path, built):
    index = PredictiveAssociativeIndex.open(path)
    index.fit([IDS[:6]], config=CONFIG, progress=False, from_scratch=True)
    expected = index.recall("m2", k=5).ids
    end(index)
    built.clear()
    with PredictiveAssociativeIndex.open(path) as index:
        assert built
        assert index.recall("m2", k=5).ids == expected


def test_where_most_changed_it_is_built(path, built):
    index = PredictiveAssociativeIndex.open(path)
    index.add(VECTORS[:1_000] + 1, IDS[:1_000])
    end(index)
    with PredictiveAssociativeIndex.open(path) as index:
        assert built
        assert index.search(VECTORS[100] + 1, k=1)[0].id == "m100"


@pytest.mark.parametrize("backend", ["faiss:ivf,sq8", "faiss:hnsw"])
def test_what_open_had_to_build_is_saved_at_once(backend, tmp_path, built):
    path = tmp_path / "index"
    index = PredictiveAssociativeIndex.open(path, DIM, backend)
    index.add(VECTORS, IDS)
    end(index)
    built.clear()
    end(PredictiveAssociativeIndex.open(path))
    assert built
    built.clear()
    end(PredictiveAssociativeIndex.open(path))
    PredictiveAssociativeIndex.open(path).close()
    assert not built


def test_what_was_saved_at_once_is_searched_behind_a_wide_filter(tmp_path):
    """To save the file of full keys ends it after the last key: a search reads nothing of the room behind."""
    path, metadatas = tmp_path / "index", [{"g": at % 4} for at in range(COUNT)]
    index = PredictiveAssociativeIndex.open(path, DIM, "faiss:ivf,sq8")
    index.add(VECTORS, IDS, metadatas=metadatas)
    end(index)
    with PredictiveAssociativeIndex.open(path) as index:
        full = index._store.copies.indexes.whole._full
        assert len(full.mapped) == len(full)  # else the next search ends the process by a bus error
        assert index.search(VECTORS[6], k=1, where={"g": {"$ne": 1}})[0].id == "m6"
        index.add(-VECTORS[:3], ["new", "newer", "newest"])
        assert index.search(-VECTORS[1], k=1, where={"g": {"$ne": 1}})[0].id == "newer"
        assert len(full.mapped) == len(full)


def test_nothing_of_an_erased_memory_stays_in_the_files(path):
    index = PredictiveAssociativeIndex.open(path)
    key = index._store.copies.indexes.whole.keys(np.array([7]))[0].tobytes()
    assert holding(path, key)
    index.erase("m6")
    assert not holding(path, key)
    end(index)
    with PredictiveAssociativeIndex.open(path) as index:
        assert index.search(VECTORS[6], k=1)[0].id != "m6"
    assert check(path) == []


def test_nothing_of_a_deleted_memory_stays_in_the_files_after_close(path):
    index = PredictiveAssociativeIndex.open(path)
    key = index._store.copies.indexes.whole.keys(np.array([7]))[0].tobytes()
    index.delete("m6")
    end(index)
    PredictiveAssociativeIndex.open(path).close()
    assert not holding(path, key)
    with PredictiveAssociativeIndex.open(path) as index:
        assert index.search(VECTORS[6], k=1)[0].id != "m6"
    assert check(path) == []


def test_nothing_of_it_stays_in_the_files_if_few_are_left(path):
    """So few memories are not compressed, and the index that was saved is of no use."""
    with PredictiveAssociativeIndex.open(path) as index:
        key = index._store.copies.indexes.whole.keys(np.array([7]))[0].tobytes()
        index.delete(IDS[:1_200])
    assert not holding(path, key)
    assert not [file.name for file in path.iterdir() if file.name.startswith(("ann-", "keys-"))]
    with PredictiveAssociativeIndex.open(path) as index:
        assert index.search(VECTORS[1_300], k=1)[0].id == "m1300"


def test_a_kill_while_removed_keys_are_overwritten_harms_nothing(path, monkeypatch, built):
    """The setting that describes the file of keys is removed before."""
    index = PredictiveAssociativeIndex.open(path)
    index.delete(IDS[:20])
    with monkeypatch.context() as patch:
        patch.setattr(FaissBackend, "save", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.warns(RuntimeWarning, match="killed"):
            index.close()
    with PredictiveAssociativeIndex.open(path) as index:
        assert built
        assert index.search(VECTORS[700], k=1)[0].id == "m700"
    assert check(path) == []


@pytest.mark.parametrize("backend", ["faiss:ivf,sq8", "faiss:hnsw"])
def test_a_disk_that_is_full_for_the_setting_only_costs_a_build(backend, tmp_path, monkeypatch):
    index = PredictiveAssociativeIndex.open(tmp_path / "index", DIM, backend)
    index.add(VECTORS, IDS)
    put = SQLiteSettings.set

    def full(settings, key, value):
        if key in (SQLiteDatabase.ANN, SQLiteDatabase.GRAPH):
            raise StorageError("The disk is full.", "room", "Free some.")
        put(settings, key, value)

    with monkeypatch.context() as patch:
        patch.setattr(SQLiteSettings, "set", full)
        with pytest.warns(RuntimeWarning, match="disk is full"):
            index.close()
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert index.search(VECTORS[7], k=1)[0].id == "m7"
    assert check(tmp_path / "index") == []


def holding(path, key: bytes) -> list[str]:
    """Returns the names of the files that hold a key."""
    return [file.name for file in path.iterdir() if file.is_file() and key in file.read_bytes()]


def write_until_killed(path, acknowledged) -> None:
    index = PredictiveAssociativeIndex.open(path)
    random = np.random.default_rng(os.getpid())
    for n in range(10_000):
        index.add(random.standard_normal((3, DIM)), [f"{os.getpid()}-{n}-{at}" for at in range(3)])
        acknowledged.value = n + 1


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_and_the_next_builds_nothing(path, built):
    context = multiprocessing.get_context("spawn")
    stored = COUNT
    for _ in range(3):
        acknowledged = context.Value("l", 0)
        process = context.Process(target=write_until_killed, args=(path, acknowledged))
        process.start()
        while acknowledged.value < 20:
            assert process.is_alive()
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        index = PredictiveAssociativeIndex.open(path)
        stored += 3 * acknowledged.value
        assert stored <= len(index) <= stored + 3
        stored = len(index)
        ids = [record.id for record in index.find()][COUNT:]
        vectors = np.array([record.vector for record in index.get(ids)])
        found = index.search_many(vectors, k=1)
        assert [hits[0].id for hits in found] == ids
        end(index)
    assert not built


def test_a_kill_while_it_is_saved_again_costs_no_build(path, monkeypatch, built):
    """Files are saved under new names, so that the old ones stay whole until the setting names the new ones."""
    index = PredictiveAssociativeIndex.open(path)
    index.add(-7 * np.eye(DIM)[:2], ["new", "newer"])
    with monkeypatch.context() as patch:
        patch.setattr(ann_cache, "_save_links", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.warns(RuntimeWarning, match="killed"):
            index.close()
    with PredictiveAssociativeIndex.open(path) as index:
        assert index.search(-np.eye(DIM)[1], k=1)[0].id == "newer"
    assert not built
    assert check(path) == []


def test_a_reader_takes_no_files_of_a_later_save(path, monkeypatch):
    """A writer may save while a reader opens: it reads the files of its own snapshot, or builds the index."""
    writer = PredictiveAssociativeIndex.open(path)
    writer.set_capacity(10 * COUNT)  # removes the checksum, so that the reader needs not begin again
    load = np.load

    def later(file, **options):
        if str(file).endswith("links.npy") and not writer._store.closed:
            writer.observe(["m7", "m1000"])
            writer.close()
        return load(file, **options)

    with monkeypatch.context() as patch:
        patch.setattr(np, "load", later)
        reader = PredictiveAssociativeIndex.open(path, read_only=True)
    assert writer._store.closed
    assert reader.search(VECTORS[9], k=1)[0].id == "m9"
    assert "m1000" not in reader.recall("m7", k=8).ids
    reader.refresh()
    assert "m1000" in reader.recall("m7", k=8).ids
    reader.close()


def open_and_close(path, stop) -> None:
    for n in range(10_000):
        if stop.is_set():
            return
        with PredictiveAssociativeIndex.open(path) as index:
            index.observe([f"m{n % COUNT}", f"m{7 * n % COUNT}"])
            index.add(np.ones((1, DIM)), ["one"])


@pytest.mark.slow
@pytest.mark.parametrize("saved", ["faiss:ivf,sq8"], indirect=True)
def test_readers_and_checks_beside_a_writer_that_opens_and_closes(path):
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    process = context.Process(target=open_and_close, args=(path, stop))
    process.start()
    try:
        for n in range(12):
            assert check(path) == []
            with PredictiveAssociativeIndex.open(path, read_only=True, follow=n % 2 == 1) as reader:
                assert reader.search(VECTORS[9], k=1)[0].id == "m9"
        assert process.is_alive()
    finally:
        stop.set()
        process.join()
    assert process.exitcode == 0
