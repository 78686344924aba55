"""Answers queries of LlamaIndex from the index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import numpy.typing as npt
from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
from llama_index.core.vector_stores import MetadataFilters, VectorStoreQuery, VectorStoreQueryResult
from llama_index.core.vector_stores.types import VectorStoreQueryMode

from llama_index_pam.filters import Selection, check_filters, matches, read_filters, select, to_where
from llama_index_pam.nodes import Found, hit_to_node
from pam_retriever import Channels, Hit, InvalidInput, NotFitted, PredictiveAssociativeIndex, Record
from pam_retriever.adapters.recalling import RecallArguments, recall_accepted
from pam_retriever.types import Time
from pam_retriever.validation import check_count, check_finite, check_text, read_numbers

Cue = str | npt.NDArray[Any] | Sequence[float]  # the id of a node, or a vector

# the allowed settings of each mode, besides vector, text, number and nodes
READ: dict[VectorStoreQueryMode, tuple[str, ...]] = {
    VectorStoreQueryMode.DEFAULT: (),
    VectorStoreQueryMode.MMR: ("mmr_threshold",),
    VectorStoreQueryMode.HYBRID: ("alpha", "hybrid_top_k"),
}
OPTIONAL = ("alpha", "hybrid_top_k", "mmr_threshold", "sparse_top_k", "embedding_field", "output_fields")
MMR_SETTINGS = ("mmr_threshold", "mmr_prefetch_k")
KNOWN_SETTINGS = {VectorStoreQueryMode.MMR: MMR_SETTINGS, VectorStoreQueryMode.HYBRID: ("feedback_where", "direction")}
MMR_POOL, MMR_FACTOR, MMR_THRESHOLD = 100, 10, 0.5


class RecallOptions(RecallArguments, total=False):
    """Further arguments of ``recall``; see ``RecallArguments`` for the rest.

    Attributes:
        text: the text of the query, with its vector.
    """

    text: str | None


class FeedbackOptions(TypedDict, total=False):
    """Further arguments of ``feedback``; see there."""

    unused: Iterable[Found]
    metadata: Mapping[str, Any] | None
    timestamp: Time | None
    id: str | None


def answer(
    index: PredictiveAssociativeIndex | None, query: VectorStoreQuery, settings: dict[str, Any]
) -> VectorStoreQueryResult:
    """Returns the answer to a query; see ``PAMVectorStore.query``.

    Raises:
        InvalidInput: there is no embedding, the mode is unknown, or the mode does not use a setting.
    """
    embedding = _check(query, settings)
    # VectorStoreIndex.as_retriever passes empty lists for "all"
    selection = select(query.filters, doc_ids=query.doc_ids or None, node_ids=query.node_ids or None)
    if index is None:
        hits = []
    elif query.mode == VectorStoreQueryMode.MMR:
        k, pool, threshold = _read_mmr(query, settings)
        nearest = recall(index, embedding, pool, selection, {"mode": "similarity"})
        hits = _choose(index, embedding, nearest, k, threshold)
    elif query.mode == VectorStoreQueryMode.HYBRID:
        k = query.similarity_top_k if query.hybrid_top_k is None else query.hybrid_top_k
        options: RecallOptions = {
            "mode": None,
            "channels": _channels(query.alpha, index),
            "feedback_where": settings.get("feedback_where"),
            "direction": settings.get("direction"),
        }
        hits = recall(index, embedding, k, selection, with_words(index, query.query_str or "", options))
    else:
        hits = recall(index, embedding, query.similarity_top_k, selection, {"mode": "similarity"})
    return VectorStoreQueryResult(
        nodes=[hit_to_node(hit) for hit in hits],
        similarities=[hit.score for hit in hits],
        ids=[hit.id for hit in hits],
    )


def with_words(index: PredictiveAssociativeIndex | None, text: str, options: RecallOptions) -> RecallOptions:
    """Returns the options of a recall for a question. By default they include the words of the question, if any."""
    if options.get("mode") not in (None, "hybrid"):
        return options
    if text.strip():
        return {**options, "text": text}
    usable = options.get("channels") is not None or (index is not None and index.is_fitted)
    return {**options, "mode": "hybrid" if usable else "similarity", "feedback_where": None}  # found by words


def recall(
    index: PredictiveAssociativeIndex, query: Cue, k: int, selection: Selection, options: RecallOptions
) -> list[Hit]:
    """Returns the ``k`` best hits among the selected memories; none from an empty index.

    Raises:
        InvalidInput: several hops are combined with a filter that only Python can apply.
    """
    if selection.by_index:
        return list(index.recall(query, k, where=selection.where, **options))
    return _recall_allowed(index, query, k, selection, options)


def _check(query: VectorStoreQuery, settings: dict[str, Any]) -> list[float]:
    """Checks that a query can be answered; returns its embedding."""
    if query.mode not in READ:
        raise InvalidInput(
            f"Got the query mode {query.mode!r}.", f"one of {[mode.name for mode in READ]}", "Use DEFAULT."
        )
    if query.query_embedding is None:
        raise InvalidInput("Got a query without query_embedding.", "the query's vector", "Embed the text first.")
    read = READ[query.mode]
    unread = [name for name in OPTIONAL if name not in read and getattr(query, name) is not None]
    known = KNOWN_SETTINGS.get(query.mode, ())
    unread += [name for name in settings if name not in known]
    if unread:
        names = ", ".join(dict.fromkeys([*read, *known]))
        allowed = f"none but {names}" if names else "none of them in this mode"
        raise InvalidInput(f"Got {unread} for a query in mode {query.mode.name}.", allowed, "Leave them out.")
    check_text("" if query.query_str is None else query.query_str, "query_str")
    fix = "Pass the text's vector; store.recall takes ids."
    vector = read_numbers(query.query_embedding, "Got a query_embedding that is no vector", "a list of numbers", fix)
    if vector.ndim != 1:
        raise InvalidInput(f"Got a query_embedding of shape {vector.shape}.", "one vector, a list of numbers", fix)
    return query.query_embedding


def _channels(alpha: float | None, index: PredictiveAssociativeIndex) -> Channels | None:
    """Returns the weights of channels, with ``alpha`` for similarity; 0.5 gives the weights of the mode "hybrid"."""
    if alpha is None:
        return None
    if not 0 <= check_finite("alpha", alpha) <= 1:
        raise InvalidInput(f"Got alpha={alpha}.", "a number from 0 to 1", "Use 0.5, or leave it out.")
    if alpha < 1 and not index.is_fitted:
        raise NotFitted(
            f"Got alpha={alpha} on an index that was never fitted. It weights similarity against association.",
            "a fitted index, or no alpha",
            "Leave alpha out: similarity and words need no fit. Or call store.fit() first.",
        )
    return Channels(similarity=alpha, reverse=(1 - alpha) / 2, mutual=(1 - alpha) / 2)


def _read_mmr(query: VectorStoreQuery, settings: dict[str, Any]) -> tuple[int, int, float]:
    """Returns the number of hits, the number of candidates, and the threshold of maximal marginal relevance."""
    k = check_count("similarity_top_k", query.similarity_top_k)
    pool = settings.get("mmr_prefetch_k")
    pool = max(MMR_FACTOR * k, MMR_POOL) if pool is None else check_count("mmr_prefetch_k", pool)
    threshold = settings.get("mmr_threshold", query.mmr_threshold)
    threshold = MMR_THRESHOLD if threshold is None else check_finite("mmr_threshold", threshold)
    if not 0 <= threshold <= 1:
        raise InvalidInput(f"Got mmr_threshold={threshold!r}.", "a number from 0 to 1", "1 ignores variety.")
    return k, max(pool, k), threshold


def _choose(
    index: PredictiveAssociativeIndex, embedding: list[float], nearest: list[Hit], k: int, threshold: float
) -> list[Hit]:
    """Chooses ``k`` of the nearest nodes by LlamaIndex's maximal marginal relevance."""
    hits = {hit.id: hit for hit in nearest}
    records = index.get(list(hits), missing_ok=True)
    vectors: list[Any] = [record.vector for record in records]  # the function also takes arrays, despite its type
    ids = [record.id for record in records]
    _, chosen = get_top_k_mmr_embeddings(
        embedding, vectors, similarity_top_k=k, embedding_ids=ids, mmr_threshold=threshold
    )
    return [hits[id] for id in chosen]


