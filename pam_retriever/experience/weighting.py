"""The weight of an association: its salience, and its excess over co-occurrences by chance (Dury 3.4, 3.8).

Two memories co-occur if they occur within the window. Two that occur everywhere often co-occur by chance. The baseline
is the expected number of co-occurrences of the two in a shuffled stream, given the count of each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np

from pam_retriever.errors import InvalidInput
from pam_retriever.experience.cooccurrence import Associations, Experience
from pam_retriever.types import Familiarity, Float32, Int64

MET = np.float32(1e-3)  # smallest factor of an association, for pairs that co-occur by chance


def step_counts(experience: Experience, memories: int) -> Float32:
    """Returns how often each of ``memories`` M memories was experienced (M,)."""
    return np.bincount(experience.states, minlength=memories).astype(np.float32)


def expected_co_occurrences(one: Float32, other: Float32, steps: float, window: int) -> Float32:
    """Returns the expected number of co-occurrences of two memories in a shuffled stream.

    Each step of the first memory has ``2 * window`` positions near it. The probability that such a position holds the
    second memory is its frequency in the stream.

    Args:
        one: (E,) count of the first memory of each pair.
        other: (E,) count of the second.
        steps: number of all steps.
        window: tau.
    """
    expected: Float32 = one * other * np.float32(2 * window / steps)
    return expected


def unfamiliarity(
    co_occurrences: Float32, one: Float32, other: Float32, steps: float, window: int, scale: Familiarity
) -> Float32:
    """Returns factors (E,) in [0, 1]: the excess of each association over the baseline.

    Args:
        co_occurrences: (E,) number of co-occurrences of each pair.
        one: (E,) count of the first memory; ``step_counts``, or the counts of the links.
        other: (E,) count of the second.
        steps: number of all steps.
        window: tau.
        scale: "difference" is the scale of the paper: the share of co-occurrences above the expected number. "log" is
            pointwise mutual information, divided by its maximum (two memories experienced once, together): 1 for such
            a pair, 0 for chance. "none": all 1.

    Returns:
        The factors. If every memory was experienced once, they are exactly 1.
    """
    ones = np.ones(len(co_occurrences), np.float32)
    most = steps / (2 * window)
    if scale == "none" or most <= 1:  # the stream is too short to tell co-occurrences from chance
        return ones
    lift = co_occurrences / np.maximum(expected_co_occurrences(one, other, steps, window), 1e-12)
    weights = 1 - 1 / lift if scale == "difference" else np.log(lift) / np.log(most)
    return np.where((one == 1) & (other == 1), ones, np.clip(weights, 0, 1)).astype(np.float32)


def above_chance(
    co_occurrences: Float32, one: Float32, other: Float32, steps: float, window: int, scale: Familiarity
) -> Float32:
    """Like ``unfamiliarity``, but at least ``MET`` on scales other than "none", so that each pair stays linked."""
    if scale == "none":
        return np.ones(len(co_occurrences), np.float32)
    above: Float32 = np.maximum(unfamiliarity(co_occurrences, one, other, steps, window, scale), MET)
    return above


def rarity(counts: Int64, steps: int, window: int) -> Float32:
    """Returns ``unfamiliarity`` (n,) on the "log" scale for pairs with a memory that was experienced once.

    Args:
        counts: (n,) the number of steps of each memory.
        steps: number of all steps.
        window: tau.
    """
    most = steps / (2 * window)
    if most <= 1:
        return np.ones(len(counts), np.float32)
    rare: Float32 = np.clip(1 - np.log(np.maximum(counts, 1)) / np.log(most), 0, 1).astype(np.float32)
    return rare


def weigh(associations: Associations, experience: Experience, window: int, familiarity: Familiarity) -> Associations:
    """Returns associations reduced by familiarity, with the same weights as the exact links of the same experience.

    Raises:
        InvalidInput: the familiarity is unknown, or all weights are 0.
    """
    if familiarity not in get_args(Familiarity):
        raise InvalidInput(f"Got familiarity={familiarity!r}.", "'none', 'log' or 'difference'", "Use 'log' or none.")
    counts = step_counts(experience, len(associations.indptr) - 1)
    one, other = counts[associations.anchors()], counts[associations.indices]
    above = above_chance(associations.co_occurrences, one, other, float(counts.sum()), window, familiarity)
    salience = associations.salience * above
    if not salience.any():
        raise InvalidInput("Every association has the weight 0.", "some above 0", "Check the salience.")
    return replace(associations, weights=associations.weights * above, salience=salience)
