"""Trajectories from Parquet and Arrow, batch by batch (the extra "parquet")."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pam_retriever.errors import InvalidInput, MissingExtra, counted
from pam_retriever.types import Trajectory

BATCH = 10_000  # rows in memory at once


class Arrow(Protocol):
    """A ``pyarrow`` table, dataset or record batch reader, which type checkers do not know."""

    @property
    def schema(self) -> object:
        """The columns."""


def read_parquet(
    source: str | Path | list[str | Path] | Arrow,
    trajectory: str = "trajectory",
    *,
    ids: str | None = None,
    vectors: str | None = None,
    timestamps: str | None = None,
    salience: str | None = None,
) -> Iterator[Trajectory]:
    """Reads trajectories for ``fit``, with one batch of rows in memory.

    A row is a state. The rows of a trajectory must be adjacent and in order.

    Args:
        source: a Parquet file, a folder or a list of them, or a ``pyarrow`` table, dataset or record batch reader.
        trajectory: column with the id of the trajectory.
        ids: column with ids of memories that are in the index. Give either this or ``vectors``.
        vectors: column with new states, lists of d numbers.
        timestamps: column with dates, times or numbers that never fall within a trajectory.
        salience: column with numbers of at least 0.

    Yields:
        The trajectories with at least two states; others are skipped.

    Raises:
        MissingExtra: pyarrow is not installed.
        InvalidInput: a column is missing or holds nulls, or the rows of a trajectory are not adjacent.

    Example:
        >>> index.fit(read_parquet("clicks.parquet", "session", ids="page"))  # doctest: +SKIP
    """
    try:
        import pyarrow as pa
        import pyarrow.dataset
    except ImportError as error:
        raise MissingExtra("pyarrow", "parquet", "read_parquet") from error
    if (ids is None) == (vectors is None):
        raise InvalidInput("Got both or neither of ids and vectors.", "the column of one of them", "Name one column.")
    columns = {"ids": ids, "vectors": vectors, "timestamps": timestamps, "salience": salience}
    named = {"trajectory": trajectory, **{what: column for what, column in columns.items() if column is not None}}
    if isinstance(source, pa.RecordBatchReader):
        schema, batches = source.schema, iter(source)
    else:
        given = source if isinstance(source, pa.Table | pyarrow.dataset.Dataset) else _open(pyarrow.dataset, source)
        schema = given.schema
        _check_columns(schema.names, list(named.values()))
        scanned = given if isinstance(given, pyarrow.dataset.Dataset) else pyarrow.dataset.dataset(given)
        # no read-ahead, so that only one batch is in memory
        batches = scanned.to_batches(columns=list(named.values()), batch_size=BATCH, batch_readahead=1)
    _check_columns(schema.names, list(named.values()))
    return _trajectories(batches, named)


def _open(dataset: Any, source: Any) -> Any:
    try:
        return dataset.dataset([str(one) for one in source] if isinstance(source, list) else str(source))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(f"{source} cannot be read ({error}).", "Parquet files", "Check the path.") from error


def _check_columns(there: list[str], columns: list[str]) -> None:
    missing = [name for name in columns if name not in there]
    if missing:
        raise InvalidInput(f"There are no columns {missing}.", f"some of {there}", "Check the names.")


def _trajectories(batches: Iterator[Any], named: dict[str, str]) -> Iterator[Trajectory]:
    rest: dict[str, np.ndarray[Any, Any]] = {}  # the last trajectory of a batch may continue in the next
    done: set[int] = set()
    for batch in batches:
        columns = {what: _column(batch.column(name), what, name) for what, name in named.items()}
        if rest:
            columns = {what: np.concatenate([rest[what], column]) for what, column in columns.items()}
        keys = columns["trajectory"]
        if not len(keys):
            continue
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])).tolist()
        for start, stop in zip(starts, starts[1:], strict=False):
            yield from _one(columns, slice(start, stop), done)
        rest = {what: column[starts[-1] :] for what, column in columns.items()}
    if rest:
        yield from _one(rest, slice(None), done)


def _column(column: Any, what: str, name: str) -> np.ndarray[Any, Any]:
    if column.null_count:
        raise InvalidInput(
            f"The column {name!r} holds {counted(column.null_count, 'null')}.", "no nulls", "Leave them out."
        )
    if what != "vectors":
        found: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
        dates = what == "timestamps" and found.dtype.kind == "M"  # in nanoseconds, they would become whole numbers
        return found.astype("datetime64[us]") if dates else found
    if not len(column):
        return np.empty((0, 0), np.float32)
    flat = column.flatten().to_numpy(zero_copy_only=False)
    widths = column.value_lengths().to_numpy(zero_copy_only=False) if hasattr(column, "value_lengths") else None
    if widths is not None and (widths != widths[0]).any():
        raise InvalidInput(f"The vectors in {name!r} differ in length.", "d numbers in each", "Check them.")
    vectors: np.ndarray[Any, Any] = flat.reshape(len(column), -1).astype(np.float32)
    return vectors


def _one(columns: dict[str, np.ndarray[Any, Any]], part: slice, done: set[int]) -> Iterator[Trajectory]:
    """Returns a trajectory, unless it has a single state."""
    id = str(columns["trajectory"][part][0])
    if hash(id) in done:
        raise InvalidInput(
            f"The rows of trajectory {id!r} are not next to each other.", "sorted rows", "Sort by trajectory."
        )
    done.add(hash(id))
    if len(columns["trajectory"][part]) < 2:
        return
    given: dict[str, Any] = {"id": id}
    for what, column in columns.items():
        if what == "vectors":
            given[what] = column[part]
        elif what != "trajectory":
            given[what] = [value.item() if isinstance(value, np.generic) else value for value in column[part]]
    yield Trajectory(**given)
