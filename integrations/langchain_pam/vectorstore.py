"""PAMVectorStore: LangChain's VectorStore over a PredictiveAssociativeIndex."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from typing_extensions import Self, Unpack

from langchain_pam.documents import (
    FitOptions,
    RecallOptions,
    check_order,
    from_texts,
    name_documents,
    read_recall,
    refuse,
    to_document,
    to_scored,
)
from langchain_pam.feedback import FeedbackOfDocuments
from langchain_pam.linked import LinkedIndex
from langchain_pam.similarity import SimilarityOfDocuments
from pam_retriever import FitReport, InvalidInput, PredictiveAssociativeIndex
from pam_retriever.experience.dates import USUAL_KEYS
from pam_retriever.experience.trajectories import TrajectoryLike


class PAMVectorStore(FeedbackOfDocuments, SimilarityOfDocuments, VectorStore):
    """A vector store that also answers what happened with a query.

    A document with the id of a stored one replaces it. Scores are cosines, larger is closer. Filters
    are dicts (see ``pam_retriever.filters``) or functions of a document, and are applied before the
    top k are chosen. Unknown keyword arguments are refused, because one that is ignored may be a filter.
    The async methods await the embedder's own and leave the event loop free.

    Documents of one group are linked in their order as they are stored, replaced and deleted, so that each
    is evidence for its neighbours before any ``fit``. A text splitter's chunks are linked if it adds the
    start index: ``add_start_index=True``.

    Args:
        embedding: of texts and queries. Its first vectors decide the dimension of a new store.
        index: an index to use, in memory or opened from a folder.
        path: folder of a durable store, opened or made. What a call stored is on disk when it returns.
        group_by: metadata key; documents that share its value are linked. None links nothing.
        order_by: metadata key that orders them, or several; a document without the last one is not linked.
            An empty list is the order of adding, and so is None, except for the group "source": there it is
            the page and the start index.
        read_only: open the folder without changing it, beside the one process that writes.
        same_embedder: ``embedding`` makes the vectors that are there, though it has another name.
        tenant: keep to this tenant of the index, which is an index of its own; see ``tenant``.
        time_key: metadata key that says when a document was, or several, of which the first that holds a date counts:
            a datetime, a date, or one in ISO 8601. Questions with a time ("what happened in July?") and ``when=`` use
            it. None reads none.

    Raises:
        InvalidInput: two arguments that do not go together, or another embedder than that of the index.
        IndexFormatError, IndexLocked: of the folder.

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
        """The store of one tenant, with the settings of this one; nothing in it shows or counts outside it.

        See ``PredictiveAssociativeIndex.tenant``. The tenant is made when it is first used. Dropping one is
        ``store.index.drop_tenant(name)``.

        Raises:
            InvalidInput: of the name, or this is the store of a tenant.
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
        """The index behind; None before the first document."""
        return self._linked.index

    def close(self) -> None:
        """Closes the index, so that another process can open a durable one; of ``tenant`` just that tenant."""
        self._linked.close()

    # ---- documents

    def add_documents(
        self, documents: list[Document], ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """Stores documents, all or none; of several with the same id the last.

        Args:
            documents: they are not changed.
            ids: go before those of the documents; a document with neither gets a uuid4.
            kwargs: only ``batch_size``, which LangChain's ``index`` passes and the embedder decides.

        Returns:
            The ids, one for each document, in order.

        Raises:
            InvalidInput: nothing was stored; metadata must be what JSON can hold.
        """
        refuse(kwargs.keys() - {"batch_size"}, "ids")
        names = name_documents(documents, ids)
        stored = dict(zip(names, documents, strict=True))
        if stored:
            self._linked.add(stored, self.embedding.embed_documents([one.page_content for one in stored.values()]))
        return names

    async def aadd_documents(
        self, documents: list[Document], ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """``add_documents``, asynchronously."""
        refuse(kwargs.keys() - {"batch_size"}, "ids")
        names = name_documents(documents, ids)
        stored = dict(zip(names, documents, strict=True))
        if stored:
            vectors = await self.embedding.aembed_documents([one.page_content for one in stored.values()])
            await run_in_executor(None, self._linked.add, stored, vectors)
        return names

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Stores texts as ``add_documents`` stores documents."""
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
        """A store of texts; ``kwargs`` are those of the class."""
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
        """Forgets documents; ids that are not there are ignored.

        Args:
            ids: which; None forgets all, as LangChain defines it.
            kwargs: none are known.

        Returns:
            True.
        """
        refuse(kwargs, "ids")
        self._linked.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Those of the documents that are there, each once, in the order of ``ids``."""
        return [to_document(record) for record in self._linked.get(ids)]

    # ---- experience and recall

    def fit(self, trajectories: Iterable[TrajectoryLike] | None = None, **options: Unpack[FitOptions]) -> FitReport:
        """Learns which documents happen together.

        Args:
            trajectories: lists of document ids in the order in which they were experienced, or
                ``pam_retriever.Trajectory`` objects. None learns from metadata, or from what is linked already.
            options: ``group_by``: metadata key; documents that share its value are a trajectory. ``order_by``:
                metadata key that orders them; the order of adding if None. For the others see
                ``PredictiveAssociativeIndex.fit``.

        Raises:
            InvalidInput, UnknownId, TrainingDiverged: as the index does, or the store has no documents yet.
        """
        check_order(options.get("group_by"), options.get("order_by"))
        return self._stored("fit").fit(trajectories, **options)

    async def afit(
        self, trajectories: Iterable[TrajectoryLike] | None = None, **options: Unpack[FitOptions]
    ) -> FitReport:
        """``fit``, asynchronously."""
        return await run_in_executor(None, partial(self.fit, trajectories, **options))

    def recall(self, query: str | None = None, k: int = 4, **options: Unpack[RecallOptions]) -> list[Document]:
        """What happened with a query, best first; see ``recall_with_score``."""
        return [document for document, _ in self.recall_with_score(query, k, **options)]

    async def arecall(self, query: str | None = None, k: int = 4, **options: Unpack[RecallOptions]) -> list[Document]:
        """``recall``, asynchronously."""
        return [document for document, _ in await self.arecall_with_score(query, k, **options)]

    def recall_with_score(
        self, query: str | None = None, k: int = 4, **options: Unpack[RecallOptions]
    ) -> list[tuple[Document, float]]:
        """What happened with a query, each document with its score.

        In the modes "association" and "specific" the nearest stored documents replace the text. A stored document that
        equals the text (cosine 0.9999 or more) is no hit there, as with ``id``.
        For evidence and the parts of a score, ask ``store.index.recall(..., explain=True)``.

        Args:
            query: text. Give either this or ``id``.
            k: how many.
            options: see ``RecallOptions`` and ``HandedOn``.

        Raises:
            InvalidInput, UnknownId: of the arguments.
            NotFitted: association was asked for before ``fit``.
        """
        id, where, asked = read_recall(None if query and query.strip() else self.index, query, options)
        cue = self.embedding.embed_query(str(query)) if id is None else id
        return to_scored(self._linked.ask(cue, k, where, **asked))

    async def arecall_with_score(
        self, query: str | None = None, k: int = 4, **options: Unpack[RecallOptions]
    ) -> list[tuple[Document, float]]:
        """``recall_with_score``, asynchronously."""
        id, where, asked = read_recall(None if query and query.strip() else self.index, query, options)
        cue = await self.embedding.aembed_query(str(query)) if id is None else id
        return to_scored(await run_in_executor(None, partial(self._linked.ask, cue, k, where, **asked)))

    def search(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """``as_retriever`` for one query; the search type "associative" is ``recall``."""
        if search_type == "associative":
            return self.recall(query, **kwargs)
        return super().search(query, search_type, **kwargs)

    async def asearch(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """``search``, asynchronously."""
        if search_type == "associative":
            return await self.arecall(query, **kwargs)
        return await super().asearch(query, search_type, **kwargs)

    def as_retriever(self, **kwargs: Any) -> VectorStoreRetriever:
        """A retriever over this store; ``kwargs`` are ``search_type``, ``search_kwargs`` and ``tags``.

        The search types are "similarity", "similarity_score_threshold", "mmr" and "associative".
        """
        from langchain_pam.retriever import PAMVectorStoreRetriever  # it imports this module

        tags = kwargs.pop("tags", None) or self._get_retriever_tags()
        return PAMVectorStoreRetriever(vectorstore=self, tags=tags, **kwargs)

    # ---- files

    def save_local(self, folder: str | Path, overwrite: bool = True) -> None:
        """Writes the store to a folder, without its embedder; no pickle is involved.

        Args:
            folder: a new or empty folder, or one that such a store was saved to.
            overwrite: whether to replace a store that is there.

        Raises:
            InvalidInput: the store never had a document, or the folder may not be written to.
            IndexFormatError: there is something else in the folder.
        """
        self._stored("save_local").save(folder, overwrite=overwrite)

    @classmethod
    def load_local(cls, folder: str | Path, embedding: Embeddings, **kwargs: Any) -> Self:
        """Reads a saved store into memory; ``kwargs`` are the other arguments of the class.

        Raises:
            IndexFormatError: no store there, or one that is damaged or newer.
        """
        same = kwargs.get("same_embedder", False)
        index = PredictiveAssociativeIndex.load(folder, embedder=embedding, same_embedder=same)
        return cls(embedding, index=index, **kwargs)

    def _stored(self, method: str) -> PredictiveAssociativeIndex:
        index = self.index
        if index is None:
            raise InvalidInput(f"{method} was called on an empty store.", "documents in it", "Call add_documents().")
        return index