def _recall_allowed(
    index: PredictiveAssociativeIndex, query: Cue, k: int, selection: Selection, options: RecallOptions
) -> list[Hit]:
    """Ranks the best memories and, if too few of them are selected, all memories that satisfy ``where``."""
    if options.get("hops", 1) != 1:
        raise InvalidInput(
            f"Got hops={options['hops']} and node_ids, or a filter that is tested in Python.",
            "operators that the index applies at every hop",
            "Leave out TEXT_MATCH_INSENSITIVE, long lists and keys with a leading '$', or use hops=1.",
        )
    return recall_accepted(
        index,
        lambda ranked: index.recall(query, ranked, where=selection.where, **options),
        k,
        lambda hit: selection.allows(hit.id, hit.metadata),
    )


def find(
    index: PredictiveAssociativeIndex, node_ids: Sequence[str] | None = None, filters: MetadataFilters | None = None
) -> list[Record]:
    """Returns the stored memories with these ids that satisfy the filters.

    They have the order of ``node_ids``, without duplicates; without ``node_ids`` the order of adding.

    Raises:
        InvalidInput: an operand of a filter does not fit its operator.
    """
    filters = read_filters(filters)
    check_filters(filters)
    if node_ids is None:
        records = index.find(to_where(filters)[0])
    else:
        records = index.get(node_ids if isinstance(node_ids, str) else list(dict.fromkeys(node_ids)), missing_ok=True)
    return [record for record in records if matches(filters, record.metadata)]
