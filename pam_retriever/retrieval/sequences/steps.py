"""The last steps of trajectories, as questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.model.keys import unit
from pam_retriever.model.noise import SAME
from pam_retriever.retrieval.cues import COMPARED, check_ids, gather_keys, is_view, noise_of
from pam_retriever.store.view import View
from pam_retriever.types import Float32, Int64

LONGEST = 10  # number of last steps that are read
AT_ONCE = 128  # questions that are scored at once, at most,
WORK = 50_000  # and their hits and occurrences in experience together, unless one question has more
SURE = 0.5  # from this probability on, a vector is a noisy copy of its nearest memory


@dataclass(frozen=True)
class LastSteps:
    """The last steps of Q trajectories, the newest first.

    Attributes:
        rows: (Q, 10) the stored memory of each step; -1 for a step that is not stored, and for no step.
        vectors: (Q, 10, d) the vector of each step, of unit length; zeros for no step.
        lengths: (Q,) number of steps, at most 10; earlier steps are ignored.
        until: (Q,) number of stored steps before the question. None for all stored steps, except steps of the question
            that were stored last.
    """

    rows: Int64
    vectors: Float32
    lengths: Int64
    until: Int64 | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, at: Int64 | slice) -> LastSteps:
        """Returns the trajectories at these positions."""
        until = None if self.until is None else self.until[at]
        return LastSteps(self.rows[at], self.vectors[at], self.lengths[at], until)


def batches(work: Int64) -> Iterator[slice]:
    """Yields questions that are scored at once, given the work (Q,) of each."""
    start, total = 0, 0
    for at, one in enumerate(work.tolist()):
        if at > start and (at - start == AT_ONCE or total + one > WORK):
            yield slice(start, at)
            start, total = at, 0
        total += one
    if start < len(work):
        yield slice(start, len(work))


def read_steps(view: View, trajectories: Sequence[Sequence[str | Float32]], among: Rows | None) -> LastSteps:
    """Reads the last steps of trajectories, the newest first.

    Args:
        view: a view of an index with memories.
        trajectories: Q trajectories, the newest step last: each step an id, or a vector (d,). No trajectory is empty.
        among: sorted rows of the memories that a step may be or be completed to; None for all.

    Raises:
        UnknownId: an id is not in the index, or its memory is not allowed.
    """
    rows = np.full((len(trajectories), LONGEST), -1)
    vectors = np.zeros((len(trajectories), LONGEST, view.dim), np.float32)
    ids = [step for steps in trajectories for step in steps if isinstance(step, str)]
    known = check_ids(view, ids, among, "{'text': ...}")
    given: list[tuple[int, int, Float32]] = []
    for at, steps in enumerate(trajectories):
        for back, step in enumerate(reversed(steps[-LONGEST:])):
            if isinstance(step, str):
                rows[at, back] = known[step]
            else:
                given.append((at, back, step))
    stored = rows >= 0
    vectors[stored] = view.similar.keys(rows[stored])
    if given:
        query, back = np.array([one[:2] for one in given], np.int64).T
        units = unit(np.stack([one[2] for one in given]))
        vectors[query, back] = units
        rows[query, back] = _taken_for(view, units, among)
    return LastSteps(rows, vectors, np.array([min(len(steps), LONGEST) for steps in trajectories], np.int64))


def _taken_for(view: View, units: Float32, among: Rows | None) -> Int64:
    """Returns the memory (n,) of which each vector is a noisy copy; -1 for none."""
    cosine, near = view.similar.search(units, COMPARED, among)
    if not near.shape[1]:
        return np.full(len(units), -1)
    noise = noise_of(view, units, gather_keys(view.similar, near[:, 0]))
    surely = is_view(cosine, np.ones(len(units), np.int64), noise) > SURE
    return np.where((cosine[:, 0] >= SAME) | (surely & (near.shape[1] > 2)), near[:, 0], -1)
