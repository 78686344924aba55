"""``python -m benchmarks.training.capacity``: the amount of experience that codes or networks can store.

Worlds are of the paper's kind, in several sizes (seed 7, on which no result is reported). Other settings are the
defaults of ``fit``. The measure is recall of stored cues by the codes alone, and by the network alone (forward, reverse
and mutual).

    --of network --sizes 25 50 100 200 400 --widths 128 256 512 --passes 20
    --of codes --sizes 250 500 1000 2000 5000 --lengths 8 16 32 64 --passes 4

Sizes are numbers of trajectories of 100 states. Codes are learnt next to a network of width 16, which is enough for
them. Each run is stored when it is done, and existing ones are not repeated. The fitted law, by least squares on the
logits,

    CBR@20 = 1 / (1 + (load / half) ** steepness),

uses associations per parameter as the load of a network, and states as the load of codes of one length.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from typing import Any

import numpy as np

from benchmarks import metrics, report
from benchmarks.paper.protocol import choose_queries, evaluate, experience_of
from benchmarks.worlds import paper
from pam_retriever import Channels, FitConfig
from pam_retriever.model.episode_embeddings import with_codes
from pam_retriever.model.keys import make_keys, query_vectors
from pam_retriever.retrieval.cues import stored_cues
from pam_retriever.training.config import TrainingRequest
from pam_retriever.training.shards import InMemoryShards
from pam_retriever.training.trainer import Trainer
from pam_retriever.types import Float32, Int64

WINDOW, LENGTH = 5, 100  # steps of a trajectory
ROWS = ("AP@1", "AP@20", "CBR@20")
CHANNELS = {"codes": Channels(episode=1), "network": Channels(forward=0.25, reverse=0.25, mutual=0.5)}
BESIDE_CODES, CODE = 16, FitConfig().code  # width of the network next to codes, length of codes next to a network
EDGE = 0.01  # recall nearer to 0 or 1 does not help to fit the law


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", choices=list(CHANNELS), default="network")
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=int,
        default=[25, 50, 100, 200, 400],
        help="numbers of trajectories, of 100 states each",
    )
    parser.add_argument("--widths", nargs="+", type=int, default=[128, 256, 512], help="widths of the network")
    parser.add_argument("--lengths", nargs="+", type=int, default=[8, 16, 32, 64], help="lengths of the codes")
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--world-seed", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--name", help="name of the result (default: training/capacity-codes or -network)")
    arguments = parser.parse_args()
    of, name = arguments.of, arguments.name or f"training/capacity-{arguments.of}"
    path = report.RESULTS / f"{name}.json"
    runs: dict[str, Any] = json.loads(path.read_text())["runs"] if path.exists() else {}
    networks, codes = [(w, CODE) for w in arguments.widths], [(BESIDE_CODES, n) for n in arguments.lengths]
    shapes = networks if of == "network" else codes
    for size, (width, code) in product(arguments.sizes, shapes):
        run = f"{size * LENGTH} states, {width} wide, codes of {code}, {arguments.passes} passes, seed {arguments.seed}"
        if run not in runs:
            config = FitConfig(hidden=width, code=code, passes=arguments.passes)
            runs[run] = measure(paper.build(arguments.world_seed, size), config, arguments.seed, arguments.device)
            report.write(name, {"world_seed": arguments.world_seed, "runs": runs, "laws": laws(runs, of)})
        told = {row: round(value, 3) for row, value in runs[run][of].items()}
        print(f"{run}: {told}, {runs[run]['seconds']:.0f} s", flush=True)
    print(f"laws: {laws(runs, of)}")
    print(f"written to {path} and {draw(runs, of)}")


def measure(
    world: paper.World, config: FitConfig, seed: int, device: str, trainer: type[Trainer] = Trainer
) -> dict[str, Any]:
    """Measures one fit of one world: recall of stored cues by the codes alone and by the network alone."""
    shards = InMemoryShards(world.states, experience_of(world), seed)
    trained = trainer(shards, WINDOW, config, TrainingRequest(device, seed)).run()
    fitted, predicted = trained.report, trained.predictor.weights()(world.states)
    keys, queries = make_keys(world.states, with_codes(predicted, trained.embeddings)), choose_queries(world)
    halfway = fitted.losses[len(fitted.losses) // 2]
    return {
        "states": len(world.states),
        "associations": fitted.associations,
        "width": config.hidden,
        "code": config.code,
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
        scores = query_vectors(channels, cues.given, cues.completed, cues.predicted) @ keys.T
        scores[np.arange(len(q)), q] = -np.inf
        return scores

    return score


def load(run: dict[str, Any], of: str) -> float:
    """Returns the load of a network or of codes: associations per parameter, or states."""
    return float(run["associations"] / run["parameters"]) if of == "network" else float(run["states"])


def laws(runs: dict[str, Any], of: str) -> dict[str, dict[str, float]]:
    """Returns the fitted laws: one per number of passes and, for codes, per length."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs.values():
        what = "networks" if of == "network" else f"codes of {run['code']}"
        groups.setdefault(f"{what}, {run['passes']} passes", []).append(run)
    return {name: found for name, group in groups.items() if (found := law(group, of))}


def law(runs: list[dict[str, Any]], of: str) -> dict[str, float]:
    """Returns the load at which recall is half, the steepness, and the quality of the fit; empty with too few runs."""
    told = [(load(run, of), run[of]["CBR@20"]) for run in runs]
    told = [(a, recall) for a, recall in told if EDGE < recall < 1 - EDGE]
    if len(told) < 3:
        return {}
    x, recall = np.log([a for a, _ in told]), np.array([r for _, r in told])
    logit = np.log(recall / (1 - recall))
    slope, intercept = np.polyfit(x, logit, 1)
    rest = logit - (slope * x + intercept)
    return {
        "half": float(np.exp(-intercept / slope)),
        "steepness": float(-slope),
        "R2 of the logits": float(1 - rest.var() / logit.var()),
        "runs": len(told),
    }


def draw(runs: dict[str, Any], of: str) -> Any:
    """Draws recall against load, one line per width or length, and the laws."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, axes = plt.subplots(figsize=(6, 4))
    kinds = sorted({(run["passes"], run["width"] if of == "network" else run["code"]) for run in runs.values()})
    for (passes, size), marker in zip(kinds, "o^svDP*Xdp<>", strict=False):
        shape = "width" if of == "network" else "code"
        group = [run for run in runs.values() if (run["passes"], run[shape]) == (passes, size)]
        points = sorted((load(run, of), run[of]["CBR@20"]) for run in group)
        label = f"{size} wide" if of == "network" else f"codes of {size}, {passes} passes"
        axes.plot(*zip(*points, strict=True), marker=marker, label=label)
    loads = [load(run, of) for run in runs.values()]
    x = np.geomspace(min(loads), max(loads), 100)
    for found in laws(runs, of).values():
        axes.plot(x, 1 / (1 + (x / found["half"]) ** found["steepness"]), color="0.6", linestyle="--", linewidth=1)
    told = "associations per parameter" if of == "network" else "states"
    axes.set(xscale="log", xlabel=told, ylabel=f"CBR@20, the {of} alone", ylim=(0, 1.02))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend()
    path = report.RESULTS.parent / "notes" / "images" / f"capacity-{of}.png"
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
    return path


if __name__ == "__main__":
    main()
