"""LangChain retrievers that also find documents that happened with a query, or that come next in a chat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any, ClassVar, TypeAlias

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import (
    BaseMessage,
    MessageLikeRepresentation,
    convert_to_messages,
    message_chunk_to_message,
)
from langchain_core.prompt_values import PromptValue
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict, Field, Strict
from typing_extensions import Unpack

from langchain_pam.documents import FeedbackOptions, Found, KnownFields, one_filter, to_scored
from langchain_pam.vectorstore import PAMVectorStore
from pam_retriever import Hits, InvalidInput, PredictiveAssociativeIndex, UnknownId
from pam_retriever.adapters.recalling import refuse
from pam_retriever.model.keys import Channels, Mode
from pam_retriever.types import Direction

LONGEST_HISTORY = 10  # steps that ``recall_next`` uses
History: TypeAlias = Sequence[MessageLikeRepresentation] | PromptValue

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
        score_key: metadata key for the score of a retrieved document; no retrieved document may have it already.
            Without it, documents have only the stored metadata.

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
        return _of_tenant(self.vectorstore, self.tenant).feedback(query, used, **options)

    async def afeedback(
        self, query: str, used: Iterable[Found] | Mapping[str, float], **options: Unpack[FeedbackOptions]
    ) -> str:
        """``feedback``, asynchronously."""
        return await _of_tenant(self.vectorstore, self.tenant).afeedback(query, used, **options)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,
    ) -> list[Document]:
        store = _of_tenant(self.vectorstore, kwargs.pop("tenant", self.tenant))
        return _documents(store.recall_with_score(query, **self._options(kwargs)), self.score_key)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002 - LangChain's signature
        **kwargs: Any,
    ) -> list[Document]:
        store = _of_tenant(self.vectorstore, kwargs.pop("tenant", self.tenant))
        return _documents(await store.arecall_with_score(query, **self._options(kwargs)), self.score_key)

    def _options(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the fields, overridden by the arguments of this call; ``where=None`` turns a filter off."""
        refuse(given.keys() - set(OF_A_CALL), KNOWN)
        options = {name: getattr(self, name) for name in OF_A_CALL}
        if "filter" in given or "where" in given:
            options |= {"filter": None, "where": None}
        return {**options, **given}


