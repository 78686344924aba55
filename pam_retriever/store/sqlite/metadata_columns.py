"""Metadata by column: for each key the distinct values in order, and the positions of the memories with each value.

An inverted list answers equality by one look-up and a range by one slice. The cost of a filter grows with its result.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from pam_retriever.arrays import concatenated
from pam_retriever.filters.conditions import Kind
from pam_retriever.filters.stored import as_number, at_path, to_json
from pam_retriever.types import Bools, Int64

Int32 = npt.NDArray[np.int32]
Number = int | float

EXACT = 2**53  # integers up to this value are exact as doubles
MANY, SHARE = 4_096, 0.05  # of so many memories, from this share on, comparing the numbers of all values is faster
TABLE_FROM = 16  # from this many texts in one look-up, a hash table is faster
NO_POSITIONS: Int32 = np.empty(0, np.int32)


class Numbers:
    """Distinct numbers in order.

    Args:
        values: (m,) float64, or Python numbers as objects if an integer among them equals no double.
    """

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values = values
        # Python compares integers with doubles exactly, NumPy does not
        self._doubles = values.dtype == np.float64
        self._own: Callable[[Any], Number] = float if self._doubles else _itself

    @classmethod
    def index(cls, values: Sequence[Number]) -> tuple[Numbers, Int64]:
        """Returns the distinct numbers of ``values`` (n,), and for each value its position among them (n,)."""
        distinct, code = np.unique(_as_array(values), return_inverse=True)
        return cls(distinct), code

    def __len__(self) -> int:
        return len(self._values)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._values.nbytes * (1 if self._doubles else 5)

    def listed(self) -> list[Number]:
        """Returns all values."""
        listed: list[Number] = self._values.tolist()
        return listed

    def below(self, value: Number) -> int:
        """Returns how many are smaller."""
        return bisect_left(self._values, value, key=self._own)

    def up_to(self, value: Number) -> int:
        """Returns how many are smaller or equal."""
        return bisect_right(self._values, value, key=self._own)

    def find(self, values: Sequence[Number]) -> Int64:
        """Returns the positions of those ``values`` that are stored, each once."""
        sought = _as_array(values)
        if not len(self):
            return np.empty(0, np.int64)
        if self._doubles and sought.dtype == np.float64:
            at = np.searchsorted(self._values, sought)
            return np.unique(at[np.take(self._values, at, mode="clip") == sought])
        first = [self.below(value) for value in values]
        return np.unique([at for at, value in zip(first, values, strict=True) if self.up_to(value) > at]).astype(int)


class Texts:
    """Distinct texts in order, as one string of bytes. UTF-8 sorts as Python's strings do.

    Args:
        values: in order.
    """

    def __init__(self, values: Sequence[str]) -> None:
        encoded = [value.encode() for value in values]
        self._joined = b"\0".join([*encoded, b""])
        ends = np.cumsum([len(one) + 1 for one in encoded], dtype=np.int64)
        self._starts = np.concatenate([np.zeros(1, np.int64), ends])

    @classmethod
    def index(cls, values: Sequence[str]) -> tuple[Texts, Int64]:
        """Returns the distinct texts of ``values`` (n,), and for each value its position among them (n,)."""
        distinct = sorted(set(values))
        code = dict(zip(distinct, range(len(distinct)), strict=True))
        return cls(distinct), np.fromiter(map(code.__getitem__, values), np.int64, len(values))

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, at: int) -> bytes:
        value: bytes = self._joined[self._starts[at] : self._starts[at + 1] - 1]
        return value

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        table = sum(part.nbytes for part in self.__dict__.get("_table", ()))
        return len(self._joined) + int(self._starts.nbytes + table)

    def listed(self) -> list[str]:
        """Returns all values."""
        bounds = self._starts.tolist()
        return [self._joined[start : end - 1].decode() for start, end in zip(bounds[:-1], bounds[1:], strict=True)]

    def below(self, value: str) -> int:
        """Returns how many are smaller."""
        return bisect_left(self, value.encode())

    def up_to(self, value: str) -> int:
        """Returns how many are smaller or equal."""
        return bisect_right(self, value.encode())

    def find(self, values: Sequence[str]) -> Int64:
        """Returns the positions of those ``values`` that are stored, each once."""
        sought = list({value.encode() for value in values})
        if len(sought) < TABLE_FROM:
            ranks = [bisect_left(self, one) for one in sought]
            there = [at for at, one in zip(ranks, sought, strict=True) if at < len(self) and self[at] == one]
            return np.array(there, np.int64)
        hashes, owners = self._table
        wanted = np.fromiter(map(hash, sought), np.int64, len(sought))
        found: list[Int64] = []
        first, last = np.searchsorted(hashes, wanted), np.searchsorted(hashes, wanted, side="right")
        left = np.flatnonzero(first < last)
        while len(left):  # more than one round only if two texts share a hash
            at = owners[first[left]]
            ends = self._starts[at + 1] - 1
            parts = zip(self._starts[at].tolist(), ends.tolist(), left.tolist(), strict=True)
            found.append(at[[self._joined[start:end] == sought[one] for start, end, one in parts]])
            first[left] += 1
            left = left[first[left] < last[left]]
        return np.concatenate([np.empty(0, np.int64), *found])

    @cached_property
    def _table(self) -> tuple[Int64, Int64]:
        """Returns sorted hashes, and the position of the text of each."""
        hashes = np.fromiter((hash(self[at]) for at in range(len(self))), np.int64, len(self))
        order = np.argsort(hashes)
        return hashes[order], order

    def with_part(self, part: str) -> Int64:
        """Returns the positions of the texts that contain a part."""
        if not part:
            return np.arange(len(self))
        offsets = [found.start() for found in re.finditer(re.escape(part.encode()), self._joined)]
        return np.unique(np.searchsorted(self._starts, offsets, side="right") - 1)


V = TypeVar("V", Numbers, Texts)


class Lists(Generic[V]):
    """Inverted lists: the positions of memories by value.

    Args:
        values: m distinct values.
        starts: (m + 1,) the index in ``positions`` at which the positions of each value begin.
        positions: (e,) positions of memories.
    """

    def __init__(self, values: V, starts: Int32, positions: Int32) -> None:
        self.values: V = values
        self._starts, self.positions = starts, positions
        # (n,) the number of each memory's value, plus 1, and 0 for none; made for the first filter that passes many
        self._ranks: npt.NDArray[np.unsignedinteger[Any]] | None = None

    @classmethod
    def of(cls, values: V, code: Int64, positions: Int32) -> Lists[V]:
        """Builds the lists from entries, each with a value ``code`` (e,) and a position (e,)."""
        starts = np.zeros(len(values) + 1, np.int32)
        np.cumsum(np.bincount(code, minlength=len(values)), out=starts[1:])
        return cls(values, starts, positions[np.argsort(code, kind="stable")])

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        ranks = 0 if self._ranks is None else self._ranks.nbytes
        return int(self.values.nbytes + self._starts.nbytes + self.positions.nbytes + ranks)

    def mask(self, first: int, last: int, count: int) -> Bools:
        """Returns which of ``count`` memories have a value with a number from ``first`` to before ``last``.

        For a kind of which a memory has at most one value.
        """
        positions = self.between(first, last)
        if count < MANY or len(positions) < SHARE * count:
            mask = np.zeros(count, bool)
            mask[positions] = True
            return mask
        if self._ranks is None:
            ranks = np.zeros(count, np.min_scalar_type(len(self.values)))
            ranks[self.positions] = np.repeat(np.arange(1, len(self.values) + 1), np.diff(self._starts))
            self._ranks = ranks
        mask = self._ranks > first
        if last < len(self.values):
            mask &= self._ranks <= last
        return mask

    def between(self, first: int, last: int) -> Int32:
        """Returns the positions of the values with numbers from ``first`` to before ``last``."""
        positions: Int32 = self.positions[self._starts[first] : self._starts[max(first, last)]]
        return positions

    def at(self, values: Int64) -> Int32:
        """Returns the positions of some values, given by their numbers."""
        if len(values) == 1:
            return self.between(int(values[0]), int(values[0]) + 1)
        starts = self._starts[values]
        positions: Int32 = self.positions[concatenated(starts, self._starts[values + 1] - starts)]
        return positions

    def entries(self) -> tuple[list[Any], Int64]:
        """Returns all positions, and the value number of each (e,)."""
        return self.values.listed(), np.repeat(np.arange(len(self.values)), np.diff(self._starts))


NO_NUMBERS = Lists(Numbers(np.empty(0)), np.zeros(1, np.int32), NO_POSITIONS)
NO_TEXTS = Lists(Texts([]), np.zeros(1, np.int32), NO_POSITIONS)


@dataclass(frozen=True)
class Column:
    """The values of one metadata key.

    Attributes:
        number: numbers, a bool as 0 or 1.
        text: strings.
        nested: lists and dicts, as JSON.
        number_entry: numbers that are entries of lists.
        text_entry: strings that are entries of lists.
        none: (e,) positions of the memories with None.
    """

    number: Lists[Numbers] = NO_NUMBERS
    text: Lists[Texts] = NO_TEXTS
    nested: Lists[Texts] = NO_TEXTS
    number_entry: Lists[Numbers] = NO_NUMBERS
    text_entry: Lists[Texts] = NO_TEXTS
    none: Int32 = field(default_factory=lambda: NO_POSITIONS)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        parts = (getattr(self, part.name) for part in fields(self))
        return sum(part.nbytes for part in parts if len(part.positions if isinstance(part, Lists) else part))

    def of(self, kind: Kind, entries: bool = False) -> Lists[Any]:
        """Returns the values of a kind, or the list ``entries`` of this kind."""
        lists: Lists[Any] = getattr(self, f"{kind}_entry" if entries else kind)
        return lists

    @property
    def positions(self) -> Int32:
        """Returns the positions of all memories that have the key."""
        return np.concatenate([self.number.positions, self.text.positions, self.nested.positions, self.none])


class ColumnBuilder:
    """Collects the values of one key and builds its column."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[list[Any], list[int]]] = {}
        self._none: list[int] = []

    def add(self, position: int, value: Any) -> None:
        """Adds the value of one memory, as ``json.loads`` gives it."""
        if isinstance(value, str):
            self._put("text", value, position)
        elif value is None:
            self._none.append(position)
        elif isinstance(value, list | dict):
            self._put("nested", to_json(value), position)
            for item in value if isinstance(value, list) else ():
                if isinstance(item, str):
                    self._put("text_entry", item, position)
                elif isinstance(item, int | float):
                    self._put("number_entry", as_number(item), position)
        else:
            self._put("number", as_number(value), position)

    def _put(self, part: str, value: Any, position: int) -> None:
        values, positions = self._found.get(part) or self._found.setdefault(part, ([], []))
        values.append(value)
        positions.append(position)

    def column(self) -> Column:
        """Returns the column."""
        parts = {
            part: _index(part, values, np.array(positions, np.int32))
            for part, (values, positions) in self._found.items()
        }
        return Column(**parts, none=np.array(self._none, np.int32) if self._none else NO_POSITIONS)


