"""Feedback through a LlamaIndex store: the nodes that served a question."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy.typing as npt
from llama_index.core.schema import BaseNode, NodeWithScore
from typing_extensions import Unpack

from pam_retriever import InvalidInput, NotFitted
from pam_retriever.adapters.feedback import StoredFeedback
from pam_retriever.types import Time

Found = str | BaseNode | NodeWithScore
"""A node: its id, the node itself, or the form that a retriever returns."""


class FeedbackOptions(TypedDict, total=False):
    """Further arguments of ``feedback``; see there."""

    unused: Iterable[Found]
    metadata: Mapping[str, Any] | None
    timestamp: Time | None
    id: str | None


class FeedbackOfNodes(StoredFeedback):
    """The part of a store that stores feedback."""

    def feedback(
        self,
        query: npt.NDArray[Any] | Sequence[float],
        used: Iterable[Found] | Mapping[str, float],
        *,
        text: str | None = None,
        unused: Iterable[Found] = (),
        metadata: Mapping[str, Any] | None = None,
        timestamp: Time | None = None,
        id: str | None = None,
    ) -> str:
        """Stores a question and the nodes that served it. ``recall`` uses it at once, and ``fit`` learns from it.

        Name nodes that were *used*, not those that were retrieved. ``PAMRetriever.feedback`` takes a text.

        Args:
            query: the vector of the question.
            used: nodes from a retriever, ids, or weights by id.
            text: text of the question.
            unused: nodes that were shown and did not help.
            metadata: metadata for ``feedback_where``, for example the author of the question.
            timestamp: time of the question; without timestamps the order of arrival is used.
            id: id of the feedback; feedback with this id is replaced.

        Returns:
            The id of the feedback.

        Raises:
            NotFitted: nothing is stored yet.
            InvalidInput, UnknownId: an argument is invalid. Nothing was stored.
        """
        weights = used if isinstance(used, Mapping) else read_ids(used, "used")
        others = read_ids(unused, "unused")
        index = self._index
        if index is None:
            raise NotFitted("The store has no nodes.", "stored nodes", "Add nodes first.")
        whose = None if metadata is None else dict(metadata)
        return index.feedback(query, weights, unused=others, text=text, metadata=whose, timestamp=timestamp, id=id)

    async def afeedback(
        self,
        query: npt.NDArray[Any] | Sequence[float],
        used: Iterable[Found] | Mapping[str, float],
        *,
        text: str | None = None,
        **options: Unpack[FeedbackOptions],
    ) -> str:
        """``feedback`` in a thread."""
        return await asyncio.to_thread(self.feedback, query, used, text=text, **options)


def read_ids(found: Iterable[Found], name: str) -> list[str]:
    """Returns the ids of nodes from a retriever, without duplicates.

    Raises:
        InvalidInput: a value is neither a node nor an id.
    """
    if isinstance(found, str | BaseNode | NodeWithScore):
        raise InvalidInput(f"Got one {type(found).__name__} as {name}.", "a list of them", "Wrap it in [ ].")
    ids = []
    for one in found:
        node = one.node if isinstance(one, NodeWithScore) else one
        if not isinstance(node, str | BaseNode):
            raise InvalidInput(f"Got {str(one)[:100]!r} in {name}.", "nodes or their ids", "Pass retrieved nodes.")
        ids.append(node if isinstance(node, str) else node.node_id)
    return list(dict.fromkeys(ids))
