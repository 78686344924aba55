"""PAMRetriever: what happened with a question, for LlamaIndex's query engines and agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores import MetadataFilters

from llama_index_pam.vector_store import PAMVectorStore
from pam_retriever import Channels, InvalidInput
from pam_retriever.channels import MODES, Mode


class PAMRetriever(BaseRetriever):
    """Finds what happened with a question, not only what looks like it.

    Before the store is fitted, it retrieves by similarity whatever the mode, so that a pipeline may
    be built first and learn later.

    Args:
        index_or_store: a ``VectorStoreIndex`` over a ``PAMVectorStore``, or the store itself.
        similarity_top_k: how many nodes at most.
        mode: "hybrid" (what looks like it and what happened with it), "association" (the latter
            alone), "specific" (both must agree), or "similarity".
        hops: how many steps of association to follow.
        where: metadata filter in the language of the index.
        filters: LlamaIndex's metadata filters; both together must hold.
        channels: weights in place of those of ``mode``.
        embed_model: embeds the question; that of the ``VectorStoreIndex`` if None, else
            ``Settings.embed_model``.
        callback_manager: LlamaIndex's.
        object_map: for nodes that stand for other objects; that of the ``VectorStoreIndex`` if None.
        verbose: print what is retrieved recursively.

    Raises:
        InvalidInput: no such mode, or an index over another store.
    """

    def __init__(
        self,
        index_or_store: VectorStoreIndex | PAMVectorStore,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        mode: Mode = "hybrid",
        hops: int = 1,
        where: Mapping[str, Any] | None = None,
        filters: MetadataFilters | None = None,
        channels: Channels | None = None,
        embed_model: BaseEmbedding | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
    ) -> None:
        if mode not in MODES:
            raise InvalidInput(f"Got mode={mode!r}.", f"one of {list(MODES)}", "Use 'hybrid' if in doubt.")
        if isinstance(index_or_store, VectorStoreIndex):
            embed_model = embed_model or index_or_store._embed_model  # as VectorIndexRetriever does
            object_map = object_map or index_or_store._object_map
        self._store = _store_of(index_or_store)
        self._embed_model = embed_model
        self.similarity_top_k, self.mode, self.hops = similarity_top_k, mode, hops
        self.where, self.filters, self.channels = where, filters, channels
        super().__init__(callback_manager=callback_manager, object_map=object_map, verbose=verbose)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        embedding = query_bundle.embedding
        if embedding is None:
            embedding = self._embedder().get_agg_embedding_from_queries(query_bundle.embedding_strs)
        return self._store.recall(embedding, **self._settings(query_bundle.query_str))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        embedding = query_bundle.embedding
        if embedding is None:
            embedding = await self._embedder().aget_agg_embedding_from_queries(query_bundle.embedding_strs)
        return await self._store.arecall(embedding, **self._settings(query_bundle.query_str))

    def _embedder(self) -> BaseEmbedding:
        return self._embed_model or Settings.embed_model

    def _settings(self, text: str) -> dict[str, Any]:
        settings: dict[str, Any] = {"k": self.similarity_top_k, "where": self.where, "filters": self.filters}
        if self._store.is_fitted:
            if self.mode == "hybrid" and self.hops == 1 and text.strip():
                settings["text"] = text  # the words count too
            return {**settings, "mode": self.mode, "hops": self.hops, "channels": self.channels}
        return {**settings, "mode": "similarity"}


def _store_of(index_or_store: VectorStoreIndex | PAMVectorStore) -> PAMVectorStore:
    store = index_or_store.vector_store if isinstance(index_or_store, VectorStoreIndex) else index_or_store
    if not isinstance(store, PAMVectorStore):
        raise InvalidInput(
            f"Got {type(store).__name__} to retrieve from.",
            "a PAMVectorStore, or a VectorStoreIndex over one",
            "Build the index with VectorStoreIndex.from_vector_store(PAMVectorStore()).",
        )
    return store
