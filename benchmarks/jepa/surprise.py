"""Surprise as salience: one-off events, recalled after a single exposure."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import metrics
from benchmarks.jepa.setup import JOINT, WINDOW, Setup, Trained, identity_encoder, index_of
from benchmarks.worlds import multimodal
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.jepa import JointTrainer, Observations
from pam_retriever.jepa.joint import salience_of
from pam_retriever.model.predictor import Predictor
from pam_retriever.types import Float32, Int64

EPISODES = 60  # new episodes, each with one event
EXPOSURES = (1, 2, 4, 8)


def surprise(setup: Setup) -> dict[str, Any]:
    """Replays new episodes 1, 2, 4, 8 times, mixed with the old ones; measures how often the event is recalled."""
    trained = setup.train("joint", JOINT)
    old, new = setup.world, multimodal.build(setup.seed + 2000, EPISODES, events=EPISODES)
    seen = Observations(*new.observe(np.arange(len(new)), seed=21))
    experience = Experience(np.arange(len(new)), new.episode, new.position)
    errors = trained.trainer.surprise(seen, experience, new.action)
    salience = salience_of(errors)
    events, plain = np.flatnonzero(new.event), np.flatnonzero(~new.event & (new.position > 0))
    auc = metrics.auc(errors[events], errors[plain])
    random = np.random.default_rng(setup.seed)
    weights = {
        "surprise": salience,
        "none": np.ones_like(salience),
        "shuffled surprise": random.permutation(salience),
    }
    memories = np.concatenate([trained.encoder.encode(setup.stored), trained.encoder.encode(seen)])
    both = Experience(
        np.arange(len(memories)),
        np.concatenate([old.episode, new.episode + setup.episodes]),
        np.concatenate([old.position, new.position]),
    )
    questions = {
        name: _ask(setup, trained, new, targets) for name, targets in (("event", events), ("plain", _plain(new)))
    }
    columns: dict[str, dict[str, float]] = {}
    for exposures in EXPOSURES:
        for name, weight in weights.items():
            learned = _learn(setup, trained, memories, both, np.concatenate([np.ones(len(old)), weight]), exposures)
            columns[f"{name}, {exposures}"] = _measure(len(old), learned, memories, questions)
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


def _learn(
    setup: Setup, trained: Trained, memories: Float32, both: Experience, salience: Float32, exposures: int
) -> Predictor:
    """Trains the inward predictor on ``exposures`` replays; the encoder does not change."""
    config = replace(JOINT, passes=exposures, settle=0, outward=0.0, drop=0.0, learning_rate=1e-3, temperature=0.1)
    trainer = JointTrainer(identity_encoder(), inward=copy.deepcopy(trained.trainer.inward), config=config)
    trainer.fit({"state": memories}, both, window=WINDOW, salience=salience, device=setup.device, seed=setup.seed)
    return trainer.inward


def _ask(setup: Setup, trained: Trained, new: multimodal.World, targets: Int64) -> tuple[Int64, Int64, Float32]:
    """Returns the targets, moments two to five steps away, and the states of fresh views of these moments."""
    random = np.random.default_rng([setup.seed, 6])
    cues = targets + random.choice([-5, -4, -3, -2, 2, 3, 4, 5], len(targets))
    return targets, cues, trained.encoder.encode(Observations(*new.observe(cues, seed=22)))


def _measure(
    start: int, inward: Predictor, memories: Float32, questions: dict[str, tuple[Int64, Int64, Float32]]
) -> dict[str, float]:
    """Returns how often the event or plain moment is in the first 20 hits, which leave out the cue's own moment."""
    index = index_of(memories, inward)
    result = {}
    for name, (targets, cues, states) in questions.items():
        found = [
            str(start + target) in [hit.id for hit in hits if hit.id != str(start + cue)][:20]
            for target, cue, hits in zip(targets, cues, index.recall_many(states, k=21), strict=True)
        ]
        result[f"{name} recalled"] = float(np.mean(found))
    return result


def _plain(new: multimodal.World) -> Int64:
    """Returns ordinary moments far enough from the ends of their episode, on average three per episode."""
    length = int(new.position.max()) + 1
    inside = np.flatnonzero(~new.event & (new.position >= 5) & (new.position < length - 5))
    chosen: Int64 = np.sort(np.random.default_rng(7).choice(inside, 3 * EPISODES, replace=False))
    return chosen
