"""A bound on the probability of never-used memories, for the weights that ``fit`` finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.holdout import HeldOutQuestions
from pam_retriever.types import Float64, Int64

# bound on the mean probability of all never-used memories: they are not likelier than what was used, unless the next
# use probably is of such a memory; and the search for the largest weight within this bound
MOST_NEVER_USED, LEAST_NEVER_USED, HALVINGS = 0.5, -30.0, 20


@dataclass(frozen=True)
class NeverUsedBound:
    """A bound on the probability that a question wants something that was never used.

    The weights of never-used memories are fitted where few of them compete. Where an index has many, they would take
    nearly all of the probability together, and rank before what served every similar request.

    Attributes:
        column: the feature that is 1 for a never-used memory.
        most: the bound on the mean probability of all never-used memories together.
    """

    column: int
    most: float

    def apply(self, weights: Float64, held_out: HeldOutQuestions, questions: Int64) -> Float64:
        """Lowers the weight of the feature until these held-out questions are within the bound."""
        natural = held_out.choices.take(questions[held_out.natural[questions]])
        if not len(natural.starts):
            return weights
        scores, never = natural.scores(weights), natural.features[:, self.column]
        least, most = LEAST_NEVER_USED, 0.0

        def probability(change: float) -> float:
            shares = logit.softmax(scores + np.float32(change) * never, natural.starts)
            return float(np.bincount(natural.question, shares * never).mean())

        if probability(0.0) <= self.most:
            return weights
        for _ in range(HALVINGS):
            middle = (least + most) / 2
            least, most = (middle, most) if probability(middle) <= self.most else (least, middle)
        bounded: Float64 = weights.copy()
        bounded[self.column] += least
        return bounded
