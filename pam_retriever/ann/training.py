"""Notices that an index is to be trained again, because added keys are unlike those on which it was trained.

Cells and codes are trained on the keys of that moment. Keys of another kind lie far from all centres of cells, or
outside the range of a code, and a search misses many of them. So from time to time some keys that were added since are
compared with some of the training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pam_retriever.ann.factory import Choice
from pam_retriever.types import Float32, Int64

OUTGROWN = 4  # growth after which an index is trained again in any case
COMPARED, AGAIN = 256, 1.01  # keys of each side that are compared, and growth after which others are
# A key is unlike those of the training if its error is above that of 99 of 100 of these, times a factor. Other keys of
# the same kind are 1.1 times as far from a centre, which is the mean of some 20 keys. A code of 8 bits has a reserve:
# at 16 times the error along each axis, the candidates still hold what is nearest (benchmarks/notes/performance.md)
RARE, OF_CENTRES, OF_CODES = 0.99, 1.2, 256.0
UNLIKE = 0.05  # share of unlike keys above which the index is trained again
NOT_BEFORE = 1.5  # growth from such a training to the next one, as it takes long


@dataclass
class Training:
    """When an index was trained.

    Attributes:
        choice: the kind of index. Some have nothing to train.
        count: number of keys at that time. They have the first positions.
        not_before: number of keys below which unlike keys do not count.
        compared: number of keys when some were last compared.
    """

    choice: Choice
    count: int
    not_before: int = 0
    compared: int = 0

    @classmethod
    def read(cls, choice: Choice, saved: dict[str, Any], keys: int) -> Training:
        """Returns what was saved about an index of so many keys.

        Raises:
            ValueError, TypeError, KeyError, OverflowError: it is damaged.
        """
        count, not_before = int(saved["trained_for"]), int(saved.get("trained_not_before", 0))
        if not 0 <= count <= keys or not 0 <= not_before <= NOT_BEFORE * count:
            raise ValueError(f"Got a training on {count} of {keys} keys, and none before {not_before}")
        return cls(choice, count, not_before)

    @property
    def _factor(self) -> float:
        """The factor for unlike keys; 0 for an index that is not trained."""
        return OF_CENTRES if self.choice.kind == "ivf" else OF_CODES if self.choice.code == "sq8" else 0

    def is_outgrown(self, count: int) -> bool:
        """Returns whether the training was on a small part of ``count`` keys."""
        return self._factor > 0 and count > OUTGROWN * self.count

    def is_due(self, count: int) -> bool:
        """Returns whether keys are to be compared again, now that there are ``count``."""
        return self._factor > 0 and count >= max(AGAIN * max(self.count, self.compared), self.not_before)

    def is_outdated(self, stored: Int64, errors: Callable[[Int64], Float32]) -> bool:
        """Returns whether many keys are unlike those of the training.

        Args:
            stored: positions of all keys, in ascending order.
            errors: returns how far the keys at some positions are from their centre or code, (n,).
        """
        self.compared = len(stored)
        first, since = np.split(stored, [np.searchsorted(stored, self.count)])
        share = len(since) / len(stored)
        if share <= UNLIKE or not len(first):
            return False
        limit = self._factor * np.quantile(errors(sample(first, COMPARED)), RARE)
        return bool(share * (errors(sample(since, COMPARED)) > limit).mean() > UNLIKE)


def sample(positions: Int64, count: int) -> Int64:
    """Returns at most ``count`` of the positions, at equal distances."""
    return positions[:: -(-len(positions) // count)]
