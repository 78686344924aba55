"""Creative bridging (pam.tex 3.7, 5.5): recall C from A, where A occurs with B in one episode, and B with C in another.

Compares walks on the exact co-occurrence graph, cosine, and recall with one and two hops. A true bridge leads through
an entity. A false bridge leads to a moment of another episode that no entity links with A. The threshold is confidence
.5, where a hit is as likely right as wrong; it is not tuned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.worlds.persistent import DIM, WINDOW, World, build
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.experience.cooccurrence import associate
from pam_retriever.types import Float32, Int64

K, CUES = 20, 500
MIN_SCORE = 0.5  # the score of a path is the geometric mean of its confidences; at .5 it is as likely right as wrong


def run(seed: int, noises: tuple[float, ...] = (0.15, 0.2, 0.25, 0.3)) -> dict[str, Any]:
    world = build(seed)
    bridges = world.bridges()
    random = np.random.default_rng(seed)
    cues = random.permutation(np.array(list(bridges)))[:CUES]
    index = fitted(world, world.episodes)
    # the control: the same memories, but each episode is made of memories of any time
    shuffled = fitted(world, random.permutation(world.episodes.reshape(-1)).reshape(world.episodes.shape))
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for noise in (0.0, *noises):
        vectors = world.states[cues] + noise * random.standard_normal((CUES, DIM)).astype(np.float32)
        nearest = np.array([int(hit[0].id) for hit in index.search(vectors, k=1)])
        methods: dict[str, list[Int64]] = {
            "graph, walks counted": walk(world, nearest, normalise=False),
            "graph, random walk": walk(world, nearest, normalise=True),
            "cosine": recalled(index, vectors, mode="similarity"),
            "recall": recalled(index, vectors),
            "hops=2": recalled(index, vectors, hops=2),
            "hops=2, min_score": recalled(index, vectors, hops=2, min_score=MIN_SCORE),
        }
        if not noise:
            methods["hops=3, min_score"] = recalled(index, vectors, hops=3, min_score=MIN_SCORE)
            methods["hops=2, no snapping"] = recalled(index, vectors, hops=2, snap=False)
            methods["hops=2, time shuffled"] = recalled(shuffled, vectors, hops=2)
            methods["hops=2, min_score, time shuffled"] = recalled(shuffled, vectors, hops=2, min_score=MIN_SCORE)
        title = "exact cue" if not noise else f"cue with noise {noise} a dimension, nearest right {hit(nearest, cues)}"
        tables[title] = {name: evaluate(world, cues, bridges, found) for name, found in methods.items()}
    return {
        "world": {"states": len(world.states), "bridges per cue": float(np.mean([len(b) for b in bridges.values()]))},
        "min_score": MIN_SCORE,
        "tables": tables,
    }


def fitted(world: World, episodes: Int64) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(world.states, [str(row) for row in range(len(world.states))])
    index.fit(
        [[str(row) for row in episode] for episode in episodes], window=WINDOW, config=FitConfig(), progress=False
    )
    return index


def recalled(index: PredictiveAssociativeIndex, vectors: Float32, **options: Any) -> list[Int64]:
    return [np.array([int(hit.id) for hit in hits], np.int64) for hits in index.recall_many(vectors, k=K, **options)]


def walk(world: World, starts: Int64, normalise: bool) -> list[Int64]:
    """Scores walks of one step, then of two steps, on the exact graph, by their number or their probability."""
    count = len(world.states)
    graph = associate(world.experience(), count, WINDOW)
    steps = sparse.csr_matrix((np.ones(len(graph)), graph.indices, graph.indptr), shape=(count, count))
    if normalise:
        steps = sparse.diags(1 / np.maximum(np.asarray(steps.sum(axis=1)).ravel(), 1)) @ steps
    one = steps[starts]
    two = one @ steps
    random = np.random.default_rng(0)  # ties are ranked in random order
    found = []
    for at, start in enumerate(starts):
        first, second = one[at].toarray().ravel(), two[at].toarray().ravel()
        first[start] = second[start] = 0
        order = np.lexsort((random.random(count), -second, first == 0))[:K]
        found.append(order[(first + second)[order] > 0])
    return found


def evaluate(world: World, cues: Int64, bridges: dict[int, Int64], found: list[Int64]) -> dict[str, float]:
    episode_of = np.full(len(world.states), -1)
    episode_of[world.episodes] = np.arange(len(world.episodes))[:, None]
    share, true, false = [], [], []
    for cue, rows in zip(cues.tolist(), found, strict=True):
        right = np.isin(rows, bridges[cue])
        wrong = (rows >= world.moments) & (episode_of[rows] != episode_of[cue]) & ~right
        share.append(right.sum() / len(bridges[cue]))
        true.append(right.sum())
        false.append(wrong.sum())
    return {
        "share of the bridges found": float(np.mean(share)),
        "bridges found": float(np.mean(true)),
        "false bridges": float(np.mean(false)),
    }


def hit(nearest: Int64, cues: Int64) -> str:
    return f"{(nearest == cues).mean():.2f}"
