"""PAMVectorStore: LangChain's VectorStore over a PredictiveAssociativeIndex."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from typing_extensions import Self, Unpack

from langchain_pam.documents import (
    FitOptions,
    RecallOptions,
    from_texts,
    name_documents,
    read_question,
    read_recall,
    to_document,
    to_scored,
)
from langchain_pam.feedback import FeedbackOfDocuments
from langchain_pam.fields import KnownFields
from langchain_pam.linked import LinkedIndex
from langchain_pam.similarity import SimilarityOfDocuments
from pam_retriever import FitReport, InvalidInput, PredictiveAssociativeIndex
from pam_retriever.adapters.recalling import check_order, refuse
from pam_retriever.experience.dates import USUAL_KEYS
from pam_retriever.experience.trajectories import TrajectoryLike


class PAMVectorStoreRetriever(KnownFields, VectorStoreRetriever):
    """A ``VectorStoreRetriever`` with the additional search type "associative".

    With this search type, ``search_kwargs`` are arguments of ``PAMVectorStore.recall``.
    """

    allowed_search_types: ClassVar[Collection[str]] = (*VectorStoreRetriever.allowed_search_types, "associative")

    fields_in_words: ClassVar[str] = (
        "search_type, tags, and search_kwargs={'k': ..., 'filter': ...} for what a search takes"
    )

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


class PAMVectorStore(FeedbackOfDocuments, SimilarityOfDocuments, VectorStore):
    """A vector store that also finds documents that happened with a query.

    A document with the id of a stored document replaces it. Scores are cosines. Filters are dicts (see
    ``pam_retriever.filters``) or functions of a document, and are applied before the top k are chosen. Unknown keyword
    arguments raise an error, because they may be meant as a filter. The async methods await the async methods of the
    embedder, and do not block the event loop.

    Documents of one group are linked in their order when they are stored, replaced or deleted. So each is evidence for
    its neighbours before any ``fit``. The chunks of a text splitter are linked if it adds the start index:
    ``add_start_index=True``.

    Args:
        embedding: embeds texts and queries. Its first vectors determine the dimension of a new store.
        index: an index to use, in memory or opened from a folder.
        path: folder of a durable store, opened or created. Every write is on disk when its call returns.
        group_by: metadata key; documents that share its value are linked. None links nothing.
        order_by: one or several metadata keys that order them; a document without the last key is not linked. An empty
            list means the order of adding, and so does None, except for the group "source": there it means the page and
            the start index.
        read_only: open the folder without changing it; another process may write.
        same_embedder: asserts that ``embedding`` makes the stored vectors, although it has another name.
        tenant: use only this tenant of the index; see ``tenant``.
        time_key: metadata key with the time of a document, or several, of which the first with a date counts: a
            datetime, a date, or a string in ISO 8601. Questions with a time ("what happened in July?") and ``when=``
            use it. None for no times.

    Raises:
        InvalidInput: two arguments contradict each other, or the embedder differs from that of the index.
        IndexFormatError, IndexLocked: see ``PredictiveAssociativeIndex.open``.

    Example:
        >>> store = PAMVectorStore(embedding)                               # doctest: +SKIP
        >>> store.add_documents(documents)                                  # doctest: +SKIP
        >>> store.recall("query", k=4)                                      # doctest: +SKIP
        >>> store.fit(group_by="session", order_by="time")                  # doctest: +SKIP
    """

    def __init__(
        self,
        embedding: Embeddings,
        index: PredictiveAssociativeIndex | None = None,
        path: str | Path | None = None,
        *,
        group_by: str | None = "source",
        order_by: str | Sequence[str] | None = None,
        read_only: bool = False,
        same_embedder: bool = False,
        tenant: str | None = None,
        time_key: str | Sequence[str] | None = USUAL_KEYS,
    ) -> None:
        self.embedding = embedding
        self._linked = LinkedIndex(
            embedding, index, path, group_by, order_by, read_only, same_embedder, tenant, time_key
        )

    def __repr__(self) -> str:
        index = self.index
        return f"PAMVectorStore({'empty' if index is None else repr(index)}, {type(self.embedding).__name__})"

    def tenant(self, name: str) -> Self:
        """Returns the store of one tenant, with the settings of this one. Tenants share no data.

        See ``PredictiveAssociativeIndex.tenant``. The tenant is created at its first use.
        ``store.index.drop_tenant(name)`` removes it.

        Raises:
            InvalidInput: the name is invalid, or this is the store of a tenant.
        """
        store = copy(self)
        store._linked = self._linked.tenant(name)
        return store

    @property
    def embeddings(self) -> Embeddings:
        """The embedder."""
        return self.embedding

    @property
    def index(self) -> PredictiveAssociativeIndex | None:
        """The index of the store; None before the first document."""
        return self._linked.index

    def close(self) -> None:
        """Closes the index, so that another process can open a durable one; for a tenant's store only the tenant."""
        self._linked.close()

    # ---- documents

    def add_documents(
        self, documents: list[Document], ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """Stores all documents, or none. If several have the same id, the last one is stored.

        Args:
            documents: the documents to store; they are not changed.
            ids: ids that have precedence over the ids of the documents; a document without any id gets a uuid4.
            kwargs: only ``batch_size``, which LangChain's ``index`` passes; it is ignored, because the embedder chooses
                it.

        Returns:
            The ids, one for each document, in order.

        Raises:
            InvalidInput: a document is invalid; for example, JSON cannot hold its metadata. Nothing was stored.
        """
        refuse(kwargs.keys() - {"batch_size"}, "ids")
        named = name_documents(documents, ids)
        stored = dict(named)
        if stored:
            self._linked.add(stored, self.embedding.embed_documents([one.page_content for one in stored.values()]))
        return [id for id, _ in named]

    async def aadd_documents(
        self, documents: list[Document], ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """``add_documents``, asynchronously."""
        refuse(kwargs.keys() - {"batch_size"}, "ids")
        named = name_documents(documents, ids)
        stored = dict(named)
        if stored:
            vectors = await self.embedding.aembed_documents([one.page_content for one in stored.values()])
            await run_in_executor(None, self._linked.add, stored, vectors)
        return [id for id, _ in named]

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Stores texts; see ``add_documents``."""
        return self.add_documents(from_texts(texts, metadatas, ids), **kwargs)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """``add_texts``, asynchronously."""
        return await self.aadd_documents(from_texts(texts, metadatas, ids), **kwargs)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Returns a store of texts; ``kwargs`` are arguments of the class."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """``from_texts``, asynchronously."""
        store = await run_in_executor(None, partial(cls, embedding, **kwargs))
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Deletes documents; ignores unknown ids.

        Args:
            ids: ids of the documents; None deletes all, as LangChain defines it.
            kwargs: must be empty.

        Returns:
            True.
        """
        refuse(kwargs, "ids")
        self._linked.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Returns the stored documents with these ids, without duplicates, in the order of ``ids``."""
        return [to_document(record) for record in self._linked.get(ids)]

    # ---- experience and recall

    def fit(self, trajectories: Iterable[TrajectoryLike] | None = None, **options: Unpack[FitOptions]) -> FitReport:
        """Learns which documents happen together.

        Args:
            trajectories: lists of document ids in the order in which they were experienced, or
                ``pam_retriever.Trajectory`` objects. None learns from metadata, or from the stored links.
            options: ``group_by``: metadata key; documents that share its value are a trajectory. ``order_by``:
                metadata key that orders them; the order of adding if None. For the others see
                ``PredictiveAssociativeIndex.fit``.

        Raises:
            InvalidInput, UnknownId, TrainingDiverged: see the index; or the store has no documents yet.
        """
        check_order(options.get("group_by"), options.get("order_by"))
        return self._stored("fit").fit(trajectories, **options)

    async def afit(
        self, trajectories: Iterable[TrajectoryLike] | None = None, **options: Unpack[FitOptions]
    ) -> FitReport:
        """``fit``, asynchronously."""
        return await run_in_executor(None, partial(self.fit, trajectories, **options))

    def recall(self, query: str | None = None, k: int = 4, **options: Unpack[RecallOptions]) -> list[Document]:
        """Returns the documents that happened with a query, best first; see ``recall_with_score``."""
        return [document for document, _ in self.recall_with_score(query, k, **options)]

    async def arecall(self, query: str | None = None, k: int = 4, **options: Unpack[RecallOptions]) -> list[Document]:
        """``recall``, asynchronously."""
        return [document for document, _ in await self.arecall_with_score(query, k, **options)]

    def recall_with_score(
        self, query: str | None = None, k: int = 4, **options: Unpack[RecallOptions]
    ) -> list[tuple[Document, float]]:
        """Returns the documents that happened with a query, each with its score.

        In the modes "association" and "specific" a stored document replaces the text if it is much nearer to the text
        than all others. There a stored document that equals the text (cosine 0.9999 or more) is not a hit, as with
        ``id``.
        ``store.index.recall(..., explain=True)`` returns evidence and the parts of a score.

        Args:
            query: text of the query. Give either this or ``id``.
            k: number of documents.
            options: see ``RecallOptions`` and ``RecallArguments``.

        Raises:
            InvalidInput, UnknownId: an argument is invalid.
            NotFitted: the mode needs association, before ``fit``.
        """
        query = query if query is None else read_question(query)
        id, where, arguments = read_recall(None if query and query.strip() else self.index, query, options)
        cue = self.embedding.embed_query(str(query)) if id is None else id
        return to_scored(self._linked.ask(cue, k, where, **arguments))

    async def arecall_with_score(
        self, query: str | None = None, k: int = 4, **options: Unpack[RecallOptions]
    ) -> list[tuple[Document, float]]:
        """``recall_with_score``, asynchronously."""
        query = query if query is None else read_question(query)
        id, where, arguments = read_recall(None if query and query.strip() else self.index, query, options)
        cue = await self.embedding.aembed_query(str(query)) if id is None else id
        return to_scored(await run_in_executor(None, partial(self._linked.ask, cue, k, where, **arguments)))

    def search(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """Answers one query as a retriever with this search type does; "associative" calls ``recall``."""
        if search_type == "associative":
            return self.recall(query, **kwargs)
        return super().search(query, search_type, **kwargs)

    async def asearch(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """``search``, asynchronously."""
        if search_type == "associative":
            return await self.arecall(query, **kwargs)
        return await super().asearch(query, search_type, **kwargs)

    def as_retriever(self, **kwargs: Any) -> VectorStoreRetriever:
        """Returns a retriever over this store; ``kwargs`` are ``search_type``, ``search_kwargs`` and ``tags``.

        The search types are "similarity", "similarity_score_threshold", "mmr" and "associative".
        """
        tags = kwargs.pop("tags", None) or self._get_retriever_tags()
        return PAMVectorStoreRetriever(vectorstore=self, tags=tags, **kwargs)

    # ---- files

    def save_local(self, folder: str | Path, overwrite: bool = True) -> None:
        """Writes the store to a folder, without its embedder and without pickle.

        Args:
            folder: a new or empty folder, or the folder of a saved store.
            overwrite: whether to replace an existing store.

        Raises:
            InvalidInput: the store never had a document, or the folder is not empty and ``overwrite`` is False.
            IndexFormatError: the folder has other contents.
        """
        self._stored("save_local").save(folder, overwrite=overwrite)

    @classmethod
    def load_local(cls, folder: str | Path, embedding: Embeddings, **kwargs: Any) -> Self:
        """Reads a saved store into memory; ``kwargs`` are the other arguments of the class.

        Raises:
            IndexFormatError: the folder has no store, or a store that is damaged or of a newer version.
        """
        same = kwargs.get("same_embedder", False)
        index = PredictiveAssociativeIndex.load(folder, embedder=embedding, same_embedder=same)
        return cls(embedding, index=index, **kwargs)

    def _stored(self, method: str) -> PredictiveAssociativeIndex:
        index = self.index
        if index is None:
            raise InvalidInput(f"{method} was called on an empty store.", "documents in it", "Call add_documents().")
        return index
