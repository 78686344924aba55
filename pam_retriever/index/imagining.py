"""Beyond hits: the predicted point, whether or not a memory is near it; associates of another retriever's hits."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, overload

from pam_retriever.embedding import read_query
from pam_retriever.errors import IndexFormatError
from pam_retriever.index.base import IndexBase, Where
from pam_retriever.retrieval.query import check_direction
from pam_retriever.store.learnt import SPREAD
from pam_retriever.store.view import View
from pam_retriever.types import Direction
from pam_retriever.validation import check_count, check_flag

if TYPE_CHECKING:
    from pam_retriever.index.recalling import Many, One
    from pam_retriever.retrieval.expansion import Scores
    from pam_retriever.retrieval.imagination import Imagination, SpreadCalibration
    from pam_retriever.store.database import Settings


class Imagining(IndexBase):
    """The part of an index that predicts points, and adds associates to hits of another retriever."""

    @overload
    def imagine(self, query: One, k: int = 5, complete: bool = True, *, where: Where = None) -> Imagination: ...

    @overload
    def imagine(self, query: Many, k: int = 5, complete: bool = True, *, where: Where = None) -> list[Imagination]: ...

    def imagine(
        self, query: One | Many, k: int = 5, complete: bool = True, *, where: Where = None
    ) -> Imagination | list[Imagination]:
        """Returns the point near which associates of a query are expected, even if no memory is there (Dury 1, 3).

        The predictor gives the point. For a stored memory that no trajectory holds, and that names others or is named,
        the point is the mean of these, as its mentions come first in ``recall``; this needs no ``fit``.
        Another vector store can search for the point: ``imagine(q).point``, or ``imagine(q).sample(10)``.

        Args:
            query: a vector, an id, or a batch of either.
            k: number of memories nearest to the point to return.
            complete: complete a vector to stored memories, as ``recall`` does. False predicts from the vector as given:
                for the vector of a question, or for the point of another imagination.
            where: metadata filter; see ``filters``. It limits the memories that the query may be or be completed to,
                and the memories near the point, from which the spread is computed.

        Returns:
            An ``Imagination``, for a batch a list of them.

        Raises:
            InvalidInput, UnknownId: an argument is invalid.
            NotFitted: before ``fit`` for a vector, or for a memory without mentions or in a trajectory.
            EmptyIndex: there are fewer than two memories, or the filter leaves fewer.
        """
        from pam_retriever.retrieval.imagination import MentionsAlone, Predictions, check_imaginable, imagine

        k, complete = check_count("k", k), check_flag("complete", complete)
        queries, batch = read_query(query, self.dim)
        self._search_names()
        with self._lock.shared():
            view = self._store.view()
            check_imaginable(view)
            source = MentionsAlone() if view.associative is None else Predictions(self._calibration(view))
            found = imagine(view, source, self._lexicon, queries, k, complete, where)
        return found if batch else found[0]

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

    def _calibration(self, view: View) -> SpreadCalibration:
        """Returns the calibrated spread of this predictor's points, from ``fit``.

        If an earlier version fitted the index, the first call computes it.
        """
        from pam_retriever.retrieval.imagination import calibrate, stored_spread

        stored = stored_spread(view.database.settings)
        if stored is not None:
            return stored
        if self._imagined is None or self._imagined[0] is not view.predictor:
            self._imagined = view.predictor, calibrate(view)
        return self._imagined[1]

    def _fit_spread(self) -> None:
        """Calibrates the spread of the points of a new predictor, and stores it, so that all readers have the same."""
        from pam_retriever.retrieval.imagination import SpreadSample

        with self._lock.shared():
            view = self._store.view()
            if view.associative is None or _is_known(view.database.settings):
                return
            sample = SpreadSample.of(view)
        squared = []
        for chunk in sample.chunks():
            with self._lock.shared():  # briefly, so that others can write in between
                squared.append(sample.distances(self._store.view(), chunk))
        self._keep_learnt(SPREAD, sample.to_stored(sample.fit(squared)))


def _is_known(settings: Settings) -> bool:
    """Returns whether the spread of the points of this predictor is stored; a damaged one is measured again."""
    from pam_retriever.retrieval.imagination import stored_spread

    try:
        return stored_spread(settings) is not None
    except IndexFormatError:
        return False
