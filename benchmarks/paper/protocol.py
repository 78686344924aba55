"""The evaluation: queries, candidates and means (pam.tex 4.4).

With the published choices of queries and candidates, the cosine row agrees with the paper's table in all printed
digits, which confirms the choices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks import metrics
from benchmarks.worlds.paper import World
from pam_retriever.experience.cooccurrence import Associations, Experience, associate

Scores = Callable[[metrics.Rows], metrics.Array]
"""Scores every state for each query state: (Q,) -> (Q, N). A column of -inf is not in the bank."""

Ranks = Callable[[metrics.Rows], list[metrics.Rows]]
"""The best states for each query state, best first."""

CHUNK = 100  # queries scored together; (100, 50,000) floats


@dataclass(frozen=True)
class Queries:
    """The query states of each metric, and their associates."""

    associates: list[metrics.Rows]
    crossing: list[metrics.Rows]  # associates in another room
    precision: metrics.Rows
    boundary: metrics.Rows
    discrimination: metrics.Rows

    def first(self, count: int) -> Queries:
        """Returns these queries, at most ``count`` per metric."""
        chosen = (self.precision[:count], self.boundary[:count], self.discrimination[:count])
        return Queries(self.associates, self.crossing, *chosen)

    def union(self) -> metrics.Rows:
        """Returns every state that is a query of some metric, sorted."""
        return np.unique(np.concatenate([self.precision, self.boundary, self.discrimination]))


def experience_of(world: World, trajectories: metrics.Rows | None = None) -> Experience:
    """Returns the world's trajectories, or other trajectories of its states, as input for ``train``."""
    chosen = world.trajectories if trajectories is None else trajectories
    count, length = chosen.shape
    return Experience(chosen.reshape(-1), np.repeat(np.arange(count), length), np.tile(np.arange(length), count))


def choose_queries(
    world: World,
    window: int = 5,
    seed: int = 42,
    *,
    only: metrics.Rows | None = None,
    relevant: Associations | None = None,
) -> Queries:
    """Chooses queries as published.

    Args:
        world: with the states.
        window: tau.
        seed: seed of the shuffle; 42 for the published figures.
        only: the states to choose from; None: all.
        relevant: the associates of each state; None: all states within the window.
    """
    graph = relevant or associate(experience_of(world), len(world.states), window)
    associates = np.split(graph.indices, graph.indptr[1:-1])
    crossing = [a[world.rooms[a] != world.rooms[q]] for q, a in enumerate(associates)]
    allowed = np.ones(len(world.states), bool) if only is None else np.isin(np.arange(len(world.states)), only)

    def choose(lists: list[metrics.Rows], fewest: int, count: int) -> metrics.Rows:
        eligible = [q for q, found in enumerate(lists) if len(found) >= fewest and allowed[q]]
        np.random.RandomState(seed).shuffle(eligible)
        return np.array(eligible[:count], np.int64)

    return Queries(
        associates,
        crossing,
        precision=choose(associates, 3, 500),
        boundary=choose(crossing, 3, 500),
        discrimination=choose(associates, 5, 300),
    )


def evaluate(scores: Scores, queries: Queries, world: World) -> dict[str, float]:
    """Returns every row of the paper's table, and AP@10, R@20 and MRR."""
    found: dict[str, list[float]] = {}
    for query, row in _scored(scores, queries.precision):
        _note_precision(found, metrics.top(row[None], min(20, len(row)))[0], queries.associates[query])
        _note(found, "MRR", metrics.reciprocal_rank(row, queries.associates[query]))
    for position, (query, row) in enumerate(_scored(scores, queries.boundary)):
        ranked = metrics.top(row[None], min(20, len(row)))[0]
        _note_boundary(found, ranked, query, queries, world, specificity=position < 300)
        _note(found, "MRR_cross_room", metrics.reciprocal_rank(row, queries.crossing[query]))
    for query, row in _scored(scores, queries.discrimination):
        others = np.ones(len(row), bool)
        others[queries.associates[query]] = others[query] = False
        eligible = np.flatnonzero(others)
        negatives = np.random.RandomState(42).choice(eligible, min(2000, len(eligible)), replace=False)
        _note(found, "AUC", metrics.auc(row[queries.associates[query]], row[negatives]))
        if len(queries.crossing[query]) >= 3:
            _note(found, "AUC_cross_room", metrics.auc(row[queries.crossing[query]], row[negatives]))
    return _means(found)


def evaluate_ranks(ranks: Ranks, queries: Queries, world: World) -> dict[str, float]:
    """Returns the rows that need no scores, from ranked lists of at least 20. Beyond a list, reciprocal ranks are 0."""
    found: dict[str, list[float]] = {}
    for query, ranked in zip(queries.precision, ranks(queries.precision), strict=True):
        _note_precision(found, ranked[:20], queries.associates[query])
        _note(found, "MRR", _reciprocal(ranked, queries.associates[query]))
    for position, (query, ranked) in enumerate(zip(queries.boundary, ranks(queries.boundary), strict=True)):
        _note_boundary(found, ranked[:20], query, queries, world, specificity=position < 300)
        _note(found, "MRR_cross_room", _reciprocal(ranked, queries.crossing[query]))
    return _means(found)


def ranks_of(scores: Scores, depth: int = 20) -> Ranks:
    """Returns the ranks of the best scores."""
    return lambda rows: [
        ranked
        for start in range(0, len(rows), CHUNK)
        for ranked in metrics.top(scores(rows[start : start + CHUNK]), depth)
    ]


def _note_precision(found: dict[str, list[float]], ranked: metrics.Rows, associates: metrics.Rows) -> None:
    for k in (1, 5, 10, 20):
        _note(found, f"AP@{k}", float(np.isin(ranked[:k], associates).sum() / k))
    _note(found, "R@20", metrics.recall(ranked, associates))


def _note_boundary(
    found: dict[str, list[float]],
    ranked: metrics.Rows,
    query: int,
    queries: Queries,
    world: World,
    specificity: bool,
) -> None:
    crossing = queries.crossing[query]
    _note(found, "CBR@20", metrics.recall(ranked, crossing))
    if specificity:
        there = np.isin(world.rooms, world.rooms[crossing])
        there[queries.associates[query]] = False
        _note(found, "Specificity@20", metrics.specificity(ranked, crossing, np.flatnonzero(there)))


def _reciprocal(ranked: metrics.Rows, relevant: metrics.Rows) -> float:
    positions = np.flatnonzero(np.isin(ranked, relevant))
    return 1.0 / (positions[0] + 1) if len(positions) else 0.0


def _note(found: dict[str, list[float]], name: str, value: float | None) -> None:
    if value is not None:
        found.setdefault(name, []).append(value)


def _means(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: float(np.mean(values)) for name, values in found.items()}


def _scored(scores: Scores, queries: metrics.Rows):  # type: ignore[no-untyped-def]
    for start in range(0, len(queries), CHUNK):
        chunk = queries[start : start + CHUNK]
        yield from zip(chunk.tolist(), scores(chunk), strict=True)
