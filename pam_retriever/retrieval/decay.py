"""Adaptive decay (Dury 3.9): what is recent counts more, and what is weakest is forgotten.

A memory is as strong as its experiences, each fading with its age and as salient as it was. The denser
the associations, the faster they fade: a new one has more others to compete with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.errors import InvalidInput
from pam_retriever.experience.strength import fading
from pam_retriever.retrieval.candidates import Candidates, Scorer
from pam_retriever.retrieval.cues import Cues
from pam_retriever.store.database import Database
from pam_retriever.types import Time
from pam_retriever.validation import read_timestamp

FIRST_POOL = 4  # times k: how many hits the first look-up of a faded recall has


@dataclass(frozen=True)
class Decay:
    """Scores halve with every ``half_life`` before ``now``, in the unit of the timestamps."""

    half_life: float
    now: float


class DecayScorer:
    """The best hits of another scorer after their scores have faded, exactly: it looks at all that could matter.

    Args:
        scorer: of plain scores; those below zero do not fade.
        database: which know when a memory was last experienced.
        decay: how fast scores fade.
        min_score: leave out what fades below it.
    """

    def __init__(self, scorer: Scorer, database: Database, decay: Decay, min_score: float | None) -> None:
        self._scorer, self._database, self._decay, self._min_score = scorer, database, decay, min_score

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        """As ``Scorer``."""
        pool = None if k is None else FIRST_POOL * k
        while True:
            plain = self._scorer.score(cues, pool, allowed)
            answers = [self._fade(found, k) for found in plain]
            if pool is None or k is None or all(_complete(*pair, k, pool) for pair in zip(answers, plain, strict=True)):
                return answers
            pool *= 4

    def _fade(self, found: Candidates, k: int | None) -> Candidates:
        times = self._database.trajectories.last_times(found.rows)
        factors = fading(times, self._decay.now, self._decay.half_life)
        scores = np.where(found.scores > 0, found.scores * factors, found.scores)
        return replace(found, scores=scores).best(k, self._min_score)


def _complete(answer: Candidates, plain: Candidates, k: int, pool: int) -> bool:
    """Whether nothing beyond the pool can be among the ``k`` best: a score only ever falls."""
    if len(plain.rows) < pool:
        return True
    return len(answer.rows) == k and bool(answer.scores[-1] >= plain.scores[-1])


def read_now(database: Database, now: Time | None) -> float:
    """The time from which ages are counted: the newest in the index if none is given.

    Raises:
        InvalidInput: the index has no timestamps, or it is no number.
    """
    newest = database.trajectories.newest_time()
    if newest is None:
        raise InvalidInput(
            "Got decay for an index without timestamps.",
            "trajectories with timestamps",
            "Pass Trajectory(timestamps=...), or fit(group_by=, order_by=) with a number to order by.",
        )
    return newest if now is None else read_timestamp(now)
