"""``python -m benchmarks.baselines.tune``: learning rates of the trained baselines, on another world.

It uses the world of seed 7, at a tenth of its size to save time; results are reported on seed 42. An interrupted run
continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from torch import nn
from tqdm.auto import tqdm

from benchmarks import report
from benchmarks.baselines.contrastive import Contrastive
from benchmarks.baselines.towers import BilinearForm, GraphNetwork, PlainMLP
from benchmarks.paper.fits import without_cue
from benchmarks.paper.protocol import choose_queries, evaluate_ranks, experience_of, ranks_of
from benchmarks.worlds import paper

MODELS: dict[str, Callable[[int], nn.Module]] = {
    "bilinear, full": BilinearForm,
    "bilinear, rank 32": lambda dim: BilinearForm(dim, rank=32),
    "plain MLP": PlainMLP,
    "graph network": GraphNetwork,
}
RATES = (1e-3, 3e-3, 1e-2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world-seed", type=int, default=7)
    parser.add_argument("--trajectories", type=int, default=50)
    parser.add_argument("--passes", type=int, default=40)
    arguments = parser.parse_args()
    world = paper.build(arguments.world_seed, arguments.trajectories)
    queries = choose_queries(world).first(200)
    about = vars(arguments)
    path = report.RESULTS / "training" / "baselines.json"
    there = json.loads(path.read_text()) if path.exists() else {}
    columns = there["columns"] if there.get("about") == about else {}
    for name, rate in tqdm([(name, rate) for name in MODELS for rate in RATES], disable=None):
        key = f"{name}, {rate}"
        if key not in columns:
            baseline = Contrastive(MODELS[name], arguments.passes, rate)
            baseline.fit(experience_of(world), world.states, 5)
            columns[key] = evaluate_ranks(ranks_of(without_cue(baseline.scores)), queries, world)
            report.write("training/baselines", {"about": about, "columns": columns})
        print(f"{key}: R@20 {columns[key]['R@20']:.3f}", flush=True)


if __name__ == "__main__":
    main()
