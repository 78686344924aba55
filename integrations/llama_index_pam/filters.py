"""Translates LlamaIndex's metadata filters to filters of the index, or applies them in Python.

Both ways give the same result: values are compared with values of the same kind. A missing value, or None, satisfies
only NE, NIN and IS_EMPTY (and EQ None, if it is stored as None). An empty group of filters is true for any condition.
NOT is true if none of its filters is true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from llama_index_pam.nodes import DOCUMENT_KEY
from pam_retriever.errors import InvalidInput, shortened
from pam_retriever.filters.conditions import key_path
from pam_retriever.filters.stored import at_path
from pam_retriever.types import Metadata
from pam_retriever.validation import read_list

Where = dict[str, Any]

COMPARISONS: dict[FilterOperator, Callable[[Any, Any], bool]] = {
    FilterOperator.GT: operator.gt,
    FilterOperator.GTE: operator.ge,
    FilterOperator.LT: operator.lt,
    FilterOperator.LTE: operator.le,
}
SAME = (FilterOperator.EQ, FilterOperator.NE)
AMONG = (FilterOperator.IN, FilterOperator.NIN)
EACH = (FilterOperator.ANY, FilterOperator.ALL)
OF_LISTS = (*AMONG, *EACH)
OF_TEXT = (FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE)
NAMES = {  # operators that the index also has
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.CONTAINS: "$contains",
}
MANY = 32  # ANY and ALL cost one test per memory and value: for more values Python is faster


@dataclass(frozen=True)
class Selection:
    """The memories that may be answers.

    Attributes:
        where: the filter for the index; None for none.
        filters: the filters to apply in Python; None for none.
        ids: the only ids allowed; None for all.
    """

    where: Mapping[str, Any] | None = None
    filters: MetadataFilters | None = None
    ids: frozenset[str] | None = None

    @property
    def by_index(self) -> bool:
        """Whether the index applies all filters."""
        return self.filters is None and self.ids is None

    def allows(self, id: str, metadata: Metadata) -> bool:
        """Returns whether a memory that satisfies ``where`` is selected."""
        return (self.ids is None or id in self.ids) and (self.filters is None or matches(self.filters, metadata))


def select(
    filters: MetadataFilters | None = None,
    where: Mapping[str, Any] | None = None,
    doc_ids: Sequence[str] | None = None,
    node_ids: Sequence[str] | None = None,
) -> Selection:
    """Returns the memories that satisfy all conditions.

    Args:
        filters: LlamaIndex's metadata filters.
        where: a filter in the language of the index.
        doc_ids: ids of documents: select only nodes of these documents.
        node_ids: ids of nodes: select only these nodes.

    Raises:
        InvalidInput: an operand of a filter does not fit its operator.
    """
    own = read_filters(filters)
    groups = [own] if own.filters else []
    if doc_ids is not None:
        groups.append(of_documents(read_list("doc_ids", doc_ids)))
    together = MetadataFilters(filters=list(groups))
    check_filters(together)
    condition, exact = to_where(together)
    conditions = [one for one in (condition, where) if one]
    return Selection(
        where=None if not conditions else conditions[0] if len(conditions) == 1 else {"$and": conditions},
        filters=None if exact else together,
        ids=None if node_ids is None else frozenset(read_list("node_ids", node_ids)),
    )


def of_documents(doc_ids: Sequence[str]) -> MetadataFilters:
    """Returns the filter for the nodes of some documents."""
    among = MetadataFilter(key=DOCUMENT_KEY, operator=FilterOperator.IN, value=list(doc_ids))
    return MetadataFilters(filters=[among])


def read_filters(filters: Any) -> MetadataFilters:
    """Returns the given filters; empty filters for None.

    Raises:
        InvalidInput: the value is no ``MetadataFilters``.
    """
    if not isinstance(filters, MetadataFilters | None):
        raise InvalidInput(
            f"Got filters={shortened(str(filters))} ({type(filters).__name__}).",
            "MetadataFilters",
            "Pass a dict as where=..., which recall and PAMRetriever take.",
        )
    return MetadataFilters(filters=[]) if filters is None else filters


def asks_for_anything(filters: MetadataFilters | None) -> bool:
    """Returns whether there is any condition in filters, which may be nested."""
    groups = read_filters(filters).filters
    return any(asks_for_anything(one) if isinstance(one, MetadataFilters) else True for one in groups)


def check_filters(filters: MetadataFilters) -> None:
    """Checks that each operator can use its operand.

    Raises:
        InvalidInput: an operand is invalid. The message names it and its operator.
    """
    for one in filters.filters:
        if isinstance(one, MetadataFilters):
            check_filters(one)
        else:
            _check_operand(one)


def to_where(filters: MetadataFilters) -> tuple[Where, bool]:
    """Returns the part of checked filters that the index can apply.

    Returns:
        A filter that every selected memory satisfies, and whether it is equivalent to ``filters``.
    """
    if not filters.filters:
        return {}, True
    parts = [to_where(one) if isinstance(one, MetadataFilters) else _leaf(one) for one in filters.filters]
    exact = all(whole for _, whole in parts)
    wheres = [where for where, _ in parts]
    if len(wheres) == 1 and filters.condition != FilterCondition.NOT:
        return wheres[0], exact  # the index allows only so many levels of nesting
    if filters.condition == FilterCondition.NOT:
        # the negation of an incomplete part would exclude too much
        wheres = [where for where, whole in parts if whole]
        return {"$not": {"$or": wheres}}, exact
    return {"$or" if filters.condition == FilterCondition.OR else "$and": wheres}, exact


def matches(filters: MetadataFilters, metadata: Metadata) -> bool:
    """Returns whether metadata satisfy checked filters."""
    if not filters.filters:
        return True
    results = (
        matches(one, metadata) if isinstance(one, MetadataFilters) else _leaf_matches(one, *_stored(metadata, one.key))
        for one in filters.filters
    )
    if filters.condition == FilterCondition.OR:
        return any(results)
    if filters.condition == FilterCondition.NOT:
        return not any(results)
    return all(results)


def _check_operand(one: MetadataFilter) -> None:
    if one.operator in OF_LISTS:
        good, expected = isinstance(one.value, list), "a list of values"
    elif one.operator in OF_TEXT:
        good, expected = isinstance(one.value, str), "a string"
    elif one.operator in COMPARISONS:
        good, expected = isinstance(one.value, int | float | str), "a number or a string"
    elif one.operator == FilterOperator.CONTAINS:
        good, expected = isinstance(one.value, int | float | str), "a number or a string, one of those looked for"
    else:
        return
    if not good:
        raise InvalidInput(
            f"Got {one.value!r} for the operator {one.operator.name} on {one.key!r}.", expected, "Change the filter."
        )


def _leaf(one: MetadataFilter) -> tuple[Where, bool]:
    """Returns one filter for the index; the empty filter, which is always true, if the index cannot express it."""
    return ({}, False) if _needs_python(one) else (_expressed(one), True)


def _needs_python(one: MetadataFilter) -> bool:
    return (
        one.operator == FilterOperator.TEXT_MATCH_INSENSITIVE
        or one.key.startswith("$")  # the index treats it as an operator
        or (one.operator in SAME and isinstance(one.value, list))  # the index distinguishes [1] from [1.0]
        or (one.operator in EACH and len(_listed(one.value)) > MANY)
    )


def _expressed(one: MetadataFilter) -> Where:
    if one.operator in NAMES:
        return {one.key: {NAMES[one.operator]: one.value}}
    if one.operator == FilterOperator.TEXT_MATCH:
        return {one.key: {"$contains": one.value, "$gte": ""}}  # only strings are at least ""
    if one.operator == FilterOperator.IS_EMPTY:
        return {"$or": [{one.key: {"$exists": False}}, {one.key: None}, {one.key: ""}, {one.key: []}]}
    each = [{one.key: {"$contains": value}} for value in _listed(one.value)]
    if one.operator == FilterOperator.ANY:
        return {"$or": each}
    return {"$and": [{one.key: {"$exists": True, "$ne": None}}, *each]}  # ALL, also for no values


def _stored(metadata: Metadata, key: str) -> tuple[bool, Any]:
    """Returns whether metadata have a key, and its value, found as the index finds it: by its name, else its path."""
    return (True, metadata[key]) if key in metadata else at_path(metadata, key_path(key))


def _leaf_matches(one: MetadataFilter, is_stored: bool, stored: Any) -> bool:
    wanted = one.value
    if one.operator == FilterOperator.IS_EMPTY:
        return stored is None or stored in ("", [])
    if one.operator in SAME:
        return _equal(stored, wanted, is_stored) == (one.operator == FilterOperator.EQ)
    if one.operator in AMONG:
        found = any(_equal(stored, value, is_stored) for value in _listed(wanted))
        return found == (one.operator == FilterOperator.IN)
    if one.operator in COMPARISONS:
        return _one_kind(stored, wanted) and COMPARISONS[one.operator](stored, wanted)
    if one.operator == FilterOperator.ANY:
        return any(_holds(stored, value) for value in _listed(wanted))
    if one.operator == FilterOperator.ALL:
        return stored is not None and all(_holds(stored, value) for value in _listed(wanted))
    if one.operator == FilterOperator.TEXT_MATCH_INSENSITIVE:
        return isinstance(stored, str) and str(wanted).lower() in stored.lower()
    if one.operator == FilterOperator.TEXT_MATCH:
        return isinstance(stored, str) and str(wanted) in stored
    return _holds(stored, wanted)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _holds(stored: Any, value: Any) -> bool:
    """Returns whether a list has an entry, or a string a substring, as ``in`` does."""
    if isinstance(stored, str):
        return isinstance(value, str) and value in stored
    return isinstance(stored, list) and value in stored


def _equal(stored: Any, value: Any, is_stored: bool) -> bool:
    return is_stored and bool(stored == value)


def _one_kind(a: Any, b: Any) -> bool:
    numbers = isinstance(a, int | float) and isinstance(b, int | float)
    return numbers or (isinstance(a, str) and isinstance(b, str))
