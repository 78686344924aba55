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
from typing import Any

from pam_retriever.errors import InvalidInput
from pam_retriever.limits import MAX_FILTER_DEPTH, MAX_FILTER_TESTS

COMPARISONS = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
OPERATORS = (*COMPARISONS, "$ne", "$in", "$nin", "$exists", "$contains")
COMBINERS = ("$and", "$or", "$not")
NUMBERS, TEXT, NESTED = "'integer', 'real', 'true', 'false'", "'text'", "'array', 'object'"


def compile_filter(where: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Compiles a filter to an SQL condition on a column ``metadata``, and its parameters.

    Raises:
        InvalidInput: for an unknown operator, a value that cannot be compared, nesting deeper than
            16 levels, or more than 30,000 tests.
    """
    parameters = _Parameters()
    condition = _condition(where, parameters, depth=0)
    parameters.check_size()
    return condition, list(parameters)


class _Parameters(list[Any]):
    """The parameters so far, and how many conditions there were: an empty one has no parameter."""

    conditions = 0

    def check_size(self) -> None:
        """Refuses a filter that has grown too large, before it grows further."""
        if max(len(self), self.conditions) > MAX_FILTER_TESTS:
            raise InvalidInput(
                f"Got a filter of more than {MAX_FILTER_TESTS:,} tests.", "fewer", "Use $in for many values."
            )


def _condition(where: Any, parameters: _Parameters, depth: int) -> str:
    if not isinstance(where, Mapping):
        raise InvalidInput(f"Got {where!r} as a filter.", "a dict", "For example {'year': {'$gte': 2020}}.")
    if depth > MAX_FILTER_DEPTH:
        raise InvalidInput(f"Got a filter nested deeper than {MAX_FILTER_DEPTH} levels.", "fewer levels", "Flatten it.")
    parameters.conditions += 1
    parameters.check_size()
    terms = [_term(key, value, parameters, depth) for key, value in where.items()]
    return _join(terms, "AND")


def _term(key: Any, value: Any, parameters: _Parameters, depth: int) -> str:
    if not isinstance(key, str):
        raise InvalidInput(f"Got the filter key {key!r}.", "a string", "Metadata keys are strings.")
    if key in ("$and", "$or"):
        if not isinstance(value, list | tuple):
            raise InvalidInput(f"Got {value!r} for {key}.", "a list of filters", "Wrap it in [ ].")
        return _join([_condition(v, parameters, depth + 1) for v in value], key[1:].upper())
    if key == "$not":
        return f"NOT {_condition(value, parameters, depth + 1)}"
    if key.startswith("$"):
        _refuse_operator(key, COMBINERS)
    if not isinstance(value, Mapping):
        value = {"$eq": value}
    return _join([_test(key, op, operand, parameters) for op, operand in value.items()], "AND")


def _test(key: str, operator: Any, operand: Any, parameters: _Parameters) -> str:
    """One operator on one key. EXISTS is never NULL, so NOT is plain negation."""
    if operator == "$ne":
        return f"NOT {_test(key, '$eq', operand, parameters)}"
    if operator == "$nin":
        return f"NOT {_test(key, '$in', operand, parameters)}"
    if operator == "$in":
        if not isinstance(operand, list | tuple | set | frozenset):
            raise InvalidInput(f"Got {operand!r} for $in.", "a list of values", "Wrap it in [ ].")
        return _among(key, list(operand), parameters)
    if operator == "$contains":
        return _contains(key, operand, parameters)
    parameters.append(_storable(key))
    if operator == "$exists":
        if not isinstance(operand, bool):
            raise InvalidInput(f"Got {operand!r} for $exists.", "True or False", "Use a bool.")
        return f"{'' if operand else 'NOT '}{_exists('1')}"
    if operator not in COMPARISONS:
        _refuse_operator(operator, OPERATORS)
    return _exists(_comparison(COMPARISONS[operator], operand, parameters))


def _exists(test: str) -> str:
    # json_each instead of a JSON path: a path cannot spell a key that holds a quote
    return f"EXISTS (SELECT 1 FROM json_each(metadata) AS entry WHERE entry.key = ? AND {test})"


def _contains(key: str, operand: Any, parameters: _Parameters) -> str:
    """An entry of a list, or a part of a string."""
    kinds, value = _comparable(operand, equality=False)
    parameters += [_storable(key), value]
    part = f"EXISTS (SELECT 1 FROM json_each(entry.value) AS item WHERE item.type IN ({kinds}) AND item.value = ?)"
    tests = [_exists(f"entry.type = 'array' AND {part}")]
    if isinstance(operand, str):
        parameters += [key, value]
        tests.append(_exists("entry.type = 'text' AND instr(entry.value, ?) > 0"))
    return _join(tests, "OR")


def _comparison(symbol: str, operand: Any, parameters: _Parameters) -> str:
    if operand is None and symbol == "=":
        return "entry.type = 'null'"
    kinds, value = _comparable(operand, equality=symbol == "=")
    parameters.append(value)
    return f"entry.type IN ({kinds}) AND entry.value {symbol} ?"


def _among(key: str, operands: list[Any], parameters: _Parameters) -> str:
    """$in as one test for each kind of value, however many values there are."""
    by_kind: dict[str, list[Any]] = {}
    terms = []
    for operand in operands:
        if operand is None:
            terms.append(_test(key, "$eq", None, parameters))
        else:
            kinds, value = _comparable(operand, equality=True)
            by_kind.setdefault(kinds, []).append(value)
    for kinds, values in by_kind.items():
        parameters += [_storable(key), to_json(values)]
        terms.append(_exists(f"entry.type IN ({kinds}) AND entry.value IN (SELECT value FROM json_each(?))"))
    return _join(terms, "OR")


def _comparable(operand: Any, equality: bool) -> tuple[str, Any]:
    """The JSON types that an operand compares with, and the operand as SQLite holds it."""
    if isinstance(operand, bool):
        return NUMBERS, int(operand)
    if isinstance(operand, int | float) and math.isfinite(operand):
        # past 64 bits SQLite reads a JSON number as floating point
        return NUMBERS, float(operand) if abs(operand) >= 2**63 else operand
    if isinstance(operand, str):
        return TEXT, _storable(operand)
    if isinstance(operand, list | tuple | dict) and equality:
        return NESTED, _storable(_nested_json(operand))
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


def _join(terms: list[str], word: str) -> str:
    """Joins in halves, so that depth grows with the logarithm; an empty AND holds, an empty OR does not."""
    if len(terms) > 2:
        middle = len(terms) // 2
        terms = [_join(terms[:middle], word), _join(terms[middle:], word)]
    return f"({f' {word} '.join(terms)})" if terms else ("1" if word == "AND" else "0")


def _refuse_operator(operator: Any, known: tuple[str, ...]) -> None:
    raise InvalidInput(f"Got the filter operator {operator!r}.", f"one of {', '.join(known)}", "Check its spelling.")


def to_json(value: Any) -> str:
    """The one JSON form in which metadata are stored and compared.

    Raises:
        ValueError: for NaN and infinity.
        TypeError: for what JSON cannot hold.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
