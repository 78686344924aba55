"""The paper's main table, over training seeds (pam.tex table 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import metrics
from benchmarks.paper import reference
from benchmarks.paper.fits import index_of, under
from benchmarks.paper.measured import BILINEAR, measured
from benchmarks.paper.protocol import Ranks, evaluate, evaluate_ranks
from benchmarks.paper.setting import Setting
from benchmarks.paper.tables import Table, deviation_of, mean_of
from pam_retriever import PredictiveAssociativeIndex

ROWS = ["AP@1", "AP@5", "AP@10", "AP@20", "R@20", "MRR", "CBR@20", "MRR_cross_room"]
ROWS += ["AUC", "AUC_cross_room", "Specificity@20"]
DEPTH = 100  # the depth of default recall for reciprocal ranks


def run(setting: Setting) -> list[Table]:
    parts = setting.parts("main")
    # bilinear with one seed: the paper gives no deviation for it either
    columns = {name: measured(setting, of)["figures"] for name, of in (("cosine", "cosine"), ("bilinear", BILINEAR))}
    if setting.published_world and setting.protocol == "published":
        check_cosine(columns["cosine"])
    runs = [parts.get(f"seed {seed}", lambda seed=seed: _seed(setting, seed)) for seed in setting.seeds]
    deviations = {}
    for name in runs[0]["columns"] if runs else ():
        columns[name] = mean_of([one["columns"][name] for one in runs])
        if len(runs) > 1:
            deviations[f"{name}, SD"] = deviation_of([one["columns"][name] for one in runs])
    published = reference.MAIN if setting.published_world else {}
    tables = [Table(f"Main table, mean of training seeds {list(setting.seeds)}", ROWS, columns, published)]
    if deviations:
        tables.append(Table("Standard deviation over training seeds", ROWS, deviations))
    return tables


def recalled(index: PredictiveAssociativeIndex, depth: int = DEPTH, **options: Any) -> Ranks:
    """Returns the results of ``recall`` with ``options``, without the query itself."""

    def ranks(rows: metrics.Rows) -> list[metrics.Rows]:
        found = index.recall([str(row) for row in rows], k=depth, **options)
        return [np.array([int(hit.id) for hit in hits]) for hits in found]

    return ranks


def check_cosine(figures: dict[str, float]) -> None:
    """Raises if the world or the queries are not the published ones."""
    for row, value in reference.COSINE.items():
        digits = {"CBR@20": 5, "Specificity@20": 3}.get(row, 4)
        if round(figures[row], digits) != value:
            raise AssertionError(f"cosine {row} is {figures[row]:.6f}, published {value}: another world or protocol")


def _seed(setting: Setting, seed: int) -> dict[str, Any]:
    index, fitted = index_of(setting, seed)
    columns = {"default recall": evaluate_ranks(recalled(index), setting.queries, setting.world)}
    for name, channels in fitted.channels.items():
        columns[name] = evaluate(under(setting.protocol, fitted.scores(channels)), setting.queries, setting.world)
    return {"fit": fitted.report, "columns": columns}
