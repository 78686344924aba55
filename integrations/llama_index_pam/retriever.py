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

from llama_index_pam.querying import RecallOptions, with_words
from llama_index_pam.vector_store import PAMVectorStore
from pam_retriever import Channels, InvalidInput
from pam_retriever.model.keys import MODES, Mode
from pam_retriever.retrieval.timeline import Interval
from pam_retriever.types import Time


class PAMRetriever(BaseRetriever):
    """Finds what happened with a question, not only what looks like it.

    Words and neighbours count from the first node on; association joins them once the store was fitted.

    Args:
        index_or_store: a ``VectorStoreIndex`` over a ``PAMVectorStore``, or the store itself.
        similarity_top_k: how many nodes at most.
        mode: "hybrid" (the words, what looks like it, its neighbours, and what happened with it),
            "association" (the latter alone), "specific" (both must agree), or "similarity". Before ``fit``,
            "association" and "specific" raise ``NotFitted``.
        hops: how many steps of association to follow.
        where: metadata filter in the language of the index.
        filters: LlamaIndex's metadata filters; both together must hold.
        channels: weights in place of those of ``mode``.
        embed_model: embeds the question; that of the ``VectorStoreIndex`` if None, else
            ``Settings.embed_model``.
        callback_manager: LlamaIndex's.
        object_map: for nodes that stand for other objects; that of the ``VectorStoreIndex`` if None.
        min_score: leave out nodes that score less.
        faithful: only what was experienced with the question.
        decay: half-life of a score, in the unit of the timestamps.
        now: for ``decay``, the newest timestamp if None; a date is also what words of time count from.
        when: only nodes of that time, in words ("last week"), or as a date, a datetime, or a pair of them.
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
        *,
        min_score: float | None = None,
        faithful: bool = False,
        decay: float | None = None,
        now: Time | None = None,
        when: Interval | None = None,
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
        self.min_score, self.faithful, self.decay, self.now = min_score, faithful, decay, now
        self.when = when
        super().__init__(callback_manager=callback_manager, object_map=object_map, verbose=verbose)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        embedding = query_bundle.embedding
        if embedding is None:
            embedding = self._embedder().get_agg_embedding_from_queries(query_bundle.embedding_strs)
        options, filters = self._options(query_bundle.query_str), self.filters
        return self._store.recall(embedding, self.similarity_top_k, where=self.where, filters=filters, **options)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        embedding = query_bundle.embedding
        if embedding is None:
            embedding = await self._embedder().aget_agg_embedding_from_queries(query_bundle.embedding_strs)
        options, filters = self._options(query_bundle.query_str), self.filters
        return await self._store.arecall(embedding, self.similarity_top_k, where=self.where, filters=filters, **options)

    def _embedder(self) -> BaseEmbedding:
        return self._embed_model or Settings.embed_model

    def _options(self, text: str) -> RecallOptions:
        options: RecallOptions = {
            "mode": self.mode,
            "hops": self.hops,
            "channels": self.channels,
            "min_score": self.min_score,
            "faithful": self.faithful,
            "decay": self.decay,
            "now": self.now,
            "when": self.when,
        }
        return with_words(self._store.client, text, options)


def _store_of(index_or_store: VectorStoreIndex | PAMVectorStore) -> PAMVectorStore:
    store = index_or_store.vector_store if isinstance(index_or_store, VectorStoreIndex) else index_or_store
    if not isinstance(store, PAMVectorStore):
        raise InvalidInput(
            f"Got {type(store).__name__} to retrieve from.",
            "a PAMVectorStore, or a VectorStoreIndex over one",
            "Build the index with VectorStoreIndex.from_vector_store(PAMVectorStore()).",
        )
    return store
