"""PAMVectorStore: LangChain's VectorStore over a PredictiveAssociativeIndex."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from typing_extensions import Self, Unpack

from langchain_pam.documents import (
    AskOptions,
    FeedbackOptions,
    Filter,
    FitOptions,
    Found,
    KnownFields,
    RecallOptions,
    check_embedding,
    from_texts,
    name_documents,
    read_filter,
    read_ids,
    read_question,
    read_recall,
    read_vector,
    to_document,
    to_scored,
)
from langchain_pam.groups import SPLITTERS_ORDER, DocumentGroups
from pam_retriever import FitReport, Hit, InvalidInput, PredictiveAssociativeIndex, Record
from pam_retriever.adapters.feedback import StoredFeedback
from pam_retriever.adapters.lazy_index import LazyIndex
from pam_retriever.adapters.recalling import check_order, recall_accepted, refuse
from pam_retriever.embedding import Embedder
from pam_retriever.errors import counted
from pam_retriever.experience.dates import USUAL_KEYS, read_time_key, times_of
from pam_retriever.experience.trajectories import TrajectoryLike
from pam_retriever.locks import Mutex
from pam_retriever.store.write_trajectories import Continued
from pam_retriever.types import Metadata, Time
from pam_retriever.validation import check_count, check_finite, check_tenant


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


class PAMVectorStore(StoredFeedback, VectorStore):
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
        self.embedding = check_embedding(embedding)
        check_order(group_by, order_by)
        if order_by is None:
            order_by = SPLITTERS_ORDER if group_by == "source" else ()
        self._groups = DocumentGroups(group_by, (order_by,) if isinstance(order_by, str) else tuple(order_by))
        self._writing, self._time_keys = Mutex(), read_time_key(time_key)
        self._tenant = None if tenant is None else check_tenant(tenant)
        self._embedder = Embedder(embedding, same_embedder)
        self._lazy: LazyIndex[Self] = LazyIndex(
            index,
            path,
            read_only,
            lambda dim: PredictiveAssociativeIndex(dim, embedder=embedding),
            lambda path, read_only: PredictiveAssociativeIndex.open(
                path, embedder=embedding, same_embedder=same_embedder, read_only=read_only
            ),
        )
        self._owned = tenant is None or index is None
        if index is not None:
            self._embedder.check(index.embedder_name)

    def __repr__(self) -> str:
        index = self.index
        return f"PAMVectorStore({'empty' if index is None else repr(index)}, {type(self.embedding).__name__})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuses ``pickle`` and ``copy``: two objects would share one database.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput(
            "A PAMVectorStore was to be pickled or copied.",
            "its folder, which several processes may read",
            "Use PAMVectorStore(embedding, path=..., read_only=True) there, or save_local() and load_local().",
        )

    def tenant(self, name: str) -> Self:
        """Returns the store of one tenant, with the settings of this one. Tenants share no data.

        See ``PredictiveAssociativeIndex.tenant``. The tenant is created at its first use.
        ``store.index.drop_tenant(name)`` removes it.

        Raises:
            InvalidInput: the name is invalid, or this is the store of a tenant.
        """
        return self._lazy.tenant(name, self._tenant, lambda: self._of_tenant(name))

    def _of_tenant(self, name: str) -> Self:
        store = object.__new__(type(self))
        store.__dict__.update(self.__dict__)
        store._tenant, store._owned, store._writing = name, False, Mutex()
        store._groups = self._groups.anew()
        return store

    @property
    def embeddings(self) -> Embeddings:
        """The embedder."""
        return self.embedding

    @property
    def index(self) -> PredictiveAssociativeIndex | None:
        """The index of the store; None before the first document."""
        return self._lazy.of(self._tenant)

    @property
    def _index(self) -> PredictiveAssociativeIndex | None:
        return self.index

    def close(self) -> None:
        """Closes the index, so that another process can open a durable one; for a tenant's store only the tenant."""
        self._lazy.close(None if self._owned else self._tenant)

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
            self._add(stored, self.embedding.embed_documents([one.page_content for one in stored.values()]))
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
            await run_in_executor(None, self._add, stored, vectors)
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
        _check_arguments(cls, kwargs)
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
        _check_arguments(cls, kwargs)
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
        names = [ids] if isinstance(ids, str) else ids if ids is None else list(ids)  # it may be a generator
        with self._writing:
            index = self.index
            if index is not None:
                if names is None:
                    index.delete([record.id for record in index.find()])
                else:
                    self._groups.delete(index, names)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Returns the stored documents with these ids, without duplicates, in the order of ``ids``."""
        return [to_document(record) for record in self._records(ids)]

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
        id, where, arguments = read_recall(query, options, self._is_fitted)
        cue = self.embedding.embed_query(str(query)) if id is None else id
        return to_scored(self._ask(cue, k, where, **arguments))

    async def arecall_with_score(
        self, query: str | None = None, k: int = 4, **options: Unpack[RecallOptions]
    ) -> list[tuple[Document, float]]:
        """``recall_with_score``, asynchronously."""
        query = query if query is None else read_question(query)
        id, where, arguments = read_recall(query, options, self._is_fitted)
        cue = await self.embedding.aembed_query(str(query)) if id is None else id
        return to_scored(await run_in_executor(None, partial(self._ask, cue, k, where, **arguments)))

    def search(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """Answers one query as a retriever with this search type does; "associative" calls ``recall``.

        Raises:
            InvalidInput: there is no such search type.
        """
        if _read_search_type(search_type) == "associative":
            return self.recall(query, **kwargs)
        return super().search(query, search_type, **kwargs)

    async def asearch(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """``search``, asynchronously."""
        if _read_search_type(search_type) == "associative":
            return await self.arecall(query, **kwargs)
        return await super().asearch(query, search_type, **kwargs)

    def as_retriever(self, **kwargs: Any) -> VectorStoreRetriever:
        """Returns a retriever over this store; ``kwargs`` are ``search_type``, ``search_kwargs`` and ``tags``.

        The search types are "similarity", "similarity_score_threshold", "mmr" and "associative".
        """
        tags = kwargs.pop("tags", None) or self._get_retriever_tags()
        return PAMVectorStoreRetriever(vectorstore=self, tags=tags, **kwargs)

    # ---- similarity

    def similarity_search(self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any) -> list[Document]:
        """Returns the ``k`` documents closest to the query, the closest first; all if there are fewer."""
        where = read_filter(filter, kwargs)
        vector = self.embedding.embed_query(read_question(query))
        return [to_document(hit) for hit in self._ask(vector, k, where, mode="similarity")]

    async def asimilarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """``similarity_search``, asynchronously."""
        return [document for document, _ in await self.asimilarity_search_with_score(query, k, filter, **kwargs)]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """``similarity_search`` with the vector of a query."""
        scored = self.similarity_search_with_score_by_vector(embedding, k, filter, **kwargs)
        return [document for document, _ in scored]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search`` with the cosine of each document, in [-1, 1]."""
        where = read_filter(filter, kwargs)
        vector = self.embedding.embed_query(read_question(query))
        return to_scored(self._ask(vector, k, where, mode="similarity"))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search_with_score``, asynchronously."""
        where = read_filter(filter, kwargs)
        vector = await self.embedding.aembed_query(read_question(query))
        return to_scored(await run_in_executor(None, partial(self._ask, vector, k, where, mode="similarity")))

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search_with_score`` with the vector of a query."""
        return to_scored(self._ask(read_vector(embedding), k, read_filter(filter, kwargs), mode="similarity"))

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
        known = "k, fetch_k, lambda_mult, filter or where"
        where, k = read_filter(kwargs.pop("filter", None), kwargs, known), check_count("k", k)
        vector, fetch_k, lambda_mult = read_vector(embedding), check_count("fetch_k", fetch_k), _read_share(lambda_mult)
        hits = self._ask(vector, max(k, fetch_k), where, mode="similarity")
        records = self._records(hit.id for hit in hits)
        vectors: list[Any] = [record.vector for record in records]  # the function also takes arrays, despite its type
        chosen = maximal_marginal_relevance(np.asarray(vector), vectors, lambda_mult, k)
        return [to_document(records[position]) for position in chosen]

    # ---- feedback

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
        return self._keep(query, vector, used, unused=unused, metadata=metadata, timestamp=timestamp, id=id)

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
        **options: Unpack[FeedbackOptions],
    ) -> str:
        index = self._stored("feedback")
        weights = used if isinstance(used, Mapping) else read_ids(used, "used")
        return index.feedback(
            vector,
            weights,
            unused=read_ids(options.get("unused", ()), "unused"),
            text=query,
            metadata=options.get("metadata"),
            timestamp=options.get("timestamp"),
            id=options.get("id"),
        )

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
    def load_local(
        cls,
        folder: str | Path,
        embedding: Embeddings,
        *,
        allow_dangerous_deserialization: bool = False,  # noqa: ARG003 - so that code for FAISS runs
        **kwargs: Any,
    ) -> Self:
        """Reads a saved store into memory; ``kwargs`` are the other arguments of the class.

        Args:
            folder: the folder of ``save_local``.
            embedding: of the store.
            allow_dangerous_deserialization: accepted, because FAISS requires it. Nothing depends on it: no pickle is
                read.
            kwargs: other arguments of the class.

        Raises:
            IndexFormatError: the folder has no store, or a store that is damaged or of a newer version.
        """
        check_embedding(embedding)
        same = kwargs.get("same_embedder", False)
        index = PredictiveAssociativeIndex.load(folder, embedder=embedding, same_embedder=same)
        return cls(embedding, index=index, **kwargs)

    def _stored(self, method: str) -> PredictiveAssociativeIndex:
        index = self.index
        if index is None:
            raise InvalidInput(f"{method} was called on an empty store.", "documents in it", "Call add_documents().")
        return index

    # ---- the index

    def _add(self, documents: Mapping[str, Document], vectors: Sequence[Sequence[float]]) -> None:
        """Stores documents by id with their vectors; replaces stored documents with the same ids.

        Raises:
            InvalidInput: nothing was stored.
        """
        if len(vectors) != len(documents):
            raise InvalidInput(
                f"The embedder returned {counted(len(vectors), 'vector')} for {counted(len(documents), 'text')}.",
                "one vector a text",
                "Check the embedder.",
            )
        contents = documents.values()
        texts, metadatas = [one.page_content for one in contents], [one.metadata for one in contents]
        times = times_of(metadatas, self._time_keys)

        def add(continued: Continued | None) -> int:
            columns = vectors, list(documents), texts, metadatas, times
            return self._lazy.store(
                self._tenant,
                len(vectors[0]),
                lambda index: index._add_embedded(*columns, self._embedder, continued),
            )

        with self._writing:  # if several threads add the first documents, only one of them creates the index
            self._groups.add(lambda: self.index, dict(zip(documents, metadatas, strict=True)), add)

    def _records(self, ids: Iterable[str]) -> list[Record]:
        """Returns the stored memories with these ids, without duplicates, in the order of ``ids``."""
        index = self.index
        return [] if index is None else index.get(ids if isinstance(ids, str) else list(dict.fromkeys(ids)), True)

    def _ask(
        self, cue: str | list[float], k: int, where: Filter | None = None, **options: Unpack[AskOptions]
    ) -> list[Hit]:
        """Returns the best ``k`` memories that satisfy the filter, for an id or a vector; none from an empty store.

        Raises:
            InvalidInput, UnknownId, NotFitted: see ``recall``.
        """
        index = self.index
        if index is None:  # an empty index refuses bad options, as a full one does
            cue = [1.0] if isinstance(cue, str) else cue  # any id is unknown here
            index = PredictiveAssociativeIndex(len(cue))
        if not callable(where):
            return list(index.recall(cue, k, where=where, **options))
        if options.get("hops", 1) != 1:
            raise InvalidInput(
                f"Got a callable filter with hops={options['hops']}.",
                "a filter dict, which each hop can follow",
                "For example {'year': {'$gte': 2020}}.",
            )
        return recall_accepted(
            index, lambda ranked: index.recall(cue, ranked, **options), k, lambda hit: where(to_document(hit))
        )

    def _is_fitted(self) -> bool:
        index = self.index
        return index is not None and index.is_fitted


