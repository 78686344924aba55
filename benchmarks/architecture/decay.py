"""Adaptive decay (pam.tex 3.9): precision while the index grows from 50,000 to a million states.

The predictor is trained on the first 10,000 states, and computes the association vector of every later state. A hit is
correct if it was experienced with the cue. Without decay a cue finds all episodes of its routine; with decay it finds
the recent ones. There are two controls: cues from all times, and times shuffled among the memories. The half-life was
chosen on seed 7.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.worlds.routines import DIM, LENGTH, WINDOW, build
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.model.keys import MODES, query_vectors, unit
from pam_retriever.types import Float32, Int64

SIZES, CUES, K = (50_000, 100_000, 200_000, 500_000, 1_000_000), 100, 10
TRAINED = 1_000  # episodes
RECENT, HALF_LIFE = 200, 100.0  # episodes


def run(seed: int) -> dict[str, Any]:
    world = build(seed)
    states, _ = world.episodes(SIZES[-1] // LENGTH, seed)
    index = PredictiveAssociativeIndex(dim=DIM)
    index.fit(list(states[:TRAINED]), window=WINDOW, progress=False)
    flat = states.reshape(-1, DIM)
    p, f = unit(flat), index._store.view().predict(flat)
    random = np.random.default_rng(seed)
    tables: dict[str, dict[str, dict[str, float]]] = {}
    for size in SIZES:
        recent = random.integers(size - RECENT * LENGTH, size, CUES)
        anytime = random.integers(0, size, CUES)
        time = np.arange(size) // LENGTH  # the episode of each state
        shuffled = random.permutation(time)
        columns = {
            "no decay": precision(p, f, recent, None, size),
            "decay": precision(p, f, recent, time, size),
            "times shuffled": precision(p, f, recent, shuffled, size),
            "cues of all times, no decay": precision(p, f, anytime, None, size),
            "cues of all times, decay": precision(p, f, anytime, time, size),
        }
        for name, value in columns.items():
            tables.setdefault(f"AP@{K}", {}).setdefault(name, {})[f"{size:,} states"] = value
    return {"half_life_episodes": HALF_LIFE, "cues_from_last_episodes": RECENT, "tables": tables}


@torch.inference_mode()
def precision(p: Float32, f: Float32, cues: Int64, time: Int64 | None, size: int) -> float:
    """Returns the mean share of the first ten hits that are in the cue's episode, by an exact scan of all memories.

    The scores equal the scores of ``recall(decay=...)``. One matrix product scores the memories
    here; ``recall`` itself would need a new index for each size.
    """
    queries = query_vectors(MODES["association"], p[cues], p[cues], f[cues])
    scores = torch.from_numpy(queries[:, :DIM]) @ torch.from_numpy(p[:size]).T
    scores += torch.from_numpy(queries[:, DIM:]) @ torch.from_numpy(f[:size]).T
    if time is not None:
        factors = torch.from_numpy((0.5 ** ((time.max() - time) / HALF_LIFE)).astype(np.float32))
        scores = torch.where(scores > 0, scores * factors, scores)
    scores[torch.arange(len(cues)), torch.from_numpy(cues)] = -torch.inf
    rows = scores.topk(K).indices.numpy()
    apart = np.abs(rows - cues[:, None])
    right = (rows // LENGTH == cues[:, None] // LENGTH) & (apart <= WINDOW)
    return float(right.mean())
