"""The language of metadata filters, parsed to a tree of conditions.

    {"speaker": "Ann"}                              equal
    {"year": {"$gte": 2020, "$lt": 2024}}           every condition holds
    {"tags": {"$contains": "urgent"}}               a list with that entry, or a string with that part
    {"user.name": "ann"}                            the entry "name" of the dict "user"
    {"$or": [{"tag": {"$in": ["a", "b"]}}, {"$not": {"draft": True}}]}
    {"$time": {"$gte": date(2023, 7, 1)}}           the time of the memory, which is not part of its metadata

A key names a top-level entry of the metadata and may hold any characters but a leading "$". A key with dots names the
entry with exactly this name. If a memory has none, the key is a path: ``"a.b.c"`` is the entry "c" of the dict "b" in
the dict "a". A path leads through dicts only.

Values are compared with values of the same kind (numbers and booleans with numbers, strings with strings), as in
Python. A memory without the key satisfies only ``$ne``, ``$nin`` and ``$exists: False``. ``None`` is a value like any
other: ``{"end": None}`` finds memories whose ``end`` is stored as None. Lists and dicts are equal if their JSON is the
same. Dates and times are stored, and compared, as ISO 8601 strings.

``store/sqlite/metadata_index.py`` evaluates a tree on arrays; ``engines/compiler.py`` translates it for a database
server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, timezone
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import numpy as np

from pam_retriever.errors import InvalidInput
from pam_retriever.filters.conditions import (
    All,
    Among,
    Compares,
    Condition,
    Has,
    HasEntry,
    HasPart,
    IsNone,
    Kind,
    Not,
    Some,
    Symbol,
    Timed,
    Value,
)
from pam_retriever.filters.stored import UNSTORABLE, as_number, plain_value, to_json
from pam_retriever.limits import MAX_FILTER_DEPTH, MAX_FILTER_TESTS
from pam_retriever.validation import read_date

COMPARISONS: dict[str, Symbol] = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
OPERATORS = ("$eq", *COMPARISONS, "$ne", "$in", "$nin", "$exists", "$contains")
TIME, DAY = "$time", 86_400.0
COMBINERS = ("$and", "$or", "$not")


def read_filter(where: Mapping[str, Any]) -> Condition:
    """Parses a filter to a tree of conditions.

    Raises:
        InvalidInput: an operator is unknown, a value cannot be compared, the nesting has more than 16 levels, or there
            are more than 30,000 tests.
    """
    return _Reader().condition(where, depth=0)


class _Reader:
    """Parses and checks a filter, and counts its tests."""

    def __init__(self) -> None:
        self._tests = 0  # dicts count, too: an empty one has no test

    def _count(self) -> None:
        """Refuses a filter that is too large, before it grows further."""
        self._tests += 1
        if self._tests > MAX_FILTER_TESTS:
            raise InvalidInput(
                f"Got a filter of more than {MAX_FILTER_TESTS:,} tests.", "fewer", "Use $in for many values."
            )

    def condition(self, where: Any, depth: int) -> Condition:
        if not isinstance(where, Mapping):
            raise InvalidInput(f"Got {where!r} as a filter.", "a dict", "For example {'year': {'$gte': 2020}}.")
        if depth > MAX_FILTER_DEPTH:
            raise InvalidInput(
                f"Got a filter nested deeper than {MAX_FILTER_DEPTH} levels.", "fewer levels", "Flatten it."
            )
        self._count()
        return _together([self._term(key, value, depth) for key, value in where.items()])

    def _term(self, key: Any, value: Any, depth: int) -> Condition:
        if not isinstance(key, str):
            raise InvalidInput(f"Got the filter key {key!r}.", "a string", "Metadata keys are strings.")
        if key in ("$and", "$or"):
            if not isinstance(value, list | tuple):
                raise InvalidInput(f"Got {value!r} for {key}.", "a list of filters", "Wrap it in [ ].")
            parts = [self.condition(one, depth + 1) for one in value]
            return _together(parts) if key == "$and" else Some(tuple(parts))
        if key == "$not":
            return Not(self.condition(value, depth + 1))
        if key.startswith("$") and key != TIME:
            _refuse_operator(key, (*COMBINERS, TIME))
        if isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
            raise InvalidInput(  # "must", "AND" and others of other languages would be keys, and find nothing
                f"Got a list of dicts for the filter key {key!r}.",
                "$and, $or or $not to combine filters",
                "Use {'$eq': [...]} to find a stored list of dicts.",
            )
        if not isinstance(value, Mapping):
            value = {"$eq": value}
        if not value:
            raise InvalidInput(f"Got {{{key!r}: {{}}}}, which has no operator.", "one", "Use {'$exists': True} or so.")
        if key == TIME:
            return self._time(value)
        return _together([self._test(_storable(key), op, operand) for op, operand in value.items()])

    def _time(self, tests: Mapping[Any, Any]) -> Condition:
        """Parses tests of a memory's time; several comparisons become one interval."""
        parts: list[Condition] = []
        first, last, kinds = -math.inf, math.inf, set()
        for operator, operand in tests.items():
            self._count()
            if operator in COMPARISONS:
                start, end, kind = _span(operand)
                first = max(first, {"$gte": start, "$gt": end}.get(operator, first))
                last = min(last, {"$lt": start, "$lte": end}.get(operator, last))
                kinds.add(kind)
            elif operator in ("$in", "$nin") and isinstance(operand, list | tuple | set | frozenset):
                among = Some(tuple(Timed(*_span(one)) for one in operand))
                parts.append(among if operator == "$in" else Not(among))
            elif operator in ("$eq", "$ne"):
                at = Timed(*_span(operand))
                parts.append(at if operator == "$eq" else Not(at))
            elif operator == "$exists" and isinstance(operand, bool):
                there = Timed(-math.inf, math.inf, None)
                parts.append(there if operand else Not(there))
            else:
                raise InvalidInput(
                    f"Got {operator!r}: {operand!r} for {TIME!r}.",
                    "$eq, $ne, $gt, $gte, $lt or $lte and a time, $in or $nin and a list, $exists and a bool",
                    "For example {'$time': {'$gte': date(2023, 7, 1)}}.",
                )
        parts += [Timed(first, last, kind) for kind in sorted(kinds)]
        return _together(parts)

    def _test(self, key: str, operator: Any, operand: Any) -> Condition:
        """Parses one operator on one key."""
        self._count()
        if operator == "$ne":
            return Not(_among(key, [operand]))
        if operator == "$eq":
            return _among(key, [operand])
        if operator in ("$in", "$nin"):
            if getattr(operand, "ndim", 0) == 1:  # a column of pandas, or an array
                operand = list(operand)
            if not isinstance(operand, list | tuple | set | frozenset):
                raise InvalidInput(f"Got {operand!r} for {operator}.", "a list of values", "Wrap it in [ ].")
            among = _among(key, list(operand))
            return among if operator == "$in" else Not(among)
        if operator == "$contains":
            kind, value = _comparable(operand, equality=False)
            entry = HasEntry(key, kind, value)
            return Some((entry, HasPart(key, value))) if isinstance(value, str) else entry
        if operator == "$exists":
            if not isinstance(operand, bool):
                raise InvalidInput(f"Got {operand!r} for $exists.", "True or False", "Use a bool.")
            return Has(key) if operand else Not(Has(key))
        if operator not in COMPARISONS:
            _refuse_operator(operator, OPERATORS)
        kind, value = _comparable(operand, equality=False)
        return Compares(key, kind, COMPARISONS[operator], value)


