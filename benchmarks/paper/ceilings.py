"""Oracle ceilings: the best results that a predictor of one point, or of a few points, can reach.

An oracle optimises free points for every query directly against the whole index. No predictor that returns the same
number of points can beat it. Every state has about 9.7 associates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from benchmarks.baselines.hopfield import Hopfield
from benchmarks.paper.fits import under
from benchmarks.paper.main_table import ROWS
from benchmarks.paper.protocol import Queries, Scores, evaluate
from benchmarks.paper.setting import WINDOW, Setting
from benchmarks.paper.tables import Table
from pam_retriever.model.forward import PredictorConfig
from pam_retriever.model.keys import unit
from pam_retriever.model.predictor import Predictor
from pam_retriever.types import Float32, Int64

POINTS = (1, 2, 4)
QUERIES = 200  # per metric
BATCH = 50
STEPS, RATE = 200, 0.05
TEMPERATURE, FINAL_TEMPERATURE = 0.1, 0.02


def run(setting: Setting) -> list[Table]:
    if setting.protocol == "published":  # the paper has no ceilings
        return []
    parts = setting.parts("ceilings")
    columns = {
        "centroid of the associates": parts.get("centroid", lambda: _centroid(setting)),
        "best point, whitened keys": parts.get("whitened", lambda: _best(setting, 1, whitened=True)),
    }
    for count in POINTS:
        name = "best point" if count == 1 else f"best {count} points"
        columns[name] = parts.get(name, lambda count=count: _best(setting, count))
    columns["perfect ranking"] = parts.get("perfect", lambda: _perfect(setting))
    return [Table(f"Ceilings, {QUERIES} queries a metric", ROWS, columns)]


def _centroid(setting: Setting) -> dict[str, Any]:
    hopfield = Hopfield(beta=1e4)  # the softmax is so sharp that only the cue itself is retrieved
    hopfield.fit(setting.experience, setting.world.states, WINDOW)
    return _evaluate(setting, hopfield.scores)


def _perfect(setting: Setting) -> dict[str, Any]:
    def scores(rows: Int64) -> Float32:
        found = np.zeros((len(rows), len(setting.world.states)), np.float32)
        for row, query in zip(found, rows, strict=True):
            # cross-room associates first: no order of the associates is better for any row of the table
            row[setting.queries.associates[query]] = 1
            row[setting.queries.crossing[query]] = 2
        return found

    return _evaluate(setting, scores)


def _best(setting: Setting, count: int, whitened: bool = False) -> dict[str, Any]:
    states = torch.from_numpy(setting.world.states)
    if whitened:
        model = Predictor(PredictorConfig(states.shape[1], whiten=True))
        model.fit_whitening(states)
        states = model.normalise(states)
    keys = torch.from_numpy(unit(states.numpy()))
    queries = setting.queries.first(QUERIES)
    rows = queries.union()
    batches = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
    points = np.concatenate([
        best_points(keys, [queries.associates[row] for row in batch], batch, count)
        for batch in tqdm(batches, desc=f"{count} points", disable=None)
    ])  # fmt: skip

    def scores(queries: Int64) -> Float32:
        chosen = points[np.searchsorted(rows, queries)]  # (Q, count, d)
        found: Float32 = np.max([chosen[:, at] @ keys.numpy().T for at in range(count)], axis=0)
        return found

    return _evaluate(setting, scores)


def best_points(keys: Tensor, associates: list[Int64], own: Int64, count: int, steps: int = STEPS) -> Float32:
    """Returns (Q, count, d): the ``count`` unit vectors per query that are nearest to its associates.

    The score of a memory is its largest cosine to a point. The loss is the loss of training: every associate
    against all memories that are no associates, over the whole index. The query itself is in neither group.
    """
    row = torch.from_numpy(np.repeat(np.arange(len(associates)), [len(one) for one in associates]))
    column = torch.from_numpy(np.concatenate(associates))
    excluded = torch.zeros(len(associates), len(keys), dtype=torch.bool)
    excluded[row, column] = True
    excluded[torch.arange(len(own)), torch.from_numpy(own)] = True
    # start at associates spread over the experience
    start = [keys[one[np.linspace(0, len(one) - 1, count + 2).astype(int)[1:-1]]] for one in associates]
    centre = torch.stack([keys[one].mean(0) for one in associates])
    points = (torch.stack(start) + centre[:, None]).requires_grad_()
    optimizer = torch.optim.Adam([points], lr=RATE)
    for step in range(steps):
        temperature = TEMPERATURE * (FINAL_TEMPERATURE / TEMPERATURE) ** (step / steps)
        cosine = (F.normalize(points, dim=-1).reshape(-1, keys.shape[1]) @ keys.T).view(len(own), count, -1)
        scores = cosine.amax(dim=1) / temperature  # (Q, M)
        against = scores.masked_fill(excluded, -1e30).logsumexp(-1)
        loss = F.softplus(against[row] - scores[row, column]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    best: Float32 = F.normalize(points.detach(), dim=-1).numpy()
    return best


def _evaluate(setting: Setting, scores: Scores) -> dict[str, Any]:
    queries: Queries = setting.queries.first(QUERIES)
    return evaluate(under(setting.protocol, scores), queries, setting.world)
