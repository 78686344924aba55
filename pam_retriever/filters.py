"""One metadata filter language, compiled to parametrised SQL.

    {"speaker": "Ann"}                              equal
    {"year": {"$gte": 2020, "$lt": 2024}}           every condition holds
    {"tags": {"$contains": "urgent"}}               a list with that entry, or a string with that part
    {"$or": [{"tag": {"$in": ["a", "b"]}}, {"$not": {"draft": True}}]}

A key names a top-level entry of the metadata and may hold any characters but a leading "$". Values compare
with values of their own kind (numbers and booleans with numbers, strings with strings), as in
Python; a memory without the key satisfies ``$ne``, ``$nin`` and ``$exists: False`` only. ``None`` is
a value like any other: ``{"end": None}`` finds memories whose ``end`` is stored as None.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Literal

from pam_retriever.errors import InvalidInput
from pam_retriever.limits import MAX_FILTER_DEPTH, MAX_FILTER_TESTS

COMPARISONS = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
OPERATORS = (*COMPARISONS, "$ne", "$in", "$nin", "$exists", "$contains")
COMBINERS = ("$and", "$or", "$not")

Kind = Literal["number", "text", "nested"]
# the JSON types of SQLite
TYPES = {"number": "'integer', 'real', 'true', 'false'", "text": "'text'", "nested": "'array', 'object'"}


def compile_filter(where: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Compiles a filter to an SQL condition on a column ``metadata``, and its parameters.

    Raises:
        InvalidInput: for an unknown operator, a value that cannot be compared, nesting deeper than
            16 levels, or more than 30,000 tests.
    """
    return Compiler().compile(where)


class Compiler:
    """Walks a filter, checks it, and writes it as SQL.

    The tests of one key are in SQLite's words here; another engine replaces the methods that write them. No
    test may be NULL, so that NOT is plain negation.
    """

    true, false = "1", "0"
    most_parameters = MAX_FILTER_TESTS

    def __init__(self) -> None:
        self.parameters: list[Any] = []
        self._conditions = 0  # an empty one has no parameter

    def compile(self, where: Any) -> tuple[str, list[Any]]:
        """The condition and its parameters; errors as of ``compile_filter``."""
        condition = self._condition(where, depth=0)
        self._check_size()
        return condition, self.parameters

    def _check_size(self) -> None:
        """Refuses a filter that has grown too large, before it grows further."""
        if len(self.parameters) > self.most_parameters or self._conditions > MAX_FILTER_TESTS:
            raise InvalidInput(
                f"Got a filter of more than {MAX_FILTER_TESTS:,} tests.", "fewer", "Use $in for many values."
            )

    def _condition(self, where: Any, depth: int) -> str:
        if not isinstance(where, Mapping):
            raise InvalidInput(f"Got {where!r} as a filter.", "a dict", "For example {'year': {'$gte': 2020}}.")
        if depth > MAX_FILTER_DEPTH:
            raise InvalidInput(
                f"Got a filter nested deeper than {MAX_FILTER_DEPTH} levels.", "fewer levels", "Flatten it."
            )
        self._conditions += 1
        self._check_size()
        return self.join([self._term(key, value, depth) for key, value in where.items()], "AND")

    def _term(self, key: Any, value: Any, depth: int) -> str:
        if not isinstance(key, str):
            raise InvalidInput(f"Got the filter key {key!r}.", "a string", "Metadata keys are strings.")
        if key in ("$and", "$or"):
            if not isinstance(value, list | tuple):
                raise InvalidInput(f"Got {value!r} for {key}.", "a list of filters", "Wrap it in [ ].")
            return self.join([self._condition(v, depth + 1) for v in value], key[1:].upper())
        if key == "$not":
            return self.negated(self._condition(value, depth + 1))
        if key.startswith("$"):
            _refuse_operator(key, COMBINERS)
        if not isinstance(value, Mapping):
            value = {"$eq": value}
        return self.join([self._test(_storable(key), op, operand) for op, operand in value.items()], "AND")

    def _test(self, key: str, operator: Any, operand: Any) -> str:
        """One operator on one key."""
        if operator == "$ne":
            return self.negated(self._test(key, "$eq", operand))
        if operator == "$nin":
            return self.negated(self._test(key, "$in", operand))
        if operator == "$in":
            if not isinstance(operand, list | tuple | set | frozenset):
                raise InvalidInput(f"Got {operand!r} for $in.", "a list of values", "Wrap it in [ ].")
            return self._in(key, list(operand))
        if operator == "$contains":
            kind, value = _comparable(operand, equality=False)
            tests = [self.has_entry(key, kind, value)]
            return self.join([*tests, self.has_part(key, value)] if kind == "text" else tests, "OR")
        if operator == "$exists":
            if not isinstance(operand, bool):
                raise InvalidInput(f"Got {operand!r} for $exists.", "True or False", "Use a bool.")
            return self.has(key) if operand else self.negated(self.has(key))
        if operator not in COMPARISONS:
            _refuse_operator(operator, OPERATORS)
        if operand is None and operator == "$eq":
            return self.is_none(key)
        kind, value = _comparable(operand, equality=operator == "$eq")
        return self.compares(key, kind, COMPARISONS[operator], value)

    def _in(self, key: str, operands: list[Any]) -> str:
        """$in as one test for each kind of value, however many values there are."""
        by_kind: dict[Kind, list[Any]] = {}
        terms = []
        for operand in operands:
            if operand is None:
                terms.append(self.is_none(key))
            else:
                kind, value = _comparable(operand, equality=True)
                by_kind.setdefault(kind, []).append(value)
        return self.join(terms + [self.is_among(key, kind, values) for kind, values in by_kind.items()], "OR")

    def join(self, terms: list[str], word: str) -> str:
        """Joins in halves, so that depth grows with the logarithm; an empty AND holds, an empty OR does not."""
        if len(terms) > 2:
            middle = len(terms) // 2
            terms = [self.join(terms[:middle], word), self.join(terms[middle:], word)]
        return f"({f' {word} '.join(terms)})" if terms else (self.true if word == "AND" else self.false)

    # ---- the tests, as SQLite has them

    def negated(self, test: str) -> str:
        """The test does not hold."""
        return f"NOT {test}"

    def has(self, key: str) -> str:
        """The key is there."""
        return self._exists(key, "1")

    def is_none(self, key: str) -> str:
        """The value is stored as None."""
        return self._exists(key, "entry.type = 'null'")

    def compares(self, key: str, kind: Kind, symbol: str, value: Any) -> str:
        """The value is of a kind, and stands to another like ``symbol``."""
        return self._exists(key, f"entry.type IN ({TYPES[kind]}) AND entry.value {symbol} ?", value)

    def is_among(self, key: str, kind: Kind, values: list[Any]) -> str:
        """The value is of a kind, and one of ``values``."""
        among = "entry.value IN (SELECT value FROM json_each(?))"
        return self._exists(key, f"entry.type IN ({TYPES[kind]}) AND {among}", to_json(values))

    def has_entry(self, key: str, kind: Kind, value: Any) -> str:
        """The value is a list with that entry."""
        item = f"SELECT 1 FROM json_each(entry.value) AS item WHERE item.type IN ({TYPES[kind]}) AND item.value = ?"
        return self._exists(key, f"entry.type = 'array' AND EXISTS ({item})", value)

    def has_part(self, key: str, value: str) -> str:
        """The value is a string with that part."""
        return self._exists(key, "entry.type = 'text' AND instr(entry.value, ?) > 0", value)

    def _exists(self, key: str, test: str, *values: Any) -> str:
        # json_each instead of a JSON path: a path cannot spell a key that holds a quote
        self.parameters += [key, *values]
        return f"EXISTS (SELECT 1 FROM json_each(metadata) AS entry WHERE entry.key = ? AND {test})"


