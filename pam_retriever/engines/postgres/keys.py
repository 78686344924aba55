"""Vector search in PostgreSQL as an ``AnnIndex``, with filters that PostgreSQL evaluates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.engines.postgres.connection import EF_SEARCH, Connections
from pam_retriever.engines.postgres.vectors import pack, unpack
from pam_retriever.model.keys import unit
from pam_retriever.types import Bools, Float32, Int64

MAX_EF_SEARCH = 1_000  # pgvector's own limit


class Selected:
    """The memories that satisfy a condition; see ``selection.Selection``.

    Args:
        database: the connections to the database.
        condition: SQL condition on the table "memories".
        parameters: parameters of the condition.
    """

    def __init__(self, database: Connections, condition: str, parameters: list[Any]) -> None:
        self._database, self.condition, self.parameters = database, condition, parameters

    def __len__(self) -> int:
        count: int = self._database.fetch(f"SELECT count(*) FROM memories WHERE {self.condition}", self.parameters)[0][
            0
        ]
        return count

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Int64:
        found = self._database.fetch(f"SELECT row FROM memories WHERE {self.condition} ORDER BY row", self.parameters)
        return np.array([row for (row,) in found], np.int64)

    def holds(self, rows: Int64) -> Bools:
        found = self._database.fetch(
            f"SELECT row FROM memories WHERE row = ANY(%s::bigint[]) AND {self.condition}",
            [np.unique(rows).tolist(), *self.parameters],
        )
        held: Bools = np.isin(rows, np.array([row for (row,) in found], np.int64))
        return held


@dataclass(frozen=True)
class Column:
    """The column with the vectors.

    Attributes:
        table: name of the table.
        name: name of the column.
        width: length of the vectors.
        cosine: whether the vectors have any length and are compared by cosine; otherwise by inner product.
    """

    table: str
    name: str
    width: int
    cosine: bool

    @property
    def index(self) -> str:
        """The name of the HNSW index over the column."""
        return f"{self.table}_hnsw"


class PostgresKeys:
    """Inner-product search over a column.

    PostgreSQL's planner decides whether to use the HNSW index. If a filter leaves too few of its results, an exact
    search replaces them. The transaction that changes the memories also changes the column.

    Args:
        database: the connections to the database.
        column: the column to search.
    """

    description = "pgvector"

    def __init__(self, database: Connections, column: Column) -> None:
        self._database, self._column = database, column

    def __len__(self) -> int:
        return self._database.state.memories

    def __repr__(self) -> str:
        return f"PostgresKeys({self._column.table}.{self._column.name}, {self._column.width} wide)"

    def keys(self, rows: Int64) -> Float32:
        column = self._column
        distinct, position = np.unique(rows, return_inverse=True)
        found = self._database.fetch(
            f"SELECT {column.name} FROM {column.table} WHERE row = ANY(%s::bigint[]) ORDER BY row", [distinct.tolist()]
        )
        keys = unpack([vector for (vector,) in found], column.width)
        return (unit(keys) if column.cosine else keys)[position]

    def search(self, queries: Float32, k: int, allowed: Rows | None = None) -> tuple[Float32, Int64]:
        if allowed is not None and isinstance(allowed, np.ndarray) and not len(allowed):
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        most = min(k, len(self), *([len(allowed)] if isinstance(allowed, np.ndarray) else []))
        scores = np.full((len(queries), most), -np.inf, np.float32)
        rows = np.full((len(queries), most), -1, np.int64)
        if not most:
            return scores, rows
        unfilled = np.arange(len(queries))
        if 2 * k <= MAX_EF_SEARCH:
            counts = self._look_up(queries, unfilled, most, allowed, scores, rows, exact=False)
            unfilled = unfilled[counts < most]
        if len(unfilled):
            self._look_up(queries, unfilled, most, allowed, scores, rows, exact=True)
        filled = int((rows >= 0).sum(axis=1).max(initial=0))
        return scores[:, :filled], rows[:, :filled]

    def _look_up(
        self,
        queries: Float32,
        unfilled: Int64,
        k: int,
        allowed: Rows | None,
        scores: Float32,
        rows: Int64,
        exact: bool,
    ) -> Int64:
        """Fills in the answers of the queries ``unfilled``; returns the number of answers of each."""
        column, chosen = self._column, queries[unfilled]
        length = np.linalg.norm(chosen, axis=1)
        if column.cosine:  # the cosine with a zero vector is undefined, but its inner product is 0
            chosen = np.where(length[:, None] > 0, chosen, 1)
        operator, score = ("<=>", "1 - distance") if column.cosine else ("<#>", "-distance")
        condition, parameters = _condition(allowed, column.table)
        if not exact and 2 * k > EF_SEARCH:
            self._database.fetch("SELECT set_config('hnsw.ef_search', %s, true)", [str(2 * k)])
        found = self._database.fetch(
            f"SELECT at, row, {score} FROM unnest(%s::vector[]) WITH ORDINALITY AS asked (query, at), LATERAL ("
            f"SELECT row, {column.name} {operator} query AS distance FROM {column.table} {condition} "
            # the sum prevents the planner from using the approximate index
            f"ORDER BY ({column.name} {operator} query){' + 0' if exact else ''} LIMIT %s) AS nearest",
            [pack(chosen), *parameters, k],
        )
        counts = np.zeros(len(unfilled), np.int64)
        if found:
            at, row, value = (np.array(values) for values in zip(*found, strict=True))
            at = at.astype(np.int64) - 1
            order = np.lexsort((-value, at))
            at, row, value = at[order], row[order], value[order]
            counts = np.bincount(at, minlength=len(unfilled))
            position = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
            rows[unfilled[at], position] = row
            scores[unfilled[at], position] = value * length[at] if column.cosine else value
        return counts


def _condition(allowed: Rows | None, table: str) -> tuple[str, list[Any]]:
    if allowed is None:
        return "", []
    if isinstance(allowed, Selected):
        if table == "memories":
            return f"WHERE {allowed.condition}", allowed.parameters
        return f"JOIN memories USING (row) WHERE {allowed.condition}", allowed.parameters
    return "WHERE row = ANY(%s::bigint[])", [np.asarray(allowed).tolist()]
