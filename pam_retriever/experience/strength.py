"""How strong a memory is (Dury 3.9): the sum over its experiences, each fading with its age.

The denser the associations, the faster they fade: a new one has more others to compete with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.types import Float32, Int64, Times


@dataclass(frozen=True)
class Steps:
    """Every experienced step: its memory's place, trajectory, position, time (NaN for none) and salience, (S,) each."""

    experience: Experience
    times: Times
    salience: Float32


def fading(times: Times, now: float, half_life: float) -> Float32:
    """(n,) factors in (0, 1]: half for each half-life that a time lies before ``now``; 1 without a time."""
    age = np.clip(now - times, 0, None)
    return np.where(np.isnan(age), 1.0, 0.5 ** (age / half_life)).astype(np.float32)


def strengths(steps: Steps, memories: int, now: float, half_life: float | None) -> Float32:
    """(M,) how strong each memory is: the sum over its experiences of salience, faded by their age.

    A memory that was never experienced counts like one that was, once, now: it has no time to fade by.

    Args:
        steps: all that was experienced.
        memories: M.
        now: the time from which ages are counted.
        half_life: None for no fading.
    """
    weights = steps.salience if half_life is None else steps.salience * fading(steps.times, now, half_life)
    found = np.bincount(steps.experience.states, weights=weights, minlength=memories)
    never = np.bincount(steps.experience.states, minlength=memories) == 0
    return np.where(never, 1.0, found).astype(np.float32)


def density(experience: Experience, memories: int, window: int) -> float:
    """Associates per memory, against the most that a memory experienced once can have: 2 * window."""
    return len(associate(experience, memories, window)) / max(len(np.unique(experience.states)), 1) / (2 * window)


def adapted_half_life(steps: Steps, memories: int, keep: int, window: int) -> float | None:
    """The half-life that goes with how dense the associations are; None if all happened at one time.

    It is the time in which ``keep`` memories come at the rate seen so far, divided by the density. So
    memories fade faster the denser their associations and the faster new ones come.
    """
    times = steps.times[~np.isnan(steps.times)]
    span = float(times.max() - times.min()) if len(times) else 0.0
    if not span:
        return None
    return span * keep / memories / max(density(steps.experience, memories, window), 1e-3)


def weakest(strength: Float32, keep: int) -> Int64:
    """Places of all but the ``keep`` strongest; of equals the first, which are the oldest, go first."""
    return np.sort(np.argsort(strength, kind="stable")[: max(len(strength) - keep, 0)])
