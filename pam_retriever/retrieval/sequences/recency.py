"""Recency: how often each memory was experienced recently, with several half-lives."""

from __future__ import annotations

import numpy as np

from pam_retriever.retrieval.mixture.pools import Pools
from pam_retriever.retrieval.sequences.steps import LastSteps
from pam_retriever.types import Float64, Int64

RECENT = 3_000  # number of the last steps of all experience
HALF_LIVES = (500.0, 150.0, 50.0, 15.0, 5.0)  # half-lives in steps
FEATURES = tuple(f"recent_{round(life)}" for life in HALF_LIVES)


class Recency:
    """The last steps of all experience, stored or in the question.

    Computes one share per half-life. ``blend`` sums them with weights that are fitted on held-out experience.

    Args:
        history: (S,) the memories of the stored steps, the newest last; -1 for none.
        steps: Q questions.
    """

    def __init__(self, history: Int64, steps: LastSteps) -> None:
        if steps.until is None:
            history = history[history >= 0]  # a reopened index has no positions of deleted memories
        self._history, self._rows = history, steps.rows
        self._own = steps.lengths
        self._until = self._before(history) if steps.until is None else steps.until

    def columns(self, pools: Pools) -> dict[str, Float64]:
        """Returns the share (P,) of each candidate, by half-life."""
        stored, own = self._faded(pools), 0.5 ** (np.arange(self._rows.shape[1])[:, None] / np.array(HALF_LIVES))
        found = (self._rows[pools.cue] == pools.row[:, None]).astype(float) @ own + stored[:, 1]
        total = ((self._rows >= 0).astype(float) @ own)[pools.cue] + stored[:, 0]
        return dict(zip(FEATURES, (found / np.maximum(total, 1e-9)).T, strict=True))

    def _before(self, history: Int64) -> Int64:
        """Returns the number (Q,) of stored steps before each question, whose own steps may be the last stored ones."""
        until = np.full(len(self._rows), len(history))
        for at, own in enumerate(self._own.tolist()):
            if own <= len(history) and (history[len(history) - own :][::-1] == self._rows[at, :own]).all():
                until[at] -= own
        return until

    def _faded(self, pools: Pools) -> Float64:
        """Returns decayed counts (P, 2, H): of all stored steps, and of those with the candidate."""
        found = np.zeros((len(pools), 2, len(HALF_LIVES)))
        for until in np.unique(self._until).tolist():
            queries = np.flatnonzero(self._until == until)
            newest = self._history[max(until - RECENT, 0) : until][::-1]
            newest = newest[newest >= 0]
            weight = 0.5 ** (np.arange(len(newest))[:, None] / np.array(HALF_LIVES))
            held, position = np.unique(newest, return_inverse=True)
            sums = np.stack([np.bincount(position, one, len(held)) for one in weight.T], axis=1)
            for one in queries.tolist():
                mine = pools.of_cue(one)
                found[mine, 0] = sums.sum(axis=0)
                at = np.searchsorted(held, pools.row[mine])
                there = at < len(held)
                there[there] = held[at[there]] == pools.row[mine][there]
                found[mine, 1][there] = sums[at[there]]
        later: Float64 = 0.5 ** (self._own[:, None] / np.array(HALF_LIVES))
        return found * later[pools.cue][:, None]
