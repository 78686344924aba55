"""Recall of associates from a fresh view of the cue: four spaces, with the same inward predictor over each."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import metrics
from benchmarks.jepa.setup import DIM, JOINT, OUTWARD, WINDOW, Setup, health, make_encoder
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.jepa import Observations
from pam_retriever.types import Float32, Int64

FIT = FitConfig(passes=20)
DEPTH = 20
ROWS = ["AP@1", "R@20", "CBR@20"]


def association(setup: Setup) -> dict[str, Any]:
    """Returns the columns of the table, and the names of its rows."""
    columns: dict[str, dict[str, float]] = {}
    joint = setup.train("joint", JOINT)
    spaces = {
        "joint": (joint.encoder.encode(setup.stored), joint.encoder.encode(setup.fresh)),
        "outward, frozen": both(setup, setup.train("outward", OUTWARD).encoder.encode),
        "random encoder": both(setup, make_encoder().encode),
        "PCA of raw inputs": principal_components(setup.stored, setup.fresh),
    }
    for name, (stored, fresh) in spaces.items():
        columns[name] = {**measure(setup, fitted(setup, stored), fresh), **health(stored)}
    index = PredictiveAssociativeIndex(encoder=make_encoder())
    index.add(setup.stored, setup.ids)
    index.fit(setup.episodes_as_ids, WINDOW, FitConfig(passes=1), device=setup.device)
    index.reencode(joint.encoder, joint.trainer.inward, joint.trainer.outward, window=WINDOW)
    columns["joint, its own inward"] = measure(setup, index, setup.fresh)
    columns["similarity in the joint space"] = measure(setup, index, setup.fresh, mode="similarity")
    return {"columns": columns, "rows": [*ROWS, "effective rank"]}


def both(setup: Setup, encode: Any) -> tuple[Float32, Float32]:
    return encode(setup.stored), encode(setup.fresh)


def principal_components(stored: Observations, fresh: Observations) -> tuple[Float32, Float32]:
    """Returns the first 128 components of all raw numbers. Senses have equal variance; missing ones get their mean."""
    columns: list[tuple[Float32, Float32]] = []
    for name, values in stored.values.items():
        flat, queries = (v.reshape(len(v), -1).astype(np.float32) for v in (values, fresh.values[name]))
        seen = flat[stored.present[name]]
        mean, scale = seen.mean(0), np.sqrt(seen.var(0).sum())
        parts = [
            (x - mean) / scale * there[:, None]
            for x, there in ((flat, stored.present[name]), (queries, fresh.present[name]))
        ]
        columns.append((parts[0], parts[1]))
    raw, cues = (np.concatenate(side, axis=1) for side in zip(*columns, strict=True))
    values, vectors = np.linalg.eigh(raw.T @ raw)
    basis = vectors[:, np.argsort(-values)[:DIM]]
    return (raw @ basis).astype(np.float32), (cues @ basis).astype(np.float32)


def fitted(setup: Setup, vectors: Float32) -> PredictiveAssociativeIndex:
    """Returns the library's index over a space, with the library's inward predictor."""
    index = PredictiveAssociativeIndex(dim=vectors.shape[1])
    index.add(vectors, setup.ids)
    index.fit(setup.episodes_as_ids, WINDOW, FIT, device=setup.device)
    return index


def measure(
    setup: Setup, index: PredictiveAssociativeIndex, fresh: Any, mode: Any = "association", cues: Int64 | None = None
) -> dict[str, float]:
    """Returns AP@1, R@20 and CBR@20 of fresh views; the memory of the same moment counts neither as hit nor as miss."""
    moments = setup.cues if cues is None else cues
    room = setup.world.room
    found: dict[str, list[float]] = {row: [] for row in ROWS}
    for moment, hits in zip(moments, index.recall(fresh, k=DEPTH + 1, mode=mode), strict=True):
        ranked = np.array([int(hit.id) for hit in hits])
        ranked = ranked[ranked != moment][:DEPTH]
        relevant = setup.associates[moment]
        crossing = relevant[room[relevant] != room[moment]]
        found["AP@1"].append(metrics.precision(ranked[:1], relevant))
        found["R@20"].append(metrics.recall(ranked, relevant))
        if len(crossing):
            found["CBR@20"].append(metrics.recall(ranked, crossing))
    return {row: float(np.mean(values)) for row, values in found.items()}
