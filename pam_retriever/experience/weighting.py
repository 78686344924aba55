"""How much each association counts: its salience, and how far it is above what familiarity explains (Dury 3.4, 3.8).

Of two memories that come everywhere, many meetings say nothing. The baseline is how often two memories
would meet if the stream were shuffled, given how often each was experienced: a running count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, get_args

import numpy as np

from pam_retriever.errors import InvalidInput
from pam_retriever.types import Familiarity, Float32, Int64, Times

if TYPE_CHECKING:
    from pam_retriever.experience.cooccurrence import Associations, Experience

MET = np.float32(1e-3)  # what an association counts at least: however familiar the two are, they met


@dataclass(frozen=True)
class LinkWeights:
    """What a meeting of two memories counts, by how far after or before the one the other came.

    Attributes:
        after: (window,) of what came 1, 2, ... positions later.
        before: (window,) of what came 1, 2, ... positions earlier.
    """

    after: tuple[float, ...]
    before: tuple[float, ...]

    @classmethod
    def inverse(cls, window: int) -> LinkWeights:
        """1 / distance, either way."""
        weights = tuple(1 / distance for distance in range(1, window + 1))
        return cls(weights, weights)

    @cached_property
    def _table(self) -> Times:
        return np.array([*self.before[::-1], 0.0, *self.after])

    def of(self, offset: Int64, one: Float32, other: Float32) -> Times:
        """(n,) the weights of meetings, times the geometric mean of the salience of their two steps.

        Args:
            offset: (n,) how much later the other came, from -window to window.
            one: (n,) the salience of the one.
            other: (n,) that of the other.
        """
        weights: Times = self._table[offset + len(self.before)] * np.sqrt(one * other)
        return weights


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


def above_chance(
    meetings: Float32, one: Float32, other: Float32, steps: float, window: int, scale: Familiarity
) -> Float32:
    """``unfamiliarity``, but never 0 on a scale that judges: what met stays linked."""
    if scale == "none":
        return np.ones(len(meetings), np.float32)
    above: Float32 = np.maximum(unfamiliarity(meetings, one, other, steps, window, scale), MET)
    return above


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


def weigh(associations: Associations, experience: Experience, window: int, familiarity: Familiarity) -> Associations:
    """Associations with their familiarity taken off: their weights are those of the exact links of the same experience.

    Raises:
        InvalidInput: an unknown familiarity, or nothing counts.
    """
    if familiarity not in get_args(Familiarity):
        raise InvalidInput(f"Got familiarity={familiarity!r}.", "'none', 'log' or 'difference'", "Use 'log' or none.")
    counts = running_counts(experience, len(associations.indptr) - 1)
    one, other = counts[associations.anchors()], counts[associations.indices]
    above = above_chance(associations.meetings, one, other, float(counts.sum()), window, familiarity)
    salience = associations.salience * above
    if not salience.any():
        raise InvalidInput("Every association has the weight 0.", "some above 0", "Check the salience.")
    return replace(associations, weights=associations.weights * above, salience=salience)
