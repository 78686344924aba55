"""``python -m benchmarks.recall.continual``: ten increments of 5,000 states, against one training on all of them."""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks import metrics, report
from benchmarks.paper.protocol import Queries, choose_queries
from benchmarks.recall.regimes import quality, recall
from benchmarks.worlds import paper
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.model.keys import MODES
from pam_retriever.types import Int64


def learned(index: PredictiveAssociativeIndex, cues: Int64, queries: Queries) -> float:
    """Returns CBR@20 of the learned channels alone."""
    answers = index.recall([str(q) for q in cues], k=20, channels=MODES["association"])
    found = [[int(hit.id) for hit in hits] for hits in answers]
    pairs = zip(cues.tolist(), found, strict=True)
    return float(np.mean([metrics.recall(np.array(ranked), queries.crossing[q]) for q, ranked in pairs]))


def default(index: PredictiveAssociativeIndex, world: paper.World, queries: Queries) -> dict[str, float]:
    """Returns default recall."""
    return quality(world, queries.precision, recall(index, world, queries.precision), queries.associates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world-seed", type=int, default=42)
    parser.add_argument("--trajectories", type=int, default=500)
    parser.add_argument("--increments", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="recall/continual")
    arguments = parser.parse_args()
    world = paper.build(arguments.world_seed, arguments.trajectories)
    queries = choose_queries(world)
    names = np.arange(len(world.states)).astype(str)
    index = PredictiveAssociativeIndex(dim=paper.DIM)
    increments = []
    for trajectories in np.array_split(world.trajectories, arguments.increments):
        index.add(world.states[trajectories.ravel()], names[trajectories.ravel()].tolist())
        fitted = index.fit([names[t].tolist() for t in trajectories], seed=arguments.seed)
        cues = queries.boundary[queries.boundary <= trajectories.max()]
        increments.append(
            {
                "states": len(index),
                "seconds": fitted.seconds,
                "steps": fitted.steps,
                "width": fitted.config["hidden"],
                "learned CBR@20": learned(index, cues, queries),
            }
        )
        print(increments[-1], flush=True)
    once = PredictiveAssociativeIndex(dim=paper.DIM)
    once.add(world.states, names.tolist())
    fitted = once.fit([names[t].tolist() for t in world.trajectories], seed=arguments.seed)
    result = {
        "world_seed": arguments.world_seed,
        "increments": increments,
        "last increment": {
            "learned CBR@20": learned(index, queries.boundary, queries),
            "default": default(index, world, queries),
        },
        "once": {
            "seconds": fitted.seconds,
            "learned CBR@20": learned(once, queries.boundary, queries),
            "default": default(once, world, queries),
        },
    }
    print(result["last increment"], result["once"])
    print(f"written to {report.write(arguments.name, result)}")


if __name__ == "__main__":
    main()
