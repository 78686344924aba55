"""The candidates of a scorer for one cue, and the protocol of scorers."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.retrieval.sources import Contributions
from pam_retriever.types import Float32, Int64

if TYPE_CHECKING:
    from pam_retriever.retrieval.cues import Cues

Some = TypeVar("Some", bound="Candidates")


@dataclass(frozen=True)
class Candidates:
    """The answers to one cue, best first, each array of length n.

    Attributes:
        rows: the memories.
        scores: what they are sorted by.
        similarity: cosine to the query as given.
        association: weighted mean of the association channels, or the probability that the predictor gives;
            None without association.
        hops: how many steps away.
        confidence: the probability that it was experienced with the cue; None where that is not calibrated.
        lexical: BM25, 1 for the best candidate; None where the query has no words.
        paths: (n, any) the memories on the way to each, padded with -1; None for a single hop.
        mentions: (n, ways, 2) for each of ``mentions.source.WAYS`` the row that leads there, -1 for the query, and the
            number of the name, 0 for nothing; None where no memory has a name.
        sources: what each source of evidence adds; None where that is not known, or was not asked for.
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

    def at(self: Some, places: Int64) -> Some:
        """Some of them."""
        columns = ((column.name, getattr(self, column.name)) for column in fields(self))
        some: dict[str, Any] = {name: None if array is None else array[places] for name, array in columns}
        return replace(self, **some)

    def best(self: Some, k: int | None, min_score: float | None) -> Some:
        """The first ``k`` by score, of equals the first, that score at least ``min_score``."""
        order = np.argsort(-self.scores, kind="stable")
        if min_score is not None:
            order = order[self.scores[order] >= min_score]
        return self.at(order[:k])


class Scorer(Protocol):
    """Gives memories scores for cues. Filters, decay and hops are scorers around another."""

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        """The best memories for each cue.

        Args:
            cues: Q of them.
            k: at most so many; None for all that score at least the scorer's smallest score.
            allowed: sorted rows to choose from; None for all.

        Returns:
            Q answers.
        """
