"""Model selection: width, depth, coverage, fixed or fresh pairs (pam.tex 5.6, table 4).

The recipes of this library vary in the same properties. A directed association counts only in the direction in which
it was drawn, and the score is the paper's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.paper import reference
from benchmarks.paper.fits import CHANNELS, trained, under
from benchmarks.paper.main_table import ROWS
from benchmarks.paper.partial import Partial, plain
from benchmarks.paper.protocol import evaluate
from benchmarks.paper.setting import Setting
from benchmarks.paper.tables import Table
from pam_retriever import FitConfig

# residual layers, width, directed pairs at 485,000 associations, pairs drawn anew in every pass
CONFIGURATIONS = {
    "baseline": (1, 256, 100_000, False),
    "capacity": (1, 1024, 100_000, False),
    "B depth": (2, 1024, 100_000, False),
    "C coverage": (1, 1024, 200_000, False),
    "D online": (2, 1024, 200_000, True),
    "D2 both fixed": (2, 1024, 200_000, False),
}
ALL_OF_THEM = 485_000
PASSES = 20
RATE = 6e-3  # for residual layers, which every configuration has; the rate of "fast" is for a network without them


def run(setting: Setting) -> list[Table]:
    if not setting.seeds:
        return []
    parts = setting.parts("selection")
    columns = {name: parts.get(name, lambda name=name: _configuration(setting, name)) for name in CONFIGURATIONS}
    rows = ["layers", "width", "pairs", "coverage", *ROWS, "final loss"]
    if not setting.published_world:
        return [Table("Model selection", rows, columns)]
    # the paper's R@20 counts cross-room associates, and its MRR uses the first of them
    theirs = {
        f"paper: {name}": {"CBR@20": figures["R@20"], "MRR_cross_room": figures["MRR"]}
        for name, figures in reference.SELECTION.items()
    }
    return [Table("Model selection", rows, columns, theirs)]


def random_subset(setting: Setting, share: float, seed: int) -> np.ndarray:
    """Returns (E,) a random part of the directed associations, of the given share."""
    mask = np.zeros(len(setting.associations), bool)
    chosen = np.random.default_rng(seed).permutation(len(mask))[: round(share * len(mask))]
    mask[chosen] = True
    return mask


def shorter(setting: Setting) -> FitConfig:
    """Returns this library's recipe with half of its passes; the twelve fits are compared only with each other."""
    config = replace(plain(setting), code=0)
    return replace(config, passes=setting.passes or PASSES) if config.objective == "joint" else config


def _configuration(setting: Setting, name: str) -> dict[str, Any]:
    layers, width, pairs, online = CONFIGURATIONS[name]
    share, seed = pairs / ALL_OF_THEM, setting.seeds[0]
    config = replace(shorter(setting), residual_layers=layers, hidden=width, pairs=None)
    if config.objective == "joint":
        config = replace(config, learning_rate=RATE)
    partial = Partial(random_subset(setting, share, seed), redraw=online)
    fitted = trained(setting, seed, f"selection {name}", config=config, partial=partial)
    figures = evaluate(under(setting.protocol, fitted.scores(CHANNELS["forward"])), setting.queries, setting.world)
    about = {"layers": layers + 2, "width": width, "pairs": "fresh" if online else "fixed", "coverage": share}
    return about | figures | {"final loss": fitted.report["losses"][-1], "fit": fitted.report}
