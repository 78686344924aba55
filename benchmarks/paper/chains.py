"""Transitive chains: states one window further away, found by following predictions (pam.tex 5.7).

The published targets are two steps away, inside the window, so training used them directly. The strict targets lie at
window distance tau + 1 to 2 tau and 2 tau + 1 to 3 tau, and never co-occur with the cue.
"""

from __future__ import annotations

import numpy as np
import torch

from benchmarks import metrics
from benchmarks.baselines.graph import co_occurrences, discounted_walks, normalised
from benchmarks.baselines.similarity import Similarity
from benchmarks.paper import reference
from benchmarks.paper.fits import CHANNELS, JOINT, Fitted, index_of
from benchmarks.paper.setting import WINDOW, Setting
from benchmarks.paper.tables import Table, mean_of
from pam_retriever.types import Float32, Int64

CHAINS = 200
AGGREGATE = 0.7  # the published weight of each further hop


def run(setting: Setting) -> list[Table]:
    parts = setting.parts("chains")
    if setting.protocol == "published":
        runs = [parts.get(f"seed {seed}", lambda seed=seed: _published(setting, seed)) for seed in setting.seeds]
        columns = {"forward": mean_of(runs)} if runs else {}
        published = reference.CHAINS if setting.published_world else {}
        return [Table("Recall@20 of a state two steps away", list(reference.CHAINS["paper"]), columns, published)]
    others = parts.get("graph and cosine", lambda: _others(setting))
    runs = [parts.get(f"seed {seed}", lambda seed=seed: _strict(setting, seed)) for seed in setting.seeds]
    columns = {name: mean_of([one[name] for one in runs]) for name in (runs[0] if runs else ())} | others
    rows = ["trained", "two windows", "three windows"]
    return [Table("Cross-room recall@20 by distance, cue and its associates left out", rows, columns)]


def _published(setting: Setting, seed: int) -> dict[str, float]:
    """Scores one to three hops: the sum over hops, weighted .7 per further hop; no hop moves to a stored state."""
    _, fitted = index_of(setting, seed)
    cues, targets = _two_steps_away(setting)
    cosine = Similarity()
    cosine.fit(setting.experience, setting.world.states, WINDOW)
    found = {"cosine": cosine.scores(cues)}
    point, total = setting.world.states[cues], np.zeros((len(cues), len(setting.world.states)), np.float32)
    for hop, name in enumerate(("1 hop", "2 hops", "3 hops")):
        point = _raw(fitted, point)
        total += AGGREGATE**hop * (_unit(point) @ fitted.units.T)
        found[name] = total.copy()
    return {
        name: float((metrics.top(scores, 20) == targets[:, None]).any(axis=1).mean()) for name, scores in found.items()
    }


def _two_steps_away(setting: Setting) -> tuple[Int64, Int64]:
    """Returns 200 states, and for each the state two steps before or after it, in another room."""
    paths, rooms = setting.world.trajectories, setting.world.rooms
    pairs = np.concatenate([np.stack(ends, -1).reshape(-1, 2) for ends in _both_ways(paths[:, :-2], paths[:, 2:])])
    crossing = pairs[rooms[pairs[:, 0]] != rooms[pairs[:, 1]]]
    chosen = crossing[np.random.RandomState(42).permutation(len(crossing))[:CHAINS]]
    return chosen[:, 0], chosen[:, 1]


def _both_ways(left: Int64, right: Int64) -> tuple[tuple[Int64, Int64], tuple[Int64, Int64]]:
    return (left, right), (right, left)


def _strict(setting: Setting, seed: int) -> dict[str, dict[str, float]]:
    _, fitted = index_of(setting, seed)
    cues = _cues(setting)
    found: dict[str, dict[str, float]] = {}
    for name in ("forward", JOINT):
        reached = _snapped(fitted, cues, name)
        for hop, scores in enumerate(reached, start=1):
            found[f"{name}, {hop} hop{'s' * (hop > 1)}, snapped to 10 states"] = _by_distance(setting, cues, scores)
    point = setting.world.states[cues]
    for hop in (1, 2, 3):
        point = _raw(fitted, point)
        scores = _unit(point) @ fitted.units.T
        found[f"forward, {hop} hop{'s' * (hop > 1)}, not snapped"] = _by_distance(setting, cues, scores)
    return found


