"""What ``fit`` finds for never-used memories besides weights: a bound on their probability, and what newness counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.holdout import HeldOutQuestions, ndcg_at
from pam_retriever.retrieval.mixture.mixture import NEVER_USED, reserve_for_unused
from pam_retriever.retrieval.mixture.popularity import NEWNESS
from pam_retriever.types import Float32, Float64, Int64

# bounds on the mean probability of all never-used memories together. The first says that they are not likelier than
# what was used; the last leaves hardly any
BOUNDS = (0.5, 0.35, 0.25, 0.17, 0.12, 0.08, 0.05, 0.03)
LEAST, HALVINGS = -30.0, 20  # the search for the largest change of a weight within a bound
DEPTH, JUDGES = 10, 600  # of nDCG, and the largest number of questions that judge a bound
RIDGE = 1e-2  # of the weight of newness, relative to the variance of the feature


@dataclass(frozen=True)
class NeverUsedBound:
    """A bound on the probability that a question wants something that was never used.

    The weights of never-used memories are fitted where few of them compete, and on copies of questions that want one.
    Where an index has many, they would rank before what served every similar request. So natural held-out questions
    bound them: the bound is the largest that costs these no more than one standard error of nDCG.

    Attributes:
        features: the names of the features.
        novelty: the probability that the next use is of a memory that was never used, which no bound goes below.
    """

    features: Sequence[str]
    novelty: float

    def apply(self, weights: Float64, held_out: HeldOutQuestions, questions: Int64) -> Float64:
        """Lowers the weight of never-used memories until these held-out questions are within the bound."""
        natural = questions[held_out.natural[questions]]
        if not len(natural):
            return weights
        judges = _Judges.of(self.features, weights, held_out.take(_at_most(JUDGES, natural)))
        changes = list(dict.fromkeys(judges.change(max(bound, self.novelty)) for bound in BOUNDS))
        found = [judges.ndcg(change) for change in changes]
        best = max(found, key=np.mean)
        change = next(change for change, ndcg in zip(changes, found, strict=True) if _is_as_good(ndcg, best))
        bounded: Float64 = weights.copy()
        bounded[self.features.index(NEVER_USED)] += change
        return self._with_newness(bounded, held_out, questions)

    def _with_newness(self, weights: Float64, held_out: HeldOutQuestions, questions: Int64) -> Float64:
        """Fits the weight of newness on copies of held-out questions: what is hidden there counts as new.

        It is fitted after the bound, because the bound is right for memories that many requests could have used.
        """
        copies = questions[~held_out.natural[questions]]
        if NEWNESS not in self.features or not len(copies):
            return weights
        asked, at = held_out.take(copies), self.features.index(NEWNESS)
        assert asked.newness is not None, "every copy hides memories"
        fitted: Float64 = weights.copy()
        fitted[at] = 0.0
        feature, scores = asked.choices.features[:, at] + asked.newness, asked.choices.scores(fitted)
        reserved = reserve_for_unused(self.features, asked.choices.features, scores, asked.choices.starts)
        choices = replace(asked.choices, features=feature[:, None], offset=scores + reserved)
        ridge = np.array([RIDGE * (float(feature.var()) + 1e-3)])
        fitted[at] = max(0.0, float(logit.fit(choices, weights[[at]], ridge)[0]))
        return fitted


@dataclass(frozen=True)
class _Judges:
    """Held-out questions that no memory was hidden from.

    Attributes:
        features: the names of the features.
        questions: the questions.
        scores: (P,) the scores of their candidates, by the weights to bound.
        never: (P,) 1 for a never-used candidate, else 0.
        mass: (Q,) the probability of all never-used candidates of a question together.
    """

    features: Sequence[str]
    questions: HeldOutQuestions
    scores: Float32
    never: Float32
    mass: Float64

    @classmethod
    def of(cls, features: Sequence[str], weights: Float64, questions: HeldOutQuestions) -> _Judges:
        choices = questions.choices
        scores, never = choices.scores(weights), choices.features[:, features.index(NEVER_USED)]
        shares = logit.softmax(scores, choices.starts)
        mass = np.minimum(np.bincount(choices.question, shares * never), 1.0)
        return cls(features, questions, scores, never, mass)

    def change(self, bound: float) -> float:
        """Returns the change of the weight, at most 0, for a mean probability of at most ``bound``."""
        if self._probability(0.0) <= bound:
            return 0.0
        least, most = LEAST, 0.0
        for _ in range(HALVINGS):
            middle = (least + most) / 2
            least, most = (middle, most) if self._probability(middle) <= bound else (least, middle)
        return least

    def _probability(self, change: float) -> float:
        """Returns the mean probability of all never-used memories together, with a changed weight."""
        odds = self.mass * np.exp(change)
        return float((odds / (1 - self.mass + odds)).mean())

    def ndcg(self, change: float) -> Float64:
        """Returns the nDCG (Q,) with a changed weight, as recall answers."""
        choices = self.questions.choices
        scores = self.scores + np.float32(change) * self.never
        reserved = reserve_for_unused(self.features, choices.features, scores, choices.starts)
        return ndcg_at(scores + reserved, self.questions, DEPTH)


def _at_most(n: int, questions: Int64) -> Int64:
    """Returns at most ``n`` of the questions, from all parts alike."""
    return questions[np.linspace(0, len(questions) - 1, min(n, len(questions))).astype(np.int64)]


def _is_as_good(ndcg: Float64, best: Float64) -> bool:
    """Returns whether the best is ahead by no more than one standard error (Breiman et al. 1984)."""
    loss = best - ndcg
    return bool(loss.mean() <= loss.std() / np.sqrt(len(loss)))
