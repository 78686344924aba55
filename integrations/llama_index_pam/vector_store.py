"""PAMVectorStore: an index as LlamaIndex's vector store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy.typing as npt
from fsspec import AbstractFileSystem  # type: ignore[import-untyped]
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.vector_stores import MetadataFilters, VectorStoreQuery, VectorStoreQueryResult
from llama_index.core.vector_stores.simple import DEFAULT_VECTOR_STORE, NAMESPACE_SEP
from llama_index.core.vector_stores.types import DEFAULT_PERSIST_DIR, DEFAULT_PERSIST_FNAME, BasePydanticVectorStore
from typing_extensions import Unpack

from llama_index_pam.adjacent import LinkedNodes, read_around, read_documents, read_position
from llama_index_pam.filters import asks_for_anything, of_documents, select
from llama_index_pam.nodes import (
    DOCUMENT_KEY,
    Found,
    embedding_of,
    hit_to_node,
    read_ids,
    read_nodes,
    to_metadata,
    to_node,
)
from llama_index_pam.persistence import check_local, load_index, save_index
from llama_index_pam.querying import Cue, FeedbackOptions, RecallOptions, answer, find, recall
from pam_retriever import FitConfig, FitReport, InvalidInput, NotFitted, PredictiveAssociativeIndex
from pam_retriever.adapters.feedback import StoredFeedback
from pam_retriever.adapters.lazy_index import LazyIndex
from pam_retriever.adapters.recalling import check_order, refuse
from pam_retriever.experience.dates import USUAL_KEYS, read_time_key, times_of
from pam_retriever.experience.trajectories import TrajectoryLike
from pam_retriever.index.learning import FitOptions
from pam_retriever.locks import Mutex
from pam_retriever.store.write_trajectories import Continued
from pam_retriever.types import Recipe, Time
from pam_retriever.validation import check_id, check_tenant


class PAMVectorStore(StoredFeedback, BasePydanticVectorStore):
    """A vector store that also finds nodes that happened with a query.

    It stores texts, so ``VectorStoreIndex.from_vector_store`` works. The nodes of a document, and previous and next
    nodes, are linked in their order when they are stored, replaced or deleted. So each is evidence for its neighbours
    before any ``fit``. Any thread may call any method. The async methods run in a thread, and do not block the event
    loop.

    Args:
        index: an existing index; None creates one for the first node, with the dimension of its embedding.
        path: the folder of a durable index, opened or created. Every write is on disk when its call returns. Only one
            process at a time can have it open, until ``close``.
        backend: of a new index, see ``PredictiveAssociativeIndex``.
        read_only: open the folder without changing it; another process may write.
        link_nodes: whether to link nodes.
        tenant: use only this tenant of the index; see ``tenant``.
        time_key: metadata key with the time of a node, or several, of which the first with a date counts: a datetime, a
            date, or a string in ISO 8601. Questions with a time ("what happened in July?") and ``when=`` use it. None
            for no times.

    Raises:
        InvalidInput: both ``index`` and ``path`` are given, ``read_only`` without ``path``, or an invalid tenant.
        IndexFormatError, IndexLocked: see ``PredictiveAssociativeIndex.open``.

    Example:
        >>> store = PAMVectorStore()
        >>> index = VectorStoreIndex.from_vector_store(store, embed_model=embedder)
        >>> index.insert_nodes(nodes)
        >>> retriever = PAMRetriever(index, similarity_top_k=5)
        >>> report = store.fit(group_by="session", order_by="time")
    """

    stores_text: bool = True
    path: str | None = None
    backend: str = "faiss"
    link_nodes: bool = True
    time_key: tuple[str, ...] = USUAL_KEYS

    _lazy: LazyIndex[PAMVectorStore] = PrivateAttr()
    _tenant: str | None = PrivateAttr(default=None)
    _owned: bool = PrivateAttr(default=True)
    _writing: Any = PrivateAttr(default_factory=Mutex)
    _linked: LinkedNodes = PrivateAttr(default_factory=LinkedNodes)

    def __init__(
        self,
        index: PredictiveAssociativeIndex | None = None,
        path: str | Path | None = None,
        backend: str = "faiss",
        *,
        read_only: bool = False,
        link_nodes: bool = True,
        tenant: str | None = None,
        time_key: str | Sequence[str] | None = USUAL_KEYS,
    ) -> None:
        tenant = None if tenant is None else check_tenant(tenant)
        super().__init__(stores_text=True)
        self.path, self.backend, self.link_nodes = None if path is None else str(path), backend, link_nodes
        self.time_key = read_time_key(time_key)
        self._tenant = tenant
        self._lazy = LazyIndex(
            index,
            path,
            read_only,
            lambda dim: PredictiveAssociativeIndex(dim, backend),
            lambda path, read_only: PredictiveAssociativeIndex.open(path, read_only=read_only),
        )
        self._owned = tenant is None or index is None

    def tenant(self, name: str) -> PAMVectorStore:
        """Returns the store of one tenant, with the settings of this one. Tenants share no data.

        See ``PredictiveAssociativeIndex.tenant``. The tenant is created at its first use.
        ``store.client.drop_tenant(name)`` removes it. While a reference to it exists, the same name returns the same
        store.

        Raises:
            InvalidInput: the name is invalid, or this is the store of a tenant.
        """

        def make() -> PAMVectorStore:
            made = type(self)(backend=self.backend, link_nodes=self.link_nodes, tenant=name, time_key=self.time_key)
            made._lazy, made._owned = self._lazy, False
            return made

        return self._lazy.tenant(name, self._tenant, make)

    @property
    def _index(self) -> PredictiveAssociativeIndex | None:
        return self._lazy.of(self._tenant)

    @classmethod
    def class_name(cls) -> str:
        """The name of the class in LlamaIndex."""
        return "PAMVectorStore"

    @property
    def client(self) -> PredictiveAssociativeIndex | None:
        """The index; None before the first node."""
        return self._index

    @property
    def is_fitted(self) -> bool:
        """Whether ``recall`` and the mode HYBRID have learned associations."""
        index = self._index
        return index is not None and index.is_fitted

    def __getstate__(self) -> NoReturn:
        """Refuses ``pickle``, which would drop the index.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput(
            "A PAMVectorStore cannot be pickled.",
            "its folder, which several processes may read",
            "Use PAMVectorStore(path=..., read_only=True) there, or persist() and from_persist_path().",
        )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> NoReturn:
        """Refuses ``copy.deepcopy``, as ``pickle``."""
        self.__getstate__()

    def close(self) -> None:
        """Closes the index, or for a tenant's store the tenant. The store cannot be used afterwards."""
        self._lazy.close(None if self._owned else self._tenant)

    # ---- nodes

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Stores nodes; replaces nodes with the same ids. If several nodes have the same id, the last is stored.

        Args:
            nodes: nodes with embeddings.
            **kwargs: must be empty.

        Returns:
            The ids of the nodes, in order.

        Raises:
            InvalidInput: a node has no embedding or another dimension, or there is a keyword. Nothing was stored.
        """
        refuse(kwargs, "nodes")
        nodes = read_nodes(nodes)  # it may be a generator
        latest = {node.node_id: node for node in nodes}
        if latest:
            vectors = [embedding_of(node) for node in latest.values()]
            texts = [node.get_content() for node in latest.values()]
            self._add(list(latest), vectors, texts, [to_metadata(node) for node in latest.values()])
        return [node.node_id for node in nodes]

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """``add`` in a thread."""
        return await asyncio.to_thread(self.add, nodes, **kwargs)

    def delete(self, ref_doc_id: str, **kwargs: Any) -> None:
        """Deletes the nodes of a document; ignores an unknown document. Accepts no keywords."""
        refuse(kwargs, "ref_doc_id")
        self._delete(None, of_documents([check_id(ref_doc_id, "ref_doc_id")]))

    async def adelete(self, ref_doc_id: str, **kwargs: Any) -> None:
        """``delete`` in a thread."""
        await asyncio.to_thread(self.delete, ref_doc_id, **kwargs)

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **kwargs: Any
    ) -> None:
        """Deletes the nodes with these ids that satisfy the filters; ignores unknown ids.

        Raises:
            InvalidInput: there are neither ids nor filters, or there is a keyword. (``clear`` deletes everything.)
        """
        refuse(kwargs, "node_ids, filters")
        if node_ids is None and not asks_for_anything(filters):
            raise InvalidInput("Got neither node_ids nor filters.", "one of them", "Call clear() to delete all nodes.")
        self._delete(node_ids, filters)

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **kwargs: Any
    ) -> None:
        """``delete_nodes`` in a thread."""
        await asyncio.to_thread(self.delete_nodes, node_ids, filters, **kwargs)

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Returns the nodes with these ids that satisfy the filters, with their embeddings.

        Args:
            node_ids: None for all; unknown ids are ignored.
            filters: None for all.

        Returns:
            Nodes in the order of ``node_ids``; without them, in the order of adding.
        """
        index = self._index
        if index is None:
            return []
        nodes = []
        for record in find(index, node_ids, filters):
            node = to_node(record.id, record.text, record.metadata)
            node.embedding = record.vector.tolist()
            nodes.append(node)
        return nodes

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """``get_nodes`` in a thread."""
        return await asyncio.to_thread(self.get_nodes, node_ids, filters)

    def clear(self) -> None:
        """Deletes all nodes; the dimension and the weights stay."""
        with self._writing:
            index = self._index
            if index is not None:
                index.delete([record.id for record in index.find()])

    async def aclear(self) -> None:
        """``clear`` in a thread."""
        await asyncio.to_thread(self.clear)

    def _add(
        self, ids: list[str], vectors: list[list[float]], texts: list[str], metadatas: list[dict[str, Any]]
    ) -> None:
        columns = vectors, ids, texts, metadatas, times_of(metadatas, self.time_key)

        def add(continued: Continued | None) -> int:
            return self._lazy.store(
                self._tenant, len(vectors[0]), lambda index: index._add_embedded(*columns, None, continued)
            )

        new = dict(zip(ids, map(read_position, metadatas), strict=True)) if self.link_nodes else {}
        with self._writing:  # if several threads add the first nodes, only one of them creates the index
            self._linked.add(lambda: self._index, new, add)

    def _delete(self, node_ids: list[str] | None, filters: MetadataFilters | None) -> None:
        with self._writing:
            index = self._index
            if index is not None:
                gone = {record.id: read_position(record.metadata) for record in find(index, node_ids, filters)}
                before = read_around(index, gone.items()) if self.link_nodes else {}
                index.delete(list(gone))
                self._linked.link(index, before, {id: one for id, one in before.items() if id not in gone})

    # ---- questions of LlamaIndex

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Answers one of LlamaIndex's queries.

        Args:
            query: its mode is DEFAULT (cosine), MMR, or HYBRID. HYBRID uses the words of ``query_str``, cosine,
                neighbours, feedback, and after ``fit`` association, like the default recall of the index. With
                ``alpha``, the weights are ``alpha`` for cosine and 1 - ``alpha`` for association. Filters,
                ``doc_ids`` and ``node_ids`` (unless empty) are applied before the ``similarity_top_k`` are chosen.
            **kwargs: for MMR ``mmr_threshold`` (0 for variety, 1 for nearness, 0.5 by default) and
                ``mmr_prefetch_k``, the number of nearest nodes to choose from (ten times
                ``similarity_top_k``, and at least 100, by default). For HYBRID ``feedback_where`` and ``direction``.

        Returns:
            Nodes, their ids, and their scores as similarities; for MMR the cosines, in the order of choice.

        Raises:
            InvalidInput: there is no embedding, the mode is unknown, or the mode does not use an argument.
            NotFitted: ``alpha`` needs association, before ``fit``.
        """
        return answer(self._index, query, kwargs)

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """``query`` in a thread."""
        return await asyncio.to_thread(self.query, query, **kwargs)

    # ---- experience and recall

    def fit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: Recipe | FitConfig = "fast",
        **options: Unpack[FitOptions],
    ) -> FitReport:
        """Learns which nodes happen together; see ``PredictiveAssociativeIndex.fit``.

        Args:
            trajectories: lists of node ids, in the order in which they happened. None learns from metadata, or from the
                stored links.
            window: nodes at most this many positions apart are associates.
            config: "fast", "best", "paper" or a ``FitConfig``.
            **options: ``group_by``: metadata key instead of ``trajectories``; nodes that share its value are one
                trajectory. ``order_by``: metadata key that orders a group; None is the order of adding, and for
                "ref_doc_id" that of the chunks in their document. For the others
                (``from_scratch``, ``device``, ``seed``, ``time_budget``, ``buffer``, ``checkpoint``, ``progress``) see
                the index.

        Raises:
            NotFitted: nothing is stored yet.
            InvalidInput, UnknownId, TrainingDiverged: see the index.
        """
        check_order(options.get("group_by"), options.get("order_by"))
        index = self._index
        if index is None:
            raise NotFitted("The store has no nodes to fit.", "stored nodes", "Add nodes first.")
        if trajectories is None and options.get("group_by") == DOCUMENT_KEY and options.get("order_by") is None:
            documents = read_documents((record.id, record.metadata) for record in index.find())
            if documents:  # otherwise the index reports that there are none
                trajectories, options["group_by"] = documents, None
        return index.fit(trajectories, window, config, **options)

    async def afit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: Recipe | FitConfig = "fast",
        **options: Unpack[FitOptions],
    ) -> FitReport:
        """``fit`` in a thread."""
        return await asyncio.to_thread(self.fit, trajectories, window, config, **options)

    def recall(
        self,
        query: Cue,
        k: int = 10,
        *,
        where: Mapping[str, Any] | None = None,
        filters: MetadataFilters | None = None,
        **options: Unpack[RecallOptions],
    ) -> list[NodeWithScore]:
        """Returns the nodes that happened with a query; see ``PredictiveAssociativeIndex.recall``.

        Args:
            query: a vector, or the id of a node. The result does not contain the node of an id, nor, in the modes
                "association" (the default without ``text``) and "specific", a node with this vector (cosine 0.9999 or
                more).
            k: number of nodes, at most.
            where: metadata filter in the language of the index.
            filters: LlamaIndex's metadata filters. A node must satisfy both ``where`` and ``filters``.
            **options: ``text``: the text of the query, with its vector. ``mode``: "association", "similarity", "hybrid"
                or "specific"; None uses all evidence. ``hops``, ``channels``,
                ``min_score``, ``faithful``, ``decay``, ``now``, ``when``, ``cue_where``, ``feedback_where``,
                ``direction``.

        Returns:
            Nodes by falling score. ``client.recall(..., explain=True)`` returns evidence.

        Raises:
            NotFitted: the mode needs association, before ``fit``.
            InvalidInput, UnknownId: an argument is invalid.
        """
        known = RecallOptions.__annotations__
        refuse(options.keys() - known.keys(), ", ".join(known))
        selection, index = select(filters, where), self._index
        hits = [] if index is None else recall(index, query, k, selection, options)
        return [NodeWithScore(node=hit_to_node(hit), score=hit.score) for hit in hits]

    async def arecall(
        self,
        query: Cue,
        k: int = 10,
        *,
        where: Mapping[str, Any] | None = None,
        filters: MetadataFilters | None = None,
        **options: Unpack[RecallOptions],
    ) -> list[NodeWithScore]:
        """``recall`` in a thread."""
        return await asyncio.to_thread(self.recall, query, k, where=where, filters=filters, **options)

    # ---- feedback

    def feedback(
        self,
        query: npt.NDArray[Any] | Sequence[float],
        used: Iterable[Found] | Mapping[str, float],
        *,
        text: str | None = None,
        unused: Iterable[Found] = (),
        metadata: Mapping[str, Any] | None = None,
        timestamp: Time | None = None,
        id: str | None = None,
    ) -> str:
        """Stores a question and the nodes that served it. ``recall`` uses it at once, and ``fit`` learns from it.

        Name nodes that were *used*, not those that were retrieved. ``PAMRetriever.feedback`` takes a text.

        Args:
            query: the vector of the question.
            used: nodes from a retriever, ids, or weights by id.
            text: text of the question.
            unused: nodes that were shown and did not help.
            metadata: metadata for ``feedback_where``, for example the author of the question.
            timestamp: time of the question; without timestamps the order of arrival is used.
            id: id of the feedback; feedback with this id is replaced.

        Returns:
            The id of the feedback.

        Raises:
            NotFitted: nothing is stored yet.
            InvalidInput, UnknownId: an argument is invalid. Nothing was stored.
        """
        weights = used if isinstance(used, Mapping) else read_ids(used, "used")
        others = read_ids(unused, "unused")
        index = self._index
        if index is None:
            raise NotFitted("The store has no nodes.", "stored nodes", "Add nodes first.")
        whose = None if metadata is None else dict(metadata)
        return index.feedback(query, weights, unused=others, text=text, metadata=whose, timestamp=timestamp, id=id)

    async def afeedback(
        self,
        query: npt.NDArray[Any] | Sequence[float],
        used: Iterable[Found] | Mapping[str, float],
        *,
        text: str | None = None,
        **options: Unpack[FeedbackOptions],
    ) -> str:
        """``feedback`` in a thread."""
        return await asyncio.to_thread(self.feedback, query, used, text=text, **options)

    # ---- persistence

    def persist(self, persist_path: str, fs: AbstractFileSystem | None = None) -> None:
        """Writes the store to a folder, and replaces the store that was persisted there.

        A durable store is on disk already: nothing is written to its own ``path``.

        Raises:
            InvalidInput: ``fs`` is not the local file system.
            IndexFormatError: the folder has other contents.
        """
        check_local(fs)
        save_index(self._index, persist_path, self.path if self._tenant is None else None)

    @classmethod
    def from_persist_path(cls, persist_path: str, fs: AbstractFileSystem | None = None) -> PAMVectorStore:
        """Reads a persisted store into memory; does not change the folder.

        Raises:
            InvalidInput: ``fs`` is not the local file system.
            IndexFormatError: the folder has no store, or a damaged store.
        """
        check_local(fs)
        return cls(index=load_index(persist_path))

    @classmethod
    def from_persist_dir(
        cls,
        persist_dir: str = DEFAULT_PERSIST_DIR,
        namespace: str = DEFAULT_VECTOR_STORE,
        fs: AbstractFileSystem | None = None,
    ) -> PAMVectorStore:
        """Reads the store from ``StorageContext.persist(persist_dir)``."""
        return cls.from_persist_path(str(Path(persist_dir) / f"{namespace}{NAMESPACE_SEP}{DEFAULT_PERSIST_FNAME}"), fs)
