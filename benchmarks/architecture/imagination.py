"""Imagination (pam.tex 1, 3): the predicted point as a query for another store, and the quality of its spread.

The other store has another noisy view of every memory, under ids that are not in the index. The task is to find, from a
cue, the views of the memories that were experienced with it. The query is the vector of the cue, the imagined point, or
points drawn around that point. The predicted spread is compared with the true one, in thirds by the predicted spread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.worlds.cluttered import DIM, WINDOW, World, build
from pam_retriever import FitConfig, Imagination, PredictiveAssociativeIndex
from pam_retriever.model.keys import unit
from pam_retriever.types import Float32, Int64

CUES, K, DRAWN, NOISE = 400, 10, 5, 0.3


def run(seed: int) -> dict[str, Any]:
    world = build(seed, episodes=120, background=0)
    random = np.random.default_rng(seed)
    views = unit(world.states + (NOISE / np.sqrt(DIM) * random.standard_normal(world.states.shape)).astype(np.float32))
    relevant = world.relevant()
    cues = random.permutation(len(world.states))[:CUES]
    names = [str(cue) for cue in cues]
    plain = learn(world, world.episodes, FitConfig())
    shuffled = learn(world, random.permutation(world.episodes.ravel()).reshape(world.episodes.shape), FitConfig())
    paper = learn(world, world.episodes, PAPERS_LOSS)
    found: dict[str, dict[str, float]] = {
        "the cue's own vector": evaluate(unit(world.states[cues])[:, None], views, cues, relevant)
    }
    calibration: dict[str, dict[str, float]] = {}
    for name, index in {"point": plain, "point, InfoNCE": paper, "point, time shuffled": shuffled}.items():
        imagined = index.imagine(names)
        points = np.stack([one.point for one in imagined])
        found[name] = evaluate(points[:, None], views, cues, relevant)
        found[name]["distance to the nearest memory"] = float(np.mean([one.distance for one in imagined]))
        if name != "point, time shuffled":
            calibration |= {
                f"{name}, {row}": column for row, column in spread_by_third(imagined, world, cues, relevant).items()
            }
    drawn = np.stack([one.sample(DRAWN, seed=at) for at, one in enumerate(plain.imagine(names))])
    found[f"{DRAWN} points drawn"] = evaluate(drawn, views, cues, relevant)
    return {"tables": {f"R@{K} in the other store": found, "spread, by what is said of it": calibration}}


PAPERS_LOSS = FitConfig(
    objective="info_nce", hidden=256, residual_layers=2, passes=40, batch_size=512, learning_rate=3e-3,
    temperature=0.15, final_temperature=0.05,
)  # fmt: skip


def learn(world: World, episodes: Int64, config: FitConfig) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(world.states, [str(row) for row in range(len(world.states))])
    index.fit([[str(row) for row in e] for e in episodes], window=WINDOW, config=config, progress=False)
    return index


def evaluate(queries: Float32, views: Float32, cues: Int64, relevant: list[Int64]) -> dict[str, float]:
    """Returns R@K of (Q, n, d) queries; the score of a view is its best over the n queries of a cue."""
    scores = (queries @ views.T).max(axis=1)
    scores[np.arange(len(cues)), cues] = -np.inf  # the view of the cue itself
    best = np.argsort(-scores, axis=1)[:, :K]
    return {
        f"R@{K}": float(np.mean([np.isin(relevant[cue], rows).mean() for cue, rows in zip(cues, best, strict=True)]))
    }


def spread_by_third(
    imagined: list[Imagination], world: World, cues: Int64, relevant: list[Int64]
) -> dict[str, dict[str, float]]:
    """Returns predicted and true spread (root mean square), in thirds by the prediction."""
    p = unit(world.states)
    said = np.array([one.spread for one in imagined])
    true = [((p[relevant[cue]] - one.point) ** 2).sum(1).mean() for cue, one in zip(cues, imagined, strict=True)]
    thirds = np.array_split(np.argsort(said), 3)
    return {
        name: {"said": float(np.sqrt((said[rows] ** 2).mean())), "true": float(np.sqrt(np.array(true)[rows].mean()))}
        for name, rows in zip(("narrow", "middle", "wide"), thirds, strict=True)
    }
