"""A retriever that treats a chat history as a trajectory, and finds documents that come next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, MessageLikeRepresentation, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict, Field

from langchain_pam.documents import to_document
from langchain_pam.fields import KnownFields
from langchain_pam.vectorstore import PAMVectorStore
from pam_retriever import Hits, InvalidInput, PredictiveAssociativeIndex, UnknownId
from pam_retriever.adapters.recalling import refuse

LONGEST = 10  # steps that ``recall_next`` uses
History: TypeAlias = Sequence[MessageLikeRepresentation] | PromptValue


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
        store, steps = self._store(), self._steps(input)
        known, texts = self._split(store, steps)
        return self._documents(store, known, store.embedding.embed_documents(texts) if texts else [])

    async def _aanswer(self, input: History) -> list[Document]:
        store, steps = self._store(), self._steps(input)
        known, texts = await run_in_executor(None, self._split, store, steps)
        vectors = await store.embedding.aembed_documents(texts) if texts else []
        return await run_in_executor(None, self._documents, store, known, vectors)

    def _store(self) -> PAMVectorStore:
        return self.vectorstore if self.tenant is None else self.vectorstore.tenant(self.tenant)

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
        return [one for one in messages if one.type in self.types and one.text.strip()][-LONGEST:]

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

    def _documents(self, store: PAMVectorStore, known: list[str | None], vectors: list[list[float]]) -> list[Document]:
        index, embedded = store.index, iter(vectors)
        if index is None or not known:
            return []
        steps = [next(embedded) if id is None else id for id in known]
        hits: Hits = index.recall_next(
            steps, self.k, where=self.where, cue_where=self.cue_where, min_score=self.min_score
        )
        documents = [to_document(hit) for hit in hits]
        if self.score_key is not None:
            for document, hit in zip(documents, hits, strict=True):
                document.metadata[self.score_key] = hit.score
        return documents


def _allows(index: PredictiveAssociativeIndex, ids: list[str], where: dict[str, Any] | None) -> bool:
    """Whether a filter allows all of these documents."""
    try:
        return not ids or bool(index.search_many(ids, k=1, where=where))
    except UnknownId:
        return False