class PAMHistoryRetriever(KnownFields, RunnableSerializable[History, list[Document]]):
    """Retrieves documents that came next in sessions like this chat: see ``PredictiveAssociativeIndex.recall_next``.

    Each message with a text is a step, the newest last. A message with the id of a stored document that the filter
    allows stands for this document; any other message is embedded like a document. A history without texts returns no
    documents, and so does an empty store.

    Attributes:
        vectorstore: the store to search.
        k: number of documents.
        types: the types of messages that are steps; by default those of people and of the model, not of the system and
            of tools.
        where: metadata filter of the documents, and of all evidence: a dict.
        cue_where: filter of the documents that a message may stand for, instead of ``where``; {} for all.
        min_score: drop documents with a lower score.
        tenant: use only this tenant of the store.
        score_key: metadata key for the score of a retrieved document; None for none.

    Example:
        >>> next_steps = PAMHistoryRetriever(vectorstore=store, k=3)      # doctest: +SKIP
        >>> next_steps.invoke([HumanMessage("The disk is full.")])        # doctest: +SKIP
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    vectorstore: PAMVectorStore
    k: int = Field(default=4, ge=1)
    types: tuple[str, ...] = ("human", "ai")
    where: dict[str, Any] | None = None
    cue_where: dict[str, Any] | None = None
    min_score: float | None = None
    tenant: str | None = None
    score_key: str | None = None

    def invoke(self, input: History, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Returns the documents that come next, best first.

        Args:
            input: messages, in any form that LangChain accepts, or a prompt value; the newest last.
            config: LangChain's configuration of the run.
            kwargs: must be empty.

        Raises:
            InvalidInput: a message or a filter is invalid.
        """
        refuse(kwargs, "messages alone; settings are fields")
        return self._call_with_config(self._answer, input, config)

    async def ainvoke(self, input: History, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """``invoke``, asynchronously, with the embedder's async method."""
        refuse(kwargs, "messages alone; settings are fields")
        return await self._acall_with_config(self._aanswer, input, config)

    def _answer(self, input: History) -> list[Document]:
        store, steps = _of_tenant(self.vectorstore, self.tenant), self._steps(input)
        known, texts = self._split(store, steps)
        return self._next(store, known, store.embedding.embed_documents(texts) if texts else [])

    async def _aanswer(self, input: History) -> list[Document]:
        store, steps = _of_tenant(self.vectorstore, self.tenant), self._steps(input)
        known, texts = await run_in_executor(None, self._split, store, steps)
        vectors = await store.embedding.aembed_documents(texts) if texts else []
        return await run_in_executor(None, self._next, store, known, vectors)

    def _steps(self, input: History) -> list[BaseMessage]:
        """Returns the last messages that are steps."""
        if isinstance(input, str | BaseMessage | dict):
            raise InvalidInput(f"Got a {type(input).__name__} as history.", "a list of messages", "Wrap it in [ ].")
        try:
            messages = input.to_messages() if isinstance(input, PromptValue) else convert_to_messages(input)
        except (ValueError, NotImplementedError, TypeError) as error:
            raise InvalidInput(
                f"The history cannot be read: {error}", "messages as in LangChain", "Convert them."
            ) from error
        whole = map(message_chunk_to_message, messages)  # a streamed message has the type "AIMessageChunk"
        return [one for one in whole if one.type in self.types and one.text.strip()][-LONGEST_HISTORY:]

    def _split(self, store: PAMVectorStore, steps: list[BaseMessage]) -> tuple[list[str | None], list[str]]:
        """Returns for each step the id of its document, or None; and the texts of the steps without a document."""
        index = store.index
        if index is None:
            return [], []
        where = self.where if self.cue_where is None else self.cue_where
        stored = list(dict.fromkeys(one.id for one in steps if one.id is not None and one.id in index))
        allowed = set(stored) if not where or _allows(index, stored, where) else set()
        if not allowed:
            allowed = {id for id in stored if _allows(index, [id], where)}
        known = [one.id if one.id in allowed else None for one in steps]
        return known, [str(one.text) for one, id in zip(steps, known, strict=True) if id is None]

    def _next(self, store: PAMVectorStore, known: list[str | None], vectors: list[list[float]]) -> list[Document]:
        index, embedded = store.index, iter(vectors)
        if index is None or not known:
            return []
        steps = [next(embedded) if id is None else id for id in known]
        hits: Hits = index.recall_next(
            steps, self.k, where=self.where, cue_where=self.cue_where, min_score=self.min_score
        )
        return _documents(to_scored(hits), self.score_key)


def _allows(index: PredictiveAssociativeIndex, ids: list[str], where: dict[str, Any] | None) -> bool:
    """Whether a filter allows all of these documents."""
    try:
        return not ids or bool(index.search_many(ids, k=1, where=where))
    except UnknownId:
        return False


def _of_tenant(store: PAMVectorStore, tenant: str | None) -> PAMVectorStore:
    return store if tenant is None else store.tenant(tenant)


def _documents(scored: list[tuple[Document, float]], score_key: str | None) -> list[Document]:
    """Returns the documents; with a key, the metadata of each has its score.

    Raises:
        InvalidInput: a document has stored metadata under this key.
    """
    if score_key is not None:
        for document, score in scored:
            if score_key in document.metadata:
                raise InvalidInput(
                    f"Got score_key={score_key!r}, and the document {document.id!r} has it in its metadata.",
                    "a key that no document has",
                    "Choose another key: the score would replace what is stored.",
                )
            document.metadata[score_key] = score
    return [document for document, _ in scored]
