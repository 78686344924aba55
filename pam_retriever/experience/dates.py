"""Dates in metadata and events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from typing import Any

import numpy as np

from pam_retriever.arrays import is_finite
from pam_retriever.errors import InvalidInput
from pam_retriever.types import Metadata, Time
from pam_retriever.validation import read_date

USUAL_KEYS = ("timestamp", "date", "created_at", "last_modified")


def read_timestamp(given: Any) -> float:
    """Returns a time as a number: dates and datetimes in seconds since 1970 (UTC without an offset), numbers unchanged.

    Raises:
        InvalidInput: the value is something else.
    """
    if isinstance(given, datetime):
        try:
            return (given if given.tzinfo is not None else given.replace(tzinfo=timezone.utc)).timestamp()
        except ValueError as error:  # NaT of pandas is a datetime
            raise InvalidInput(f"Got the timestamp {given!r}.", "a time", "Pass None if it is not known.") from error
    if isinstance(given, date):
        return datetime(given.year, given.month, given.day, tzinfo=timezone.utc).timestamp()
    if not is_finite(given):
        fix = "Leave it out if it is not known."
        if isinstance(given, np.datetime64):
            fix = "Pass value.astype('datetime64[us]').item()."
        elif read_date(given) is not None:
            fix = f"Pass datetime.fromisoformat({given!r})."
        raise InvalidInput(f"Got the timestamp {given!r}.", "a datetime, a date or a finite number", fix)
    return float(given)


def order_of(text: str) -> str:
    """Returns the text by which a string is ordered: for "2026-05-18T23:30:00-05:00" that of its instant in UTC."""
    found = read_date(text) if text[4:5] == "-" else None
    if found is None:
        return text
    at = found if isinstance(found, datetime) else datetime(found.year, found.month, found.day)
    try:
        return (at if at.tzinfo is not None else at.replace(tzinfo=timezone.utc)).astimezone(timezone.utc).isoformat()
    except OverflowError:  # in the first or the last hours of the calendar
        return text


def read_time_key(key: str | Sequence[str] | None) -> tuple[str, ...]:
    """Returns the metadata keys that may hold the time of a memory.

    Raises:
        InvalidInput: these are no strings.
    """
    keys = () if key is None else (key,) if isinstance(key, str) else tuple(key)
    if not all(isinstance(one, str) and one for one in keys):
        raise InvalidInput(f"Got time_key={key!r}.", "a key of the metadata, several, or None", "Name the key.")
    return keys


def times_of(metadatas: Sequence[Metadata], keys: Sequence[str]) -> list[Time | None] | None:
    """Returns the times of n memories: the first of ``keys`` with a date, else None; None if no memory has one.

    Args:
        metadatas: the metadata of n memories.
        keys: the metadata keys, in the order of precedence.
    """
    times: list[Time | None] = [
        next((found for key in keys if (found := read_date(one.get(key))) is not None), None) for one in metadatas
    ]
    return times if any(time is not None for time in times) else None
