"""The order of steps that are not neighbours in the arrays: those of a trajectory that grew after others began."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.arrays import GrowingArray
from pam_retriever.types import Int64


class Chain:
    """The previous and the next step of each step; -1 for none. Unless joined, neighbours in the arrays."""

    def __init__(self) -> None:
        self._before, self._after = GrowingArray(np.empty(0, np.int64)), GrowingArray(np.empty(0, np.int64))

    def join(self, joints: Sequence[tuple[int, int]], steps: int) -> None:
        """Adds the steps up to number ``steps``, and connects the two steps of each joint."""
        before, after = self._before, self._after
        known = len(before)
        before.extend(np.arange(known - 1, steps - 1))
        after.extend(np.arange(known + 1, steps + 1))
        if known and after.values[known - 1] < 0:
            after.values[known - 1] = known
        after.values[steps - 1] = -1
        for last, first in joints:
            before.values[first] = last
            if last >= 0:
                after.values[last] = first

    def unlink(self, steps: Int64) -> None:
        """Leaves out these steps, which hold no memory any more: others are connected past them."""
        before, after = self._before.values, self._after.values
        for at in steps.tolist():
            last, following = before[at], after[at]
            if last >= 0 and after[last] == at:
                after[last] = following
            if following >= 0 and before[following] == at:
                before[following] = last

    def around(self, at: Int64, window: int) -> Int64:
        """Returns the steps before and after each of the steps ``at`` (n,), (n, 2 window)."""
        columns = []
        for towards in (self._before, self._after):
            here = at
            for _ in range(window):
                here = np.where(here >= 0, towards.values[here], -1)
                columns.append(here)
        return np.stack([*reversed(columns[:window]), *columns[window:]], axis=1)