def _snapped(fitted: Fitted, cues: Int64, name: str, fan: int = 10) -> list[Float32]:
    """Returns scores after one to three hops. Each hop continues from the best ``fan`` stored states, by weight."""
    scores = fitted.scores(CHANNELS[name])(cues)
    scores[np.arange(len(cues)), cues] = -1
    reached = [scores]
    for _ in range(2):
        best = metrics.top(reached[-1], fan)  # (Q, fan)
        weight = np.take_along_axis(reached[-1], best, axis=1)
        weight = np.exp((weight - weight[:, :1]) / 0.1)
        weight /= weight.sum(axis=1, keepdims=True)
        onward = np.stack([
            each @ fitted.scores(CHANNELS[name])(rows) for each, rows in zip(weight, best, strict=True)
        ])  # fmt: skip
        reached.append(onward.astype(np.float32))
    return reached


def _others(setting: Setting) -> dict[str, dict[str, float]]:
    """Scores by exactly h steps of a random walk on the exact graph, and by cosine."""
    cues = _cues(setting)
    transition = normalised(co_occurrences(setting.experience, len(setting.world.states), WINDOW))
    found = {}
    for hop in (1, 2, 3):
        weights = np.eye(3, dtype=np.float32)[hop - 1, :hop]
        walked = discounted_walks(transition, cues, weights)
        found[f"exact graph, {hop} step{'s' * (hop > 1)} of a walk"] = _by_distance(setting, cues, walked)
    cosine = Similarity()
    cosine.fit(setting.experience, setting.world.states, WINDOW)
    return found | {"cosine": _by_distance(setting, cues, cosine.scores(cues))}


def _cues(setting: Setting) -> Int64:
    """Returns 200 states that have cross-room states at each distance."""
    length = setting.world.trajectories.shape[1]
    order = np.random.RandomState(42).permutation(len(setting.world.states))
    far = 3 * WINDOW
    inside = order[(order % length >= far) & (order % length < length - far)]
    able = [cue for cue in inside[: 20 * CHAINS] if all(len(ends) for ends in _targets(setting, cue))]
    return np.array(able[:CHAINS])


def _targets(setting: Setting, cue: int) -> list[Int64]:
    """Returns the cross-room states in the first, second and third window distance. Rows are in order of experience."""
    distance = np.arange(1, 3 * WINDOW + 1)
    ends = np.concatenate([cue - distance, cue + distance])
    away = np.concatenate([distance, distance])
    crossing = setting.world.rooms[ends] != setting.world.rooms[cue]
    return [ends[crossing & ((away - 1) // WINDOW == window)] for window in range(3)]


def _by_distance(setting: Setting, cues: Int64, scores: Float32) -> dict[str, float]:
    """Returns recall@20 of each distance; at untrained distances, the ranking leaves out the cue's own associates."""
    recalls: list[list[float]] = [[], [], []]
    for cue, row in zip(cues, scores, strict=True):
        row[cue] = -np.inf
        direct = row.copy()
        row[setting.queries.associates[cue]] = -np.inf
        for window, ends in enumerate(_targets(setting, cue)):
            ranked = metrics.top((direct if window == 0 else row)[None], 20)[0]
            recalls[window].append(metrics.recall(ranked, ends))
    return dict(zip(("trained", "two windows", "three windows"), map(float, np.mean(recalls, axis=1)), strict=True))


def _raw(fitted: Fitted, vectors: Float32) -> Float32:
    """Returns f without normalisation, as the published iteration uses it."""
    with torch.inference_mode():
        raw: Float32 = fitted.model(torch.from_numpy(vectors)).numpy()
    return raw


def _unit(vectors: Float32) -> Float32:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
