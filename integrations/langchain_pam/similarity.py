"""The similarity searches of every LangChain store."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from langchain_pam.documents import (
    Filter,
    read_filter,
    read_question,
    read_vector,
    to_document,
    to_documents,
    to_scored,
)
from langchain_pam.linked import LinkedIndex
from pam_retriever import InvalidInput
from pam_retriever.validation import check_count, check_finite


class SimilarityOfDocuments:
    """The part of a store that searches by similarity alone."""

    embedding: Embeddings
    _linked: LinkedIndex

    def similarity_search(self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any) -> list[Document]:
        """Returns the ``k`` documents closest to the query, the closest first; all if there are fewer."""
        where = read_filter(filter, kwargs)
        return to_documents(
            self._linked.ask(self.embedding.embed_query(read_question(query)), k, where, mode="similarity")
        )

    async def asimilarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """``similarity_search``, asynchronously."""
        return [document for document, _ in await self.asimilarity_search_with_score(query, k, filter, **kwargs)]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """``similarity_search`` with the vector of a query."""
        return to_documents(self._linked.ask(read_vector(embedding), k, read_filter(filter, kwargs), mode="similarity"))

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search`` with the cosine of each document, in [-1, 1]."""
        where = read_filter(filter, kwargs)
        return to_scored(
            self._linked.ask(self.embedding.embed_query(read_question(query)), k, where, mode="similarity")
        )

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search_with_score``, asynchronously."""
        where = read_filter(filter, kwargs)
        vector = await self.embedding.aembed_query(read_question(query))
        return to_scored(await run_in_executor(None, partial(self._linked.ask, vector, k, where, mode="similarity")))

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search_with_score`` with the vector of a query."""
        return to_scored(self._linked.ask(read_vector(embedding), k, read_filter(filter, kwargs), mode="similarity"))

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        # the cosine, as in stores with a cosine distance (1 - distance), so that a threshold
        # keeps its meaning; a negative cosine counts as not relevant
        return lambda cosine: min(max(cosine, 0.0), 1.0)

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Returns ``k`` of the ``fetch_k`` closest documents, close to the query but different from each other.

        Args:
            query: text of the query.
            k: number of documents.
            fetch_k: number of candidates; at least ``k`` are fetched.
            lambda_mult: from 0, most diverse, to 1, closest.
            kwargs: ``filter`` or ``where``; see ``similarity_search``.
        """
        vector = self.embedding.embed_query(read_question(query))
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, **kwargs)

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """``max_marginal_relevance_search``, asynchronously."""
        vector = await self.embedding.aembed_query(read_question(query))
        by_vector = self.max_marginal_relevance_search_by_vector
        return await run_in_executor(None, by_vector, vector, k, fetch_k, lambda_mult, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """``max_marginal_relevance_search`` with the vector of a query."""
        where, k = read_filter(kwargs.pop("filter", None), kwargs), check_count("k", k)
        vector, fetch_k, lambda_mult = read_vector(embedding), check_count("fetch_k", fetch_k), _read_share(lambda_mult)
        hits = self._linked.ask(vector, max(k, fetch_k), where, mode="similarity")
        records = self._linked.get(hit.id for hit in hits)
        vectors: list[Any] = [record.vector for record in records]  # the function also takes arrays, despite its type
        chosen = maximal_marginal_relevance(np.asarray(vector), vectors, lambda_mult, k)
        return [to_document(records[position]) for position in chosen]


def _read_share(lambda_mult: Any) -> float:
    share = check_finite("lambda_mult", lambda_mult)
    if not 0 <= share <= 1:
        raise InvalidInput(f"Got lambda_mult={lambda_mult!r}.", "a number from 0 to 1", "1 ignores variety.")
    return share
