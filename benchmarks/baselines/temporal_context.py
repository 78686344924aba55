"""The temporal context model: items are bound to a drifting context, and recalled through it.

Howard and Kahana 2002, "A distributed representation of temporal context". The context at step i is
c_i = rho c_(i-1) + beta in_i, where in_i is the input of item i. A repeated item retrieves a mixture of its own input
and the context of its earlier experience. That mixture activates the items whose contexts overlap with it. The
item's own input overlaps only with later contexts, the earlier context with contexts on both sides. So the model has a
forward asymmetry.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse

from benchmarks.baselines.graph import floats_of
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.model.keys import unit
from pam_retriever.types import Float32, Int64

SMALLEST = 1e-3  # contexts with less weight are left out


class TemporalContext:
    """Scores by the overlap of the retrieved context with the contexts of a memory.

    Args:
        beta: weight of the new input at each step; rho = sqrt(1 - beta^2) keeps the context at length 1 for items
            that are orthogonal to it.
        retrieved: weight of the experienced context against the item's own input.
        features: the input of an item: "items" is a one-hot vector, as in the paper's simulations; "vectors"
            is the item's vector.
    """

    def __init__(
        self, beta: float = 0.5, retrieved: float = 0.7, features: Literal["items", "vectors"] = "items"
    ) -> None:
        self._beta, self._retrieved, self._features = beta, retrieved, features

    def fit(self, experience: Experience, vectors: Float32, window: int) -> None:  # noqa: ARG002
        count = len(vectors)
        self._input = sparse.eye_array(count, format="csr", dtype=np.float32)
        if self._features == "vectors":
            self._input = unit(vectors)
        drift = self._drift(experience)
        steps = len(experience)
        holds = sparse.csr_array((np.ones(steps, np.float32), (np.arange(steps), experience.states)), (steps, count))
        # (M, D) the sum of the contexts of each memory
        self._contexts = holds.T @ (drift @ (holds @ self._input))

    def _drift(self, experience: Experience) -> sparse.csr_array:
        """Returns the weight (S, S) of the input of step j in the context of step i."""
        rho = np.sqrt(1 - self._beta**2)
        steps = np.arange(len(experience))
        rows, columns, values = [steps], [steps], [np.full(len(steps), self._beta)]
        for age in range(1, min(int(np.log(SMALLEST) / np.log(rho)) + 1, len(steps) - 1) + 1):
            same = experience.trajectory[age:] == experience.trajectory[:-age]
            rows.append(steps[age:][same])
            columns.append(steps[:-age][same])
            values.append(np.full(same.sum(), self._beta * rho**age))
        parts = (np.concatenate(part) for part in (values, rows, columns))
        value, row, column = parts
        return sparse.csr_array((value.astype(np.float32), (row, column)), (len(steps), len(steps)))

    def scores(self, cues: Int64) -> Float32:
        retrieved = _unit(self._contexts[cues]) * self._retrieved
        overlap = (retrieved + self._input[cues] * (1 - self._retrieved)) @ self._contexts.T
        return overlap.toarray() if sparse.issparse(overlap) else overlap

    def floats(self) -> int:
        if sparse.issparse(self._contexts):
            return floats_of(self._contexts)
        return self._contexts.size + self._input.size


def _unit(rows):  # type: ignore[no-untyped-def]
    if not sparse.issparse(rows):
        return unit(rows)
    length = np.sqrt(np.asarray(rows.power(2).sum(axis=1)).reshape(-1))
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    return sparse.diags_array(scale.astype(np.float32)) @ rows
