"""Temporal shuffle: training on trajectories in random order, queries about the true order (pam.tex 5.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.baselines.counts import Counts
from benchmarks.paper import reference
from benchmarks.paper.fits import CHANNELS, JOINT, index_of, trained, under
from benchmarks.paper.main_table import ROWS
from benchmarks.paper.protocol import evaluate, experience_of
from benchmarks.paper.setting import WINDOW, Setting
from benchmarks.paper.tables import Table
from benchmarks.worlds.paper import World
from pam_retriever.experience.cooccurrence import Experience

SEEDS = (42, 123)


def run(setting: Setting) -> list[Table]:
    parts = setting.parts("shuffle")
    columns: dict[str, dict[str, Any]] = {}
    if setting.protocol == "strict":
        # the score of a perfect memory of the shuffled order: some true associates remain adjacent by chance
        columns["exact graph of the shuffled order"] = parts.get("exact graph", lambda: _exact(setting))
    if setting.seeds:
        true = parts.get("true order", lambda: _true(setting))
        orders = {f"seed {seed}": parts.get(f"shuffled, seed {seed}", _shuffler(setting, seed)) for seed in SEEDS}
        for name in ("forward", JOINT):
            columns[f"{name}, true order"] = true[name]
            columns |= {f"{name}, shuffled, {seed}": found[name] for seed, found in orders.items()}
    published = reference.SHUFFLE if setting.published_world else {}
    return [Table("Temporal shuffle", ROWS, columns, published)]


def shuffled(world: World) -> Experience:
    """Returns every trajectory in an independent random order."""
    random = np.random.RandomState(999)
    return experience_of(world, np.stack([random.permutation(path) for path in world.trajectories]))


def _true(setting: Setting) -> dict[str, Any]:
    _, fitted = index_of(setting, SEEDS[0])
    return _columns(setting, fitted)


def _shuffler(setting: Setting, seed: int) -> Callable[[], dict[str, Any]]:
    return lambda: _columns(setting, trained(setting, seed, "shuffled", experience=shuffled(setting.world)))


def _columns(setting: Setting, fitted) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    return {
        name: evaluate(under(setting.protocol, fitted.scores(CHANNELS[name])), setting.queries, setting.world)
        for name in ("forward", JOINT)
    }


def _exact(setting: Setting) -> dict[str, Any]:
    counts = Counts()
    counts.fit(shuffled(setting.world), setting.world.states, WINDOW)
    return evaluate(under(setting.protocol, counts.scores), setting.queries, setting.world)
