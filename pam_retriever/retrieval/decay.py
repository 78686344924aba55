"""Decay in recall (Dury 3.9): the score of a memory is halved per half-life since it was last experienced.

Which memories an index deletes is another question: see ``store.capacity`` and ``experience.strength``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.errors import InvalidInput
from pam_retriever.experience.dates import read_timestamp
from pam_retriever.experience.strength import fading
from pam_retriever.retrieval.candidates import Candidates, Scorer
from pam_retriever.retrieval.cues import Cues
from pam_retriever.store.database import Database
from pam_retriever.types import Time
from pam_retriever.validation import check_positive

FIRST_POOL = 4  # hits in the first look-up of a recall with decay, as a factor of k


@dataclass(frozen=True)
class Decay:
    """Halves scores per ``half_life`` before ``now``, in the unit of the timestamps."""

    half_life: float
    now: float


class DecayScorer:
    """Applies decay to the scores of another scorer, and returns the exact best hits.

    Args:
        scorer: gives the scores before decay; negative scores do not decay.
        database: a database with the time of the last experience of each memory.
        decay: the half-life.
        min_score: drop hits whose score after decay is lower.
    """

    def __init__(self, scorer: Scorer, database: Database, decay: Decay, min_score: float | None) -> None:
        self._scorer, self._database, self._decay, self._min_score = scorer, database, decay, min_score

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
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
    """Whether no memory outside the pool can be among the ``k`` best: decay only lowers scores."""
    if len(plain.rows) < pool:
        return True
    return len(answer.rows) == k and bool(answer.scores[-1] >= plain.scores[-1])


def read_now(database: Database, now: Time | None, given: str) -> float:
    """Returns the time from which ages are counted; by default the newest in the index.

    Args:
        database: with the timestamps.
        now: the time, if the caller gave one.
        given: the argument that needs timestamps, for the message.

    Raises:
        InvalidInput: the index has no timestamps, or the time is no number.
    """
    newest = database.trajectories.newest_time()
    if newest is None:
        raise InvalidInput(
            f"Got {given} for an index whose trajectories have no timestamps.",
            "trajectories with timestamps",
            "Timestamps of add() do not count: pass append(timestamp=...), Trajectory(timestamps=...), "
            "or fit(group_by=, order_by=) with a number to order by.",
        )
    return newest if now is None else read_timestamp(now)


def check_half_life(value: Any) -> float | Literal["auto"] | None:
    """Checks a half-life: above 0, "auto", or None.

    Raises:
        InvalidInput: the value is something else.
    """
    if value is None or (isinstance(value, str) and value == "auto"):
        return value  # type: ignore[return-value]
    return check_positive("half_life", value)
