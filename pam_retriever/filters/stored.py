"""The stored form of metadata: JSON, in which values are compared."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np

SEPARATOR = "\x1e"  # between dicts
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # NUL, and a lone surrogate


def to_json(value: Any) -> str:
    """Returns the only JSON form in which metadata are stored and compared.

    Dates and times become ISO 8601 strings (a time with an offset in UTC, so that strings sort as times do), a UUID its
    string, an Enum its value, a NumPy scalar the Python number.

    Raises:
        ValueError: the value is NaN or infinite.
        TypeError: JSON cannot hold the value.
    """
    return ENCODER.encode(value)


def to_json_each(dicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns ``to_json`` of each of some dicts, by one call of the encoder: a third of the time.

    Raises:
        ValueError, TypeError: as ``to_json``.
    """
    separated: list[Any] = [SEPARATOR] * (2 * len(dicts) - 1)
    separated[::2] = dicts
    found = to_json(separated)[1:-1].split(f",{to_json(SEPARATOR)},")
    return found if len(found) == len(dicts) else [*map(to_json, dicts)]  # a list in one of them holds the separator


def has_string_keys(value: object) -> bool:
    """Returns whether all keys in a value that JSON can hold are strings. ``to_json`` turns others into strings."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            if not all(isinstance(key, str) for key in one):
                return False
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
    return True


def plain_value(value: Any) -> Any:
    """Converts a value without a JSON form to a string or a number.

    Raises:
        TypeError: there is no such conversion.
        ValueError: the value is NaT, which is no time.
    """
    if isinstance(value, np.datetime64):
        value = _date_of(value)
    if isinstance(value, datetime):
        if value != value:  # NaT of pandas is a datetime
            raise ValueError("NaT is no time")
        return (value if value.tzinfo is None else value.astimezone(timezone.utc)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.generic):
        return float(value) if isinstance(value, np.longdouble) else value.item()
    raise TypeError(f"{type(value).__name__} is not a value that JSON can hold")


def _date_of(value: np.datetime64) -> date:
    exact = value.item()  # an int if the unit is finer than a microsecond
    found = exact if isinstance(exact, date) else value.astype("datetime64[us]").item()
    if not isinstance(found, date):
        raise ValueError(f"{value} is no time from year 1 to 9999")
    return found


ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=plain_value)


def at_path(value: Any, path: Sequence[str]) -> tuple[bool, Any]:
    """Returns whether a path through dicts ends at an entry, and the entry."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return False, None
        value = value[key]
    return True, value


def as_number(value: float) -> int | float:
    """Returns the form of a number for comparisons: a bool as 0 or 1, an integer of more than 64 bits as a float."""
    if not isinstance(value, int):
        return value
    if -(2**63) < value < 2**63:
        return int(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
