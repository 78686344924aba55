"""Checks of metadata, and their stored form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from pam_retriever.errors import InvalidInput
from pam_retriever.filters.stored import has_string_keys, to_json, to_json_each
from pam_retriever.limits import MAX_METADATA_BYTES, MAX_METADATA_DEPTH
from pam_retriever.types import Metadata
from pam_retriever.validation import are_plain, check_length, check_size, check_text, read_list

STRING, BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"'), re.compile(r"[][{}]")
NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # the escape sequence, but not a backslash followed by the letters u0000


def check_metadatas(metadatas: Sequence[Metadata | None] | None, length: int) -> list[str]:
    """Returns ``length`` metadata dicts as JSON.

    Raises:
        InvalidInput: the number is wrong, or JSON cannot hold a value.
    """
    if metadatas is None:
        return ["{}"] * length
    metadatas = read_list("metadatas", metadatas)
    check_length("metadatas", len(metadatas), length)
    stored = _plain_json(metadatas)
    if stored is not None and are_plain(stored, MAX_METADATA_BYTES):
        return stored
    return [_metadata_json({} if metadata is None else metadata, at) for at, metadata in enumerate(metadatas)]


def _plain_json(metadatas: Sequence[Metadata | None]) -> list[str] | None:
    """Returns dicts with string keys as JSON; None if one of them is something else, or may be refused."""
    if not {*map(type, metadatas)} <= {dict, type(None)}:
        return None
    if not {*map(type, chain.from_iterable(filter(None, metadatas)))} <= {str}:
        return None
    try:
        stored = to_json_each([metadata or {} for metadata in metadatas])
        if _are_flat(stored):
            return stored
        nested = [one for one, json in zip(metadatas, stored, strict=True) if json.find("{", 1) > 0]
        return stored if all(map(has_string_keys, nested)) and not any(map(_may_be_refused, stored)) else None
    except (TypeError, ValueError, RecursionError):  # the caller checks them one by one, to name the invalid one
        return None


def _are_flat(stored: Sequence[str]) -> bool:
    """Returns whether no JSON of these has a bracket within, or a NUL character: one search of all is faster."""
    together = "".join(stored)
    return together.count("{") == len(stored) and "[" not in together and "\\u0000" not in together


def _may_be_refused(stored: str) -> bool:
    """Returns whether JSON may hold a NUL character, or be nested too deep."""
    return "\\u0000" in stored or stored.count("[") + stored.count("{") > MAX_METADATA_DEPTH


def _metadata_json(metadata: Metadata, at: int) -> str:
    if not isinstance(metadata, Mapping):
        fix = "Pass {'key': value}; for a row of pandas, dict(row)."
        raise InvalidInput(f"metadatas[{at}] is {metadata!r} ({type(metadata).__name__}).", "a dict", fix)
    if not all(isinstance(key, str) for key in metadata):
        raise InvalidInput(f"metadatas[{at}] is {metadata!r}.", "a dict with string keys", "Convert the keys.")
    try:
        stored = check_text(to_json(dict(metadata)), f"metadatas[{at}]")
        check_size(stored, MAX_METADATA_BYTES, f"metadatas[{at}]")
        check_depth(stored, f"metadatas[{at}]")
        if NUL.search(stored):  # SQLite's JSON functions end a string at NUL
            raise InvalidInput(f"metadatas[{at}] holds a NUL character.", "no NUL", "Remove it.")
        if not has_string_keys(metadata):
            raise InvalidInput(f"metadatas[{at}] is {metadata!r}.", "dicts with string keys", "Convert the keys.")
        return stored
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"metadatas[{at}]{_refused_place(metadata)} cannot be stored as JSON ({error}).",
            "strings, finite numbers, bools, None, dates and times, UUIDs, Enums, lists and dicts",
            "Convert other values first, and leave out NaN and NaT.",
        ) from error


def _refused_place(value: object) -> str:
    """Returns where in metadata the first value is that JSON cannot hold, for example "['notes'][2]"."""
    place = ""
    for _ in range(MAX_METADATA_DEPTH):
        parts: Iterable[tuple[object, object]] = ()
        if isinstance(value, Mapping):
            parts = value.items()
        elif isinstance(value, list | tuple):
            parts = enumerate(value)
        wrong = next(((key, part) for key, part in parts if _is_refused(part)), None)
        if wrong is None:
            return place
        place, value = f"{place}[{wrong[0]!r}]", wrong[1]
    return ""  # nested too deep to name a place


def _is_refused(value: object) -> bool:
    try:
        to_json(value)
    except (TypeError, ValueError, RecursionError):
        return True
    return False


def check_depth(stored: str, what: str, most: int = MAX_METADATA_DEPTH) -> None:
    """Checks that every parser can read JSON of this depth.

    Raises:
        InvalidInput: the nesting is deeper than the limit.
    """
    if stored.count("[") + stored.count("{") <= most:
        return
    depth = deepest = 0
    for bracket in BRACKET.findall(STRING.sub("", stored)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    if deepest > most:
        raise InvalidInput(f"{what} is nested {deepest} levels deep.", f"at most {most}", "Flatten it.")