def _read_search_type(given: Any) -> str:
    known = PAMVectorStoreRetriever.allowed_search_types
    if given not in known:
        raise InvalidInput(
            f"Got search_type={given!r}.", f"one of {', '.join(map(repr, known))}", "Check its spelling."
        )
    return str(given)


def _read_share(lambda_mult: Any) -> float:
    share = check_finite("lambda_mult", lambda_mult)
    if not 0 <= share <= 1:
        raise InvalidInput(f"Got lambda_mult={lambda_mult!r}.", "a number from 0 to 1", "1 ignores variety.")
    return share


def _check_arguments(of: type[PAMVectorStore], given: Iterable[str]) -> None:
    """Refuses arguments of other stores, such as ``persist_directory`` of Chroma.

    Raises:
        InvalidInput: the class has no such argument.
    """
    known = [one for one in signature(of).parameters.values() if one.name != "embedding"]
    unknown = sorted(set(given) - {one.name for one in known})
    if unknown and not any(one.kind is Parameter.VAR_KEYWORD for one in known):
        raise InvalidInput(
            f"Got {', '.join(f'{name}=' for name in unknown)}.",
            f"arguments of {of.__name__}: {', '.join(one.name for one in known)}",
            "A store is one folder: pass path='folder', or leave it out to keep the documents in memory.",
        )
