"""Adaptive decay: scores weighted by how recently a state was active (pam.tex 3.9, 5.7).

The published queries are recently active states, so warmth (recent activity) marks the segment of the answer. Two
controls measure how much of the gain this explains: queries from any time, and warmth assigned to other states.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import metrics
from benchmarks.paper import reference
from benchmarks.paper.fits import CHANNELS, JOINT, Fitted, index_of, under
from benchmarks.paper.setting import Setting
from benchmarks.paper.tables import Table, mean_of
from pam_retriever.types import Float32, Int64

STEPS, EVERY, QUERIES = 500, 50, 10
DECAY, ACTIVATION = 0.99, 0.7
SEGMENT, RECENT = 15, 200
STRENGTH = 0.3  # associates at most three steps away count


def run(setting: Setting) -> list[Table]:
    if not setting.seeds:
        return []
    parts = setting.parts("decay")
    runs = [parts.get(f"seed {seed}", lambda seed=seed: _seed(setting, seed)) for seed in setting.seeds]
    columns = {name: mean_of([one[name] for one in runs]) for name in runs[0]}
    published = reference.DECAY if setting.published_world else {}
    return [Table("Recall@20 of associates at most 3 steps away", ["without", "with decay"], columns, published)]


def _seed(setting: Setting, seed: int) -> dict[str, Any]:
    _, fitted = index_of(setting, seed)
    found = {}
    for name in ("forward", JOINT):
        kinds = ["recent queries"] if setting.protocol == "published" else ["recent queries", *CONTROLS]
        for kind in kinds:
            found[f"{name}, {kind}"] = _stream(setting, fitted, name, kind, seed)
    return found


CONTROLS = ("queries from all states", "warmth of other states")


def _stream(setting: Setting, fitted: Fitted, name: str, kind: str, seed: int) -> dict[str, float]:
    """Streams 500 segments of experience; every 50 segments, ten queries run with and without warmth."""
    random = np.random.default_rng(seed)
    scores = under(setting.protocol, fitted.scores(CHANNELS[name]))
    paths = setting.world.trajectories
    warmth = np.ones(paths.size, np.float32)
    recent = np.empty(0, np.int64)
    cold, warm = [], []
    for step in range(STEPS):
        warmth *= DECAY
        start = random.integers(paths.shape[1] - 20)
        segment = paths[random.integers(len(paths)), start : start + SEGMENT]
        warmth[segment] = np.minimum(1, warmth[segment] + ACTIVATION)
        recent = np.concatenate([recent, segment])[-RECENT:]
        if step == 0 or step % EVERY:
            continue
        if kind == "queries from all states":
            queries = random.integers(paths.size, size=QUERIES)
        else:
            queries = random.choice(recent, QUERIES)
        dealt = random.permutation(warmth) if kind == "warmth of other states" else warmth
        raw = scores(queries)
        cold.append(_recall(setting, raw, queries))
        with np.errstate(invalid="ignore"):
            warm.append(_recall(setting, raw * dealt, queries))
    return {"without": float(np.mean(cold)), "with decay": float(np.mean(warm))}


def _recall(setting: Setting, scores: Float32, queries: Int64) -> float:
    graph, found = setting.associations, []
    for query, ranked in zip(queries, metrics.top(scores, 20), strict=True):
        row = slice(graph.indptr[query], graph.indptr[query + 1])
        near = graph.indices[row][graph.weights[row] >= STRENGTH]
        found.append(np.isin(near, ranked).sum() / min(20, len(near)))
    return float(np.mean(found))
