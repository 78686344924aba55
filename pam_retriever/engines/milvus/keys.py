"""Vector search in Milvus as an ``AnnIndex``, and filters that Milvus evaluates partly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.engines.milvus.calls import Calls
from pam_retriever.engines.milvus.client import Connection
from pam_retriever.engines.milvus.filters import MilvusCompiler
from pam_retriever.filters.conditions import Condition
from pam_retriever.model.keys import unit
from pam_retriever.store.sqlite.metadata_index import Segment
from pam_retriever.types import Bools, Float32, Int64

MOST = 16_384  # hits per search: Milvus's own limit
LISTED = 1_000  # rows named in a search; a larger number is scanned here
EF_SEARCH = 128
AT_ONCE = 256  # queries per message


class MilvusSelected:
    """The memories that satisfy a filter; see ``selection.Selection``.

    Args:
        connection: the connection to Milvus.
        collection: name of the current generation's collection.
        condition: the filter, with a list of memories for each condition on time.
    """

    def __init__(self, connection: Connection, collection: str, condition: Condition) -> None:
        self._milvus, self._collection, self._condition = connection, collection, condition
        self.expression, _ = MilvusCompiler().compile(condition)

    def matches(self, found: Sequence[Mapping[str, Any]]) -> Bools:
        """Returns a mask of the memories, given by distinct row and metadata, that match, as in a folder."""
        rows: Int64 = np.array([one["row"] for one in found], np.int64)
        order = np.argsort(rows)
        segment = Segment.of(rows[order], [found[at]["metadata"] for at in order])
        return np.isin(rows, segment.matching(self._condition))

    @cached_property
    def _rows(self) -> Int64:
        found = self._milvus.query(self._collection, self.expression or "row >= 0", ["row", "metadata"])
        rows = np.array([one["row"] for one in found], np.int64)
        return np.sort(rows[self.matches(found)])

    def __len__(self) -> int:
        return len(self._rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Int64:
        return self._rows

    def holds(self, rows: Int64) -> Bools:
        """Returns whether each of ``rows`` (n,) is selected."""
        if "_rows" in self.__dict__:
            return holds(self._rows, rows)
        found = self._milvus.get(self._collection, np.unique(rows).tolist(), ["row", "metadata"])
        held = np.array([one["row"] for one in found], np.int64)
        return np.isin(rows, held[self.matches(found)])


class MilvusKeys:
    """Inner-product search over a vector field.

    Each write of a memory also writes this field.

    Args:
        calls: the calls to Milvus.
        collection: returns the name of the collection.
        field: "vector", compared by cosine, or "key", by inner product.
        width: length of the vectors.
    """

    description = "milvus"

    def __init__(self, calls: Calls, collection: Callable[[], str], field: str, width: int) -> None:
        self._calls, self._milvus, self._collection = calls, calls.connection, collection
        self._field, self._width = field, width

    def __len__(self) -> int:
        return self._calls.state.memories

    def __repr__(self) -> str:
        return f"MilvusKeys({self._field}, {self._width} wide)"

    def keys(self, rows: Int64) -> Float32:
        distinct, position = np.unique(rows, return_inverse=True)
        found = self._milvus.get_all(self._collection(), distinct.tolist(), ["row", self._field])
        found.sort(key=lambda one: int(one["row"]))
        keys = np.array([one[self._field] for one in found], np.float32).reshape(len(found), self._width)
        return (unit(keys) if self._field == "vector" else keys)[position]

    def search(self, queries: Float32, k: int, allowed: Rows | None = None) -> tuple[Float32, Int64]:
        k = min(k, len(self))
        if not isinstance(allowed, MilvusSelected):
            if k <= MOST and (allowed is None or 0 < len(allowed) <= LISTED):
                listed = "" if allowed is None else f"row in {np.asarray(allowed).tolist()}"
                return _filled([self._ask(queries, k, listed)] if k else [], len(queries), k)
            return self._scan(queries, k, None if allowed is None else np.asarray(allowed))
        most = min(4 * k, MOST)
        while k <= most:
            answers = [self._ask(queries, most, allowed.expression, allowed)]
            if all(len(kept) >= k or limit < most for kept, limit in answers[0]):
                return _filled(answers, len(queries), k)
            if most == MOST:
                break
            most = min(4 * most, MOST)
        return self._scan(queries, k, np.asarray(allowed))

    def _ask(
        self, queries: Float32, k: int, expression: str, selected: MilvusSelected | None = None
    ) -> list[tuple[list[tuple[int, float]], int]]:
        """Returns for each query (row, score) of the selected memories, best first, and the number of Milvus's hits."""
        length = np.linalg.norm(queries, axis=1)
        cosine = self._field == "vector"
        vectors = np.where(length[:, None] > 0, queries, 1).astype(np.float32) if cosine else queries
        name, answers = self._collection(), []
        for start in range(0, len(queries), AT_ONCE):
            some = vectors[start : start + AT_ONCE]
            found = self._milvus.run(
                lambda client, some=some: client.search(  # type: ignore[misc]
                    name,
                    data=list(some),
                    anns_field=self._field,
                    limit=k,
                    filter=expression,
                    search_params={"params": {"ef": max(EF_SEARCH, 2 * k)}},
                    output_fields=["row"] if selected is None else ["row", "metadata"],
                )
            )
            for at, hits in enumerate(found, start=start):
                kept = [True] * len(hits) if selected is None else selected.matches([hit["entity"] for hit in hits])
                factor = float(length[at]) if cosine else 1.0
                passing = [
                    (int(hit["row"]), factor * float(hit["distance"])) for hit, ok in zip(hits, kept, strict=True) if ok
                ]
                answers.append((passing, len(hits)))
        return answers

    def _scan(self, queries: Float32, k: int, allowed: Int64 | None) -> tuple[Float32, Int64]:
        """Scans exactly in this process, for more rows than Milvus returns or accepts."""
        if allowed is None:
            found = self._milvus.query(self._collection(), "row >= 0", ["row"])
            allowed = np.sort(np.array([one["row"] for one in found], np.int64))
        if not len(allowed) or not k:
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        scores: Float32 = queries @ self.keys(allowed).T
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, order, axis=1), allowed[order]


def _filled(answers: list[Any], count: int, k: int) -> tuple[Float32, Int64]:
    """Returns the answers as arrays, as wide as the longest one."""
    hits = [passing[:k] for answer in answers for passing, _ in answer] or [[]] * count
    width = max(map(len, hits), default=0)
    scores = np.full((count, width), -np.inf, np.float32)
    rows = np.full((count, width), -1, np.int64)
    for at, passing in enumerate(hits):
        if passing:
            rows[at, : len(passing)], scores[at, : len(passing)] = zip(*passing, strict=True)
    return scores, rows
