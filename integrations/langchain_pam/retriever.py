"""A LangChain retriever that also finds documents that happened with the query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Annotated, Any, ClassVar

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, Strict
from typing_extensions import Unpack

from langchain_pam.documents import one_filter
from langchain_pam.feedback import FeedbackOptions, Found
from langchain_pam.fields import KnownFields
from langchain_pam.vectorstore import PAMVectorStore
from pam_retriever.adapters.recalling import refuse
from pam_retriever.model.keys import Channels, Mode
from pam_retriever.types import Direction

# strict: pydantic would take a number for seconds since 1970
Number = Annotated[float, Strict()]
Moment = Annotated[str, Strict()] | Annotated[datetime, Strict()] | Annotated[date, Strict()]
OF_A_CALL = (
    "k",
    "mode",
    "hops",
    "filter",
    "where",
    "channels",
    "min_score",
    "faithful",
    "decay",
    "now",
    "when",
    "cue_where",
    "feedback_where",
    "direction",
)
KNOWN = ", ".join((*OF_A_CALL, "tenant")).replace("filter, where", "filter or where")


class PAMRetriever(KnownFields, BaseRetriever):
    """Retrieves by similarity, by association, or by both.

    Every field except ``vectorstore`` and ``score_key`` can also be given for one call:
    ``retriever.invoke("query", k=8, mode="association")``.

    Attributes:
        vectorstore: the store to search.
        k: number of documents.
        mode: None uses all evidence: similarity, words, neighbours, feedback, and association after a ``fit``.
            "hybrid" is the same without feedback. "association" finds documents that happened with the query,
            "specific" those that are also similar; both raise ``NotFitted`` if there is no association.
            "similarity" ranks by cosine.
        hops: number of steps of association to follow.
        where: metadata filter, a dict or a function of a document, applied before the ``k`` are
            chosen. A function needs ``hops=1``.
        filter: another name for ``where``.
        channels: weights of similarity and association, instead of the weights of ``mode``.
        min_score: drop documents with a lower score.
        faithful: only documents that were experienced with the query.
        decay: half-life of a score, in the unit of the timestamps.
        now: for ``decay``, the newest timestamp if None; a date is also the reference for words of time.
        when: only documents of this time: words ("last week"), a date, a datetime, or a pair of them.
        cue_where: filter of the documents that the query may be recognised as, instead of ``where``; {} for all.
        feedback_where: metadata filter of the past questions to use.
        direction: "after" or "before": only documents after, or before, the query count as linked to it.
        tenant: use only this tenant of the store, see ``PAMVectorStore.tenant``; ``invoke(query, tenant="ann")`` sets
            it for one call.
        score_key: metadata key for the score of a retrieved document. Without it, documents have only the stored
            metadata.

    Raises:
        InvalidInput: a field is unknown, or both ``filter`` and ``where`` are given.

    Example:
        >>> retriever = PAMRetriever(vectorstore=store, k=8)        # doctest: +SKIP
        >>> retriever.invoke("Why does the checkout hang?", hops=2)   # doctest: +SKIP
    """

    fields_in_words: ClassVar[str] = f"vectorstore, {KNOWN}, score_key"
    values_in_words: ClassVar[Mapping[str, str]] = {
        "k": "a whole number of at least 1",
        "hops": "a whole number of at least 1",
        "direction": "'after', 'before' or None",
        "when": "words such as 'last week', a date, a datetime, or a pair of them",
        "now": "a datetime, a date or a number",
        "where": "a dict, or a function of a document",
        "filter": "a dict, or a function of a document",
    }

    vectorstore: PAMVectorStore
    k: int = Field(default=4, ge=1)
    mode: Mode | None = None
    hops: int = Field(default=1, ge=1)
    where: dict[str, Any] | Callable[[Document], bool] | None = None
    filter: dict[str, Any] | Callable[[Document], bool] | None = None
    channels: Channels | None = None
    min_score: float | None = None
    faithful: bool = False
    decay: float | None = None
    now: float | datetime | date | None = None
    when: Moment | tuple[Moment | Number | None, Moment | Number | None] | None = None
    cue_where: dict[str, Any] | None = None
    feedback_where: dict[str, Any] | None = None
    direction: Direction | None = None
    tenant: str | None = None
    score_key: str | None = None

    @classmethod
    def _check_fields(cls, given: Mapping[str, Any]) -> None:
        super()._check_fields(given)
        one_filter(given.get("filter"), given.get("where"))

    def feedback(
        self, query: str, used: Iterable[Found] | Mapping[str, float], **options: Unpack[FeedbackOptions]
    ) -> str:
        """Stores a question and the documents that served it; see ``PAMVectorStore.feedback``."""
        return self._of(self.tenant).feedback(query, used, **options)

    async def afeedback(
        self, query: str, used: Iterable[Found] | Mapping[str, float], **options: Unpack[FeedbackOptions]
    ) -> str:
        """``feedback``, asynchronously."""
        return await self._of(self.tenant).afeedback(query, used, **options)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,
    ) -> list[Document]:
        store = self._of(kwargs.pop("tenant", self.tenant))
        return self._to_documents(store.recall_with_score(query, **self._options(kwargs)))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,
    ) -> list[Document]:
        store = self._of(kwargs.pop("tenant", self.tenant))
        return self._to_documents(await store.arecall_with_score(query, **self._options(kwargs)))

    def _of(self, tenant: str | None) -> PAMVectorStore:
        return self.vectorstore if tenant is None else self.vectorstore.tenant(tenant)

    def _options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the fields, overridden by the arguments of this call; ``where=None`` turns a filter off."""
        refuse(given.keys() - set(OF_A_CALL), KNOWN)
        options = {name: getattr(self, name) for name in OF_A_CALL}
        if "filter" in given or "where" in given:
            options |= {"filter": None, "where": None}
        return {**options, **given}

    def _to_documents(self, scored: list[tuple[Document, float]]) -> list[Document]:
        if self.score_key is not None:
            for document, score in scored:
                document.metadata[self.score_key] = score
        return [document for document, _ in scored]
