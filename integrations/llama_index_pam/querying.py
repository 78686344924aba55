"""One of LlamaIndex's queries, answered by the index."""

from __future__ import annotations

from typing import Any

import numpy as np
from llama_index.core.vector_stores import VectorStoreQuery, VectorStoreQueryResult
from llama_index.core.vector_stores.types import VectorStoreQueryMode

from llama_index_pam.mmr import mmr_order
from llama_index_pam.nodes import hit_to_node
from llama_index_pam.selection import Selection, recall, select
from pam_retriever import Channels, Hit, InvalidInput, PredictiveAssociativeIndex

MODES = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR, VectorStoreQueryMode.HYBRID)
MMR_SETTINGS = ("mmr_threshold", "mmr_prefetch_k")
MMR_POOL, MMR_FACTOR, MMR_THRESHOLD = 100, 10, 0.5


def answer(
    index: PredictiveAssociativeIndex | None, query: VectorStoreQuery, **settings: Any
) -> VectorStoreQueryResult:
    """The answer to a query; see ``PAMVectorStore.query``.

    Raises:
        InvalidInput: no embedding, another mode, or an unknown setting.
    """
    embedding = _check(query, settings)
    # VectorStoreIndex.as_retriever passes empty lists for "all"
    selection = select(query.filters, doc_ids=query.doc_ids or None, node_ids=query.node_ids or None)
    if index is None:
        return VectorStoreQueryResult(nodes=[], similarities=[], ids=[])
    if query.mode == VectorStoreQueryMode.MMR:
        hits = _mmr(index, embedding, query, selection, settings)
    elif query.mode == VectorStoreQueryMode.HYBRID and index.is_fitted:
        k = query.similarity_top_k if query.hybrid_top_k is None else query.hybrid_top_k
        hits = recall(index, embedding, k, selection, mode="hybrid", channels=_channels(query.alpha))
    else:
        hits = recall(index, embedding, query.similarity_top_k, selection, mode="similarity")
    return VectorStoreQueryResult(
        nodes=[hit_to_node(hit) for hit in hits],
        similarities=[hit.score for hit in hits],
        ids=[hit.id for hit in hits],
    )


def _check(query: VectorStoreQuery, settings: dict[str, Any]) -> list[float]:
    """The embedding of a query that can be answered."""
    if query.mode not in MODES:
        raise InvalidInput(
            f"Got the query mode {query.mode!r}.", f"one of {[mode.name for mode in MODES]}", "Use DEFAULT."
        )
    if query.query_embedding is None:
        raise InvalidInput("Got a query without query_embedding.", "the query's vector", "Embed the text first.")
    known = MMR_SETTINGS if query.mode == VectorStoreQueryMode.MMR else ()
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise InvalidInput(f"Got {unknown} for a query.", f"only {list(known)} in this mode", "Leave them out.")
    return query.query_embedding


def _channels(alpha: float | None) -> Channels | None:
    """Weights for ``alpha`` of similarity; a half gives those of the mode "hybrid"."""
    if alpha is None:
        return None
    return Channels(similarity=alpha, reverse=(1 - alpha) / 2, mutual=(1 - alpha) / 2)


def _mmr(
    index: PredictiveAssociativeIndex,
    embedding: list[float],
    query: VectorStoreQuery,
    selection: Selection,
    settings: dict[str, Any],
) -> list[Hit]:
    k = query.similarity_top_k
    pool = settings.get("mmr_prefetch_k") or max(MMR_FACTOR * k, MMR_POOL)
    threshold = settings.get("mmr_threshold", query.mmr_threshold)
    threshold = MMR_THRESHOLD if threshold is None else threshold
    if not 0 <= threshold <= 1:
        raise InvalidInput(f"Got mmr_threshold={threshold!r}.", "a number from 0 to 1", "1 ignores variety.")
    hits = recall(index, embedding, max(pool, k), selection, mode="similarity")
    vectors = {record.id: record.vector for record in index.get([hit.id for hit in hits], missing_ok=True)}
    hits = [hit for hit in hits if hit.id in vectors]
    if not hits:
        return []
    similarity = np.array([hit.score for hit in hits], np.float32)
    order = mmr_order(similarity, np.stack([vectors[hit.id] for hit in hits]), k, threshold)
    return [hits[place] for place in order]
