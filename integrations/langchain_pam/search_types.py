"""What ``as_retriever`` returns: LangChain's own retriever, with one search type more."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStoreRetriever


class PAMVectorStoreRetriever(VectorStoreRetriever):
    """A ``VectorStoreRetriever`` that also knows the search type "associative".

    Its ``search_kwargs`` are then ``k``, ``mode``, ``hops``, ``filter`` and those of
    ``PAMVectorStore.recall``; mode is "hybrid" if not given, as for ``PAMRetriever``.
    """

    allowed_search_types: ClassVar[Collection[str]] = (*VectorStoreRetriever.allowed_search_types, "associative")

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        if self.search_type == "associative":
            return self.vectorstore.search(query, "associative", **{**self.search_kwargs, **kwargs})
        return super()._get_relevant_documents(query, run_manager=run_manager, **kwargs)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        if self.search_type == "associative":
            return await self.vectorstore.asearch(query, "associative", **{**self.search_kwargs, **kwargs})
        return await super()._aget_relevant_documents(query, run_manager=run_manager, **kwargs)
