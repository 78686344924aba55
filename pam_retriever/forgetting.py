"""Adaptive decay (pam.tex 3.9): what is recent counts more, and what is weakest is forgotten.

A memory is as strong as its experiences, each fading with its age and as salient as it was. The denser
the associations, the faster they fade: what is new has more to be told apart from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pam_retriever.cooccurrence import Experience, associate
from pam_retriever.errors import InvalidInput
from pam_retriever.recall import Found
from pam_retriever.storage.documents import Documents
from pam_retriever.types import Float32, Int64, Times
from pam_retriever.validation import check_finite

SLACK = 1.1  # a bounded index may outgrow its capacity by this before it forgets
FIRST_POOL = 4  # times k: how many hits the first look-up of a faded recall has


@dataclass(frozen=True)
class Decay:
    """Scores halve with every ``half_life`` before ``now``, in the unit of the timestamps."""

    half_life: float
    now: float


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


def faded(
    look_up: Callable[[int | None], list[Found]],
    k: int | None,
    fade: Callable[[Int64], Float32],
    min_score: float | None,
) -> list[Found]:
    """The best hits after their scores have faded, exactly: as many are looked at as could still matter.

    Args:
        look_up: the answers to all queries for a ``k``, by their plain scores.
        k: how many hits; None for all that ``look_up`` has.
        fade: of rows (n,), factors in [0, 1]. Scores below zero do not fade.
        min_score: leave out what fades below it.

    Returns:
        An answer a query, best first.
    """
    pool = None if k is None else FIRST_POOL * k
    while True:
        plain = look_up(pool)
        answers = [_fade(found, fade(found.rows), k, min_score) for found in plain]
        if pool is None or k is None or all(_complete(*pair, k, pool) for pair in zip(answers, plain, strict=True)):
            return answers
        pool *= 4


def _fade(found: Found, factors: Float32, k: int | None, min_score: float | None) -> Found:
    scores = np.where(found.scores > 0, found.scores * factors, found.scores)
    order = np.argsort(-scores, kind="stable")
    if min_score is not None:
        order = order[scores[order] >= min_score]
    order = order[:k]
    return replace(found, scores=scores).at(order)


def _complete(answer: Found, plain: Found, k: int, pool: int) -> bool:
    """Whether nothing beyond the pool can be among the ``k`` best: a score only ever falls."""
    if len(plain.rows) < pool:
        return True
    return len(answer.rows) == k and bool(answer.scores[-1] >= plain.scores[-1])


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


def to_forget(
    documents: Documents, keep: int, half_life: float | Literal["auto"] | None, window: int
) -> tuple[Int64, Int64]:
    """All rows, sorted, and those of all but the ``keep`` strongest memories."""
    stored = documents.memories.rows()
    if len(stored) <= keep:
        return stored, stored[:0]
    rows, trajectories, positions, salience = documents.trajectories.experienced()
    experience = Experience(np.searchsorted(stored, rows), trajectories, positions)
    steps = Steps(experience, documents.trajectories.experienced_when(), salience)
    if half_life == "auto":
        half_life = adapted_half_life(steps, len(stored), keep, window)
    now = documents.trajectories.newest_time() or 0.0
    return stored, stored[weakest(strengths(steps, len(stored), now, half_life), keep)]


def read_now(documents: Documents, now: float | None) -> float:
    """The time from which ages are counted: the newest in the index if none is given.

    Raises:
        InvalidInput: the index has no timestamps, or it is no number.
    """
    newest = documents.trajectories.newest_time()
    if newest is None:
        raise InvalidInput(
            "Got decay for an index without timestamps.",
            "trajectories with timestamps",
            "Pass Trajectory(timestamps=...), or fit(group_by=, order_by=) with a number to order by.",
        )
    return newest if now is None else check_finite("now", now)
