"""An index of metadata in memory, which answers filters.

The first filter reads the metadata into columns, in segments of up to 100,000 memories. The next filter after a write
reads the written memories into a small segment. Small segments are merged, so that there are few. A segment never
changes, so that readers can still use it after later writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pam_retriever.ann.selection import RowMask, Rows
from pam_retriever.errors import IndexFormatError, InvalidInput
from pam_retriever.filters import TIME, read_filter
from pam_retriever.filters.conditions import (
    All,
    Among,
    Compares,
    Condition,
    Has,
    HasEntry,
    HasPart,
    IsNone,
    Listed,
    Not,
    Some,
    Test,
    Timed,
    key_path,
)
from pam_retriever.store.columns import from_json
from pam_retriever.store.sqlite.metadata_columns import Column, ColumnBuilder, Int32, LateColumns, entry_at, merged
from pam_retriever.types import Bools, Int64

SEGMENT = 100_000  # memories; larger segments are not merged
GROWTH = 4  # a segment is merged with later segments if these have more than a quarter of its memories
LATE = 100  # memories; the columns of a smaller segment are built when a filter needs them
FEW = 3  # number of small segments that are kept before a merge
SPARSE = 4  # rows with larger gaps on average are listed, instead of marked in a mask
DEAD_SHARE = 0.5  # a segment with a larger share of removed memories is built again without them


@dataclass(frozen=True)
class Segment:
    """The metadata of some memories.

    Attributes:
        rows: (n,) sorted.
        columns: by key, of top-level entries; positions are indices of ``rows``.
        alive: (n,) False for rows that were removed or changed since; None if all are current.
    """

    rows: Int64
    columns: Mapping[str, Column]
    alive: Bools | None = None
    _paths: dict[str, Column] = field(default_factory=dict)  # for keys with dots, built on demand

    @classmethod
    def of(cls, rows: Int64, metadatas: Sequence[str]) -> Segment:
        """Builds a segment from sorted ``rows`` (n,) and their metadata as JSON.

        Raises:
            IndexFormatError: the metadata are damaged.
        """
        if len(rows) <= LATE:
            return cls(rows, LateColumns([_parsed(stored) for stored in metadatas]))
        builders: dict[str, ColumnBuilder] = {}
        for position, stored in enumerate(metadatas):
            for key, value in _parsed(stored).items():
                builder = builders.get(key) or builders.setdefault(key, ColumnBuilder())
                builder.add(position, value)
        return cls(rows, {key: builder.column() for key, builder in builders.items()})

    def __len__(self) -> int:
        """The number of current rows."""
        return len(self.rows) if self.alive is None else int(self.alive.sum())

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        columns = (*self.columns.values(), *self._paths.values())
        own = self.rows.nbytes + (0 if self.alive is None else self.alive.nbytes)
        return own + sum(column.nbytes for column in columns)

    def without(self, rows: Int64) -> Segment:
        """Returns a copy without these sorted ``rows``."""
        at = np.searchsorted(self.rows, rows)
        at = at[np.take(self.rows, at, mode="clip") == rows] if len(self.rows) else at[:0]
        if not len(at):
            return self
        alive = np.ones(len(self.rows), bool) if self.alive is None else self.alive.copy()
        alive[at] = False
        return replace(self, alive=alive)

    def matching(self, condition: Condition) -> Int64:
        """Returns the rows that satisfy a condition, sorted."""
        return self.rows[self.mask(condition)]

    def mask(self, condition: Condition) -> Bools:
        """Returns which rows are current and satisfy a condition."""
        mask = self._mask(condition)
        return mask if self.alive is None else mask & self.alive

    def mark(self, condition: Condition, out: Bools, first: int) -> None:
        """Sets ``out`` to True for the rows that satisfy a condition; its first entry stands for the row ``first``."""
        mask, start = self.mask(condition), int(self.rows[0]) - first
        if int(self.rows[-1]) - int(self.rows[0]) == len(self.rows) - 1:  # rows without a gap, as most are
            out[start : start + len(mask)] |= mask
        else:
            out[self.rows[mask] - first] = True

    def _mask(self, condition: Condition) -> Bools:
        if isinstance(condition, Not):
            return ~self._mask(condition.part)
        if isinstance(condition, Some):
            mask = np.zeros(len(self.rows), bool)
            for part in condition.parts:
                mask |= self._mask(part)
            return mask
        if isinstance(condition, All):
            return self._mask_of_all(condition.parts)
        if isinstance(condition, Listed):
            return np.isin(self.rows, condition.rows)
        if isinstance(condition, Timed):
            raise no_times_here()
        return self._mask_of(condition)

    def _mask_of_all(self, parts: Sequence[Condition]) -> Bools:
        """Returns a mask of the memories that satisfy every part. Comparisons of one key are one range."""
        mask, ranges = np.ones(len(self.rows), bool), dict[tuple[str, str], list[Compares]]()
        for part in parts:
            if isinstance(part, Compares):
                ranges.setdefault((part.key, part.kind), []).append(part)
            else:
                mask &= self._mask(part)
        for tests in ranges.values():
            mask &= self._mask_of(*tests)
        return mask

    def _mask_of(self, test: Test, *more: Compares) -> Bools:
        """Returns a mask of the memories that satisfy a test and ``more`` comparisons of the same key and kind."""
        column, count = self._column(test.key), len(self.rows)
        if column is None:
            return np.zeros(count, bool)
        if isinstance(test, Compares) or (isinstance(test, Among) and len(test.values) == 1):
            lists = column.of(test.kind)
            return lists.mask(*_range([test, *more], lists.values), count)
        mask = np.zeros(count, bool)
        mask[_positions(test, column)] = True
        return mask

    def _column(self, key: str) -> Column | None:
        """Returns the values of a key: of the entry with exactly this name, else of the entry at this path."""
        literal, path = self.columns.get(key), key_path(key)
        if len(path) == 1 or path[0] not in self.columns:
            return literal
        if key not in self._paths:
            self._paths[key] = self._follow(path, literal)
        return self._paths[key]

    def _follow(self, path: Sequence[str], literal: Column | None) -> Column:
        values, code = self.columns[path[0]].nested.entries()
        spelt = np.zeros(len(self.rows), bool)
        if literal is not None:
            spelt[literal.positions] = True
        found = [entry_at(value, path[1:]) for value in values]
        builder = ColumnBuilder()
        for position, at in zip(self.columns[path[0]].nested.positions.tolist(), code.tolist(), strict=True):
            there, value = found[at]
            if there and not spelt[position]:
                builder.add(position, value)
        same: Int32 = np.arange(len(self.rows), dtype=np.int32)
        column = builder.column()
        return column if literal is None else merged([(literal, same), (column, same)])


def _parsed(stored: str) -> dict[str, Any]:
    """Returns the metadata of a memory.

    Raises:
        IndexFormatError: they are damaged.
    """
    metadata = from_json(stored, "The metadata of a memory")
    if not isinstance(metadata, dict):
        raise IndexFormatError(
            f"The metadata of a memory are {stored[:50]!r}.", "a dict", "Run pam-retriever check on the folder."
        )
    return metadata


def _positions(test: Has | IsNone | Among | HasEntry | HasPart, column: Column) -> Int32:
    """Returns the positions in a column that satisfy a test."""
    if isinstance(test, Has):
        return column.positions
    if isinstance(test, IsNone):
        return column.none
    if isinstance(test, HasPart):
        return column.text.at(column.text.values.with_part(test.value))
    lists = column.of(test.kind, entries=isinstance(test, HasEntry))
    return lists.at(lists.values.find(test.values if isinstance(test, Among) else [test.value]))


def _range(tests: Sequence[Compares | Among], values: Any) -> tuple[int, int]:
    """Returns the number of the first value that satisfies every test, and of the one after the last.

    ``Among`` has one value.
    """
    first, last = 0, len(values)
    for test in tests:
        if isinstance(test, Among):
            first, last = max(first, values.below(test.values[0])), min(last, values.up_to(test.values[0]))
            continue
        bound = (values.up_to if test.symbol in (">", "<=") else values.below)(test.value)
        first, last = (max(first, bound), last) if test.symbol in (">", ">=") else (first, min(last, bound))
    return first, max(first, last)


class MetadataIndex:
    """The metadata of all memories. It never changes; ``written`` returns another.

    Args:
        segments: each row is current in at most one of them.
    """

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self._segments = tuple(segment for segment in segments if len(segment.rows))

    @classmethod
    def of(cls, chunks: Iterable[tuple[Int64, Sequence[str]]]) -> MetadataIndex:
        """Builds the index from sorted rows and their metadata as JSON, given in parts."""
        return cls([Segment.of(rows, metadatas) for rows, metadatas in chunks])

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(segment.nbytes for segment in self._segments)

    def matching(self, where: Mapping[str, object], rows_of: Callable[[Timed], Int64] | None = None) -> Rows:
        """Returns the rows that satisfy a filter; ``rows_of`` returns the rows that satisfy a test of time.

        Raises:
            InvalidInput: the filter is invalid.
        """
        condition = read_filter(where)
        if rows_of is not None:
            condition = with_times(condition, rows_of)
        if not self._segments:
            return np.empty(0, np.int64)
        first = min(int(segment.rows[0]) for segment in self._segments)
        last = max(int(segment.rows[-1]) for segment in self._segments)
        if last - first >= SPARSE * sum(len(segment.rows) for segment in self._segments):
            return np.sort(np.concatenate([segment.matching(condition) for segment in self._segments]), kind="stable")
        mask = np.zeros(last - first + 1, bool)
        for segment in self._segments:
            segment.mark(condition, mask, first)
        return RowMask(first, mask)

    def written(self, changed: Int64, rows: Int64, metadatas: Sequence[str]) -> MetadataIndex:
        """Returns the index after a write.

        Args:
            changed: sorted rows that were written or removed.
            rows: the stored rows among ``changed``, sorted.
            metadatas: metadata of ``rows``, as JSON.
        """
        segments = [segment.without(changed) for segment in self._segments]
        if len(rows):
            segments.append(Segment.of(rows, metadatas))
        return MetadataIndex(_compact([segment for segment in segments if len(segment)]))


def _compact(segments: list[Segment]) -> list[Segment]:
    """Returns the same memories in few segments, none of which is mostly removed rows."""
    first, waiting = len(segments), 0
    while first and (not waiting or len(segments[first - 1]) <= min(GROWTH * waiting, SEGMENT - waiting)):
        first -= 1
        waiting += len(segments[first])
    if len(segments) - first > FEW:
        segments = [*segments[:first], _merge(segments[first:])]
    return [_merge([one]) if len(one) < (1 - DEAD_SHARE) * len(one.rows) else one for one in segments]


def _merge(segments: Sequence[Segment]) -> Segment:
    """Merges the current rows of segments."""
    alive = [np.ones(len(one.rows), bool) if one.alive is None else one.alive for one in segments]
    rows = np.concatenate([one.rows[some] for one, some in zip(segments, alive, strict=True)])
    order = np.argsort(rows, kind="stable")
    late = [one.columns for one in segments if isinstance(one.columns, LateColumns)]
    if len(late) == len(segments) and len(rows) <= LATE:
        metadatas = [
            columns.metadatas[at]
            for columns, some in zip(late, alive, strict=True)
            for at in np.flatnonzero(some).tolist()
        ]
        return Segment(rows[order], LateColumns([metadatas[at] for at in order.tolist()]))
    position = np.empty(len(rows), np.int32)
    position[order] = np.arange(len(rows), dtype=np.int32)
    moved, first = [], 0
    for one, some in zip(segments, alive, strict=True):
        to = np.full(len(one.rows), -1, np.int32)
        count = int(some.sum())
        to[some] = position[first : first + count]
        moved.append(to)
        first += count
    keys = list(dict.fromkeys(key for one in segments for key in one.columns))
    columns = {
        key: merged([(one.columns[key], to) for one, to in zip(segments, moved, strict=True) if key in one.columns])
        for key in keys
    }
    return Segment(rows[order], {key: column for key, column in columns.items() if len(column.positions)})


def with_times(condition: Condition, rows_of: Callable[[Timed], Int64]) -> Condition:
    """Returns the condition with each test of a time replaced by the rows that satisfy it."""
    if isinstance(condition, All | Some):
        return type(condition)(tuple(with_times(part, rows_of) for part in condition.parts))
    if isinstance(condition, Not):
        return Not(with_times(condition.part, rows_of))
    return Listed(rows_of(condition)) if isinstance(condition, Timed) else condition


def no_times_here() -> InvalidInput:
    """Returns the error for a filter by time on data that have no times."""
    return InvalidInput(
        f"Got {TIME!r} in a filter of feedback.",
        "memories, which have times",
        "Put the times into the metadata, and filter by these.",
    )
