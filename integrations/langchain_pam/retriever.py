"""PAMRetriever: a LangChain retriever that also finds what happened with the query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from langchain_pam.documents import Scored, pages
from langchain_pam.options import refuse
from langchain_pam.searching import usable_mode
from langchain_pam.vectorstore import PAMVectorStore
from pam_retriever.channels import Mode


class PAMRetriever(BaseRetriever):
    """Retrieves by similarity, by association, or by both.

    Every field but ``vectorstore`` and ``score_key`` may also be given for one call:
    ``retriever.invoke("query", k=8, mode="association")``.

    Attributes:
        vectorstore: the store to ask.
        k: how many documents.
        mode: "hybrid" (similarity and association together), "association" (what happened with the
            query), "similarity", or "specific" (both must agree). Before the store was fitted there
            are no associations: "hybrid" is then plain similarity, and "association" and "specific"
            raise ``NotFitted``.
        hops: how many steps of association to follow.
        where: metadata filter, a dict or a function of a document, applied before the ``k`` are
            chosen. A function goes with ``hops=1`` only.
        score_key: where in the metadata of a retrieved document to put its score. Without it, the
            metadata are those that were stored.

    Example:
        >>> retriever = PAMRetriever(vectorstore=store, k=8)        # doctest: +SKIP
        >>> retriever.invoke("Why does the checkout hang?", hops=2)   # doctest: +SKIP
    """

    vectorstore: PAMVectorStore
    k: int = Field(default=4, ge=1)
    mode: Mode = "hybrid"
    hops: int = Field(default=1, ge=1)
    where: dict[str, Any] | Callable[[Document], bool] | None = None
    score_key: str | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,
    ) -> list[Document]:
        return self._to_documents(self.vectorstore.recall_with_score(query, **self._settings(kwargs)))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,
    ) -> list[Document]:
        return self._to_documents(await self.vectorstore.arecall_with_score(query, **self._settings(kwargs)))

    def _settings(self, given: dict[str, Any]) -> dict[str, Any]:
        """The fields, and over them what was given for this call; ``where=None`` switches a filter off."""
        settings = {"k": self.k, "mode": self.mode, "hops": self.hops, "where": self.where}
        refuse({name: value for name, value in given.items() if name not in settings}, "k, mode, hops or where")
        return usable_mode(self.vectorstore.index, {**settings, **given})

    def _to_documents(self, scored: Scored) -> list[Document]:
        if self.score_key is not None:
            for document, score in scored:
                document.metadata[self.score_key] = score
        return pages(scored)
