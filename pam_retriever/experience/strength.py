"""The strength of a memory (Dury 3.9): the sum over its experiences, with decay by age.

In dense associations the half-life is shorter, because a new association competes with more others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.types import Float32, Int64, Times


@dataclass(frozen=True)
class Steps:
    """Every step: position of the memory, trajectory, position, time (NaN for none) and salience, (S,) each."""

    experience: Experience
    times: Times
    salience: Float32


def fading(times: Times, now: float, half_life: float) -> Float32:
    """Returns factors (n,) in (0, 1]: half for each half-life before ``now``; 1 without a time."""
    age = np.clip(now - times, 0, None)
    return np.where(np.isnan(age), 1.0, 0.5 ** (age / half_life)).astype(np.float32)


def strengths(steps: Steps, memories: int, now: float, half_life: float | None) -> Float32:
    """Returns the strength (M,) of each memory: the sum over its experiences of salience, with decay by age.

    A memory that was never experienced counts as experienced once, now.

    Args:
        steps: all steps.
        memories: M.
        now: the time from which ages are counted.
        half_life: the half-life of the strength; None for no decay.
    """
    weights = steps.salience if half_life is None else steps.salience * fading(steps.times, now, half_life)
    found = np.bincount(steps.experience.states, weights=weights, minlength=memories)
    never = np.bincount(steps.experience.states, minlength=memories) == 0
    return np.where(never, 1.0, found).astype(np.float32)


def density(experience: Experience, memories: int, window: int) -> float:
    """Returns the associates per memory, relative to the most for a single experience: 2 * window."""
    return len(associate(experience, memories, window)) / max(len(np.unique(experience.states)), 1) / (2 * window)


def adapted_half_life(steps: Steps, memories: int, keep: int, window: int) -> float | None:
    """Returns a half-life that fits the density of the associations; None if all steps have the same time.

    It is the time in which ``keep`` memories arrive at the past rate, divided by the density. So memories decay faster
    with dense associations and with many new memories.
    """
    times = steps.times[~np.isnan(steps.times)]
    span = float(times.max() - times.min()) if len(times) else 0.0
    if not span:
        return None
    return span * keep / memories / max(density(steps.experience, memories, window), 1e-3)


def weakest(strength: Float32, keep: int) -> Int64:
    """Returns the positions of all but the ``keep`` strongest. Among equals, the oldest are returned."""
    return np.sort(np.argsort(strength, kind="stable")[: max(len(strength) - keep, 0)])
