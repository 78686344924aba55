"""Surprise as salience: one-off events, recalled after a single exposure."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks import metrics
from benchmarks.jepa.setup import JOINT, WINDOW, Setup, Trained
from benchmarks.worlds import multimodal
from pam_retriever.channels import MODES, make_keys, query_vectors, unit
from pam_retriever.cooccurrence import Experience
from pam_retriever.jepa import JointTrainer, Observations
from pam_retriever.jepa.joint import salience_of
from pam_retriever.training import predict
from pam_retriever.types import Float32, Int64

EPISODES = 60  # new ones, each with one event
EXPOSURES = (1, 2, 4, 8)


def surprise(setup: Setup) -> dict[str, Any]:
    """New episodes are replayed 1, 2, 4, 8 times, mixed with the old; how often the event comes back."""
    trained = setup.train("joint", JOINT)
    old, new = setup.world, multimodal.build(setup.seed + 2000, EPISODES, events=EPISODES)
    seen = Observations(*new.observe(np.arange(len(new)), seed=21))
    experience = Experience(np.arange(len(new)), new.episode, new.position)
    errors = trained.trainer.surprise(seen, experience, new.action)
    salience = salience_of(errors)
    first = new.position == 0
    events, plain = np.flatnonzero(new.event), np.flatnonzero(~new.event & ~first)
    auc = metrics.auc(errors[events], errors[plain])
    random = np.random.default_rng(setup.seed)
    weights = {
        "surprise": salience,
        "none": np.ones_like(salience),
        "shuffled surprise": random.permutation(salience),
    }
    together = _join(setup, seen)
    both = Experience(
        np.arange(len(old) + len(new)),
        np.concatenate([old.episode, new.episode + setup.episodes]),
        np.concatenate([old.position, new.position]),
    )
    columns: dict[str, dict[str, float]] = {}
    for exposures in EXPOSURES:
        for name, weight in weights.items():
            learned = _learn(setup, trained, together, both, np.concatenate([np.ones(len(old)), weight]), exposures)
            columns[f"{name}, {exposures}"] = _measure(setup, trained, learned, new, together, random_seed=setup.seed)
    return {
        "columns": columns,
        "rows": ["event recalled", "plain recalled"],
        "surprise": {
            "events, median": float(np.median(errors[events])),
            "plain, median": float(np.median(errors[plain])),
            "AUC": auc,
            "salience of events": float(salience[events].mean()),
            "salience of plain": float(salience[plain].mean()),
        },
    }


def _join(setup: Setup, seen: Observations) -> Observations:
    return Observations(
        {name: np.concatenate([setup.stored.values[name], value]) for name, value in seen.values.items()},
        {name: np.concatenate([setup.stored.present[name], there]) for name, there in seen.present.items()},
    )


def _learn(
    setup: Setup, trained: Trained, together: Observations, both: Experience, salience: Float32, exposures: int
) -> torch.nn.Module:
    """The inward predictor after so many replays; the encoder stays as it is."""
    frozen = copy.deepcopy(trained.encoder).requires_grad_(False)
    config = replace(JOINT, passes=exposures, outward=0.0, drop=0.0, learning_rate=1e-3, temperature=0.1)
    trainer = JointTrainer(frozen, inward=copy.deepcopy(trained.trainer.inward), config=config)
    trainer.fit(together, both, window=WINDOW, salience=salience, device=setup.device, seed=setup.seed)
    return trainer.inward


def _measure(
    setup: Setup, trained: Trained, inward: Any, new: multimodal.World, together: Observations, random_seed: int
) -> dict[str, float]:
    """How often a fresh view of a moment two to five steps away brings the event, or a plain moment, among 20."""
    random = np.random.default_rng([random_seed, 6])
    bank = trained.encoder.encode(together)
    keys = make_keys(bank, predict(inward, bank))
    start = len(setup.world)
    result = {}
    for name, targets in (("event", np.flatnonzero(new.event)), ("plain", _plain(new, random))):
        offset = random.choice([-5, -4, -3, -2, 2, 3, 4, 5], len(targets))
        cues = trained.encoder.encode(Observations(*new.observe(targets + offset, seed=22)))
        scores = query_vectors(MODES["association"], unit(cues), unit(cues), predict(inward, cues)) @ keys.T
        scores[np.arange(len(cues)), start + targets + offset] = -np.inf
        result[f"{name} recalled"] = float(
            np.mean([t in row for t, row in zip(start + targets, metrics.top(scores, 20), strict=True)])
        )
    return result


def _plain(new: multimodal.World, random: np.random.Generator) -> Int64:
    """Three ordinary moments of each episode, far enough from its ends and not the event."""
    length = int(new.position.max()) + 1
    inside = np.flatnonzero(~new.event & (new.position >= 5) & (new.position < length - 5))
    return np.sort(random.choice(inside, 3 * EPISODES, replace=False))
