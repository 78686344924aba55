"""The half of a store that is new: what happened with the query."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables.config import run_in_executor

from langchain_pam.documents import Scored, pages, to_scored
from langchain_pam.options import Filter, pop_filter, refuse
from langchain_pam.searching import Cue, ask, usable_mode
from langchain_pam.similarity import SimilarityStore
from pam_retriever import FitReport, InvalidInput, PredictiveAssociativeIndex
from pam_retriever.channels import Mode
from pam_retriever.trajectories import TrajectoryLike

RECALL_OPTIONS = ("channels", "min_score", "faithful")


class AssociativeStore(SimilarityStore):
    """Similarity search, and recall of what was experienced together."""

    def fit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        *,
        group_by: str | None = None,
        order_by: str | None = None,
        **kwargs: Any,
    ) -> FitReport:
        """Learns what happened with what.

        Args:
            trajectories: lists of document ids in the order in which they were experienced, or
                ``pam_retriever.Trajectory`` objects. None learns from metadata, or from what was
                learnt from before.
            group_by: metadata key; documents that share its value are a trajectory.
            order_by: metadata key that orders them; the order of adding if None.
            kwargs: of ``PredictiveAssociativeIndex.fit``: ``window``, ``config``, ``time_budget``, ...

        Raises:
            InvalidInput, UnknownId: of the arguments, or the store has no documents yet.
            TrainingDiverged: the store is as it was.
        """
        return self._stored("fit").fit(trajectories, group_by=group_by, order_by=order_by, **kwargs)

    async def afit(self, trajectories: Iterable[TrajectoryLike] | None = None, **kwargs: Any) -> FitReport:
        """``fit``, asynchronously."""
        return await run_in_executor(None, partial(self.fit, trajectories, **kwargs))

    def recall(self, query: str | None = None, k: int = 4, **kwargs: Any) -> list[Document]:
        """What happened with a query, best first; see ``recall_with_score``."""
        return pages(self.recall_with_score(query, k, **kwargs))

    async def arecall(self, query: str | None = None, k: int = 4, **kwargs: Any) -> list[Document]:
        """``recall``, asynchronously."""
        return pages(await self.arecall_with_score(query, k, **kwargs))

    def recall_with_score(
        self,
        query: str | None = None,
        k: int = 4,
        mode: Mode = "association",
        hops: int = 1,
        *,
        id: str | None = None,
        where: Filter | None = None,
        **kwargs: Any,
    ) -> Scored:
        """What happened with a query, each document with its score.

        In the modes "association" and "specific" the text is taken for a view of a stored document. A text
        that is a stored document (cosine 0.9999 or more) is no answer to itself there, as with ``id``.
        For evidence and the parts of a score, ask ``store.index.recall(..., explain=True)``.

        Args:
            query: text. Give either this or ``id``.
            k: how many.
            mode: "association", "hybrid" (similarity, words and association), "specific" (both must agree),
                or "similarity".
            hops: how many steps of association to follow.
            id: of a stored document to start from, which is then left out of the answer.
            where: metadata filter, a dict or a function of a document (with ``hops=1`` only);
                ``filter`` means the same.
            kwargs: ``channels``, ``min_score``, ``faithful`` of ``PredictiveAssociativeIndex.recall``.

        Raises:
            InvalidInput, UnknownId: of the arguments.
            NotFitted: association was asked for before ``fit``.
        """
        _check_cue(query, id)
        cue: Cue = str(id) if query is None else self.embedding.embed_query(query)
        return self._recall(cue, query, k, mode, hops, where, kwargs)

    async def arecall_with_score(
        self,
        query: str | None = None,
        k: int = 4,
        mode: Mode = "association",
        hops: int = 1,
        *,
        id: str | None = None,
        where: Filter | None = None,
        **kwargs: Any,
    ) -> Scored:
        """``recall_with_score``, asynchronously."""
        _check_cue(query, id)
        cue: Cue = str(id) if query is None else await self.embedding.aembed_query(query)
        return await run_in_executor(None, self._recall, cue, query, k, mode, hops, where, kwargs)

    def _recall(
        self, cue: Cue, text: str | None, k: int, mode: Mode, hops: int, where: Filter | None, kwargs: dict[str, Any]
    ) -> Scored:
        where = pop_filter(kwargs.pop("filter", None), {"where": where})
        unknown = {name: value for name, value in kwargs.items() if name not in RECALL_OPTIONS}
        refuse(unknown, f"k, mode, hops, id, where, {', '.join(RECALL_OPTIONS)}")
        if mode == "hybrid" and hops == 1 and text is not None and text.strip():
            kwargs["text"] = text  # the words count too
        return to_scored(ask(self.index, cue, k, where, mode=mode, hops=hops, **kwargs))

    def search(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """``as_retriever`` for one query; "associative" is a recall that starts out as "hybrid"."""
        if search_type == "associative":
            return self.recall(query, **usable_mode(self.index, kwargs))
        return super().search(query, search_type, **kwargs)

    async def asearch(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """``search``, asynchronously."""
        if search_type == "associative":
            return await self.arecall(query, **usable_mode(self.index, kwargs))
        return await super().asearch(query, search_type, **kwargs)

    def _stored(self, method: str) -> PredictiveAssociativeIndex:
        if self.index is None:
            raise InvalidInput(f"{method} was called on an empty store.", "documents in it", "Call add_documents().")
        return self.index


def _check_cue(query: str | None, id: str | None) -> None:
    if (query is None) == (id is None):
        raise InvalidInput(f"Got query={query!r} and id={id!r}.", "one of them", "Give a text or an id.")
