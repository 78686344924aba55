"""The weight of a co-occurrence by the distance of its two steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from pam_retriever.types import Float32, Int64, Times


@dataclass(frozen=True)
class LinkWeights:
    """The weight of a co-occurrence by its offset: how many positions later (or earlier) the other memory came.

    Attributes:
        after: (window,) the weights for memories 1, 2, ... positions later.
        before: (window,) the weights for memories 1, 2, ... positions earlier.
    """

    after: tuple[float, ...]
    before: tuple[float, ...]

    @classmethod
    @cache  # every query needs it
    def inverse(cls, window: int) -> LinkWeights:
        """Returns 1 / distance in both directions."""
        weights = tuple(1 / distance for distance in range(1, window + 1))
        return cls(weights, weights)

    @cached_property
    def _table(self) -> Times:
        return np.array([*self.before[::-1], 0.0, *self.after])

    def of(self, offset: Int64, one: Float32, other: Float32) -> Times:
        """Returns the weights (n,) of co-occurrences, times the geometric mean of the salience of the two steps.

        Args:
            offset: (n,) the number of positions by which the other step came later, from -window to window.
            one: (n,) the salience of the first step.
            other: (n,) the salience of the second step.
        """
        weights: Times = self._table[offset + len(self.before)] * np.sqrt(one * other)
        return weights
