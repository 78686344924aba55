"""The half of a store that every vector store has: what looks like the query."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from langchain_pam.documents import Scored, pages, to_document, to_scored
from langchain_pam.options import Filter, read_filter
from langchain_pam.searching import ask, records_of
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.validation import check_count


class SimilarityStore(VectorStore):
    """Similarity search over an index.

    Attributes:
        embedding: the embedder.
    """

    embedding: Embeddings

    @property
    @abstractmethod
    def index(self) -> PredictiveAssociativeIndex | None:
        """The index behind the store; None before the first document."""

    # ---- similarity

    def similarity_search(self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any) -> list[Document]:
        """The ``k`` documents closest to the query, the closest first; all if there are fewer."""
        return pages(self.similarity_search_with_score(query, k, filter, **kwargs))

    async def asimilarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """``similarity_search``, asynchronously."""
        return pages(await self.asimilarity_search_with_score(query, k, filter, **kwargs))

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """``similarity_search`` with the vector of a query."""
        return pages(self.similarity_search_with_score_by_vector(embedding, k, filter, **kwargs))

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> Scored:
        """``similarity_search`` with the cosine of each document, in [-1, 1]."""
        return self.similarity_search_with_score_by_vector(self.embedding.embed_query(query), k, filter, **kwargs)

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> Scored:
        """``similarity_search_with_score``, asynchronously."""
        vector = await self.embedding.aembed_query(query)
        return await run_in_executor(None, self.similarity_search_with_score_by_vector, vector, k, filter, **kwargs)

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> Scored:
        """``similarity_search_with_score`` with the vector of a query."""
        where = read_filter(filter, kwargs)
        return to_scored(ask(self.index, embedding, k, where, mode="similarity"))

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        # the cosine, as stores with a cosine distance have it (1 - distance), so that a threshold
        # keeps its meaning; what points away from the query is not relevant at all
        return lambda cosine: min(max(cosine, 0.0), 1.0)

    # ---- diversity

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """``k`` of the ``fetch_k`` closest documents, close to the query but not alike.

        Args:
            query: text.
            k: how many.
            fetch_k: out of how many; at least ``k`` are fetched.
            lambda_mult: from 0, most diverse, to 1, closest.
            filter: as for ``similarity_search``.
            kwargs: ``where``, which means ``filter``.
        """
        vector = self.embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter, **kwargs)

    async def amax_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """``max_marginal_relevance_search``, asynchronously."""
        vector = await self.embedding.aembed_query(query)
        by_vector = self.max_marginal_relevance_search_by_vector
        return await run_in_executor(None, by_vector, vector, k, fetch_k, lambda_mult, filter, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """``max_marginal_relevance_search`` with the vector of a query."""
        where, k = read_filter(filter, kwargs), check_count("k", k)
        hits = ask(self.index, embedding, max(k, fetch_k), where, mode="similarity")
        records = records_of(self.index, [hit.id for hit in hits])
        vectors: list[Any] = [record.vector for record in records]
        chosen = maximal_marginal_relevance(np.asarray(embedding, np.float32), vectors, lambda_mult, k)
        return [to_document(records[place]) for place in chosen]
