"""Which memories may answer, and the look-ups among them.

A filter always acts before the k best are chosen. What the index's own filter language cannot
express is tested in Python, on hits in falling order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from llama_index_pam.filters import check_filters, matches, to_where
from llama_index_pam.nodes import DOCUMENT_KEY
from pam_retriever import EmptyIndex, Hit, InvalidInput, PredictiveAssociativeIndex, Record
from pam_retriever.index import Query
from pam_retriever.types import Metadata
from pam_retriever.validation import check_count

FIRST_LOOK = 64  # a test in Python looks at this many of the best hits first,
FIRST_LOOK_A_HIT = 4  # or at this many for each hit that is wanted, whichever is more


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
    """The ``k`` best hits among the selected memories; none from an empty index.

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
    try:
        if selection.by_index:
            return index.recall(query, k, hops=hops, where=selection.where, **settings)
        return _recall_allowed(index, query, k, selection, hops, settings)
    except EmptyIndex:
        return []


def _recall_allowed(
    index: PredictiveAssociativeIndex, query: Query, k: int, selection: Selection, hops: int, settings: dict[str, Any]
) -> list[Hit]:
    """Ranks the best memories and, if too few of those are allowed, all that satisfy ``where``."""
    if hops > 1:
        raise InvalidInput(
            f"Got hops={hops} and node_ids, or a filter that is tested in Python.",
            "operators that the index applies at every hop",
            "Leave out TEXT_MATCH_INSENSITIVE, long lists and keys with a leading '$', or use hops=1.",
        )
    k = check_count("k", k)
    allowed: list[Hit] = []
    for ranked in (max(FIRST_LOOK, FIRST_LOOK_A_HIT * k), max(len(index), 1)):
        hits: list[Hit] = index.recall(query, ranked, where=selection.where, **settings)
        allowed = [hit for hit in hits if selection.allows(hit.id, hit.metadata)]
        if len(allowed) >= k:
            break
    return allowed[:k]


def find(
    index: PredictiveAssociativeIndex, node_ids: Sequence[str] | None = None, filters: MetadataFilters | None = None
) -> list[Record]:
    """The stored memories that are named and satisfy the filters.

    They come in the order of ``node_ids``, each once; without ``node_ids`` in the order of adding.

    Raises:
        InvalidInput: an operand of a filter does not fit its operator.
    """
    filters = filters or MetadataFilters(filters=[])
    check_filters(filters)
    if node_ids is None:
        records = index.find(to_where(filters)[0])
    else:
        records = index.get(list(dict.fromkeys(node_ids)), missing_ok=True)
    return [record for record in records if matches(filters, record.metadata)]