def _span(time: Any) -> tuple[float, float, Literal["dates", "numbers"]]:
    """Returns the start of a time, the first instant after it, and its kind. A date is a whole day."""
    named = read_date(time)
    if isinstance(named, datetime):
        with suppress(ValueError):  # NaT of pandas is a datetime; it is refused below
            at = (named if named.tzinfo is not None else named.replace(tzinfo=timezone.utc)).timestamp()
            return at, math.nextafter(at, math.inf), "dates"
    elif named is not None:
        at = datetime(named.year, named.month, named.day, tzinfo=timezone.utc).timestamp()
        return at, at + DAY, "dates"
    plain = plain_value(time) if isinstance(time, np.number) else time
    number = as_number(plain) if isinstance(plain, int | float) and not isinstance(plain, bool) else math.nan
    if not math.isfinite(number):
        raise InvalidInput(
            f"Got {time!r} to compare times with.",
            "a datetime, a date, one of these in ISO 8601, or a finite number where times are numbers",
            "For words such as 'last week' there is recall(when=...).",
        )
    return float(number), math.nextafter(number, math.inf), "numbers"


def _among(key: str, operands: list[Any]) -> Condition:
    """Parses equality with one of the operands, as one test per kind of value."""
    by_kind: dict[Kind, list[Value]] = {}
    for operand in operands:
        if operand is not None:
            kind, value = _comparable(operand, equality=True)
            by_kind.setdefault(kind, []).append(value)
    tests: list[Condition] = [Among(key, kind, tuple(values)) for kind, values in by_kind.items()]
    tests += [IsNone(key)] if any(operand is None for operand in operands) else []
    return tests[0] if len(tests) == 1 else Some(tuple(tests))


def _together(parts: list[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _comparable(operand: Any, equality: bool) -> tuple[Kind, Value]:
    """Returns the kind of values that an operand compares with, and its form for comparisons."""
    if type(operand) is str:  # by far the most frequent kind
        return "text", _storable(operand)
    if isinstance(operand, datetime | date | UUID | Enum | np.generic):
        return _comparable(_plain(operand), equality)
    if isinstance(operand, int | float) and abs(operand) != math.inf and operand == operand:
        return "number", as_number(operand)
    if isinstance(operand, str):
        return "text", _storable(operand)
    if isinstance(operand, list | tuple | dict) and equality:
        return "nested", _storable(_nested_json(operand))
    raise InvalidInput(
        f"Got {operand!r} to compare with.",
        "a string, a finite number, a bool, or (for equality) None or a list",
        "Convert it, and store the metadata in the same form.",
    )


def _plain(operand: object) -> object:
    """Returns the stored form of a date, a UUID, an Enum or a number of NumPy."""
    try:
        return plain_value(operand)
    except ValueError as error:
        raise InvalidInput(f"Got {operand!r} to compare with.", "a time", "Use $exists for a missing one.") from error


def _nested_json(operand: Any) -> str:
    """Returns a list or a dict as stored JSON."""
    try:
        return to_json(operand)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"The filter holds a {type(operand).__name__} that cannot be stored as JSON ({error}).",
            "strings, finite numbers, bools, None, lists and dicts",
            "Convert it.",
        ) from error


def _storable(text: str) -> str:
    """Returns a text that can occur in stored metadata; refuses others."""
    if UNSTORABLE.search(text):
        raise InvalidInput(
            f"The filter holds {text!r}.", "text without NUL and lone surrogates", "Remove that character."
        )
    return text


def _refuse_operator(operator: Any, known: tuple[str, ...]) -> None:
    raise InvalidInput(f"Got the filter operator {operator!r}.", f"one of {', '.join(known)}", "Check its spelling.")