class LateColumns(Mapping[str, Column]):
    """The columns of few memories by key, each built when a filter first needs it.

    Args:
        metadatas: the metadata of each memory, as ``json.loads`` gives them.
    """

    def __init__(self, metadatas: Sequence[Mapping[str, Any]]) -> None:
        self.metadatas, self._built = metadatas, dict[str, Column]()

    def __getitem__(self, key: str) -> Column:
        found = self._built.get(key)
        if found is None:
            values = [(position, one[key]) for position, one in enumerate(self.metadatas) if key in one]
            if not values:
                raise KeyError(key)
            builder = ColumnBuilder()
            for position, value in values:
                builder.add(position, value)
            found = self._built[key] = builder.column()
        return found

    def __iter__(self) -> Iterator[str]:
        return iter({key: None for one in self.metadatas for key in one})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def merged(columns: Sequence[tuple[Column, Int32]]) -> Column:
    """Merges several columns.

    Args:
        columns: columns, each with the new position for each old position; -1 leaves a position out.
    """
    parts: dict[str, Lists[Any]] = {}
    for name in ("number", "text", "nested", "number_entry", "text_entry"):
        values: list[Any] = []
        codes, positions = [], []
        for column, moved in columns:
            lists: Lists[Any] = getattr(column, name)
            if len(lists.positions):
                own, code = lists.entries()
                position = moved[lists.positions]
                codes.append(code[position >= 0] + len(values))
                positions.append(position[position >= 0])
                values += own
        if values:
            parts[name] = _merge(name, values, np.concatenate(codes), np.concatenate(positions))
    none = np.concatenate([moved[column.none] for column, moved in columns])
    return Column(**parts, none=none[none >= 0])


def _merge(part: str, values: list[Any], code: Int64, positions: Int32) -> Lists[Any]:
    """Merges entries by ``code`` (e,). Values may be duplicates, or unused."""
    used, code = np.unique(code, return_inverse=True)
    used_values = [values[at] for at in used.tolist()]
    if not used_values:
        return NO_NUMBERS if part.startswith("number") else NO_TEXTS
    distinct, of_used = Numbers.index(used_values) if part.startswith("number") else Texts.index(used_values)
    return Lists.of(distinct, of_used[code], positions)


def _index(part: str, values: list[Any], positions: Int32) -> Lists[Any]:
    distinct, code = Numbers.index(values) if part.startswith("number") else Texts.index(values)
    return Lists.of(distinct, code, positions)


def entry_at(value: str, path: Sequence[str]) -> tuple[bool, Any]:
    """The same as ``at_path``, for a dict given as JSON."""
    return at_path(json.loads(value), path)


def _itself(value: Number) -> Number:
    return value


def _as_array(values: Sequence[Number]) -> npt.NDArray[Any]:
    """Returns numbers as doubles, or as objects if an integer among them equals no double."""
    exact = all(type(value) is float or abs(value) <= EXACT for value in values)
    return np.array(values, np.float64 if exact else object)
