"""Searches by p, the first part of a key, in every kind of index over whole keys."""

from __future__ import annotations

import numpy as np
import pytest

from pam_retriever.ann import factory
from pam_retriever.model.keys import make_keys, unit
from pam_retriever.store.key_indexes import IndexBuilder, KeyIndexes

DIM, CODE = 12, 20
RANDOM = np.random.default_rng(0)


def some(count: int) -> tuple[np.ndarray, np.ndarray]:
    vectors = RANDOM.standard_normal((count, DIM)).astype(np.float32)
    return vectors, RANDOM.standard_normal((count, CODE)).astype(np.float32)


def over(backend: str, rows: np.ndarray, vectors: np.ndarray, associations: np.ndarray) -> KeyIndexes:
    built, width = IndexBuilder(backend, None, DIM), DIM + CODE
    return KeyIndexes(built.over(rows, make_keys(vectors, associations), width), None, width, built)


def assert_answers(indexes: KeyIndexes, held: dict[int, np.ndarray], share: float) -> None:
    """Asserts that a search by p finds the nearest of all memories, and the nearest of half of them."""
    rows = np.array(sorted(held))
    stored = unit(np.stack([held[row] for row in rows.tolist()]))
    asked = unit(RANDOM.standard_normal((20, DIM)).astype(np.float32))
    for allowed in (None, rows[::2]):
        among = np.arange(len(rows)) if allowed is None else np.arange(0, len(rows), 2)
        scores, found = indexes.similar.search(asked, 5, allowed)
        exact = rows[among[np.argsort(-(asked @ stored[among].T), axis=1)[:, :5]]]
        assert np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found.tolist(), exact.tolist(), strict=True)]) >= share
        position = np.searchsorted(rows, np.maximum(found, rows[0]))
        np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", asked, stored[position]), atol=1e-5)
    np.testing.assert_allclose(indexes.similar.keys(rows[:7]), stored[:7], atol=1e-6)


def test_a_flat_index_holds_every_number_once():
    """A flat index stores keys only once, although it answers by the whole key and by p."""
    vectors, associations = some(300)
    indexes = over("faiss", np.arange(300), vectors, associations)
    assert indexes.own is None
    assert list(indexes.parts()) == ["whole"]
    positions = indexes.whole.bytes - 4 * 300 * (DIM + CODE)
    assert positions <= 16 * 300
    assert_answers(indexes, dict(enumerate(vectors)), 1.0)


def test_the_published_key_takes_twice_the_vector_and_its_code():
    """A key [p ; f(p) ; e(p)] takes 2.17 times as much as p, for 384 dimensions and a code of 64."""
    built, random = IndexBuilder("faiss", None, 384), np.random.default_rng(0)
    keys = random.standard_normal((500, 2 * 384 + 64)).astype(np.float32)
    indexes = KeyIndexes(built.over(np.arange(500), keys, keys.shape[1]), None, keys.shape[1], built)
    assert sum(index.bytes for index in indexes.parts().values()) <= 2.2 * 500 * 4 * 384


@pytest.mark.parametrize(
    ("small", "large", "flat_up_to", "hnsw_up_to", "share"),
    [("flat", "hnsw", 400, 10**9, 0.9), ("flat", "ivf,sq8", 400, 400, 0.5), ("hnsw", "ivf,sq8", 0, 400, 0.5)],
)
def test_p_is_found_while_the_index_becomes_another_kind_and_back(
    monkeypatch, small, large, flat_up_to, hnsw_up_to, share
):
    """A reference to ``similar`` stays valid when "faiss" chooses another kind of index for more or fewer memories."""
    monkeypatch.setattr(factory, "FLAT_UP_TO", flat_up_to)
    monkeypatch.setattr(factory, "HNSW_UP_TO", hnsw_up_to)
    monkeypatch.setattr(factory, "IVF_FROM", 100)
    vectors, associations = some(900)
    indexes = over("faiss", np.arange(300), vectors[:300], associations[:300])
    similar, held = indexes.similar, dict(enumerate(vectors[:300]))
    assert indexes.whole.description.startswith(small)
    assert_answers(indexes, held, 0.95)
    indexes.add(np.arange(300, 900), vectors[300:], associations[300:])
    held.update(zip(range(300, 900), vectors[300:], strict=True))
    assert indexes.whole.description.startswith(large)
    assert indexes.similar is similar
    assert (indexes.own is not None) == (large == "hnsw")
    assert_answers(indexes, held, share)
    indexes.add(np.arange(10), -vectors[:10], associations[:10])
    held.update(enumerate(-vectors[:10]))
    assert_answers(indexes, held, share)
    indexes.remove(np.arange(200, 900))
    for row in range(200, 900):
        held.pop(row)
    assert_answers(indexes, held, share)
    indexes.shrink_to(np.arange(200))
    assert indexes.whole.description.startswith(small)
    assert (indexes.own is not None) == (small == "hnsw")
    assert_answers(indexes, held, 0.95)
