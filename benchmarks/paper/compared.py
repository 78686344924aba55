"""Every baseline of the paper, on the same queries: quality, cost, memory, and noise (pam.tex 6.7)."""

from __future__ import annotations

import time

from benchmarks.paper import noise
from benchmarks.paper.fits import CHANNELS, JOINT, index_of, under
from benchmarks.paper.main_table import ROWS, recalled
from benchmarks.paper.measured import COST, TIMED, baselines, measured
from benchmarks.paper.protocol import evaluate, evaluate_ranks
from benchmarks.paper.setting import Setting
from benchmarks.paper.tables import Columns, Table


def run(setting: Setting) -> list[Table]:
    columns: Columns = {}
    curves: dict[str, dict[str, dict[str, float]]] = {}
    for name in baselines(setting):
        found = measured(setting, name)
        columns[name], curves[name] = found["figures"], found["noise"]
        if "noise, bare" in found:
            curves[f"{name}, bare cue"] = found["noise, bare"]
    if setting.seeds:
        columns |= setting.parts("compared").get("recall", lambda: _ours(setting))
    title = "Query noise, answered for the memory nearest to the cue"
    return [Table("Baselines on exact cues", [*ROWS, *COST], columns), *noise.tables(curves, title)]


def _ours(setting: Setting) -> Columns:
    """Scores the default recall by the public call, and the learned channels alone."""
    index, fitted = index_of(setting, setting.seeds[0])
    timed = [str(row) for row in setting.queries.precision[:TIMED]]
    started = time.perf_counter()
    index.recall(timed, k=20)
    milliseconds = 1000 * (time.perf_counter() - started) / len(timed)
    numbers = (fitted.units.size + fitted.predicted.size + fitted.report["parameters"]) / 1e6
    cost = dict(zip(COST, (fitted.report["seconds"], milliseconds, numbers), strict=True))
    scores = under(setting.protocol, fitted.scores(CHANNELS[JOINT]))
    return {
        "default recall": evaluate_ranks(recalled(index), setting.queries, setting.world) | cost,
        JOINT: evaluate(scores, setting.queries, setting.world) | cost,
    }
