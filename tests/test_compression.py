"""An index with compressed keys answers as one with full keys, and stores each key once."""

from __future__ import annotations

import json
import resource
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pam_retriever import Channels, FitConfig, InvalidInput, PredictiveAssociativeIndex, StorageError
from pam_retriever.ann import FaissBackend, make_backend
from pam_retriever.ann.factory import choose
from pam_retriever.model.keys import unit

COUNT, DIM, LENGTH = 4_000, 24, 10
CONFIG = FitConfig(passes=2, hidden=64)
NAMES = ["faiss:flat,fp16", "faiss:flat,sq8", "faiss:hnsw,sq8", "faiss:ivf,fp16", "faiss:ivf,sq8", "faiss:ivf,pq"]


def world() -> tuple[np.ndarray, list[list[str]]]:
    random = np.random.default_rng(5)
    centres = random.standard_normal((40, DIM))
    states = centres[random.integers(0, 40, COUNT)] + 0.4 * random.standard_normal((COUNT, DIM))
    begins = range(0, COUNT - LENGTH, LENGTH)  # the last memories are in no trajectory
    return states.astype(np.float32), [[str(at) for at in range(s, s + LENGTH)] for s in begins]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Makes copies of a fitted index with another backend, in a folder or in memory."""
    states, trajectories = world()
    index = PredictiveAssociativeIndex(DIM, "exact")
    index.add(states, ids=[str(at) for at in range(COUNT)])
    index.fit(trajectories, config=CONFIG, progress=False)
    saved = tmp_path_factory.mktemp("fitted") / "index"
    index.save(saved)

    def make(backend: str, path: Path | None = None) -> PredictiveAssociativeIndex:
        folder = path or tmp_path_factory.mktemp("copy") / "index"
        shutil.copytree(saved, folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, "backend": backend}))
        return PredictiveAssociativeIndex.load(folder) if path is None else PredictiveAssociativeIndex.open(folder)

    return make


@pytest.fixture(scope="module")
def exact(fitted):
    return fitted("exact")


def overlap(found, expected) -> float:
    pairs = zip(found, expected, strict=True)
    return float(np.mean([len({h.id for h in a} & {h.id for h in b}) / len(b) for a, b in pairs]))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "faiss:ivf,sq8")) for name in NAMES]
)
def test_the_index_answers_as_with_full_keys(name, exact, fitted):
    index, states = fitted(name), world()[0]
    asked = [str(at) for at in range(0, COUNT, 101)]
    noisy = states[::101] + 0.02
    for answer in (
        lambda i: i.recall(asked, k=10),
        lambda i: i.recall(noisy, k=10),
        lambda i: i.search(noisy, k=10),
    ):
        found, expected = answer(index), answer(exact)
        assert overlap(found, expected) > 0.97
        scores = {h.id: h.score for h in expected[0]}
        for hit in found[0]:
            assert hit.score == pytest.approx(scores.get(hit.id, hit.score), abs=1e-4)
    for channels in (Channels(forward=1, reverse=1, mutual=2), Channels(episode=1)):
        found, expected = (i.recall(asked, k=5, channels=channels) for i in (index, exact))
        # lower, because such a query uses a part of the key, but the whole key determines the cell
        assert overlap(found, expected) > 0.85
    with np.errstate(invalid="raise"):  # such a memory has no code; the division by its length must not warn
        index.recall(str(COUNT - 1), k=5, channels=Channels(episode=1))
    assert index._store.copies.indexes.own is None  # keys are stored once
    assert f"{name} ({name.split(':')[1]})" in repr(index)


@pytest.mark.slow
def test_a_shared_index_follows_every_change(tmp_path, fitted):
    with fitted("faiss:ivf,sq8", tmp_path / "index") as index:
        new = np.eye(DIM, dtype=np.float32)[:1] * 9
        index.add(new, ids=["new"])
        assert index.search(new[0], k=1)[0].id == "new"
        index.delete("new")
        assert index.search(new[0], k=1)[0].id != "new"
        index.add(new, ids=["3"])
        assert index.search(new[0], k=1)[0].id == "3"
        index.fit([["3", "77"]], config=CONFIG, progress=False)
        assert index.search(new[0], k=1)[0].id == "3"
        assert "77" in index.recall("3", k=12).ids
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert index.search(new[0], k=1)[0].id == "3"
        assert index._store.copies.indexes.own is None  # keys are stored once
        index.prune(keep=100)  # too few memories to compress
        assert len(index.search(new[0], k=200)) == 100


def answers(index) -> list:
    return [(hit.id, hit.score) for hits in index.recall([str(at) for at in range(0, COUNT, 301)], k=5) for hit in hits]


def test_reopening_takes_the_index_that_close_saved(tmp_path, built, fitted):
    path = tmp_path / "index"
    with fitted("faiss:ivf,sq8", path) as index:
        before = answers(index)
    built.clear()
    for read_only in (False, True, False):
        with PredictiveAssociativeIndex.open(path, read_only=read_only) as index:
            assert answers(index) == before
    assert not built
    assert sorted(file.suffix for file in path.glob("*-*") if file.suffix in (".faiss", ".npy", ".f32")) == [
        ".f32",
        ".faiss",
        ".npy",
        ".npy",
    ]
    with PredictiveAssociativeIndex.open(path) as writer:
        writer.add(9 * np.eye(DIM)[:1], ids=["new"])
        with PredictiveAssociativeIndex.open(path, read_only=True) as reader:
            assert reader.search(np.eye(DIM)[0], k=1)[0].id == "new"
        assert not built
        writer.delete("new")
        assert answers(writer) == before
    with PredictiveAssociativeIndex.open(path) as index:
        assert answers(index) == before
        assert index.search(np.eye(DIM)[0], k=1)[0].id != "new"
    assert not built


@pytest.mark.parametrize("harm", ["gone", "short", "flipped", "elsewhere"])
def test_a_damaged_saved_index_is_built_again(tmp_path, built, harm, fitted):
    path = tmp_path / "index"
    with fitted("faiss:ivf,sq8", path) as index:
        before = answers(index)
    (codes,), (keys,) = path.glob("*.faiss"), path.glob("*.f32")
    if harm == "gone":
        codes.unlink()
    elif harm == "short":
        keys.write_bytes(keys.read_bytes()[:-4])
    elif harm == "flipped":
        contents = bytearray(codes.read_bytes())
        contents[len(contents) // 2] ^= 1
        codes.write_bytes(contents)
    else:
        index = PredictiveAssociativeIndex.open(path)
        with index._store.database.transaction():
            index._store.database.settings.set("ann-saved", {"name": "../../etc", "checksums": []})
        index._store._writable_folder.close()
    built.clear()
    with PredictiveAssociativeIndex.open(path) as index:
        assert built
        assert set(answers(index)) == set(before) or len(set(answers(index)) ^ set(before)) < 6


def test_what_is_in_memory_is_what_the_code_takes():
    """A compressed index takes as many bytes of memory as its code needs, plus a fixed overhead for each key."""
    random = np.random.default_rng(0)
    keys = unit(random.standard_normal((10_000, 64)).astype(np.float32))
    bytes_a_key = {}
    for name in ("ivf", "ivf,fp16", "ivf,sq8", "ivf,pq", "hnsw,sq8"):
        backend = FaissBackend(64, name)
        backend.rebuild(np.arange(len(keys)), keys)
        bytes_a_key[name] = (backend.bytes - 4 * backend.choice.cells * 64) / len(keys)
        assert repr(backend) == f"FaissBackend(10,000 rows of 64, {name.replace(',', ', ')}: asked for)"
    overhead = 16 + 16  # the number and the cell that FAISS stores with a key; the row and the place of the key
    assert bytes_a_key["ivf"] == 256 + overhead
    assert bytes_a_key["ivf,fp16"] == 128 + overhead
    assert bytes_a_key["ivf,sq8"] == 64 + overhead
    assert bytes_a_key["ivf,pq"] == 16 + overhead
    assert 64 + 256 < bytes_a_key["hnsw,sq8"] < 64 + 256 + 40


def test_auto_reports_its_choice_and_the_reason():
    assert (choose("auto", "", 50_000, 10).kind, choose("auto", "", 500_000, 10).kind) == ("flat", "hnsw")
    large = choose("auto", "", 10_000_000, 320)
    assert (large.kind, large.code) == ("ivf", "sq8")
    assert "float32 keys are 12.8 GB" in large.reason
    assert "exact" in repr(make_backend("faiss", 8))
    assert "faiss (flat: a scan of up to 100,000 keys is exact" in repr(PredictiveAssociativeIndex(3))
    assert choose("ivf", "sq8", 1_000, 8).code == ""  # too few memories to train on


def test_compressing_by_a_code_that_does_not_fit_is_refused():
    for name in ("faiss:hnsw,pq", "faiss:ivf,sq4", "faiss:,sq8"):
        with pytest.raises(InvalidInput):
            PredictiveAssociativeIndex(4, name)


@contextmanager
def full_disk():
    """Limits the files of this process to 10 kB. (SQLite is in memory in these tests.)"""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["faiss:flat,sq8", pytest.param("faiss:ivf,sq8", marks=pytest.mark.slow)])
def test_a_disk_too_full_for_a_key_leaves_the_index_as_it_was(name, fitted):
    index, states = fitted(name), world()[0]
    hits = index.recall("7", k=5)
    for change in (
        lambda: index.add(-states[:3000], ids=[f"new {at}" for at in range(3000)]),
        lambda: index.observe(-states[:3000]),
        lambda: index.fit([-states[:3000]], config=CONFIG, progress=False),
    ):
        with full_disk(), pytest.raises(StorageError, match="cannot be written"):
            change()
        assert len(index) == len(index.find()) == COUNT
        assert index.recall("7", k=5) == hits
    index.add(-states[:3000], ids=[f"new {at}" for at in range(3000)])
    assert index.search(-states[1], k=1)[0].id == "new 1"


@pytest.mark.parametrize("name", ["faiss:flat", "faiss:flat,sq8"])
@pytest.mark.parametrize("change", ["add", "delete", "observe", "prune"])
def test_what_was_interrupted_after_it_was_stored_is_found(name, change, monkeypatch, fitted):
    """After an interrupt between the database and the ANN index, the next reader builds the ANN index again."""
    index, states = fitted(name), world()[0]

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        for method in ("add", "remove", "rebuild"):
            patched.setattr(FaissBackend, method, interrupted)
        with pytest.raises(KeyboardInterrupt):
            {
                "add": lambda: index.add(-states[:5], ids=["7", "a", "b", "c", "d"]),
                "delete": lambda: index.delete(["7", "8"]),
                "observe": lambda: index.observe(-states[:10]),
                "prune": lambda: index.prune(3_000),
            }[change]()
    count = {"add": COUNT + 4, "delete": COUNT - 2, "observe": COUNT + 10, "prune": 3_000}[change]
    assert len(index) == len(index.search(states[0], k=9000)) == count
    other = PredictiveAssociativeIndex(DIM, name)
    other.add([record.vector for record in index.find()], ids=[record.id for record in index.find()])
    for asked in (states[50], -states[1]):
        assert [hit.id for hit in index.search(asked, k=5)] == [hit.id for hit in other.search(asked, k=5)]
    index.add(states[:1] + 1, ids=["goes on"])
    assert index.search(states[0] + 1, k=1)[0].id == "goes on"


def test_a_disk_that_fills_up_after_all_loses_nothing(fitted):
    """If a write fails although its space was reserved, stored memories are found as soon as there is space."""
    index, states = fitted("faiss:flat,sq8"), world()[0]
    with full_disk():  # the reservation succeeds, because it is inside an existing file
        with pytest.raises(StorageError, match="stored already"):
            index.add(-states[7:8], ids=["7"])
        with pytest.raises(StorageError, match="cannot be written"):
            index.search(states[0])
    assert index.search(-states[7], k=1)[0].id == "7"
    assert len(index) == len(index.search(states[0], k=9000)) == COUNT


def test_a_fit_that_fails_at_its_very_end_is_there_once_there_is_disk_space(monkeypatch, fitted):
    """If a fit fails after its commit, the next reader updates the copies in memory; no rebuild stays open."""
    index, states = fitted("faiss:flat,sq8"), world()[0]
    real = FaissBackend.add

    def fails(*_):
        raise StorageError("No room.", "some", "Make some.")

    monkeypatch.setattr(FaissBackend, "add", fails)
    with pytest.raises(StorageError, match="stored already"):
        index.fit([-states[:20]], config=CONFIG, progress=False)
    monkeypatch.setattr(FaissBackend, "add", real)
    assert index._store.database.noted == []
    assert len(index) == len(index.search(states[0], k=9000)) == COUNT + 20
    new = [record.id for record in index.find()][COUNT:]
    met = {hit.id for hit in index.recall(new[9], k=10, faithful=True)}
    assert met == set(new[4:15]) - {new[9]}


@pytest.mark.parametrize("code", ["sq8", "pq"])
def test_keys_that_are_added_after_an_erasure_are_found(code, tmp_path):
    """FAISS gave a key the bits of an erased one in its cell, so a search by codes missed it."""
    random = np.random.default_rng(0)
    keys = unit(random.standard_normal((3_000, 16)).astype(np.float32))
    backend = FaissBackend(16, f"ivf,{code}", tmp_path)
    backend.rebuild(np.arange(3_000), keys)
    backend.remove(np.arange(500))
    backend.erase_removed()
    backend.add(np.arange(5_000, 5_500), keys[:500])
    found = backend.search(keys[:500], 1)[1][:, 0]
    np.testing.assert_array_equal(found, np.arange(5_000, 5_500))


def test_codes_of_an_earlier_version_are_not_read(tmp_path):
    """It may have added wrong 4-bit codes after an erasure, and no file tells. ``open`` builds them anew."""
    keys = unit(np.random.default_rng(0).standard_normal((3_000, 16)).astype(np.float32))
    backend = FaissBackend(16, "ivf,pq", tmp_path)
    backend.rebuild(np.arange(3_000), keys)
    saved = backend.save(tmp_path, "ann-0123456789ab")
    FaissBackend(16, "ivf,pq").restore(tmp_path, saved, read_only=True)
    del saved["measured"]
    with pytest.raises(ValueError, match="earlier version"):
        FaissBackend(16, "ivf,pq").restore(tmp_path, saved, read_only=True)
