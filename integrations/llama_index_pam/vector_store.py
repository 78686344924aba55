"""PAMVectorStore: a predictive associative index as LlamaIndex's vector store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem  # type: ignore[import-untyped]
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, NodeWithScore
from llama_index.core.vector_stores import MetadataFilters, VectorStoreQuery, VectorStoreQueryResult
from llama_index.core.vector_stores.simple import DEFAULT_VECTOR_STORE, NAMESPACE_SEP
from llama_index.core.vector_stores.types import DEFAULT_PERSIST_DIR, DEFAULT_PERSIST_FNAME

from llama_index_pam.nodes import embedding_of, hit_to_node, to_metadata, to_node
from llama_index_pam.persistence import check_local, is_filled, load_index, save_index
from llama_index_pam.querying import answer
from llama_index_pam.selection import find, of_documents, recall, select
from llama_index_pam.threaded import ThreadedVectorStore
from pam_retriever import FitConfig, FitReport, InvalidInput, NotFitted, PredictiveAssociativeIndex
from pam_retriever.channels import Channels, Mode
from pam_retriever.index import Query
from pam_retriever.trajectories import TrajectoryLike


class PAMVectorStore(ThreadedVectorStore):
    """A vector store that, once fitted, also finds what happened with a query.

    It stores texts, so ``VectorStoreIndex.from_vector_store`` works. Before ``fit`` it is a plain
    vector store with exact metadata filters. Any method may be called from any thread; the async
    ones work in a thread and leave the event loop free.

    Args:
        index: an index that is there already; None makes one when the first node is added,
            with the dimension of its embedding.
        path: the folder of a durable index, read if it is there; what a call wrote is on disk when
            it returns. One process at a time has it open; ``close`` ends that.
        backend: of a new index, see ``PredictiveAssociativeIndex``.

    Raises:
        InvalidInput: both ``index`` and ``path``.
        IndexFormatError, IndexLocked: of the folder.

    Example:
        >>> store = PAMVectorStore()
        >>> index = VectorStoreIndex.from_vector_store(store, embed_model=embedder)
        >>> index.insert_nodes(nodes)
        >>> report = store.fit(group_by="session", order_by="time")
        >>> retriever = PAMRetriever(index, similarity_top_k=5)
    """

    stores_text: bool = True
    path: str | None = None
    backend: str = "faiss"

    _index: PredictiveAssociativeIndex | None = PrivateAttr(default=None)
    _opening: Any = PrivateAttr(default_factory=threading.Lock)

    def __init__(
        self,
        index: PredictiveAssociativeIndex | None = None,
        path: str | Path | None = None,
        backend: str = "faiss",
    ) -> None:
        if index is not None and path is not None:
            raise InvalidInput("Got both index and path.", "one of them", "Open the index yourself, or pass its path.")
        super().__init__(stores_text=True)
        self.path, self.backend = None if path is None else str(path), backend
        self._index = index
        if path is not None and is_filled(path):
            self._index = PredictiveAssociativeIndex.open(path)

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex knows the class."""
        return "PAMVectorStore"

    @property
    def client(self) -> PredictiveAssociativeIndex | None:
        """The index; None before the first node."""
        return self._index

    @property
    def is_fitted(self) -> bool:
        """Whether ``recall`` and the mode HYBRID have learned associations."""
        return self._index is not None and self._index.is_fitted

    def close(self) -> None:
        """Closes the index; the store cannot be used any more."""
        if self._index is not None:
            self._index.close()

    # ---- nodes

    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Stores nodes; one whose id is there already is replaced, and the last of several with one id counts.

        Args:
            nodes: with embeddings.

        Returns:
            The ids of the nodes, in order.

        Raises:
            InvalidInput: a node without embedding, or of another dimension; nothing was stored.
        """
        latest = {node.node_id: node for node in nodes}
        if latest:
            vectors = [embedding_of(node) for node in latest.values()]
            texts = [node.get_content() for node in latest.values()]
            self._store(list(latest), vectors, texts, [to_metadata(node) for node in latest.values()])
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **_: Any) -> None:
        """Deletes the nodes of a document; an unknown one is ignored."""
        if self._index is not None:
            found = find(self._index, filters=of_documents([ref_doc_id]))
            self._index.delete([record.id for record in found])

    def delete_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **_: Any) -> None:
        """Deletes the nodes that are named and satisfy the filters; unknown ids are ignored.

        Raises:
            InvalidInput: neither ids nor filters; to delete everything there is ``clear``.
        """
        if node_ids is None and (filters is None or not filters.filters):
            raise InvalidInput("Got neither node_ids nor filters.", "one of them", "Call clear() to delete all nodes.")
        if self._index is not None:
            self._index.delete([record.id for record in find(self._index, node_ids, filters)])

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """The nodes that are named and satisfy the filters, with their embeddings.

        Args:
            node_ids: None for all; unknown ids are left out.
            filters: None for all.

        Returns:
            Nodes in the order of ``node_ids``; without them, in the order of adding.
        """
        if self._index is None:
            return []
        nodes = []
        for record in find(self._index, node_ids, filters):
            node = to_node(record.id, record.text, record.metadata)
            node.embedding = record.vector.tolist()
            nodes.append(node)
        return nodes

    def clear(self) -> None:
        """Deletes all nodes; the dimension and what ``fit`` learned stay."""
        if self._index is not None:
            self._index.delete([record.id for record in self._index.find()])

    def _store(
        self, ids: list[str], vectors: list[list[float]], texts: list[str], metadatas: list[dict[str, Any]]
    ) -> None:
        with self._opening:
            if self._index is None:
                # a first call that fails must not fix the dimension, so the index is kept only once it is filled
                new = PredictiveAssociativeIndex(len(vectors[0]), self.backend)
                new.add(vectors, ids, texts, metadatas)
                if self.path is not None:
                    new.save(self.path)
                    new = PredictiveAssociativeIndex.open(self.path)
                self._index = new
                return
        self._index.add(vectors, ids, texts, metadatas)

    # ---- experience and recall

    def fit(
        self,
        trajectories: Iterable[TrajectoryLike] | None = None,
        window: int = 5,
        config: str | FitConfig = "fast",
        *,
        group_by: str | None = None,
        order_by: str | None = None,
        **settings: Any,
    ) -> FitReport:
        """Learns what happened together; see ``PredictiveAssociativeIndex.fit``.

        Args:
            trajectories: lists of node ids, in the order in which they happened.
            window: nodes at most this many positions apart are associates.
            config: "fast", "best", "paper" or a ``FitConfig``.
            group_by: metadata key instead of ``trajectories``: nodes that share its value are one;
                "ref_doc_id" makes one of the chunks of each document.
            order_by: metadata key that orders a group; the order of adding if None.
            **settings: device, seed, time_budget, progress.

        Raises:
            NotFitted: nothing is stored yet.
            InvalidInput, UnknownId, TrainingDiverged: as the index does.
        """
        if self._index is None:
            raise NotFitted("There is nothing to fit.", "stored nodes", "Add nodes first.")
        return self._index.fit(trajectories, window, config, group_by=group_by, order_by=order_by, **settings)

    async def afit(self, *args: Any, **settings: Any) -> FitReport:
        """``fit`` in a thread."""
        return await asyncio.to_thread(self.fit, *args, **settings)

    def recall(
        self,
        query: Query,
        k: int = 10,
        mode: Mode = "association",
        hops: int = 1,
        channels: Channels | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        filters: MetadataFilters | None = None,
        **settings: Any,
    ) -> list[NodeWithScore]:
        """What happened with a query; see ``PredictiveAssociativeIndex.recall``.

        Args:
            query: a vector, or the id of a node. A vector that is a stored node (cosine 0.9999 or more)
                leaves that node out in the modes "association" and "specific", an id in every mode.
            k: at most so many nodes.
            mode: "association", "similarity", "hybrid" or "specific".
            hops: how many steps of association to follow.
            channels: weights in place of those of ``mode``.
            where: metadata filter in the language of the index.
            filters: LlamaIndex's; both together must hold.
            **settings: min_score, faithful.

        Returns:
            Nodes by falling score. For evidence ask ``client.recall(..., explain=True)``.

        Raises:
            NotFitted: association was asked for before ``fit``.
            InvalidInput, UnknownId: of the arguments.
        """
        selection = select(filters, where)
        if self._index is None:
            return []
        hits = recall(self._index, query, k, selection, hops, mode=mode, channels=channels, **settings)
        return [NodeWithScore(node=hit_to_node(hit), score=hit.score) for hit in hits]

    async def arecall(self, query: Query, *args: Any, **settings: Any) -> list[NodeWithScore]:
        """``recall`` in a thread."""
        return await asyncio.to_thread(self.recall, query, *args, **settings)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Answers one of LlamaIndex's queries.

        Args:
            query: mode DEFAULT (cosine), MMR, or HYBRID: cosine and association, weighted as in the
                mode "hybrid" of the index, or with ``alpha`` of cosine and 1 - ``alpha`` of
                association; before ``fit`` HYBRID is DEFAULT. Filters, and ``doc_ids`` and
                ``node_ids`` unless empty, act before the ``similarity_top_k`` are chosen.
            **kwargs: for MMR ``mmr_threshold`` (0 for variety, 1 for nearness, 0.5 by default) and
                ``mmr_prefetch_k``, from how many of the nearest it chooses (ten times
                ``similarity_top_k``, and at least 100, by default).

        Returns:
            Nodes, their ids, and as similarities the scores, larger is closer; for MMR the
            cosines, in the order of choice.

        Raises:
            InvalidInput: no embedding, another mode, or an unknown keyword.
        """
        return answer(self._index, query, **kwargs)

    # ---- persistence

    def persist(self, persist_path: str, fs: AbstractFileSystem | None = None) -> None:
        """Writes the store to a folder, replacing the one that was persisted there.

        A durable store is on disk already; to its own ``path`` there is nothing to write.

        Raises:
            InvalidInput: ``fs`` is not the local file system.
            IndexFormatError: the folder holds something else.
        """
        check_local(fs)
        save_index(self._index, persist_path, self.path)

    @classmethod
    def from_persist_path(cls, persist_path: str, fs: AbstractFileSystem | None = None) -> PAMVectorStore:
        """Reads a persisted store into memory; the folder is left as it is.

        Raises:
            InvalidInput: ``fs`` is not the local file system.
            IndexFormatError: no store there, or a damaged one.
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
        """Reads the store that ``StorageContext.persist(persist_dir)`` wrote."""
        return cls.from_persist_path(str(Path(persist_dir) / f"{namespace}{NAMESPACE_SEP}{DEFAULT_PERSIST_FNAME}"), fs)
