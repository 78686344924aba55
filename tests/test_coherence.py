"""Neighbours in a long trajectory count in full only if they are more alike than other memories."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import unit

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.retrieval.coherence import LEAST, LONG, neighbour_weights, pairs_within
from pam_retriever.types import Float32, Int64

DIM = 32


def unrelated(count: int, seed: int = 0) -> Float32:
    return unit(np.random.default_rng(seed).standard_normal((count, DIM)))


def by_topic(count: int, each: int = 8, seed: int = 0) -> Float32:
    random = np.random.default_rng(seed)
    topics = random.standard_normal((count // each + 1, DIM)).repeat(each, axis=0)[:count]
    return unit(topics + 0.7 * random.standard_normal((count, DIM)))


def graph(lengths: list[int]) -> CooccurrenceGraph:
    trajectory = np.repeat(np.arange(len(lengths)), lengths)
    position = np.concatenate([np.arange(length) for length in lengths])
    return CooccurrenceGraph(np.arange(sum(lengths)), trajectory, position)


def weights(links: CooccurrenceGraph, vectors: Float32) -> Float32 | None:
    rows: Int64 = np.arange(len(vectors))
    position, met, _ = links.around(rows, 2)
    return neighbour_weights(links, rows, vectors, *pairs_within(rows, position, met))


def test_a_list_of_unrelated_notes() -> None:
    found = weights(graph([300]), unrelated(300))
    assert found is not None
    assert (found < 0.5).all()
    assert (found >= np.float32(LEAST)).all()


@pytest.mark.parametrize("seed", range(5))
def test_a_conversation_counts_in_full(seed: int) -> None:
    assert weights(graph([300]), by_topic(300, seed=seed)) is None


def test_short_sessions_count_in_full() -> None:
    assert weights(graph([LONG] * 15), unrelated(15 * LONG)) is None


def test_only_the_long_trajectory_counts_less() -> None:
    found = weights(graph([200, 4]), unrelated(204))
    assert found is not None
    assert (found[:200] < 0.5).all()
    assert (found[200:] == 1).all()


def test_a_few_pairs_prove_nothing() -> None:
    assert weights(graph([LONG + 4]), unrelated(LONG + 4)) is None


def test_long_is_known_of_trajectories_that_grow_in_turns() -> None:
    links = CooccurrenceGraph(np.arange(0), np.arange(0), np.arange(0))
    for step in range(LONG + 5):
        for number in (0, 1, 2) if step < 3 else (0, 1):
            links.append(*(np.array([value]) for value in (3 * step + number, number, step)))
    rows = np.arange(3 * (LONG + 5))
    long = links.in_long(rows, LONG)
    assert not long[rows % 3 == 2].any()
    assert long[[0, 1, 3 * (LONG + 4), 3 * (LONG + 4) + 1]].all()
    assert not long[3 * 10]  # ten steps before it, and fourteen after it


def test_a_memory_of_a_short_trajectory_is_not_in_a_long_one() -> None:
    links = CooccurrenceGraph(np.array([*range(50), 7, 60]), np.array([0] * 50 + [1] * 2), np.array([*range(50), 0, 1]))
    long = links.in_long(np.array([7, 8, 60, 99]), LONG)
    assert long.tolist() == [False, True, False, False]


def test_recall_prefers_what_is_like_the_question_to_neighbours_in_a_list() -> None:
    """Notes in no order, one after the other, as an agent stores them: the note before a hit is no answer."""
    vectors = unrelated(300)
    random = np.random.default_rng(1)
    index = PredictiveAssociativeIndex(dim=DIM)
    texts = [f"note number{n}" + (" custard" if n == 100 else "") for n in range(300)]
    alike = [20, 60, 180, 220, 260]
    for at in alike:
        vectors[at] = unit((vectors[100] + 0.9 * random.standard_normal(DIM) / DIM**0.5)[None])[0] * 1.0
    index.add(vectors, [f"n{n}" for n in range(300)], texts)
    index.observe([f"n{n}" for n in range(300)])
    question = vectors[100] + 0.6 * random.standard_normal(DIM).astype(np.float32) / DIM**0.5
    found = index.recall(question, text="When does custard thicken?", k=6).ids
    assert set(found) == {"n100", *(f"n{at}" for at in alike)}
