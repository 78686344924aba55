"""``python -m benchmarks.training.recipes``: quality and time of the recipe of ``fit`` and its variants.

The world has seed 7, on which no result is reported. There are two measures: recall of stored cues by the learned
channels alone, after a fit of all states; and default recall of held-out cues, the fifth of the states that a second
fit never uses as cues. The first fit is timed, on ``--threads`` cores.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks import report
from benchmarks.paper.protocol import choose_queries
from benchmarks.recall.calibration import reliability
from benchmarks.recall.regimes import HELD_OUT, QUERIES, build, quality, recall
from benchmarks.worlds import paper
from pam_retriever import FitConfig
from pam_retriever.model.keys import MODES
from pam_retriever.training.config import CONFIGS

BASE = CONFIGS["fast"]
VARIANTS = {
    "fast": BASE,
    "4 passes": replace(BASE, passes=4),
    "8 passes": replace(BASE, passes=8),
    "32 passes": replace(BASE, passes=32),
    "f to temperature .04": replace(BASE, final_temperature=0.04),
    "f to temperature .12": replace(BASE, final_temperature=0.12),
    "associations weighed alike": replace(BASE, distance_weights="uniform"),
    "without whitening": replace(BASE, whiten=False),
    "half the rate": replace(BASE, learning_rate=BASE.learning_rate / 2),
    "batches of 500": replace(BASE, batch_size=500),
    "2,048 wide": replace(BASE, hidden=2048),
    "two residual layers, 1,024 wide": replace(BASE, residual_layers=2, hidden=1024, learning_rate=6e-3),
    "five times the holdout": replace(BASE, holdout=5 * BASE.holdout),
}


def measure(world: paper.World, config: FitConfig, seed: int) -> dict[str, float]:
    """Measures the quality and time of one variant."""
    queries = choose_queries(world)
    index, fitted = build(world, config, seed)
    learned = index.recall([str(q) for q in queries.precision], k=20, channels=MODES["association"])
    stored = quality(world, queries.precision, learned, queries.associates)
    held_out = np.random.RandomState(0).permutation(len(world.states))[: int(HELD_OUT * len(world.states))]
    index, _ = build(world, config, seed, held_out)
    cues = held_out[:QUERIES]
    answers = recall(index, world, cues)
    new = quality(world, cues, answers, queries.associates)
    new["ECE"] = reliability(cues, answers, queries.associates)["ECE"]
    found = {
        f"{cues}, {row}": value for cues, of in (("stored", stored), ("held out", new)) for row, value in of.items()
    }
    return found | {"seconds": fitted.seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--world-seed", type=int, default=7)
    parser.add_argument("--trajectories", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--name", default="training/recipes")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    world = paper.build(arguments.world_seed, arguments.trajectories)
    columns: dict[str, Any] = {}
    for name in arguments.only:
        columns[name] = measure(world, VARIANTS[name], arguments.seed)
        print(name, {row: round(value, 4) for row, value in columns[name].items()}, flush=True)
        of = {"world_seed": arguments.world_seed, "seed": arguments.seed, "threads": arguments.threads}
        path = report.write(arguments.name, {**of, "columns": columns})
    print(f"written to {path}")


if __name__ == "__main__":
    main()
