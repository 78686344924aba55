"""``recall_next`` and memories that were never experienced: the bilinear model of transitions."""

from __future__ import annotations

import numpy as np
import pytest

from pam_retriever import FitConfig, IndexFormatError, PredictiveAssociativeIndex, Trajectory
from pam_retriever.ann.exact import ExactBackend
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.keys import unit
from pam_retriever.retrieval.sequences.bilinear import Bilinear

DIM = 16
TINY = FitConfig(hidden=16, passes=2)


def turned(memories: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns unit vectors (2 n, d): memory n + i is memory i, turned by one rotation, with noise."""
    random = np.random.default_rng(seed)
    first = unit(random.standard_normal((memories, DIM)).astype(np.float32))
    rotation = np.linalg.qr(random.standard_normal((DIM, DIM)))[0].astype(np.float32)
    then = unit(first @ rotation + 0.1 * random.standard_normal((memories, DIM)).astype(np.float32))
    return np.concatenate([first, then]), rotation


def graph_of(pairs: list[tuple[int, int]]) -> CooccurrenceGraph:
    rows = np.array(pairs).reshape(-1)
    return CooccurrenceGraph(rows, np.repeat(np.arange(len(pairs)) + 1, 2), np.tile([0, 1], len(pairs)))


def stored(vectors: np.ndarray) -> ExactBackend:
    similar = ExactBackend(vectors.shape[1])
    similar.add(np.arange(len(vectors)), vectors)
    return similar


@pytest.mark.slow
def test_a_rule_between_vectors_holds_for_memories_that_were_never_experienced():
    """What follows looks like nothing that is known, but the vectors of cause and effect are related."""
    vectors, _ = turned(200, seed=0)
    index = PredictiveAssociativeIndex(DIM)
    index.add(vectors, [f"m{n}" for n in range(400)])
    random = np.random.default_rng(1)
    seen = random.permutation(200)[:120]
    drawn = random.choice(seen, 3_000).tolist()
    walks = [Trajectory(ids=[f"m{n}", f"m{n + 200}"], id=f"w{at}") for at, n in enumerate(drawn)]
    index.fit(walks, config=TINY, progress=False)
    new = np.setdiff1d(np.arange(200), seen)
    found = [
        f"m{n + 200}" in hits.ids for n, hits in zip(new, index.recall_next_many([[f"m{n}"] for n in new]), strict=True)
    ]
    assert np.mean(found) > 0.8


def test_a_transition_counts_once():
    """A transition that is frequent does not change the model: popular memories would follow everything."""
    vectors, _ = turned(50, seed=0)
    pairs = [(n, n + 50) for n in range(40)]
    once = Bilinear.of(graph_of(pairs), stored(vectors))
    often = Bilinear.of(graph_of([*pairs, *[pairs[3]] * 50]), stored(vectors))
    np.testing.assert_allclose(once.after(vectors), often.after(vectors), atol=1e-4)
    new = once.after(vectors[40:50])
    nearest = np.argmax(new @ vectors.T, axis=1)
    assert np.mean(nearest == np.arange(90, 100)) > 0.8
    assert Bilinear.of(graph_of([(3, 3)]), stored(vectors)) is None  # a step does not follow itself


def test_the_model_is_stored_and_checked(tmp_path):
    vectors, _ = turned(60, seed=0)
    index = PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM)
    index.add(vectors, [f"m{n}" for n in range(120)])
    index.fit([Trajectory(ids=[f"m{n}", f"m{n + 60}"], id=str(n)) for n in range(50)], config=TINY, progress=False)
    before = index.recall_next(["m55"])
    index.close()
    with PredictiveAssociativeIndex.open(tmp_path / "index") as again:
        assert again.recall_next(["m55"]) == before
        packed = again._store.database.settings.weights("next")
        kept = Bilinear.unpack(packed, DIM)
    with pytest.raises(IndexFormatError, match="dimension 8"):
        Bilinear.unpack(packed, 8)
    for wrong in (
        b"",
        packed[:-4],
        Bilinear(kept.left * np.nan, kept.right).pack(),
        Bilinear(kept.left, kept.right[1:]).pack(),
    ):
        with pytest.raises(IndexFormatError, match="Fit again"):
            Bilinear.unpack(wrong, DIM)


def test_a_fit_with_too_few_steps_keeps_no_earlier_model():
    """The model of an earlier fit would know of memories that were erased since."""
    vectors, _ = turned(60, seed=0)
    index = PredictiveAssociativeIndex(DIM)
    index.add(vectors, [f"m{n}" for n in range(120)])
    index.fit([Trajectory(ids=[f"m{n}", f"m{n + 60}"], id=str(n)) for n in range(50)], config=TINY, progress=False)
    assert index._store.database.settings.weights("next")
    index.erase([f"m{n}" for n in range(48)])
    index.fit(from_scratch=True, config=TINY, progress=False)
    assert not index._store.database.settings.weights("next")
    assert index.recall_next(["m49"], k=1).ids == ["m109"]


@pytest.mark.parametrize("how", ["add", "update", "append"])
def test_a_replaced_vector_is_in_the_model_after_the_next_fit(how):
    vectors, _ = turned(60, seed=0)
    index, ids = PredictiveAssociativeIndex(DIM), [f"m{n}" for n in range(120)]
    index.add(vectors, [*ids], None)
    index.fit([Trajectory(ids=[f"m{n}", f"m{n + 60}"], id=str(n)) for n in range(60)], config=TINY, progress=False)
    settings = index._store.database.settings
    before, report = settings.weights("next"), index.last_fit()
    index.add(vectors[:5], ids[:5], ["a text"] * 5)
    index.add(np.ones((1, DIM)), ["alone"])
    index.add(-np.ones((1, DIM)), ["alone"])
    assert index.fit(config=TINY, progress=False).stopped_by == "nothing new"
    assert settings.weights("next") == before, "no vector of experience was replaced"
    assert index.last_fit() == report

    other = np.random.default_rng(9).standard_normal(DIM).astype(np.float32)
    if how == "add":
        index.add(other[None], ["m3"])
    elif how == "update":
        index.update("m3", vector=other)
    else:
        index.append("3", vector=other, id="m3")
    index.fit(config=TINY, progress=False)
    after = settings.weights("next")
    same = PredictiveAssociativeIndex(DIM)
    same.add(np.stack([index.get([id])[0].vector for id in ids]), ids)
    same.observe_many([Trajectory(ids=list(one.ids), id=one.id) for one in index.trajectories()])
    same.fit(config=TINY, progress=False)
    assert after != before and after == same._store.database.settings.weights("next")
    index.fit(config=TINY, progress=False)
    assert settings.weights("next") == after
