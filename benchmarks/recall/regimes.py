"""``python -m benchmarks.recall.regimes``: the paper's world, for cues that are stored, noisy, held out or new.

One index of all states answers stored cues and noisy views of them. In a second index a fifth of the states is held
out: in training each is only a target, never a cue, and the index has no links of it. In a third index 500 states were
never experienced, like memories that are added after the fit. Settings are the defaults.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import metrics, report
from benchmarks.paper.protocol import choose_queries, evaluate, experience_of
from benchmarks.recall.calibration import draw, reliability
from benchmarks.training.held_out import HeldOutTrainer
from benchmarks.worlds import paper
from pam_retriever import Channels, FitConfig, PredictiveAssociativeIndex
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.model.episode_embeddings import EpisodeEmbeddings
from pam_retriever.model.keys import MODES, query_vectors
from pam_retriever.retrieval.cues import stored_cues
from pam_retriever.store.rebuild import TrainedModel
from pam_retriever.training.config import TrainingRequest, read_config
from pam_retriever.training.shards import InMemoryShards
from pam_retriever.types import FitReport, Hit, Int64

WINDOW, HELD_OUT, QUERIES = 5, 0.2, 500
LEARNED = {
    "forward": Channels(forward=1),
    "reverse": Channels(reverse=1),
    "mutual": Channels(mutual=1),
    "episode": Channels(episode=1),
    "learned channels together": MODES["association"],
}
REGIMES = {"default recall": 0.0, "default, noise 0.3": 0.3, "default, noise 0.6": 0.6}
ABLATED = (0.0, 0.6)  # the levels of noise for the ablations
HINTS = {"links of look-alikes": 1, "links of what is predicted": 2, "looks": 3}  # their positions in the mixture
FIGURE = Path(__file__).parents[1] / "notes" / "images" / "reliability.png"
SURE = ("ECE", "log loss", "log loss of the base rate")
ROWS = ("AP@1", "AP@20", "CBR@20", "AUC", "AUC_cross_room", *SURE)


NONE = np.empty(0, np.int64)


def build(
    world: paper.World, config: FitConfig, seed: int, held_out: Int64 = NONE, unseen: Int64 = NONE
) -> tuple[PredictiveAssociativeIndex, FitReport]:
    """Returns an index of all states. Held-out states are never cues, unseen states are not learnt; both lack links."""
    index = PredictiveAssociativeIndex(dim=paper.DIM)
    names = np.arange(len(world.states)).astype(str)
    index.add(world.states, names.tolist())
    for trajectory in world.trajectories:
        index.observe(names[trajectory].tolist())
    every = experience_of(world)
    steps = ~np.isin(every.states, unseen)
    experience = Experience(every.states[steps], every.trajectory[steps], every.position[steps])
    shards, request = InMemoryShards(world.states, experience, seed), TrainingRequest(seed=seed)
    trained = HeldOutTrainer(held_out, shards, WINDOW, config, request).run()
    fitted = trained.report
    store = index._store
    rebuild = store.begin_rebuild(store.database.trajectories.last_number())
    embeddings = EpisodeEmbeddings(rebuild.rows, trained.embeddings)
    trained_model = TrainedModel(trained.predictor.weights(), embeddings, fitted.calibration, WINDOW)
    rebuild.prepare(trained_model)
    rebuild.commit(trained_model, [])
    rebuild.end()
    without = np.concatenate([held_out, unseen])
    if len(without):
        index.delete(names[without].tolist())
        index.add(world.states[without], names[without].tolist())
    return index, fitted


def recall(index: PredictiveAssociativeIndex, world: paper.World, cues: Int64, noise: float = 0.0) -> list[list[Hit]]:
    """Returns default recall of states by id, or of noisy views of them, without the state itself."""
    if noise:
        views = world.states[cues] + noise * np.random.default_rng(0).standard_normal((len(cues), paper.DIM))
        answers = index.recall_many(views.astype(np.float32), k=21)
    else:
        answers = index.recall([str(q) for q in cues], k=21)
    return [[hit for hit in hits if int(hit.id) != q][:20] for q, hits in zip(cues.tolist(), answers, strict=True)]


def quality(world: paper.World, cues: Int64, answers: list[list[Hit]], relevant: list[Int64]) -> dict[str, float]:
    """Returns the quality of the answers."""
    found: dict[str, list[float]] = {"AP@1": [], "AP@20": [], "CBR@20": []}
    for q, hits in zip(cues.tolist(), answers, strict=True):
        ranked = np.array([int(hit.id) for hit in hits])
        crossing = relevant[q][world.rooms[relevant[q]] != world.rooms[q]]
        found["AP@1"].append(metrics.precision(ranked[:1], relevant[q]))
        found["AP@20"].append(metrics.precision(ranked, relevant[q]))
        if len(crossing) >= 3:
            found["CBR@20"].append(metrics.recall(ranked, crossing))
    return {name: float(np.mean(values)) for name, values in found.items()}


@contextmanager
def without(index: PredictiveAssociativeIndex, part: str) -> Iterator[None]:
    """Removes one part of default recall from the index until the context ends."""
    store = index._store
    view, calibration = store.view(), store.calibration
    assert calibration is not None
    if part == "exact links":
        rows, *_, salience = view.links.steps()  # each step alone: what was experienced stays known, without links
        alone = np.arange(len(rows))
        changed = replace(view, links=CooccurrenceGraph(rows, alone, np.zeros_like(alone), salience))
    else:
        mixture_weights = np.array(calibration.unseen.mixture)
        mixture_weights[HINTS[part]] = 0
        mixture = (mixture_weights / mixture_weights.sum()).tolist()
        changed = replace(
            view, calibration=replace(calibration, unseen=replace(calibration.unseen, mixture=tuple(mixture)))
        )
    with patch.object(store, "view", return_value=changed):
        yield


def measure(
    world_seed: int, config: FitConfig, seed: int, trajectories: int
) -> tuple[dict[str, dict[str, float]], dict[str, Any]]:
    """Returns the columns of a world, and the reliability of confidence in each regime."""
    world = paper.build(world_seed, trajectories)
    queries = choose_queries(world)
    everyone = np.random.RandomState(0).permutation(len(world.states))
    held_out, stored = np.split(everyone, [int(HELD_OUT * len(everyone))])
    columns: dict[str, dict[str, float]] = {}

    index, fitted = build(world, config, seed)
    associative = index._store.associative
    assert associative is not None
    keys = associative.keys(np.arange(1, len(world.states) + 1))
    for name, channels in LEARNED.items():

        def score(q: Int64, channels: Channels = channels) -> metrics.Array:
            cues = stored_cues(keys[q], q, paper.DIM)
            scores = query_vectors(channels, cues.given, cues.completed, cues.predicted) @ keys.T
            scores[np.arange(len(q)), q] = -np.inf
            return scores

        columns[name] = evaluate(score, queries, world)
    relevant = queries.associates
    sure = {}

    def ask(name: str, cues: Int64, noise: float = 0.0) -> None:
        answers = recall(index, world, cues, noise)
        columns[name] = quality(world, cues, answers, relevant)
        sure[name] = reliability(cues, answers, relevant)
        columns[name] |= {row: sure[name][row] for row in SURE}
        for part in ("exact links", *HINTS) if noise in ABLATED else ():
            with without(index, part):
                columns[f"{name}, without {part}"] = quality(world, cues, recall(index, world, cues, noise), relevant)

    for name, noise in REGIMES.items():
        ask(name, queries.precision, noise)
    columns["default recall"]["fit seconds"] = fitted.seconds

    index, fitted = build(world, config, seed, held_out)
    ask("held out", held_out[:QUERIES])
    columns["held out"]["fit seconds"] = fitted.seconds
    ask("held out: the stored", stored[:QUERIES])

    unseen = stored[:QUERIES]
    index, fitted = build(world, config, seed, unseen=unseen)
    ask("never experienced", unseen)
    return columns, sure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world-seeds", nargs="*", type=int, default=[42, 1, 2, 3, 4, 5])
    parser.add_argument("--trajectories", type=int, default=500)
    parser.add_argument("--config", default="fast")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="recall/regimes")
    parser.add_argument(
        "--join", nargs="*", default=[], help="names of earlier results; their worlds are copied, not measured again"
    )
    arguments = parser.parse_args()
    runs: dict[int, Any] = {}
    sure: dict[int, Any] = {}
    for name in arguments.join:
        joined = json.loads((report.RESULTS / f"{name}.json").read_text())
        if joined["config"] != arguments.config or joined["seed"] != arguments.seed:
            sys.exit(f"{name} is of --config {joined['config']} --seed {joined['seed']}")
        runs |= {int(world): columns for world, columns in joined["worlds"].items()}
        sure |= {int(world): found for world, found in joined["reliability"].items()}
    for world_seed in arguments.world_seeds:
        runs[world_seed], sure[world_seed] = measure(
            world_seed, read_config(arguments.config), arguments.seed, arguments.trajectories
        )
        print(f"\nworld {world_seed}\n{report.table(ROWS, runs[world_seed])}", flush=True)
    mean = {
        column: {row: float(np.mean([run[column][row] for run in runs.values()])) for row in values}
        for column, values in next(iter(runs.values())).items()
    }
    print(f"\nmean of worlds {list(runs)}\n{report.table(ROWS, mean)}")
    result = {
        "config": arguments.config,
        "seed": arguments.seed,
        "trajectories": arguments.trajectories,
        "mean": mean,
        "worlds": runs,
        "reliability": sure,
    }
    draw(next(iter(sure.values())), FIGURE)
    print(f"written to {report.write(arguments.name, result)}, {FIGURE}")


if __name__ == "__main__":
    main()
