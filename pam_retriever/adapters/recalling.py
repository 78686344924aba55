"""Options that the stores pass on, and filters that only Python can apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from pam_retriever.errors import InvalidInput
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.model.keys import Channels, Mode
from pam_retriever.retrieval.timeline import Interval
from pam_retriever.types import Direction, Hit, Time
from pam_retriever.validation import check_count

FIRST_LOOK = 64  # smallest number of the best hits that a test in Python reads first
FIRST_LOOK_A_HIT = 4  # number of these per requested hit, if that is more


class RecallArguments(TypedDict, total=False):
    """Arguments that a store passes unchanged to ``PredictiveAssociativeIndex.recall``.

    Attributes:
        mode: None uses all evidence: similarity, words, neighbours, feedback, and, after a ``fit``, association.
            "hybrid" is the same without feedback. The other modes are "association", "specific" (similarity and
            association must both be high) and "similarity".
        hops: number of steps of association to follow.
        channels: weights of similarity and association, instead of the weights of ``mode``.
        min_score: drop hits with a lower score.
        faithful: only memories that were experienced with the query.
        decay: half-life of a score, in the unit of the timestamps.
        now: the time from which ``decay`` counts ages; None for the newest timestamp. A date is also the time to which
            words such as "yesterday" refer.
        when: only memories of this time; see ``PredictiveAssociativeIndex.recall``.
        cue_where: filter of the memories that the query may be, or be recognised as, instead of ``where``; {} for all.
        feedback_where: metadata filter of the past questions to use; see ``feedback``.
        direction: "after" or "before": only memories after, or before, the query count as linked to it.
    """

    mode: Mode | None
    hops: int
    channels: Channels | None
    min_score: float | None
    faithful: bool
    decay: float | None
    now: Time | None
    when: Interval | None
    cue_where: Mapping[str, Any] | None
    feedback_where: Mapping[str, Any] | None
    direction: Direction | None


def refuse(options: Iterable[str], allowed: str) -> None:
    """Refuses unknown options, because the caller may mean them as filters.

    Raises:
        InvalidInput: there is an unknown option.
    """
    if left := sorted(options):
        raise InvalidInput(f"Got the unknown options {left}.", allowed, "Remove them.")


def check_order(group_by: str | None, order_by: object) -> None:
    """Refuses an order that has no effect.

    Raises:
        InvalidInput: there is an order without groups.
    """
    if order_by is not None and group_by is None:
        raise InvalidInput(f"Got order_by={order_by!r} without group_by.", "both", "Leave order_by out.")


def recall_accepted(
    index: PredictiveAssociativeIndex, recall: Callable[[int], Iterable[Hit]], k: int, accepts: Callable[[Hit], bool]
) -> list[Hit]:
    """Returns the best ``k`` hits that a test in Python accepts.

    Args:
        index: the index behind ``recall``.
        recall: returns this many of the best hits.
        k: number of hits.
        accepts: the test. It gets the best hits, or all memories if it accepts too few of the best hits.
    """
    k = check_count("k", k)
    accepted: list[Hit] = []
    for ranked in (max(FIRST_LOOK, FIRST_LOOK_A_HIT * k), max(len(index), 1)):
        accepted = [hit for hit in recall(ranked) if accepts(hit)]
        if len(accepted) >= k:
            break
    return accepted[:k]
