"""The cost of familiarity, hops and a capacity in a world where they cannot help: the paper's main table.

In that world every state is experienced once, no entity recurs, and the index never exceeds its capacity. Decay is off
by default: ``decay`` measures the cost of its half-life for cues of all times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.paper.main_table import recalled
from benchmarks.paper.protocol import Ranks, choose_queries, evaluate_ranks
from benchmarks.worlds import paper
from pam_retriever import FitConfig, PredictiveAssociativeIndex

WINDOW = 5
COLUMNS = ("AP@1", "AP@5", "AP@20", "R@20", "CBR@20")


def run(seed: int, trajectories: int = 500) -> dict[str, Any]:
    world = paper.build(seed, trajectories)
    queries = choose_queries(world)
    plain, familiar = fitted(world, FitConfig()), fitted(world, FitConfig(familiarity="log"))
    methods: dict[str, Ranks] = {
        "default": recalled(plain),
        'familiarity="log"': recalled(familiar),
        "hops=2": recalled(plain, hops=2),
        'hops=2, familiarity="log"': recalled(familiar, hops=2),
    }
    found = {name: evaluate_ranks(ranks, queries, world) for name, ranks in methods.items()}
    plain.set_capacity(len(world.states))
    found["a capacity of as many states"] = evaluate_ranks(recalled(plain), queries, world)
    table = {name: {column: of[column] for column in COLUMNS} for name, of in found.items()}
    return {"tables": {"the paper's main table": table}}


def fitted(world: paper.World, config: FitConfig) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(dim=paper.DIM)
    names = np.arange(len(world.states)).astype(str)
    index.add(world.states, names.tolist())
    index.fit([names[t].tolist() for t in world.trajectories], window=WINDOW, config=config, progress=False)
    return index
