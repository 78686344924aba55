"""Repeats: whether a candidate already occurs in the trajectory, for example when a user goes back."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pam_retriever.retrieval.mixture.pools import Pools
from pam_retriever.retrieval.sequences.steps import LastSteps
from pam_retriever.types import Bools, Float64, Int64


class Repeats:
    """Features of candidates that are among the last steps.

    Args:
        steps: the questions.
    """

    features: ClassVar[tuple[str, ...]] = (
        "again",  # the candidate is the newest step
        "there",  # the candidate is another of the last steps
        "one_back",
        "two_back",
        "parent",  # the candidate preceded the newest step at its first occurrence
        "taken",  # the candidate followed the newest step before
        "there:returned",  # the same, if the newest step was a return
        "one_back:returned",
        "parent:returned",
        "parent:returns",  # multiplied by the share of returns among the last steps
        "parent:late",
    )

    def __init__(self, steps: LastSteps) -> None:
        self._rows = steps.rows
        self._late = np.log(np.maximum(steps.lengths, 1))

    def columns(self, pools: Pools) -> dict[str, Float64]:
        """Returns each feature (P,)."""
        rows, cue = self._rows, pools.cue
        same = rows[cue] == pools.row[:, None]  # (P, L)
        newest = (rows == rows[:, :1]) & (rows >= 0)  # where the newest step is
        newest[:, 0] = True  # also if it is not stored
        returned = newest[:, 2:].any(axis=1)
        returns = np.log1p(((rows[:, 2:] == rows[:, :-2]) & (rows[:, 2:] >= 0)).sum(axis=1))
        parent = (self._parent(newest)[cue] == pools.row).astype(float)
        columns = {
            "again": same[:, 0],
            "there": same[:, 1:].any(axis=1) & ~same[:, 0],
            "one_back": same[:, 1],
            "two_back": same[:, 2],
            "parent": parent,
            "taken": (same[:, :-1] & newest[cue][:, 1:]).any(axis=1),
            "parent:returns": parent * returns[cue],
            "parent:late": parent * self._late[cue],
        }
        for name in ("there", "one_back", "parent"):
            columns[f"{name}:returned"] = columns[name] * returned[cue]
        return {name: column.astype(np.float64) for name, column in columns.items()}

    def _parent(self, newest: Bools) -> Int64:
        """Returns the step (Q,) before the first occurrence of the newest step; -2 for none."""
        first = newest.shape[1] - 1 - np.argmax(newest[:, ::-1], axis=1)
        before = np.minimum(first + 1, newest.shape[1] - 1)
        found = self._rows[np.arange(len(before)), before]
        parent: Int64 = np.where((first + 1 < newest.shape[1]) & (found >= 0), found, -2)
        return parent
