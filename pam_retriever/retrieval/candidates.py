"""The candidates of a scorer for one cue, tiers of them, and the interface of scorers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.arrays import among
from pam_retriever.retrieval.sources import Contributions
from pam_retriever.types import Float32, Int64

if TYPE_CHECKING:
    from pam_retriever.retrieval.cues import Cues

LARGER = 4  # factor from the size of one pool to that of the next
Some = TypeVar("Some", bound="Candidates")


@dataclass(frozen=True)
class Candidates:
    """The answers to one cue, best first; each array has length n.

    Attributes:
        rows: the memories.
        scores: the scores that order the answers.
        similarity: cosine to the query as given.
        association: weighted mean of the association channels, or the probability that the predictor gives;
            None without association; NaN if it is unknown of one.
        hops: number of steps from the cue.
        confidence: the probability that the memory was experienced with the cue; None without calibration; NaN if it is
            unknown of one.
        lexical: BM25, scaled to at most 1; None for a query without words.
        paths: (n, any) the memories on the way to each, padded with -1; None for a single hop.
        mentions: (n, ways, 2) for each of ``mentions.edges.WAYS`` the row that leads to the memory, -1 for the query,
            and the number of the name, 0 for none; None if no memory has a name.
        sources: the part of each source in the scores; None if it is unknown, or was not requested.
    """

    rows: Int64
    scores: Float32
    similarity: Float32
    association: Float32 | None
    hops: Int64
    confidence: Float32 | None = None
    lexical: Float32 | None = None
    paths: Int64 | None = None
    mentions: Int64 | None = None
    sources: Contributions | None = None

    def at(self: Some, positions: Int64) -> Some:
        """Returns the candidates at these positions."""
        some: dict[str, Any] = {name: None if array is None else array[positions] for name, array in vars(self).items()}
        return type(self)(**some)

    def followed_by(self: Some, others: Some, bounded: Sequence[str] = ("scores",)) -> Some:
        """Appends those of ``others`` that are not here.

        The values of these in the columns ``bounded``, among them the scores, are at most those of the last one here.
        """
        if not len(self.rows):
            return others
        others = others.at(np.flatnonzero(~among(np.sort(self.rows), others.rows)))
        more = vars(others) | {name: np.minimum(getattr(others, name), getattr(self, name)[-1]) for name in bounded}
        joined: dict[str, Any] = {
            name: None if array is None else np.concatenate([array, more[name]])
            for name, array in vars(self).items()
            if name != "sources"
        }
        sources = self.sources
        if sources is not None and others.sources is not None:
            sources = sources.followed_by(others.sources.scaled(others.scores, more["scores"]))
        return type(self)(**joined, sources=sources)

    def best(self: Some, k: int | None, min_score: float | None) -> Some:
        """Returns the first ``k`` by score with at least ``min_score``. Equal scores keep their order."""
        order = np.argsort(-self.scores, kind="stable")
        if min_score is not None:
            order = order[self.scores[order] >= min_score]
        return self.at(order[:k])


class Scorer(Protocol):
    """Scores memories for cues. Filters, decay and hops are scorers that wrap another one."""

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        """Returns the best memories for each cue.

        Args:
            cues: Q of them.
            k: the number of answers; None for all that reach the scorer's smallest score.
            allowed: sorted rows to choose from; None for all.

        Returns:
            Q answers.
        """


class Tiers:
    """Collects the candidates of each cue from larger and larger pools, until there are enough.

    The best hits are then the same for every number of hits. The score of a candidate depends on the other ones:
    probabilities sum to 1, and BM25 is relative to the best. If more hits meant more candidates, the best hits would
    get other scores, and another order. So pools of a fixed size give the first hits. Where more are wanted, those of
    larger pools follow them.

    Args:
        size: the size of the first pools.
        k: the number of candidates.
        count: the number of memories to choose from. Pools of this size have all of them.
        min_score: smallest score.
    """

    def __init__(self, size: int, k: int, count: int, min_score: float | None = None) -> None:
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
        return self._min_score is None and len(found.rows) <= self._k

    def _lacks(self, found: Candidates) -> bool:
        """Whether larger pools may add to the candidates of a cue. What they add scores no more than the last."""
        if len(found.rows) >= self._k:
            return False
        return self._min_score is None or not len(found.rows) or bool(found.scores[-1] >= self._min_score)
