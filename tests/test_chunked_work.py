"""Work in chunks has the same result for every chunk size, also if others write between two chunks."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import DIM, QUICK, WINDOW

from pam_retriever import FitConfig, IndexFormatError, PredictiveAssociativeIndex
from pam_retriever.ann import FaissBackend, base, factory, make_backend
from pam_retriever.ann import faiss as faiss_backend
from pam_retriever.store.folder.repair import check
from pam_retriever.store.stored_keys import StoredVectors

SMALL = FitConfig(hidden=16, passes=1)
BACKENDS = ["exact", "faiss:flat", "faiss:hnsw", "faiss:ivf", "faiss:ivf,sq8"]


@pytest.fixture(params=[64, *(pytest.param(size, marks=pytest.mark.slow) for size in (100, 200))])
def at_once(request, monkeypatch) -> int:
    """Sets the chunk size: 200 memories are four chunks and a remainder, two chunks, or one."""
    monkeypatch.setattr(base, "AT_ONCE", request.param)
    monkeypatch.setattr(faiss_backend, "BLOCK", request.param)
    return request.param


def associations_are_f(index: PredictiveAssociativeIndex) -> None:
    """Checks the association vectors in the database and in the index, for every memory."""
    bank = index._store
    rows = bank.database.memories.rows()
    vectors, stored = bank.database.memories.stored(rows, index.dim, bank.predictor.config.width)
    np.testing.assert_allclose(stored[:, : index.dim], bank.predictor(vectors)[:, : index.dim], atol=1e-5)
    length = np.linalg.norm(stored[:, index.dim :], axis=1)  # lengths of the codes
    experienced = bank.links.experienced(rows)
    assert not length[~experienced].any()
    assert np.isclose(length[experienced], 1, atol=1e-5).sum() >= experienced.sum() - 2  # except two later memories
    np.testing.assert_array_equal(bank.associative.keys(rows)[:, index.dim :], stored)
    assert len(bank.associative) == len(bank.similar) == len(rows)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_switch_over_in_chunks(planted, tmp_path, at_once, backend, monkeypatch):
    """After a fit that works in chunks every memory has its association vector, also when the index is opened again."""
    monkeypatch.setattr("pam_retriever.ann.factory.IVF_FROM", 100)
    path = tmp_path / "index"
    with PredictiveAssociativeIndex.open(path, DIM, backend) as index:
        index.add(planted.vectors, planted.ids)
        index.delete(planted.ids[60:70])  # the row numbers have a gap
        index.fit([o for o in planted.outings if "m060" not in o], window=WINDOW, config=QUICK, progress=False)
        associations_are_f(index)
        before = [[hit.id for hit in hits] for hits in index.recall(planted.ids[:20], k=3)]
    for read_only in (False, True):
        with PredictiveAssociativeIndex.open(path, read_only=read_only) as index:
            associations_are_f(index)
            assert [[hit.id for hit in hits] for hits in index.recall(planted.ids[:20], k=3)] == before
    assert check(path) == []


def test_what_changes_between_two_chunks_is_caught_up(planted, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "AT_ONCE", 64)
    monkeypatch.setattr(faiss_backend, "BLOCK", 64)
    real, read = StoredVectors.__getitem__, []

    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        index.add(planted.vectors, planted.ids)

        def reading(self, part):
            read.append(part)
            if len(read) == 2:
                index.delete(["m010", "m100", "m199"])  # in a finished chunk, in this one, and in a later one
                index.add(-planted.vectors[20:21], ["m020"])
                index.add(-planted.vectors[150:151], ["m150"])
                index.add(-planted.vectors[:1], ["new"])
                index.add(planted.vectors[10:11], ["m010"])  # added again after its deletion, so it has another row
            return real(self, part)

        monkeypatch.setattr(StoredVectors, "__getitem__", reading)
        index.fit(planted.outings, window=WINDOW, config=SMALL, progress=False)
        assert len(read) == 4
        associations_are_f(index)
        everything = {hit.id for hit in index.recall("m000", k=500)} | {"m000"}
        assert everything == (set(planted.ids) | {"new"}) - {"m100", "m199"}
        assert index.search(-planted.vectors[150], k=1)[0].id == "m150"
    assert check(tmp_path / "index") == []


class Killed(BaseException):
    pass


@pytest.mark.parametrize("chunk", [1, pytest.param(3, marks=pytest.mark.slow), "commit"])
def test_a_kill_between_two_chunks_leaves_the_old_state(planted, tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(base, "AT_ONCE", 64)
    monkeypatch.setattr(faiss_backend, "BLOCK", 64)
    path = tmp_path / "index"
    with PredictiveAssociativeIndex.open(path, DIM) as index:
        index.add(planted.vectors, planted.ids)
        index.fit(planted.outings, window=WINDOW, config=SMALL, progress=False)
        before = [(hit.id, hit.score) for hit in index.recall("m044", k=20)]
    index = PredictiveAssociativeIndex.open(path)
    memories, done = index._store.database.memories, []
    real_read, real_set = StoredVectors.__getitem__, memories.set_associations

    def read(self, part):
        done.append(part)
        if len(done) == chunk:
            raise Killed
        return real_read(self, part)

    def store(*arguments):
        if chunk == "commit" and len(done) == 6:
            raise Killed
        done.append(arguments)
        real_set(*arguments)

    monkeypatch.setattr(StoredVectors, "__getitem__", read)
    monkeypatch.setattr(memories, "set_associations", store)
    with pytest.raises(Killed):
        index.fit(config=SMALL, seed=7, progress=False)
    assert [(hit.id, hit.score) for hit in index.recall("m044", k=20)] == before
    associations_are_f(index)
    index._store._writable_folder.close()  # only releases the folder, as a kill does
    with PredictiveAssociativeIndex.open(path) as index:
        assert [(hit.id, hit.score) for hit in index.recall("m044", k=20)] == before
        associations_are_f(index)


def test_chunks_are_trained_on_a_sample_of_all_of_them(monkeypatch):
    """An index trains on a sample of all chunks. These keys are sorted: the first chunk is not like the others."""
    monkeypatch.setattr(base, "AT_ONCE", 4_000)
    monkeypatch.setattr(faiss_backend, "BLOCK", 4_000)
    monkeypatch.setattr(factory, "SAMPLED", 3_000)
    keys = np.random.default_rng(2).standard_normal((20_000, 24)).astype(np.float32)
    keys += 5 * np.repeat(np.eye(24, dtype=np.float32)[:5], 4_000, axis=0)
    asked, exact = keys[::199] + 0.01, make_backend("exact", 24)
    exact.rebuild(np.arange(20_000), keys)
    right = exact.search(asked, 10)[1]

    def found() -> float:
        backend = FaissBackend(24, "ivf,sq8")
        backend.rebuild(np.arange(20_000), keys)
        np.testing.assert_array_equal(backend.keys(np.arange(20_000)), keys)
        return float(np.mean([np.isin(a, b).mean() for a, b in zip(backend.search(asked, 10)[1], right, strict=True)]))

    in_chunks = found()
    monkeypatch.setattr(faiss_backend, "BLOCK", 20_000)
    assert in_chunks > max(found() - 0.02, 0.9)


def test_a_vector_that_is_missing_is_no_shorter_index(planted):
    """If a stored vector is missing, opening fails; the index does not silently lose a memory."""
    index = PredictiveAssociativeIndex(DIM)
    index.add(planted.vectors, planted.ids)
    database = index._store.database.connection
    database.fetch("DELETE FROM vectors WHERE row = 77")
    with pytest.raises(IndexFormatError, match="200 memories, but 199 vectors"):
        index._store.copies.refresh()


class Reader:
    """Keys that are read, and the slices of the reads."""

    def __init__(self, keys: np.ndarray) -> None:
        self._keys, self.slices = keys, []

    def __getitem__(self, chunk: slice) -> np.ndarray:
        if chunk.step is None:  # else the sample for training
            self.slices.append(chunk)
        return self._keys[chunk]


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_indexes_read_the_same_few_keys_at_once(planted, monkeypatch, backend):
    """A read stays in the cache. The other processes of a distributed fit make the same reads without an index."""
    monkeypatch.setattr("pam_retriever.ann.factory.IVF_FROM", 100)
    for block in (100_000, 2_000):
        monkeypatch.setattr(faiss_backend, "BLOCK", block)
        reader = Reader(np.tile(planted.vectors, (21, 1)))
        index, rows = make_backend(backend, DIM), np.arange(21 * len(planted.vectors))
        index.rebuild(rows, reader)
        np.testing.assert_array_equal(index.keys(rows), reader[:])
        assert reader.slices[:-1] == list(base.chunks(len(rows)))


@pytest.mark.parametrize("size", [1, 3, 4, 7])
def test_steps_are_read_in_blocks(size, monkeypatch):
    index = PredictiveAssociativeIndex(dim=7)
    for at, name in enumerate(["first"] * 4 + ["second"] * 2 + ["third"]):
        index.append(name, np.eye(7)[at])
    stored = index._store.database.trajectories
    whole = stored.experienced()
    monkeypatch.setattr("pam_retriever.store.sqlite.trajectories.STEPS_AT_ONCE", size)
    assert len(whole[0]) == 7
    for found, expected in zip(stored.experienced(), whole, strict=True):
        np.testing.assert_array_equal(found, expected)
