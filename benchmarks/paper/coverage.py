"""Recall by coverage, which is the share of the directed associations in training, at equal cost.

Coverage explains the paper's model selection, and most of the low precision at depth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.paper.fits import CHANNELS, trained, under
from benchmarks.paper.main_table import ROWS
from benchmarks.paper.partial import Partial, subset
from benchmarks.paper.protocol import choose_queries, evaluate
from benchmarks.paper.selection import random_subset, shorter
from benchmarks.paper.setting import WINDOW, Setting
from benchmarks.paper.tables import Table

SHARES = (0.1, 0.2, 0.41, 0.6, 0.8, 1.0)


def run(setting: Setting) -> list[Table]:
    if not setting.seeds:
        return []
    parts = setting.parts("coverage")
    every, own = {}, {}
    for share in SHARES:
        found = parts.get(f"{share:.0%}", lambda share=share: _covered(setting, share))
        every[f"{share:.0%} of directed pairs"] = found["all"]
        own[f"{share:.0%} of directed pairs"] = found["trained"]
    return [
        Table("Forward score, all associates relevant", [*ROWS, "perfect CBR@20"], every),
        Table("Forward score, only trained associates relevant", ROWS, own),
    ]


def _covered(setting: Setting, share: float) -> dict[str, Any]:
    seed = setting.seeds[0]
    mask = random_subset(setting, share, seed)
    partial = Partial(mask)
    config = shorter(setting)
    fitted = trained(setting, seed, f"coverage {share}", config=config, partial=partial)
    scores = under(setting.protocol, fitted.scores(CHANNELS["forward"]))
    part = subset(setting.associations, mask)
    own = choose_queries(setting.world, WINDOW, relevant=part)
    trained_crossing = np.split(part.indices, part.indptr[1:-1])
    # the score of an oracle that stores exactly the trained pairs
    perfect = [
        np.isin(setting.queries.crossing[query], trained_crossing[query]).mean() for query in setting.queries.boundary
    ]
    return {
        "all": evaluate(scores, setting.queries, setting.world) | {"perfect CBR@20": float(np.mean(perfect))},
        "trained": evaluate(scores, own, setting.world),
        "fit": fitted.report,
    }
