"""PAMRetriever: nodes that happened with a question, for LlamaIndex's query engines and agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.vector_stores import MetadataFilters
from typing_extensions import Unpack

from llama_index_pam.nodes import Found
from llama_index_pam.querying import FeedbackOptions, RecallOptions, with_words
from llama_index_pam.vector_store import PAMVectorStore
from pam_retriever import Channels, InvalidInput
from pam_retriever.adapters.recalling import RecallArguments
from pam_retriever.model.keys import MODES, Mode
from pam_retriever.retrieval.query import check_direction
from pam_retriever.retrieval.timeline import Interval
from pam_retriever.types import Direction, Time
from pam_retriever.validation import check_count

OF_A_RECALL = tuple(RecallArguments.__annotations__)  # attributes below


class PAMRetriever(BaseRetriever):
    """Finds nodes that happened with a question, not only those that look like it.

    Words and neighbours are used at once; association is added after a ``fit`` of the store.

    Args:
        index_or_store: a ``VectorStoreIndex`` over a ``PAMVectorStore``, or the store itself.
        similarity_top_k: number of nodes, at most.
        mode: None uses all evidence: words, similarity, neighbours, feedback and association. "hybrid" is the same
            without feedback. "association" finds nodes that happened with the question, "specific" those that are also
            similar; both raise ``NotFitted`` if there is no association. "similarity" ranks by cosine.
        hops: number of steps of association to follow.
        where: metadata filter in the language of the index.
        filters: LlamaIndex's metadata filters. A node must satisfy both ``where`` and ``filters``.
        channels: weights of the channels, instead of the weights of ``mode``.
        embed_model: embeds the question; None uses the model of the ``VectorStoreIndex``, or else
            ``Settings.embed_model``.
        callback_manager: LlamaIndex's callback manager.
        object_map: objects for which nodes stand, by id; None uses the map of the ``VectorStoreIndex``.
        min_score: drop nodes with a lower score.
        faithful: only nodes that were experienced with the question.
        decay: half-life of a score, in the unit of the timestamps.
        now: for ``decay``, the newest timestamp if None; a date is also the reference for words of time.
        when: only nodes of this time: words ("last week"), a date, a datetime, or a pair of them.
        cue_where: filter of the nodes that the question may be recognised as, instead of ``where``; {} for all.
        feedback_where: metadata filter of the past questions to use.
        direction: "after" or "before": only nodes after, or before, the question count as linked to it.
        tenant: use only this tenant of the store, see ``PAMVectorStore.tenant``.
        verbose: print the steps of a recursive retrieval.

    Raises:
        InvalidInput: the mode is unknown, ``similarity_top_k`` is below 1, or the index has another store.
    """

    def __init__(
        self,
        index_or_store: VectorStoreIndex | PAMVectorStore,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        mode: Mode | None = None,
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
        cue_where: Mapping[str, Any] | None = None,
        feedback_where: Mapping[str, Any] | None = None,
        direction: Direction | None = None,
        tenant: str | None = None,
    ) -> None:
        if mode is not None and mode not in MODES:
            raise InvalidInput(f"Got mode={mode!r}.", f"one of {list(MODES)}", "Use 'hybrid' if in doubt.")
        if isinstance(index_or_store, VectorStoreIndex):
            embed_model = embed_model or index_or_store._embed_model  # as in VectorIndexRetriever
            object_map = object_map or index_or_store._object_map
        store = _store_of(index_or_store)
        self._store = store if tenant is None else store.tenant(tenant)
        self._embed_model = embed_model
        self.similarity_top_k = check_count("similarity_top_k", similarity_top_k)
        self.mode, self.hops = mode, hops
        self.where, self.filters, self.channels = where, filters, channels
        self.min_score, self.faithful, self.decay, self.now = min_score, faithful, decay, now
        self.when, self.cue_where, self.feedback_where = when, cue_where, feedback_where
        self.direction = check_direction(direction)
        super().__init__(callback_manager=callback_manager, object_map=object_map, verbose=verbose)

    def __repr__(self) -> str:
        mode = "all evidence" if self.mode is None else f"mode {self.mode!r}"
        return f"PAMRetriever(similarity_top_k={self.similarity_top_k}, {mode}, {self._store!r})"

    def feedback(
        self,
        query: str | QueryBundle,
        used: Iterable[Found] | Mapping[str, float],
        **options: Unpack[FeedbackOptions],
    ) -> str:
        """Stores a question and the nodes that served it; see ``PAMVectorStore.feedback``."""
        bundle = _bundle(query)
        return self._store.feedback(self._embed(bundle), used, text=bundle.query_str, **options)

    async def afeedback(
        self,
        query: str | QueryBundle,
        used: Iterable[Found] | Mapping[str, float],
        **options: Unpack[FeedbackOptions],
    ) -> str:
        """``feedback``, asynchronously."""
        bundle = _bundle(query)
        return await self._store.afeedback(await self._aembed(bundle), used, text=bundle.query_str, **options)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        embedding = self._embed(query_bundle)
        options, filters = self._options(query_bundle.query_str), self.filters
        return self._store.recall(embedding, self.similarity_top_k, where=self.where, filters=filters, **options)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        embedding = await self._aembed(query_bundle)
        options, filters = self._options(query_bundle.query_str), self.filters
        return await self._store.arecall(embedding, self.similarity_top_k, where=self.where, filters=filters, **options)

    def _embed(self, bundle: QueryBundle) -> list[float]:
        if bundle.embedding is not None:
            return bundle.embedding
        return self._embedder().get_agg_embedding_from_queries(bundle.embedding_strs)

    async def _aembed(self, bundle: QueryBundle) -> list[float]:
        if bundle.embedding is not None:
            return bundle.embedding
        return await self._embedder().aget_agg_embedding_from_queries(bundle.embedding_strs)

    def _embedder(self) -> BaseEmbedding:
        return self._embed_model or Settings.embed_model

    def _options(self, text: str) -> RecallOptions:
        options = cast("RecallOptions", {name: getattr(self, name) for name in OF_A_RECALL})
        return with_words(None if text.strip() else self._store.client, text, options)


def _bundle(query: str | QueryBundle) -> QueryBundle:
    return QueryBundle(query) if isinstance(query, str) else query


def _store_of(index_or_store: VectorStoreIndex | PAMVectorStore) -> PAMVectorStore:
    store = index_or_store.vector_store if isinstance(index_or_store, VectorStoreIndex) else index_or_store
    if not isinstance(store, PAMVectorStore):
        raise InvalidInput(
            f"Got {type(store).__name__} to retrieve from.",
            "a PAMVectorStore, or a VectorStoreIndex over one",
            "Build the index with VectorStoreIndex.from_vector_store(PAMVectorStore()).",
        )
    return store
