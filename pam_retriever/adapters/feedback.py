"""Methods of a store that list and delete its feedback."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pam_retriever.experience.feedback import Feedback
from pam_retriever.index import PredictiveAssociativeIndex


class StoredFeedback:
    """The part of a store that lists and deletes feedback."""

    @property
    def _index(self) -> PredictiveAssociativeIndex | None:
        raise NotImplementedError

    def feedbacks(
        self, where: Mapping[str, Any] | None = None, limit: int | None = None, offset: int = 0
    ) -> list[Feedback]:
        """Returns the stored feedback whose metadata satisfy a filter; see ``PredictiveAssociativeIndex.feedbacks``."""
        index = self._index
        return [] if index is None else index.feedbacks(where, limit, offset)

    async def afeedbacks(
        self, where: Mapping[str, Any] | None = None, limit: int | None = None, offset: int = 0
    ) -> list[Feedback]:
        """Calls ``feedbacks`` in a thread."""
        return await asyncio.to_thread(self.feedbacks, where, limit, offset)

    def delete_feedback(self, ids: str | Sequence[str] | None = None, *, where: Mapping[str, Any] | None = None) -> int:
        """Deletes feedback by id or by a filter on its metadata; returns the number of deleted requests.

        Raises:
            InvalidInput: neither ids nor a filter are given, or both.
        """
        index = self._index
        return 0 if index is None else index.delete_feedback(ids, where=where)

    async def adelete_feedback(
        self, ids: str | Sequence[str] | None = None, *, where: Mapping[str, Any] | None = None
    ) -> int:
        """Calls ``delete_feedback`` in a thread."""
        return await asyncio.to_thread(self.delete_feedback, ids, where=where)
