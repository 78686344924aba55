"""A trained index also finds keys that are unlike those on which it was trained, and is seldom trained again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pam_retriever.ann import FaissBackend
from pam_retriever.ann.training import Training
from pam_retriever.model.keys import unit
from pam_retriever.store.folder.ann_cache import UNUSABLE

WIDTH, FIRST, LATER = 32, 4_000, 11_000
TRAINED = [
    *("flat,sq8", "hnsw,sq8", "ivf,sq8"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("ivf", "ivf,fp16", "ivf,pq")),
]


def around_one_point(seed: int, count: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return unit((random.standard_normal(WIDTH) + 0.1 * random.standard_normal((count, WIDTH))).astype(np.float32))


def everywhere(seed: int, count: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    centres, topics = random.standard_normal((40, WIDTH)), random.integers(0, 40, count)
    return unit((centres[topics] + random.standard_normal((count, WIDTH))).astype(np.float32))


def rebuilt(backend: FaissBackend) -> list[int]:
    """Returns a list that gets the number of keys each time the index is built."""
    counts: list[int] = []
    real = backend.rebuild
    backend.rebuild = lambda rows, keys: (counts.append(len(rows)), real(rows, keys))[1]
    return counts


def add(backend: FaissBackend, keys: np.ndarray, end: int, step: int = 100) -> None:
    """Adds the keys up to ``end``."""
    for start in range(len(backend), end, step):
        rows = np.arange(start, min(start + step, end))
        backend.add(rows, keys[rows])


def recall(backend: FaissBackend, keys: np.ndarray, asked: np.ndarray) -> float:
    """Returns recall@10 among the keys that are stored."""
    exact = np.argsort(-(asked @ keys[: len(backend)].T), axis=1)[:, :10]
    found = backend.search(asked, 10)[1]
    return float(np.mean([np.isin(right, given).mean() for right, given in zip(exact, found, strict=True)]))


@pytest.mark.parametrize("name", TRAINED)
def test_later_keys_of_another_kind_are_found(name):
    new = everywhere(1, LATER + 200)
    keys, asked = np.concatenate([around_one_point(0, FIRST), new[:LATER]]), new[LATER:]
    backend = FaissBackend(WIDTH, name)
    backend.rebuild(np.arange(FIRST), keys[:FIRST])
    found = []
    for end in (4_400, 4_900, 8_000, 15_000):
        add(backend, keys, end)
        found.append(recall(backend, keys, asked))
    assert min(found) >= 0.95, found  # hnsw,sq8 found .44, flat,sq8 and ivf,sq8 .6 when it was trained only once


@pytest.mark.parametrize("name", TRAINED)
def test_growth_by_keys_of_the_same_kind_trains_nothing_again(name):
    keys = everywhere(2, 15_000)
    backend = FaissBackend(WIDTH, name)
    backend.rebuild(np.arange(FIRST), keys[:FIRST])
    counts = rebuilt(backend)
    add(backend, keys, 15_000)
    assert counts == []


def test_it_is_trained_again_only_after_growth_by_a_half():
    parts = [around_one_point(seed, 500) for seed in range(30)]  # each unlike all before
    keys = np.concatenate([around_one_point(99, 3_000), *parts])
    backend = FaissBackend(WIDTH, "ivf,sq8")
    backend.rebuild(np.arange(3_000), keys[:3_000])
    counts = rebuilt(backend)
    add(backend, keys, len(keys))
    assert 2 <= len(counts) <= 5
    assert all(later >= 1.5 * sooner for sooner, later in zip(counts, counts[1:], strict=False))


def test_what_has_no_training_is_not_built_again():
    keys = np.concatenate([around_one_point(0, 2_000), everywhere(1, 8_000)])
    backend = FaissBackend(WIDTH, "hnsw,fp16")
    backend.rebuild(np.arange(2_000), keys[:2_000])
    counts = rebuilt(backend)
    add(backend, keys, len(keys), 1_000)
    assert counts == []


def reopened(folder: Path, saved: dict) -> FaissBackend:
    backend = FaissBackend(WIDTH, "ivf,sq8", folder)
    backend.restore(folder, saved, read_only=True)
    return backend


def test_a_saved_index_knows_when_it_was_trained(tmp_path: Path):
    keys = np.concatenate([around_one_point(0, 3_000), everywhere(1, 3_000)])
    backend = FaissBackend(WIDTH, "ivf,sq8", tmp_path)
    backend.rebuild(np.arange(3_000), keys[:3_000])
    counts = rebuilt(backend)
    add(backend, keys, 3_500)
    (count,) = counts
    saved = backend.save(tmp_path, "ann-0123456789ab")
    training = reopened(tmp_path, saved)._training
    assert (training.count, training.not_before) == (count, int(1.5 * count))
    del saved["trained_not_before"]  # as an earlier version
    assert reopened(tmp_path, saved)._training.not_before == 0
    for name in ("trained_for", "trained_not_before"):
        for damage in (float("inf"), None, "many", 10**400, -1):
            with pytest.raises(UNUSABLE):  # these make an index be built from the database
                reopened(tmp_path, saved | {name: damage})


def test_an_index_of_an_earlier_version_is_trained_again_once_a_key_is_added(tmp_path: Path, monkeypatch):
    new = everywhere(1, 3_200)
    keys, asked = np.concatenate([around_one_point(0, 3_000), new[:3_000]]), new[3_000:]
    backend = FaissBackend(WIDTH, "ivf,sq8", tmp_path)
    backend.rebuild(np.arange(3_000), keys[:3_000])
    monkeypatch.setattr(Training, "is_due", lambda *_: False)
    add(backend, keys, 5_999)
    saved = backend.save(tmp_path, "ann-0123456789ab")
    del saved["trained_not_before"]
    monkeypatch.undo()
    backend = FaissBackend(WIDTH, "ivf,sq8", tmp_path)
    backend.restore(tmp_path, saved, read_only=False)
    before = recall(backend, keys, asked)
    add(backend, keys, 6_000)
    assert before < 0.9 and recall(backend, keys, asked) > 0.97
