"""Episode codes: each memory has a learnt vector, its code, which represents its experience."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import DIM, QUICK, TINY, WINDOW, new_index

from pam_retriever import Channels, FitConfig, PredictiveAssociativeIndex
from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.model.episode_embeddings import EpisodeEmbeddings
from pam_retriever.model.keys import query_vectors
from pam_retriever.store.folder.repair import check, repair
from pam_retriever.training.config import TrainingRequest
from pam_retriever.training.embedding_table import FORGETS, SPEED, EmbeddingTable
from pam_retriever.training.shards import InMemoryShards
from pam_retriever.training.trainer import Trainer

EPISODE = Channels(episode=1)
LINE = Experience(np.arange(6), np.zeros(6, np.int64), np.arange(6))


def code_of(index, id):
    store = index._store
    return store.codes_of(np.array([store.database.memories.rows_of([id])[id]]))[0]


def test_the_codes_alone_name_the_associates_of_every_stored_cue(fitted, planted):
    for id, hits in zip(planted.ids, fitted.recall(planted.ids, k=4, channels=EPISODE), strict=True):
        known = planted.associates(id)
        assert {hit.id for hit in hits[: len(known)]} == known


def test_only_experienced_memories_have_a_code(fitted, planted, tmp_path):
    fitted.save(tmp_path / "copy")
    with PredictiveAssociativeIndex.open(tmp_path / "copy") as index:
        index.add(planted.vectors[:1] + 1, ["new"])
        assert not code_of(index, "new").any()
        assert np.linalg.norm(code_of(index, "m001")) == pytest.approx(1, abs=1e-5)
        assert index.recall("new", k=3, channels=EPISODE)[0].score == 0


def test_a_memory_that_is_replaced_keeps_its_code_and_its_new_vector_decides_f(fitted, planted, tmp_path):
    fitted.save(tmp_path / "copy")
    with PredictiveAssociativeIndex.open(tmp_path / "copy") as index:
        before = code_of(index, "m005")
        index.add(np.concatenate([planted.vectors[5:6] + 3, planted.vectors[:1]]), ["m005", "another"])
        np.testing.assert_array_equal(code_of(index, "m005"), before)
        row = index._store.database.memories.rows_of(["m005"])["m005"]
        key = index._store.associative.keys(np.array([row]))[0]
        np.testing.assert_allclose(
            key[DIM : 2 * DIM], index._store.view().predict(planted.vectors[5:6] + 3)[0, :DIM], atol=1e-5
        )
        np.testing.assert_array_equal(key[2 * DIM :], before)
    with PredictiveAssociativeIndex.open(tmp_path / "copy") as index:
        np.testing.assert_array_equal(code_of(index, "m005"), before)


def test_states_given_with_their_trajectory_get_codes_too(planted):
    index = PredictiveAssociativeIndex(dim=DIM)
    index.fit([planted.vectors[start : start + 10] for start in range(0, 50, 10)], config=TINY, progress=False)
    store = index._store
    assert np.allclose(np.linalg.norm(store.codes_of(store.database.memories.rows()), axis=1), 1, atol=1e-5)


def test_learning_more_leaves_the_old_codes_useful(planted):
    """After a fit of the second half, the codes of the first half still find its associates."""
    index = new_index(planted)
    half = len(planted.outings) // 2
    index.fit(planted.outings[:half], window=WINDOW, config=TINY, progress=False)
    index.fit(planted.outings[half:], window=WINDOW, config=TINY, progress=False)
    old = [id for outing in planted.outings[:half] for id in outing]
    for id, hits in zip(old, index.recall(old, k=4, channels=EPISODE), strict=True):
        known = planted.associates(id)
        assert {hit.id for hit in hits[: len(known)]} == known


@pytest.mark.parametrize("streamed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_is_learnt_later_moves_no_code_of_a_memory_without_new_experience(planted, streamed):
    index = new_index(planted)
    index.fit(planted.outings[:10], window=WINDOW, config=TINY, progress=False)
    before = {id: code_of(index, id) for id in planted.ids[:100]}
    later = [*planted.outings[10:], ["m003", "m150"]]
    index.fit(iter(later) if streamed else later, window=WINDOW, config=TINY, progress=False)
    assert {id for id in before if not np.array_equal(code_of(index, id), before[id])} == {"m003"}
    assert all(code_of(index, id).any() for id in planted.ids)


def test_a_cue_without_a_code_is_scored_by_the_mean_of_the_other_channels():
    units = np.eye(2, 3, dtype=np.float32)
    predicted = np.concatenate([units[::-1], [[1, 0], [0, 0]]], axis=1, dtype=np.float32)  # the second cue has no code
    both = query_vectors(Channels(forward=1, episode=4), units, units, predicted)
    np.testing.assert_allclose(both[0], [0, 0.2, 0, 0, 0, 0, 0.8, 0])
    np.testing.assert_allclose(both[1], [1, 0, 0, 0, 0, 0, 0, 0])
    assert not query_vectors(EPISODE, units, units, predicted)[1].any()


def test_a_training_step_changes_only_the_requested_rows():
    """A training step equals the same step in plain NumPy, and leaves other rows unchanged."""
    random = np.random.default_rng(0)
    book = EmbeddingTable(np.zeros((6, 4), np.float32))
    book.begin(np.arange(6), random.standard_normal((6, 3)), associate(LINE, 6, 2), seed=0)
    values, rows, moments = book.values.copy(), np.array([1, 4]), np.zeros(2)
    target = torch.from_numpy(random.standard_normal((2, 4)).astype(np.float32))
    for rate in (1e-3, 3e-3):
        codes = book.ask(rows, np.zeros(2, bool), torch.device("cpu"))
        (codes * target).sum().backward()
        book.learn(rate)
        old = values[rows].astype(np.float64)
        # the part of the gradient that is tangential to the unit sphere
        gradient = target.numpy() - old * (old * target.numpy()).sum(1, keepdims=True)
        moments = FORGETS * moments + (1 - FORGETS) * np.square(gradient).mean(1)
        moved = old - SPEED * rate * gradient / np.sqrt(moments)[:, None]
        values[rows] = moved / np.linalg.norm(moved, axis=1, keepdims=True)
        np.testing.assert_allclose(book.values, values, atol=1e-5)


def test_codes_are_looked_up_by_row_and_by_id():
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    codes = EpisodeEmbeddings(np.array([3, 5, 9]), values, {"a": 1, "new": 3})
    np.testing.assert_array_equal(codes.of(np.array([9, 4, 3, 100])), [[4, 5], [0, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(codes.named(["new", "unknown", "a"]), [[6, 7], [0, 0], [2, 3]])
    assert codes.of(np.empty(0, np.int64)).shape == (0, 2)
    np.testing.assert_array_equal(EpisodeEmbeddings(np.empty(0, np.int64), values).of(np.array([1])), [[0, 0]])


def test_codes_begin_as_the_context_and_those_that_are_there_stay():
    """A new code begins as the context of its memory; existing codes stay."""
    vectors = np.eye(6, dtype=np.float32)
    for book in (EmbeddingTable(np.zeros((9, 1_000), np.float32)), EmbeddingTable.on_disk(9, 1_000)):
        rows = np.arange(3, 9)
        book.begin(rows, vectors, associate(LINE, 6, 1), seed=0)
        np.testing.assert_allclose(np.linalg.norm(book.values, axis=1), np.arange(9) > 2, atol=1e-5)
        m = book.values[3:]
        assert m[0] @ m[1] > 0.6 > 0.2 > m[0] @ m[3]  # contexts {0, 1} and {0, 1, 2} overlap, and {2, 3, 4} is apart
        before = m.copy()
        book.values[3:] = np.roll(m, 1, axis=0)
        book.values[5] = 0
        book.begin(rows, vectors, associate(LINE, 6, 1), seed=0)
        np.testing.assert_array_equal(np.delete(book.values[3:], 2, 0), np.delete(np.roll(before, 1, axis=0), 2, 0))
        np.testing.assert_allclose(book.values[5], before[2], atol=1e-5)


def test_memories_that_all_look_the_same_get_codes_of_their_own():
    book = EmbeddingTable(np.zeros((6, 64), np.float32))
    book.begin(np.arange(6), np.ones((6, 4), np.float32), associate(LINE, 6, 1), seed=0)
    # except two pairs: at each end two memories have the same context
    assert (book.values @ book.values.T < 0.99).sum() >= 6 * 5 - 4


def test_without_codes_there_are_none(planted):
    experience = Experience(np.arange(200), np.arange(200) // 10, np.arange(200) % 10)
    shards, request = InMemoryShards(planted.vectors, experience), TrainingRequest(progress=False)
    assert Trainer(shards, WINDOW, replace(QUICK, code=0), request).run().embeddings.shape == (200, 0)
    index = new_index(planted)
    index.fit(planted.outings, config=replace(QUICK, code=0), progress=False)
    assert len(index.recall("m005", k=3)) == 3
    index.fit(iter(planted.outings), buffer=60, config=replace(QUICK, code=0), progress=False)
    assert len(index.recall("m005", k=3)) == 3


@pytest.mark.parametrize("buffer", [None, pytest.param(30, marks=pytest.mark.slow)])
def test_a_memory_that_was_experienced_alone_has_no_code(planted, buffer):
    index = new_index(planted)
    walks = [*planted.outings[:10], ["m150", "m150"], ["m160", "m161"]]
    index.fit(walks, window=WINDOW, config=TINY, progress=False, buffer=buffer)
    assert not code_of(index, "m150").any()
    for id in ("m000", "m160"):
        assert np.linalg.norm(code_of(index, id)) == pytest.approx(1, abs=1e-5)
    assert check_codes(index)


def check_codes(index):
    rows = index._store.database.memories.rows()
    return np.isfinite(index._store.codes_of(rows)).all()


def test_repair_keeps_sound_codes_and_reports_lost_ones(fitted, planted, tmp_path):
    fitted.save(tmp_path / "broken")
    with PredictiveAssociativeIndex.open(tmp_path / "broken") as index:
        kept = code_of(index, "m003")
        width = index._store.predictor.config.width
        rows = index._store.database.memories.rows_of(["m003", "m007"])
        for id, wrong in {"m003": np.ones(DIM), "m007": np.full(width - DIM, 7.0)}.items():
            _, association = index._store.database.memories.stored(np.array([rows[id]]), DIM, width)
            part = slice(0, DIM) if len(wrong) == DIM else slice(DIM, width)
            association = association.copy()
            association[0, part] = wrong  # damages f of one memory, and the code of the other
            with index._store.database.transaction():
                index._store.database.memories.set_associations(np.array([rows[id]]), association)
    assert any("2 association vectors" in line for line in check(tmp_path / "broken"))
    done = repair(tmp_path / "broken")
    assert any("episode codes of 1 memory" in line for line in done)
    assert check(tmp_path / "broken") == []
    with PredictiveAssociativeIndex.open(tmp_path / "broken") as index:
        np.testing.assert_array_equal(code_of(index, "m003"), kept)
        assert not code_of(index, "m007").any()


def test_a_batch_of_memories_that_were_experienced_alone_is_learnt():
    index = PredictiveAssociativeIndex(4)
    index.add(np.random.default_rng(0).standard_normal((80, 4)), [str(at) for at in range(80)])
    index.observe_many([[str(at), str(at + 1)] for at in range(0, 80, 2)])
    index.delete([str(at) for at in range(3, 80, 2)])  # all but "0" and "1" lose their neighbours
    report = index.fit(config=FitConfig(hidden=8, passes=2, batch_size=4), progress=False)
    assert np.isfinite(report.losses).all()
    assert index.recall("0", k=1, mode="association").ids == ["1"]
