"""Tiers of candidates, so that the best hits are the same for every number of hits.

The score of a candidate depends on the other ones: probabilities sum to 1, and BM25 is relative to the best. If more
hits meant more candidates, the best hits would get other scores, and another order. So pools of a fixed size give the
first hits. Where more are wanted, those of larger pools follow them.
"""

from __future__ import annotations

from collections.abc import Iterator

from pam_retriever.retrieval.candidates import Candidates

LARGER = 4  # factor from the size of one pool to that of the next


class Tiers:
    """Collects the candidates of each cue from larger and larger pools, until there are enough.

    Args:
        size: the size of the first pools.
        k: the number of candidates; None for all of the first pools.
        count: the number of memories to choose from. Pools of this size have all of them.
        min_score: smallest score.
    """

    def __init__(self, size: int, k: int | None, count: int, min_score: float | None = None) -> None:
        self._size, self._k, self._count, self._min_score = size, k, count, min_score
        self._found: list[Candidates] = []

    def sizes(self) -> Iterator[int]:
        """Yields the sizes of the pools from which to ``add`` candidates."""
        size = self._size
        yield size
        while size < self._count and any(self._lacks(one) for one in self._found):
            size *= LARGER
            yield size

    def add(self, more: list[Candidates]) -> None:
        """Adds candidates of each cue, best first."""
        pairs = zip(self._found, more, strict=True)
        self._found = [one.followed_by(others) for one, others in pairs] if self._found else more

    def best(self) -> list[Candidates]:
        """Returns the best candidates of each cue."""
        return [one if self._is_cut(one) else one.best(self._k, self._min_score) for one in self._found]

    def _is_cut(self, found: Candidates) -> bool:
        """Whether all candidates of a cue are answers, as mostly."""
        return self._min_score is None and (self._k is None or len(found.rows) <= self._k)

    def _lacks(self, found: Candidates) -> bool:
        """Whether larger pools may add to the candidates of a cue. What they add scores no more than the last."""
        if self._k is None or len(found.rows) >= self._k:
            return False
        return self._min_score is None or not len(found.rows) or bool(found.scores[-1] >= self._min_score)
