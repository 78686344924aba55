"""Specificity (pam.tex section 3.10): similarity, association or both find a given object in a given episode.

The cue has two parts: a fresh view of the object, only seen and heard, and a fresh view of another moment of the
episode, with another object. Exactly one memory is relevant: the view of the object in the episode. Association is the
score of the channels, a cosine like similarity: the shares of the default recall fall too steeply to be added to a
cosine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.jepa.association import fitted
from benchmarks.jepa.setup import JOINT, Setup
from pam_retriever.jepa import Observations
from pam_retriever.model.keys import MODES, unit
from pam_retriever.types import Float32, Int64

CASES = 400
ASSOCIATES = 500  # of the second part of the cue; all other memories count as not associated
ROWS = ["first", "in first 5", "median rank"]


def specificity(setup: Setup) -> dict[str, Any]:
    """Returns how often the relevant memory is the first hit."""
    trained = setup.train("joint", JOINT)
    encode, world = trained.encoder.encode, setup.world
    right, occasion = cases(setup)
    look = Observations(*world.observe(right, seed=11, missing=False)).without("proprioceptive", "contextual")
    moment = Observations(*world.observe(occasion, seed=12))
    seen, lived = unit(encode(look)), unit(encode(moment))
    states = encode(setup.stored)
    memories, index = unit(states), fitted(setup, states)
    similarity, alike = seen @ memories.T, lived @ memories.T
    association = np.zeros_like(similarity)
    for at, hits in enumerate(index.recall_many(lived, k=ASSOCIATES, channels=MODES["association"])):
        association[at, [int(hit.id) for hit in hits]] = [hit.score for hit in hits]
    scores = {
        "similarity to the object": similarity,
        "association with the occasion": association,
        "both": np.sqrt(similarity.clip(0) * association.clip(0)),
        "both, summed": similarity + association,
        "similarity to both": similarity + alike,
        "both, occasions shuffled": np.sqrt(similarity.clip(0) * np.roll(association, 1, axis=0).clip(0)),
    }
    return {"columns": {name: ranks(score, right) for name, score in scores.items()}, "rows": ROWS, "cases": CASES}


def cases(setup: Setup) -> tuple[Int64, Int64]:
    """Returns moments with an object that occurs once in their episode, each with a near moment of another object."""
    world, random = setup.world, np.random.default_rng([setup.seed, 4])
    seen = world.episode * 1000 + world.object
    _, group, count = np.unique(seen, return_inverse=True, return_counts=True)
    once = random.permutation(np.flatnonzero(count[group] == 1))[:CASES]
    occasion = np.array([random.choice(setup.associates[moment]) for moment in once])
    return once, occasion


def ranks(scores: Float32, right: Int64) -> dict[str, float]:
    rank = (scores >= scores[np.arange(len(right)), right][:, None]).sum(axis=1)
    return {
        "first": float((rank == 1).mean()),
        "in first 5": float((rank <= 5).mean()),
        "median rank": float(np.median(rank)),
    }
