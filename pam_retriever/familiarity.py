"""Step 2, further on: how far an association stands above what familiarity explains (pam.tex 3.8).

Of two memories that come everywhere, many meetings say nothing. The baseline is how often two memories
would meet if the stream were shuffled, given how often each was experienced: a running count.
"""

from __future__ import annotations

import numpy as np

from pam_retriever.cooccurrence import Experience
from pam_retriever.types import Familiarity, Float32, Int64


def running_counts(experience: Experience, memories: int, half_life: float | None = None) -> Float32:
    """How often each memory was experienced, older steps counting less.

    It is a running average in closed form: with every step, all counts fade by 0.5 ** (1 / half_life)
    and that of the memory experienced rises by 1.

    Args:
        experience: the steps, in order.
        memories: M, how many memories there are.
        half_life: in steps; None counts all alike.

    Returns:
        (M,) counts.
    """
    age = np.arange(len(experience))[::-1]
    weights = np.ones(len(experience)) if half_life is None else 0.5 ** (age / half_life)
    return np.bincount(experience.states, weights=weights, minlength=memories).astype(np.float32)


def expected_meetings(one: Float32, other: Float32, steps: float, window: int) -> Float32:
    """How often two memories would have met in a shuffled stream.

    Each experience of the one has ``2 * window`` places near it, and each place holds the other as often
    as the other comes in the stream.

    Args:
        one: (E,) how often the one of each pair was experienced.
        other: (E,) how often the other.
        steps: how many steps there were in all.
        window: tau.
    """
    expected: Float32 = one * other * np.float32(2 * window / steps)
    return expected


def unfamiliarity(
    meetings: Float32, one: Float32, other: Float32, steps: float, window: int, scale: Familiarity
) -> Float32:
    """(E,) weights in [0, 1]: what is left of each association above the baseline.

    Args:
        meetings: (E,) how often the two of each pair met.
        one: (E,) how often the one was experienced; ``running_counts``, or the counts of the links.
        other: (E,) how often the other.
        steps: how many steps there were in all.
        window: tau.
        scale: "difference" is the paper's: the share of the meetings above the expected ones. "log" is
            pointwise mutual information, divided by the most there can be, that of two memories experienced
            once, together: 1 for those, 0 for a meeting by chance. "none": all 1.

    Returns:
        The weights. Where every memory came once they are 1 exactly: nothing is familiar yet.
    """
    ones = np.ones(len(meetings), np.float32)
    most = steps / (2 * window)
    if scale == "none" or most <= 1:  # too short a stream to tell anything from chance
        return ones
    lift = meetings / np.maximum(expected_meetings(one, other, steps, window), 1e-12)
    weights = 1 - 1 / lift if scale == "difference" else np.log(lift) / np.log(most)
    return np.where((one == 1) & (other == 1), ones, np.clip(weights, 0, 1)).astype(np.float32)


def rarity(counts: Int64, steps: int, window: int) -> Float32:
    """(n,) ``unfamiliarity``, on the "log" scale, of memories with what came once, with them.

    Args:
        counts: (n,) how often each was experienced.
        steps: how many steps were experienced in all.
        window: tau.
    """
    most = steps / (2 * window)
    if most <= 1:
        return np.ones(len(counts), np.float32)
    rare: Float32 = np.clip(1 - np.log(np.maximum(counts, 1)) / np.log(most), 0, 1).astype(np.float32)
    return rare
