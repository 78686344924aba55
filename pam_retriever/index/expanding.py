"""Query expansion: what happened with the hits of another retriever."""

from __future__ import annotations

import warnings

from pam_retriever.index.base import IndexBase, Where
from pam_retriever.retrieval.expansion import Scores, expand, read_found
from pam_retriever.types import Direction
from pam_retriever.validation import check_count, check_direction


class Expanding(IndexBase):
    """The part of an index that adds to what others found."""

    def expand(
        self,
        found: Scores,
        k: int | None = 10,
        *,
        where: Where = None,
        cue_where: Where = None,
        direction: Direction | None = None,
    ) -> dict[str, float] | list[dict[str, float]]:
        """Memories that happened with the hits of another retriever, with shares to add to its scores.

        Each hit brings up the memories that the default recall names for it, by their shares; the best hit counts most
        and the last not at all, so pass a few more than you trust. Measured on five bases in docs/results/real-data.md.

        Args:
            found: the scores of one query's hits, by id, on any scale; or a list of such, one a query.
            k: how many memories at most; None for all.
            where: metadata filter; see ``filters``. The memories must pass it, and so must the hits.
            cue_where: filter that the hits must pass in place of ``where``; {} for all.
            direction: "after": only what came after the hits; "before"; None for both.

        Returns:
            Shares by id, the largest first, at most 1 in all; for a batch a list of them. A hit is among them if
            another hit leads to it.

        Raises:
            InvalidInput, UnknownId: of the arguments.
            NotFitted: before ``fit``, or after a fit by the published recipe, whose scores are no shares.
        """
        hits, batch = read_found(found)
        k = None if k is None else check_count("k", k)
        towards = check_direction(direction)
        with self._lock.shared():
            brought = expand(self._store.view().towards(towards), hits, k, where, cue_where)
        return brought if batch else brought[0]

    def spread(
        self, found: Scores, k: int | None = 10, *, where: Where = None
    ) -> dict[str, float] | list[dict[str, float]]:
        """The name that ``expand`` had in version 0.1."""
        warnings.warn("spread() is called expand() now.", DeprecationWarning, stacklevel=2)
        return self.expand(found, k, where=where)
