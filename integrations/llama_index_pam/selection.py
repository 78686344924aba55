"""Which memories may answer, and the look-ups among them.

A filter always acts before the k best are chosen. What the index's own filter language cannot
express is tested in Python, on hits that are fetched in falling order until k of them pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from llama_index_pam.filters import check_filters, matches, to_where
from llama_index_pam.nodes import DOCUMENT_KEY
from pam_retriever import Hit, InvalidInput, PredictiveAssociativeIndex, Record, UnknownId
from pam_retriever.index import Query
from pam_retriever.types import Metadata

WIDENING = 10  # each attempt fetches so many times the hits of the one before


@dataclass(frozen=True)
class Selection:
    """The memories that may answer.

    Attributes:
        where: what the index filters itself; None for nothing.
        filters: what is tested in Python; None for nothing.
        ids: the only ids allowed; None for all.
    """

    where: Mapping[str, Any] | None = None
    filters: MetadataFilters | None = None
    ids: frozenset[str] | None = None

    @property
    def by_index(self) -> bool:
        """Whether the index applies all of it."""
        return self.filters is None and self.ids is None

    def allows(self, id: str, metadata: Metadata) -> bool:
        """Whether a memory that satisfies ``where`` is selected."""
        return (self.ids is None or id in self.ids) and (self.filters is None or matches(self.filters, metadata))


def select(
    filters: MetadataFilters | None = None,
    where: Mapping[str, Any] | None = None,
    doc_ids: Sequence[str] | None = None,
    node_ids: Sequence[str] | None = None,
) -> Selection:
    """The memories that satisfy all that is given.

    Args:
        filters: LlamaIndex's metadata filters.
        where: a filter in the language of the index.
        doc_ids: ids of documents; only their nodes are selected.
        node_ids: the only nodes.

    Raises:
        InvalidInput: an operand of a filter does not fit its operator.
    """
    groups = [filters] if filters is not None and filters.filters else []
    if doc_ids is not None:
        groups.append(of_documents(doc_ids))
    together = MetadataFilters(filters=list(groups))
    check_filters(together)
    condition, exact = to_where(together)
    conditions = [one for one in (condition, where) if one]
    return Selection(
        where=None if not conditions else conditions[0] if len(conditions) == 1 else {"$and": conditions},
        filters=None if exact else together,
        ids=None if node_ids is None else frozenset(node_ids),
    )


def of_documents(doc_ids: Sequence[str]) -> MetadataFilters:
    """The filter for the nodes of some documents."""
    among = MetadataFilter(key=DOCUMENT_KEY, operator=FilterOperator.IN, value=list(doc_ids))
    return MetadataFilters(filters=[among])


def recall(
    index: PredictiveAssociativeIndex, query: Query, k: int, selection: Selection, hops: int = 1, **settings: Any
) -> list[Hit]:
    """The ``k`` best hits among the selected memories.

    Args:
        index: where to look.
        query: one vector or id.
        k: at most so many.
        selection: who may answer.
        hops: as for the index's ``recall``, like ``settings``.
        **settings: see there.

    Raises:
        InvalidInput: several hops with a filter that the index cannot apply at each of them.
    """
    if not len(index):
        return []
    if selection.by_index:
        return index.recall(query, k, hops=hops, where=selection.where, **settings)
    if hops > 1:
        raise InvalidInput(
            f"Got hops={hops} and a filter with ANY, ALL, CONTAINS or a text match, or ids.",
            "operators that the index applies at every hop",
            "Use comparisons, IN and NIN, or hops=1.",
        )
    pool, most = k, len(index)
    while True:
        pool = min(pool * WIDENING, most)
        hits: list[Hit] = index.recall(query, pool, where=selection.where, **settings)
        passed = [hit for hit in hits if selection.allows(hit.id, hit.metadata)]
        # fewer hits than asked for: there are no more
        if len(passed) >= k or len(hits) < pool or pool == most:
            return passed[:k]


def find_ids(
    index: PredictiveAssociativeIndex, node_ids: Sequence[str] | None = None, filters: MetadataFilters | None = None
) -> list[str]:
    """The ids of the stored memories that are named and satisfy the filters, in the order of ``node_ids``.

    Without ``node_ids``, those of all that satisfy the filters, in no particular order.

    Raises:
        InvalidInput: an operand of a filter does not fit its operator.
    """
    if node_ids is None:
        return _list_ids(index, select(filters))
    records = get_known(index, list(dict.fromkeys(node_ids)))
    if filters is None:
        return [record.id for record in records]
    check_filters(filters)
    return [record.id for record in records if matches(filters, record.metadata)]


def get_known(index: PredictiveAssociativeIndex, ids: list[str]) -> list[Record]:
    """The records of those ids that are stored, in order."""
    try:
        return index.get(ids)
    except UnknownId:  # if another thread deletes in between, this comes again
        return get_known(index, [id for id in ids if id in index])


def _list_ids(index: PredictiveAssociativeIndex, selection: Selection) -> list[str]:
    if not len(index):
        return []
    # the index lists its memories only as hits: with k of all, any query finds each of them, or nearly
    # each where the backend is approximate and more than 10,000 pass the filter
    any_direction = [1.0] + [0.0] * (index.dim - 1)
    hits: list[Hit] = index.search(any_direction, k=len(index), where=selection.where)
    return [hit.id for hit in hits if selection.allows(hit.id, hit.metadata)]
