"""Feedback through a LangChain store: the documents that served a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TypedDict

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from typing_extensions import Unpack

from langchain_pam.documents import read_question
from langchain_pam.linked import LinkedIndex
from pam_retriever import Hit, InvalidInput, PredictiveAssociativeIndex
from pam_retriever.adapters.feedback import StoredFeedback
from pam_retriever.types import Metadata, Time

Found = str | Document | tuple[Document, float] | Hit
"""A document: its id, the document itself, the pair from a search with scores, or a hit of the index."""


class FeedbackOptions(TypedDict, total=False):
    """Further arguments of ``feedback``; see there."""

    unused: Iterable[Found]
    metadata: Metadata | None
    timestamp: Time | None
    id: str | None


class FeedbackOfDocuments(StoredFeedback):
    """The part of a store that stores feedback."""

    embedding: Embeddings
    _linked: LinkedIndex

    @property
    def _index(self) -> PredictiveAssociativeIndex | None:
        return self._linked.index

    def feedback(
        self,
        query: str,
        used: Iterable[Found] | Mapping[str, float],
        *,
        unused: Iterable[Found] = (),
        metadata: Metadata | None = None,
        timestamp: Time | None = None,
        id: str | None = None,
    ) -> str:
        """Stores a question and the documents that served it. ``recall`` uses it at once, and ``fit`` learns from it.

        Name documents that were *used*, not those that were retrieved.

        Args:
            query: the question.
            used: documents from a search, ids, or weights by id.
            unused: documents that were shown and did not help.
            metadata: metadata for ``feedback_where``, for example the author of the question.
            timestamp: time of the question; without timestamps the order of arrival is used.
            id: id of the feedback; feedback with this id is replaced.

        Returns:
            The id of the feedback.

        Raises:
            InvalidInput, UnknownId: an argument is invalid. Nothing was stored.
        """
        vector = self.embedding.embed_query(read_question(query))
        return self._keep(query, vector, used, unused, metadata, timestamp, id)

    async def afeedback(
        self, query: str, used: Iterable[Found] | Mapping[str, float], **options: Unpack[FeedbackOptions]
    ) -> str:
        """``feedback``, asynchronously."""
        vector = await self.embedding.aembed_query(read_question(query))
        return await run_in_executor(None, partial(self._keep, query, vector, used, **options))

    def _keep(
        self,
        query: str,
        vector: list[float],
        used: Iterable[Found] | Mapping[str, float],
        unused: Iterable[Found] = (),
        metadata: Metadata | None = None,
        timestamp: Time | None = None,
        id: str | None = None,
    ) -> str:
        index = self._index
        if index is None:
            raise InvalidInput("feedback was called on an empty store.", "documents in it", "Call add_documents().")
        weights = used if isinstance(used, Mapping) else read_ids(used, "used")
        return index.feedback(
            vector,
            weights,
            unused=read_ids(unused, "unused"),
            text=query,
            metadata=metadata,
            timestamp=timestamp,
            id=id,
        )


def read_ids(found: Iterable[Found], name: str) -> list[str]:
    """Returns the ids of documents from a search, without duplicates.

    Raises:
        InvalidInput: a value is neither a document nor an id, or a document has no id.
    """
    if isinstance(found, str | Document | Hit):
        raise InvalidInput(f"Got one {type(found).__name__} as {name}.", "a list of them", "Wrap it in [ ].")
    ids = []
    for one in found:
        document = one[0] if isinstance(one, tuple) else one
        id = document if isinstance(document, str) else getattr(document, "id", None)
        if not isinstance(id, str):
            raise InvalidInput(
                f"Got {str(one)[:100]!r} in {name}.", "ids, or documents that have one", "Pass documents from a search."
            )
        ids.append(id)
    return list(dict.fromkeys(ids))
