"""The main table with other query states: seeds 100 to 104 (pam.tex 5.1)."""

from __future__ import annotations

from typing import Any

from benchmarks.paper import reference
from benchmarks.paper.fits import CHANNELS, JOINT, index_of, under
from benchmarks.paper.main_table import ROWS
from benchmarks.paper.protocol import choose_queries, evaluate
from benchmarks.paper.setting import WINDOW, Setting
from benchmarks.paper.tables import Table, deviation_of, mean_of

QUERY_SEEDS = (100, 101, 102, 103, 104)


def run(setting: Setting) -> list[Table]:
    if not setting.seeds:
        return []
    parts = setting.parts("resampling")
    runs = [parts.get(f"queries {seed}", lambda seed=seed: _resampled(setting, seed)) for seed in QUERY_SEEDS]
    columns = {}
    for name in ("forward", JOINT):
        columns[f"{name}, mean"] = mean_of([one[name] for one in runs])
        columns[f"{name}, SD"] = deviation_of([one[name] for one in runs])
    published = {"paper: SD": reference.RESAMPLING_SD} if setting.published_world else {}
    return [Table(f"Query seeds {list(QUERY_SEEDS)}, training seed {setting.seeds[0]}", ROWS, columns, published)]


def _resampled(setting: Setting, query_seed: int) -> dict[str, Any]:
    _, fitted = index_of(setting, setting.seeds[0])
    queries = choose_queries(setting.world, WINDOW, query_seed)
    return {
        name: evaluate(under(setting.protocol, fitted.scores(CHANNELS[name])), queries, setting.world)
        for name in ("forward", JOINT)
    }