def _comparable(operand: Any, equality: bool) -> tuple[Kind, Any]:
    """The kind of values that an operand compares with, and the operand as SQLite holds it."""
    if isinstance(operand, bool):
        return "number", int(operand)
    if isinstance(operand, int | float) and math.isfinite(operand):
        # past 64 bits SQLite reads a JSON number as floating point
        return "number", float(operand) if abs(operand) >= 2**63 else operand
    if isinstance(operand, str):
        return "text", _storable(operand)
    if isinstance(operand, list | tuple | dict) and equality:
        return "nested", _storable(_nested_json(operand))
    raise InvalidInput(
        f"Got {operand!r} to compare with.",
        "a string, a finite number, a bool, or (for equality) None or a list",
        "Convert it, and store the metadata in the same form.",
    )


def _nested_json(operand: Any) -> str:
    """A list or a dict as it would be stored."""
    try:
        return to_json(operand)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"The filter holds a {type(operand).__name__} that cannot be stored as JSON ({error}).",
            "strings, finite numbers, bools, None, lists and dicts",
            "Convert it.",
        ) from error


def _storable(text: str) -> str:
    """The text, unless it cannot be in any stored metadata and so has no place in a filter."""
    if "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidInput(
            f"The filter holds {text!r}.", "text without NUL and lone surrogates", "Remove that character."
        )
    return text


def _refuse_operator(operator: Any, known: tuple[str, ...]) -> None:
    raise InvalidInput(f"Got the filter operator {operator!r}.", f"one of {', '.join(known)}", "Check its spelling.")


def to_json(value: Any) -> str:
    """The one JSON form in which metadata are stored and compared.

    Raises:
        ValueError: for NaN and infinity.
        TypeError: for what JSON cannot hold.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
