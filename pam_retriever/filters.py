"""One metadata filter language, compiled to parametrised SQL.

    {"speaker": "Ann"}                              equal
    {"year": {"$gte": 2020, "$lt": 2024}}           every condition holds
    {"$or": [{"tag": {"$in": ["a", "b"]}}, {"$not": {"draft": True}}]}

A key names a top-level entry of the metadata and may hold any characters. Values compare
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

COMPARISONS = {"$eq": "=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
OPERATORS = (*COMPARISONS, "$ne", "$in", "$nin", "$exists")
COMBINERS = ("$and", "$or", "$not")
MAX_DEPTH = 64  # SQLite refuses expressions nested deeper than 1,000; one level here takes a few


def compile_filter(where: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Compiles a filter to an SQL condition on a column ``metadata``, and its parameters.

    Raises:
        InvalidInput: for an unknown operator, a value that cannot be compared, or nesting
            deeper than 64 levels.
    """
    parameters: list[Any] = []
    return _condition(where, parameters, depth=0), parameters


def _condition(where: Any, parameters: list[Any], depth: int) -> str:
    if not isinstance(where, Mapping):
        raise InvalidInput(f"Got {where!r} as a filter.", "a dict", "For example {'year': {'$gte': 2020}}.")
    if depth > MAX_DEPTH:
        raise InvalidInput(f"Got a filter nested deeper than {MAX_DEPTH} levels.", "fewer levels", "Flatten it.")
    terms = [_term(key, value, parameters, depth) for key, value in where.items()]
    return _join(terms, "AND")


def _term(key: Any, value: Any, parameters: list[Any], depth: int) -> str:
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


def _test(key: str, operator: Any, operand: Any, parameters: list[Any]) -> str:
    """One operator on one key. COALESCE-free: EXISTS is never NULL, so NOT is plain negation."""
    if operator == "$ne":
        return f"NOT {_test(key, '$eq', operand, parameters)}"
    if operator == "$nin":
        return f"NOT {_test(key, '$in', operand, parameters)}"
    if operator == "$in":
        if not isinstance(operand, list | tuple | set | frozenset):
            raise InvalidInput(f"Got {operand!r} for $in.", "a list of values", "Wrap it in [ ].")
        return _join([_test(key, "$eq", value, parameters) for value in operand], "OR")
    parameters.append(key)
    if operator == "$exists":
        if not isinstance(operand, bool):
            raise InvalidInput(f"Got {operand!r} for $exists.", "True or False", "Use a bool.")
        return f"{'' if operand else 'NOT '}{_exists('1')}"
    if operator not in COMPARISONS:
        _refuse_operator(operator, OPERATORS)
    return _exists(_comparison(COMPARISONS[operator], operand, parameters))


def _exists(test: str) -> str:
    # json_each instead of a JSON path: a path cannot spell a key that holds a quote
    return f"EXISTS (SELECT 1 FROM json_each(metadata) AS entry WHERE entry.key = ? AND {test})"  # noqa: S608 - no input


def _comparison(symbol: str, operand: Any, parameters: list[Any]) -> str:
    if operand is None and symbol == "=":
        return "entry.type = 'null'"
    if isinstance(operand, bool | int | float) and math.isfinite(operand):
        kinds = "'integer', 'real', 'true', 'false'"
        # past 64 bits JSON numbers are stored as floating point
        operand = int(operand) if isinstance(operand, bool) else operand
        parameters.append(float(operand) if abs(operand) >= 2**63 else operand)
    elif isinstance(operand, str):
        kinds = "'text'"
        parameters.append(operand)
    elif isinstance(operand, list | tuple | dict) and symbol == "=":
        kinds = "'array', 'object'"
        parameters.append(to_json(operand))
    else:
        raise InvalidInput(
            f"Got {operand!r} to compare with.",
            "a string, a finite number, a bool, or (for equality) None or a list",
            "Convert it, and store the metadata in the same form.",
        )
    return f"entry.type IN ({kinds}) AND entry.value {symbol} ?"


def _join(terms: list[str], word: str) -> str:
    """No terms at all: an empty AND holds, an empty OR does not."""
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
