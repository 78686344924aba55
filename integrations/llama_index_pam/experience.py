"""Training and recall through a LlamaIndex store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from llama_index.core.schema import NodeWithScore
from llama_index.core.vector_stores import MetadataFilters
from typing_extensions import Unpack

from llama_index_pam.filters import select
from llama_index_pam.nodes import DOCUMENT_KEY, hit_to_node, read_documents
from llama_index_pam.querying import Cue, RecallOptions, recall
from pam_retriever import FitConfig, FitReport, NotFitted, PredictiveAssociativeIndex
from pam_retriever.adapters.recalling import check_order, refuse
from pam_retriever.experience.trajectories import TrajectoryLike
from pam_retriever.index.learning import FitOptions
from pam_retriever.types import Recipe


class ExperienceOfNodes:
    """The part of a store that learns which nodes happen together, and recalls them."""

    @property
    def _index(self) -> PredictiveAssociativeIndex | None:
        raise NotImplementedError

    def fit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: Recipe | FitConfig = "fast",
        **options: Unpack[FitOptions],
    ) -> FitReport:
        """Learns which nodes happen together; see ``PredictiveAssociativeIndex.fit``.

        Args:
            trajectories: lists of node ids, in the order in which they happened. None learns from metadata, or from the
                stored links.
            window: nodes at most this many positions apart are associates.
            config: "fast", "best", "paper" or a ``FitConfig``.
            **options: ``group_by``: metadata key instead of ``trajectories``; nodes that share its value are one
                trajectory. ``order_by``: metadata key that orders a group; None is the order of adding, and for
                "ref_doc_id" that of the chunks in their document. For the others (``device``, ``seed``,
                ``time_budget``, ``buffer``, ``checkpoint``, ``progress``) see the index.

        Raises:
            NotFitted: nothing is stored yet.
            InvalidInput, UnknownId, TrainingDiverged: see the index.
        """
        check_order(options.get("group_by"), options.get("order_by"))
        index = self._index
        if index is None:
            raise NotFitted("The store has no nodes to fit.", "stored nodes", "Add nodes first.")
        if trajectories is None and options.get("group_by") == DOCUMENT_KEY and options.get("order_by") is None:
            documents = read_documents((record.id, record.metadata) for record in index.find())
            if documents:  # otherwise the index reports that there are none
                trajectories, options["group_by"] = documents, None
        return index.fit(trajectories, window, config, **options)

    async def afit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: Recipe | FitConfig = "fast",
        **options: Unpack[FitOptions],
    ) -> FitReport:
        """``fit`` in a thread."""
        return await asyncio.to_thread(self.fit, trajectories, window, config, **options)

    def recall(
        self,
        query: Cue,
        k: int = 10,
        *,
        where: Mapping[str, Any] | None = None,
        filters: MetadataFilters | None = None,
        **options: Unpack[RecallOptions],
    ) -> list[NodeWithScore]:
        """Returns the nodes that happened with a query; see ``PredictiveAssociativeIndex.recall``.

        Args:
            query: a vector, or the id of a node. The result does not contain the node of an id, nor, in the modes
                "association" and "specific", a node with this vector (cosine 0.9999 or more).
            k: number of nodes, at most.
            where: metadata filter in the language of the index.
            filters: LlamaIndex's metadata filters. A node must satisfy both ``where`` and ``filters``.
            **options: ``text``: the text of the query, with its vector. ``mode``: "association", "similarity", "hybrid"
                or "specific"; None uses all evidence. ``hops``, ``channels``,
                ``min_score``, ``faithful``, ``decay``, ``now``, ``when``, ``cue_where``, ``feedback_where``,
                ``direction``.

        Returns:
            Nodes by falling score. ``client.recall(..., explain=True)`` returns evidence.

        Raises:
            NotFitted: the mode needs association, before ``fit``.
            InvalidInput, UnknownId: an argument is invalid.
        """
        known = RecallOptions.__annotations__
        refuse(options.keys() - known.keys(), ", ".join(known))
        selection, index = select(filters, where), self._index
        hits = [] if index is None else recall(index, query, k, selection, options)
        return [NodeWithScore(node=hit_to_node(hit), score=hit.score) for hit in hits]

    async def arecall(
        self,
        query: Cue,
        k: int = 10,
        *,
        where: Mapping[str, Any] | None = None,
        filters: MetadataFilters | None = None,
        **options: Unpack[RecallOptions],
    ) -> list[NodeWithScore]:
        """``recall`` in a thread."""
        return await asyncio.to_thread(self.recall, query, k, where=where, filters=filters, **options)
