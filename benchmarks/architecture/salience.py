"""Salience (pam.tex 3.4): one exposure of a salient event, against several exposures of a plain one.

Most episodes of the stream occur once. Some events are repeated. Other events occur once but are salient. The salience
comes from the caller, or from the prediction error of an index that was trained on the repeated events. Training is
short, so that differences in the speed of learning are visible. Only the learned channels are used, because the exact
links of default recall store every event after one exposure. The number of passes was chosen on seed 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.worlds.cluttered import DIM, WINDOW, World, build
from pam_retriever import Channels, FitConfig, PredictiveAssociativeIndex, Trajectory
from pam_retriever.model.keys import MODES

EVENTS, ROUTINE = 15, 240  # events per group; episodes of the known routine
EXPOSURES, SALIENCES = (1, 2, 4, 8), (2.0, 4.0, 8.0, 16.0)
SHORT = FitConfig(hidden=256, passes=15)


def run(seed: int) -> dict[str, Any]:
    world = build(seed, episodes=300, background=0)
    random = np.random.default_rng(seed)
    groups = {f"seen {n} times": EVENTS for n in EXPOSURES} | {f"seen once, salience {s:g}": EVENTS for s in SALIENCES}
    episodes = np.split(random.permutation(len(world.episodes)), np.cumsum(list(groups.values())))
    members = dict(zip([*groups, "the rest, seen once"], episodes, strict=True))
    salience, exposures = np.ones(len(world.episodes)), np.ones(len(world.episodes), int)
    for value in EXPOSURES:
        exposures[members[f"seen {value} times"]] = value
    for value in SALIENCES:
        salience[members[f"seen once, salience {value:g}"]] = value
    columns = {
        "salience given": salience,
        "salience shuffled": random.permutation(salience),
        "no salience": np.ones(len(salience)),
    }
    table = {
        name: evaluate(learn(world, stream(world, weights, exposures, random), seed), world, members)
        for name, weights in columns.items()
    }
    plain = learn(world, stream(world, columns["no salience"], np.ones(len(salience), int), random), seed)
    table["every event seen once, default recall"] = evaluate(plain, world, members, channels=None)
    return {
        "config": {"passes": SHORT.passes, "hidden": SHORT.hidden},
        "tables": {"share of the associates recalled": table, "by prediction error": by_surprise(world, random, seed)},
    }


def by_surprise(world: World, random: np.random.Generator, seed: int) -> dict[str, dict[str, float]]:
    """Compares short fits on a known routine and new events, with and without prediction errors as salience."""
    order = random.permutation(len(world.episodes))
    members = {"routine": order[:ROUTINE], "new events": order[ROUTINE:]}
    trips = [Trajectory(ids=named(world, e)) for e in members["routine"]]
    trained = learn(world, trips, seed, FitConfig(hidden=256, passes=60))
    errors = np.zeros((len(world.episodes), world.episodes.shape[1]))
    for episode in range(len(world.episodes)):
        errors[episode] = trained.surprise(named(world, episode))
    columns = {}
    for name, weights in (
        ("by prediction error", errors),
        ("prediction error shuffled", errors[random.permutation(len(errors))]),
        ("no salience", np.ones_like(errors)),
    ):
        trips = [Trajectory(ids=named(world, e), salience=weights[e]) for e in range(len(world.episodes))]
        columns[name] = evaluate(learn(world, trips, seed), world, members)
    columns["mean prediction error"] = {group: float(errors[rows].mean()) for group, rows in members.items()}
    return columns


def stream(
    world: World, salience: Sequence[float], exposures: Sequence[int], random: np.random.Generator
) -> list[Trajectory]:
    order = random.permutation(np.repeat(np.arange(len(world.episodes)), exposures))
    length = world.episodes.shape[1]
    return [Trajectory(ids=named(world, e), salience=[float(salience[e])] * length) for e in order]


def named(world: World, episode: int) -> list[str]:
    return [str(row) for row in world.episodes[episode]]


def learn(world: World, trips: list[Trajectory], seed: int, config: FitConfig = SHORT) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(world.states, [str(row) for row in range(len(world.states))])
    index.fit(trips, window=WINDOW, config=config, seed=seed, progress=False)
    return index


def evaluate(
    index: PredictiveAssociativeIndex,
    world: World,
    members: dict[str, Any],
    channels: Channels | None = MODES["association"],
) -> dict[str, float]:
    """Returns for each group the mean share of a moment's n associates among its first n hits."""
    relevant = world.relevant()
    found = {}
    for name, episodes in members.items():
        cues = world.episodes[episodes[:60]].ravel()
        hits = index.recall([str(cue) for cue in cues], k=2 * WINDOW, channels=channels)
        shares = [
            np.isin(relevant[cue], [int(hit.id) for hit in one[: len(relevant[cue])]]).mean()
            for cue, one in zip(cues, hits, strict=True)
        ]
        found[name] = float(np.mean(shares))
    return found
