"""The published evaluation: which queries, which candidates, which means (pam.tex 4.4).

With these choices the cosine row of the paper's table comes out to all printed digits, which is
how we know that they are the paper's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks import metrics
from benchmarks.worlds.paper import World
from pam_retriever.cooccurrence import Experience, associate

Scores = Callable[[metrics.Rows], metrics.Array]
"""Scores every state for each query state: (Q,) -> (Q, N). A column of -inf is not in the bank."""

CHUNK = 100  # queries scored at once; (100, 50,000) floats


@dataclass(frozen=True)
class Queries:
    """The query states of each metric, and who their associates are."""

    associates: list[metrics.Rows]
    crossing: list[metrics.Rows]  # associates in another room
    precision: metrics.Rows
    boundary: metrics.Rows
    discrimination: metrics.Rows


def experience_of(world: World) -> Experience:
    count, length = world.trajectories.shape
    return Experience(
        world.trajectories.reshape(-1),
        np.repeat(np.arange(count), length),
        np.tile(np.arange(length), count),
    )


def choose_queries(world: World, window: int = 5, seed: int = 42) -> Queries:
    graph = associate(experience_of(world), len(world.states), window)
    associates = np.split(graph.indices, graph.indptr[1:-1])
    crossing = [a[world.rooms[a] != world.rooms[q]] for q, a in enumerate(associates)]

    def choose(lists: list[metrics.Rows], fewest: int, count: int) -> metrics.Rows:
        eligible = [q for q, found in enumerate(lists) if len(found) >= fewest]
        np.random.RandomState(seed).shuffle(eligible)
        return np.array(eligible[:count])

    return Queries(
        associates,
        crossing,
        precision=choose(associates, 3, 500),
        boundary=choose(crossing, 3, 500),
        discrimination=choose(associates, 5, 300),
    )


def evaluate(scores: Scores, queries: Queries, world: World) -> dict[str, float]:
    """Every row of the paper's table, and AP@10, R@20 and MRR."""
    found: dict[str, list[float]] = {}

    def note(name: str, value: float | None) -> None:
        if value is not None:
            found.setdefault(name, []).append(value)

    for query, row in _scored(scores, queries.precision):
        ranked = metrics.top(row[None], 20)[0]
        for k in (1, 5, 10, 20):
            note(f"AP@{k}", metrics.precision(ranked[:k], queries.associates[query]))
        note("R@20", metrics.recall(ranked, queries.associates[query]))
        note("MRR", metrics.reciprocal_rank(row, queries.associates[query]))
    for place, (query, row) in enumerate(_scored(scores, queries.boundary)):
        ranked, crossing = metrics.top(row[None], 20)[0], queries.crossing[query]
        note("CBR@20", metrics.recall(ranked, crossing))
        note("MRR_cross_room", metrics.reciprocal_rank(row, crossing))
        if place < 300:
            there = np.isin(world.rooms, world.rooms[crossing])
            there[queries.associates[query]] = False
            note("Specificity@20", metrics.specificity(ranked, crossing, np.flatnonzero(there)))
    for query, row in _scored(scores, queries.discrimination):
        others = np.ones(len(row), bool)
        others[queries.associates[query]] = others[query] = False
        negatives = np.random.RandomState(42).choice(np.flatnonzero(others), 2000, replace=False)
        note("AUC", metrics.auc(row[queries.associates[query]], row[negatives]))
        if len(queries.crossing[query]) >= 3:
            note("AUC_cross_room", metrics.auc(row[queries.crossing[query]], row[negatives]))
    return {name: float(np.mean(values)) for name, values in found.items()}


def _scored(scores: Scores, queries: metrics.Rows):  # type: ignore[no-untyped-def]
    for start in range(0, len(queries), CHUNK):
        chunk = queries[start : start + CHUNK]
        yield from zip(chunk.tolist(), scores(chunk), strict=True)
