"""Query expansion: associates of the hits of another retriever."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from pam_retriever.index.base import IndexBase, Where
from pam_retriever.retrieval.query import check_direction
from pam_retriever.types import Direction
from pam_retriever.validation import check_count

if TYPE_CHECKING:
    from pam_retriever.retrieval.expansion import Scores


class Expanding(IndexBase):
    """The part of an index that adds associates to hits of another retriever."""

    def expand(
        self,
        found: Scores,
        k: int | None = 10,
        *,
        where: Where = None,
        cue_where: Where = None,
        direction: Direction | None = None,
    ) -> dict[str, float] | list[dict[str, float]]:
        """Returns memories that happened with the hits of another retriever, with shares to add to its scores.

        Each hit contributes the memories that the default recall finds for it, weighted by their shares. The best hit
        has the largest weight and the last has none, so pass a few more hits than you need. Measured on five retrievers
        in docs/results/real-data.md. Mentions have no direction: with ``direction`` they are not followed.

        Args:
            found: the scores of the hits of one query by id, on any scale; or a list with one such dict per query.
            k: number of memories, at most; None for all.
            where: metadata filter; see ``filters``. The memories must pass it, and so must the hits.
            cue_where: filter that the hits must pass in place of ``where``; {} for all.
            direction: "after": only memories after the hits; "before": only memories before them; None for both.

        Returns:
            Shares by id, the largest first, with a sum of at most 1; for a batch a list of such dicts. A hit is
            included if another hit leads to it.

        Raises:
            InvalidInput, UnknownId: an argument is invalid.
            NotFitted: before ``fit`` if no memory has a name.
        """
        from pam_retriever.retrieval.expansion import expand, read_found

        hits, batch = read_found(found)
        k = None if k is None else check_count("k", k)
        towards = check_direction(direction)
        self._search_names()
        with self._lock.shared():
            associates = expand(self._store.view().towards(towards), self._lexicon, hits, k, where, cue_where)
        return associates if batch else associates[0]

    def spread(
        self, found: Scores, k: int | None = 10, *, where: Where = None
    ) -> dict[str, float] | list[dict[str, float]]:
        """The old name of ``expand``, from version 0.1."""
        warnings.warn("spread() is called expand() now.", DeprecationWarning, stacklevel=2)
        return self.expand(found, k, where=where)
