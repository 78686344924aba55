"""The read operations: their results, order and scores."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Literal

from langgraph.store.base import GetOp, Item, ListNamespacesOp, Op, Result, SearchItem, SearchOp

from langgraph_pam.items import Items
from langgraph_pam.memories import Memories, Where, tenant_of
from langgraph_pam.reading import Namespace, as_stored, from_json, matches_namespace, passes, storable
from langgraph_pam.rows import Row, found_items, from_path
from pam_retriever.types import Float32

Found = list[tuple[Row, float | None]]


class Reader:
    """Answers the operations of one batch.

    Args:
        items: the items of the store.
        memories: the indexes of the items; None without ``index``.
        mode: as in ``PAMIndexConfig``.
        at: items that expired before this time are skipped; None skips none.
    """

    def __init__(
        self, items: Items, memories: Memories | None, mode: Literal["similarity"] | None, at: int | None
    ) -> None:
        self._items, self._memories, self._mode, self._at = items, memories, mode, at

    def read(self, op: Op, questions: Mapping[str, Float32]) -> Result:
        """Returns the answer to a read operation; None for a write operation.

        Args:
            op: a checked operation.
            questions: the vector of each query.
        """
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._search(op, questions.get(op.query or ""))
        return self._list(op) if isinstance(op, ListNamespacesOp) else None

    def _get(self, op: GetOp) -> Item | None:
        row = self._items.get(op.namespace, op.key, self._at)
        if row is None:
            return None
        self._refresh([row], op.refresh_ttl)
        return row.item()

    def _list(self, op: ListNamespacesOp) -> list[Namespace]:
        conditions = op.match_conditions or ()
        found = {
            namespace[: op.max_depth]
            for namespace in map(from_path, self._items.namespaces(self._at))
            if all(matches_namespace(condition, namespace) for condition in conditions)
        }
        return sorted(found)[op.offset : op.offset + op.limit]

    def _search(self, op: SearchOp, question: Float32 | None) -> list[SearchItem]:
        if not op.limit:
            return []
        op = op._replace(filter=as_stored(op.filter))
        if question is None or not question.any():  # a vector of zeros has no direction
            found: Found = [(row, None) for row in self._page(op)]
        else:
            found = self._ask(op, question)[op.offset : op.offset + op.limit]
        self._refresh([row for row, _ in found], op.refresh_ttl)
        return found_items(found)

    def _refresh(self, rows: Sequence[Row], refresh: bool) -> None:
        expiring = [row.id for row in rows if row.ttl is not None]
        if refresh and expiring:
            self._items.refresh(expiring)

    # ---- searches

    def _page(self, op: SearchOp) -> list[Row]:
        """Returns a page of a search without a query."""
        if not op.filter:
            return self._items.under(op.namespace_prefix, self._at, op.limit, op.offset)
        values = self._items.values(op.namespace_prefix, self._at)
        passing = (id for id, value in values if passes(from_json(value), op.filter))
        page = list(islice(passing, min(op.offset, sys.maxsize), min(op.offset + op.limit, sys.maxsize)))
        rows = self._items.by_id(page)
        return [rows[id] for id in page if id in rows]

    def _ask(self, op: SearchOp, question: Float32) -> Found:
        """Returns the best items for a question, up to the end of the page; items without a vector come last."""
        assert self._memories is not None
        count, prefix = op.offset + op.limit, op.namespace_prefix
        tenants, where, allowed = self._within(op)
        # scores from words and experience are comparable only within a tenant: several tenants are searched by cosine
        text = storable(op.query or "").strip() if self._mode is None and prefix else ""
        ranked: list[tuple[int, float]] = []
        for tenant in tenants:
            ranked += self._memories.rank(tenant, question, text or None, count, where)
        if len(tenants) > 1:
            ranked = sorted(ranked, key=lambda one: -one[1])[:count]
        rows = self._items.by_id(id for id, _ in ranked)
        found: Found = [(rows[id], score) for id, score in ranked if id in rows]
        if len(found) < count:
            rest = self._items.under(prefix, self._at, without_vectors=True)
            found += [(row, None) for row in rest if allowed is None or row.id in allowed]
        return found

    def _within(self, op: SearchOp) -> tuple[list[str], Where, set[int] | None]:
        """Returns the tenants to search, a filter of their memories, and the allowed items; None allows all."""
        prefix = op.namespace_prefix
        namespaces = self._items.found_by_vector(prefix)
        tenants = list(dict.fromkeys(map(tenant_of, namespaces)))
        if op.filter:
            values = self._items.values(prefix, self._at)
            allowed = {id for id, value in values if passes(from_json(value), op.filter)}
            return (tenants if allowed else []), {"item": {"$in": sorted(allowed)}}, allowed
        expired = [] if self._at is None else self._items.expired(prefix, self._at)
        where: dict[str, object] = {} if len(prefix) < 2 else {"namespace": {"$in": list(namespaces.values())}}
        if expired:
            where["item"] = {"$nin": expired}
        return tenants, where or None, None
