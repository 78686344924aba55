"""``python -m benchmarks.training.capacity``: how many associations do so many parameters hold?

Worlds of the paper's kind of several sizes, networks of several widths, all else as ``fit`` does by default; recall of
stored cues by the codes alone and by the network alone (forward, reverse and mutual), on a world (seed 7) that no
result is reported on. Each run is kept as soon as it is done, and those that are there are not repeated. The law of
the network is

    CBR@20 = 1 / (1 + (a / c) ** s),    a = associations per parameter,

fitted by least squares on the logits; c is where half is recalled. ``--sizes 250 500 1000 2000 5000`` trajectories with
``--widths 256 512 1024 2048 4096`` is the whole plot of the paper's world; on two cores that takes days.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import metrics, report
from benchmarks.paper.protocol import choose_queries, evaluate, experience_of
from benchmarks.worlds import paper
from pam_retriever import Channels, FitConfig
from pam_retriever.channels import make_keys, query_vectors
from pam_retriever.codes import with_codes
from pam_retriever.recall import stored_cues
from pam_retriever.training import predict, train
from pam_retriever.types import Float32, Int64

WINDOW, LENGTH = 5, 100  # steps of a trajectory
ROWS = ("AP@1", "AP@20", "CBR@20")
CHANNELS = {"codes": Channels(episode=1), "network": Channels(forward=0.25, reverse=0.25, mutual=0.5)}
FIGURE = Path(__file__).parents[2] / "docs" / "images" / "capacity.png"
EDGE = 0.01  # recall nearer to 0 or 1 says nothing of the law


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[25, 50, 100, 200, 400], help="trajectories of 100")
    parser.add_argument("--widths", nargs="+", type=int, default=[128, 256, 512])
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--world-seed", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--name", default="training/capacity")
    arguments = parser.parse_args()
    path = report.RESULTS / f"{arguments.name}.json"
    runs: dict[str, Any] = json.loads(path.read_text())["runs"] if path.exists() else {}
    for size, width in product(arguments.sizes, arguments.widths):
        name = f"{size * LENGTH} states, {width} wide, {arguments.passes} passes, world {arguments.world_seed}"
        if name not in runs:
            config = FitConfig(hidden=width, passes=arguments.passes)
            runs[name] = measure(paper.build(arguments.world_seed, size), config, arguments.seed, arguments.device)
            report.write(arguments.name, {"runs": runs, "law": law(runs)})
        told = {of: {row: round(value, 3) for row, value in runs[name][of].items()} for of in CHANNELS}
        print(f"{name}: {told}, {runs[name]['seconds']:.0f} s", flush=True)
    print(f"law: {law(runs)}")
    draw(runs)
    print(f"written to {path} and {FIGURE}")


def measure(world: paper.World, config: FitConfig, seed: int, device: str) -> dict[str, Any]:
    """One network on one world: what the codes alone and the network alone recall of stored cues."""
    model, codes, fitted = train(world.states, experience_of(world), WINDOW, config, device=device, seed=seed)
    keys, queries = make_keys(world.states, with_codes(predict(model, world.states), codes)), choose_queries(world)
    halfway = fitted.losses[len(fitted.losses) // 2]
    return {
        "states": len(world.states),
        "associations": fitted.associations,
        "width": config.hidden,
        "parameters": fitted.parameters,
        "passes": len(fitted.losses),
        "seconds": fitted.seconds,
        "loss halfway, at the end": [halfway, fitted.losses[-1]],
        **{
            name: {row: value for row, value in evaluate(scorer(keys, channels), queries, world).items() if row in ROWS}
            for name, channels in CHANNELS.items()
        },
    }


def scorer(keys: Float32, channels: Channels) -> Any:
    def score(q: Int64) -> metrics.Array:
        cues = stored_cues(keys[q], q, paper.DIM)
        scores = query_vectors(channels, cues.looks, cues.completed, cues.predicted) @ keys.T
        scores[np.arange(len(q)), q] = -np.inf
        return scores

    return score


def load(run: dict[str, Any]) -> float:
    """Associations per parameter."""
    return float(run["associations"] / run["parameters"])


def law(runs: dict[str, Any]) -> dict[str, float]:
    """Where half is recalled, in associations per parameter, how steeply it falls, and how well that fits."""
    told = [(load(run), run["network"]["CBR@20"]) for run in runs.values()]
    told = [(a, recall) for a, recall in told if EDGE < recall < 1 - EDGE]
    if len(told) < 3:
        return {}
    x, recall = np.log([a for a, _ in told]), np.array([r for _, r in told])
    logit = np.log(recall / (1 - recall))
    slope, intercept = np.polyfit(x, logit, 1)
    rest = logit - (slope * x + intercept)
    return {
        "half recalled at associations per parameter": float(np.exp(-intercept / slope)),
        "steepness": float(-slope),
        "R2 of the logits": float(1 - rest.var() / logit.var()),
        "runs": len(told),
    }


def draw(runs: dict[str, Any]) -> None:
    """Recall against load, a marker a width, and the law."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for width, marker in zip(sorted({run["width"] for run in runs.values()}), "o^svDP*", strict=False):
        of = sorted((load(run), run["network"]["CBR@20"]) for run in runs.values() if run["width"] == width)
        axes.plot(*zip(*of, strict=True), marker=marker, label=f"{width} wide")
    found = law(runs)
    if found:
        half, steep = found["half recalled at associations per parameter"], found["steepness"]
        loads = [load(run) for run in runs.values()]
        x = np.geomspace(min(loads), max(loads), 100)
        axes.plot(x, 1 / (1 + (x / half) ** steep), color="0.4", linestyle="--", label="the law")
    codes = sorted((load(run), run["codes"]["CBR@20"]) for run in runs.values())
    axes.plot(*zip(*codes, strict=True), marker=".", linestyle="none", color="0.6", label="the codes, any width")
    axes.set(xscale="log", xlabel="associations per parameter", ylabel="CBR@20, the network alone", ylim=(0, 1.02))
    axes.legend()
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=120, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    main()
