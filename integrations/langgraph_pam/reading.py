"""Checks and parses LangGraph's arguments: values, filters, namespaces, and the texts to embed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from operator import ge, gt, le, lt
from typing import Any, Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt
from langgraph.store.base import (
    Embeddings,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from pam_retriever import InvalidInput
from pam_retriever.embedding import Embedder
from pam_retriever.errors import counted
from pam_retriever.filters.metadata import check_depth
from pam_retriever.filters.stored import UNSTORABLE, plain_value, to_json
from pam_retriever.limits import MAX_ID_BYTES, MAX_TEXT_BYTES
from pam_retriever.types import Float32
from pam_retriever.validation import check_flag, check_size, check_vectors, read_numbers

Namespace = tuple[str, ...]
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": gt,
    "$gte": ge,
    "$lt": lt,
    "$lte": le,
}
OPERATORS = ("$eq", "$ne", *COMPARISONS)
MOST_MINUTES = 10**9  # about two thousand years: the time of expiry must fit into 64 bits
MAX_VALUE_DEPTH = 200  # the JSON parser of Python goes as deep as the stack of the caller has room: up to 1,000
WHOLE = "$"  # the path of a whole value


class PAMIndexConfig(IndexConfig, total=False):
    """LangGraph's ``IndexConfig``, with the ranking mode of a search.

    Attributes:
        mode: None ranks by the default recall of the library (vectors, words, and experience), "similarity" by cosine
            alone, like ``InMemoryStore``.
        same_embedder: asserts that ``embed`` makes the stored vectors, although it has another name.
    """

    mode: Literal["similarity"] | None
    same_embedder: bool


class Embedding:
    """Embeds the texts of values.

    Args:
        config: ``dims``, ``embed``, and optionally ``fields``, ``mode`` and ``same_embedder``.

    Attributes:
        dims: d, the length of the vectors.
        embedder: checks whether this model made the stored vectors.
        mode: see ``PAMIndexConfig``.

    Raises:
        InvalidInput: a setting is missing, unknown or wrong.
    """

    def __init__(self, config: PAMIndexConfig) -> None:
        known = PAMIndexConfig.__required_keys__ | PAMIndexConfig.__optional_keys__
        if unknown := sorted(config.keys() - known):
            raise InvalidInput(f"Got the unknown index settings {unknown}.", f"{sorted(known)}", "Remove them.")
        dims, fields, mode = config.get("dims"), config.get("fields"), config.get("mode")
        if isinstance(dims, bool) or not isinstance(dims, int) or dims < 1:
            raise InvalidInput(f"Got index['dims']={dims!r}.", "an int >= 1", "Pass the length of the vectors.")
        if config.get("embed") is None:
            raise InvalidInput("Got index= without 'embed'.", "a function or LangChain Embeddings", "Pass 'embed'.")
        if mode not in (None, "similarity"):
            raise InvalidInput(f"Got index['mode']={mode!r}.", "None or 'similarity'", "Leave it out for recall.")
        self.dims, self.mode = dims, mode
        self.model: Embeddings = ensure_embeddings(config["embed"])
        # LangGraph wraps a function in a model: the embedder is known by the name of the function
        named: Any = self.model if isinstance(config["embed"], str) else config["embed"]
        self.embedder = Embedder(named, check_flag("index['same_embedder']", config.get("same_embedder", False)))
        self._paths = read_paths([WHOLE] if fields in (None, [], ()) else fields)  # as LangGraph's own stores do

    def texts(self, value: object, index: Literal[False] | list[str] | None) -> list[str]:
        """Returns the texts of a value to embed, in the order of the fields."""
        if index is False:
            return []
        paths = self._paths if index is None else read_paths(index)
        texts = [text for path in paths for text in get_text_at_path(value, path)]
        for text in texts:
            check_size(text, MAX_TEXT_BYTES, "A text that is to be embedded")
        return texts

    def vectors(self, found: npt.ArrayLike, count: int) -> Float32:
        """Returns the embedder's vectors (count, dims), checked. Rows of zeros are allowed.

        Raises:
            InvalidInput: the number or the length of the vectors is wrong, or a number is not finite.
        """
        if not count:
            return np.empty((0, self.dims), np.float32)
        expected, fix = f"{counted(count, 'vector')} of {self.dims} numbers", "Check it, and index['dims']."
        vectors = read_numbers(found, "The embedder returned vectors that are no array", expected, fix)
        if vectors.shape != (count, self.dims):
            raise InvalidInput(f"The embedder returned vectors of shape {vectors.shape}.", expected, fix)
        has_vector = vectors.any(axis=1)
        if has_vector.any():
            check_vectors(vectors[has_vector], self.dims, "what the embedder returned")
        return vectors


def read_paths(fields: Sequence[str]) -> list[list[str] | str]:
    """Parses paths of fields, for example ``"messages[*].content"``, to tokens.

    Raises:
        InvalidInput: ``fields`` is no list of strings.
    """
    if isinstance(fields, str) or not all(isinstance(field, str) for field in fields):
        raise InvalidInput(f"Got the fields {fields!r}.", "a list of paths", "For example ['text'].")
    return [WHOLE if field == WHOLE else tokenize_path(field) for field in fields]


def storable(text: str) -> str:
    """Returns a text in a form that an index can store."""
    return UNSTORABLE.sub(" ", text)


# ---- operations


def check_op(op: Op) -> None:
    """Checks the arguments of an operation.

    Raises:
        InvalidInput: an argument is invalid.
        InvalidNamespaceError: the namespace is invalid.
    """
    if not isinstance(op, GetOp | SearchOp | PutOp | ListNamespacesOp):
        raise InvalidInput(f"Got {op!r} as an operation.", "GetOp, SearchOp, PutOp or ListNamespacesOp", "Use these.")
    if not isinstance(op, ListNamespacesOp):
        refuse_string(op.namespace_prefix if isinstance(op, SearchOp) else op.namespace)
    validate_op_namespace(op)
    if isinstance(op, SearchOp):
        check_names(op.namespace_prefix)
        check_filter(op.filter)
        check_page(op.limit, op.offset)
        if op.query is not None:
            check_query(op.query)
    elif isinstance(op, ListNamespacesOp):
        check_page(op.limit, op.offset)
        if op.max_depth is not None:
            _check_count("max_depth", op.max_depth, "an int >= 0, or None")
        for condition in op.match_conditions or ():
            if condition.match_type not in ("prefix", "suffix"):
                raise InvalidInput(f"Got match_type={condition.match_type!r}.", "'prefix' or 'suffix'", "Choose one.")
            refuse_string(condition.path)
    else:
        check_place(op.namespace, op.key)
        if isinstance(op, PutOp) and op.ttl is not None:
            check_minutes("ttl", op.ttl)


def check_query(query: object) -> None:
    """Checks that a question is a string.

    Raises:
        InvalidInput: it is something else.
    """
    if not isinstance(query, str):
        raise InvalidInput(f"Got query={query!r} ({type(query).__name__}).", "a string", "Use str().")


def refuse_string(namespace: object) -> None:
    """Refuses a string as a namespace: each letter would be a label, and the first letter the tenant.

    Raises:
        InvalidInput: it is a string.
    """
    if isinstance(namespace, str):
        raise InvalidInput(f"Got the namespace {namespace!r}.", "a tuple of strings", f"Write ({namespace!r},).")


def check_place(namespace: Namespace, key: str) -> None:
    """Checks a namespace and a key.

    Raises:
        InvalidInput: the key is invalid, or the namespace is a string.
        InvalidNamespaceError: the namespace is empty.
    """
    refuse_string(namespace)
    if not namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    if not isinstance(key, str):
        raise InvalidInput(f"Got the key {key!r}.", "a string", "Convert it.")
    check_names((*namespace, key))
    check_size(".".join(namespace), MAX_ID_BYTES, f"The namespace {namespace}")


def check_names(names: Iterable[str]) -> None:
    """Checks that a file can store these names.

    Raises:
        InvalidInput: a name has a lone surrogate.
    """
    for name in names:
        if UNSTORABLE.search(name.replace("\0", "")):
            raise InvalidInput(f"Got {name!r} as a name.", "text without lone surrogates", "Remove that character.")


def check_minutes(name: str, minutes: float) -> None:
    """Checks a time to live.

    Raises:
        InvalidInput: the value is no finite number of minutes, at least 0.
    """
    number = isinstance(minutes, int | float) and not isinstance(minutes, bool)
    if not number or not 0 <= minutes <= MOST_MINUTES:
        raise InvalidInput(
            f"Got {name}={minutes!r}.", f"minutes from 0 to {MOST_MINUTES}, or None", "Leave it out for the default."
        )


def check_page(limit: int, offset: int) -> None:
    """Checks the limits of a page.

    Raises:
        InvalidInput: a limit is invalid.
    """
    _check_count("limit", limit)
    _check_count("offset", offset)


def _check_count(name: str, number: object, expected: str = "an int >= 0") -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise InvalidInput(f"Got {name}={number!r}.", expected, "Count from 0.")


def read_value(value: Mapping[str, Any]) -> str:
    """Returns a value as JSON.

    Raises:
        InvalidInput: JSON cannot hold the value, a key is no string, or the value is nested too deep.
    """
    try:
        if not isinstance(value, Mapping):
            raise TypeError(f"it is a {type(value).__name__}")
        _check_keys(value)
        text = to_json(dict(value))
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"The value cannot be stored ({error}).", "a dict with string keys that JSON can hold", "Convert it."
        ) from error
    check_depth(text, "The value", MAX_VALUE_DEPTH)
    return text


def _check_keys(value: object) -> None:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is no string")
            _check_keys(inside)
    elif isinstance(value, list | tuple):
        for inside in value:
            _check_keys(inside)


# ---- namespaces


def matches_namespace(condition: MatchCondition, namespace: Namespace) -> bool:
    """Returns whether a namespace begins, or ends, with a path; "*" matches any one label."""
    path = condition.path
    if len(path) > len(namespace):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, labels, strict=True))


# ---- filters


def check_filter(filter: Mapping[str, Any] | None) -> None:
    """Checks a filter.

    Raises:
        InvalidInput: an operator is unknown, or its operand cannot be compared.
    """
    if filter is None:
        return
    if not isinstance(filter, Mapping):
        raise InvalidInput(f"Got filter={filter!r}.", "a dict", "For example {'kind': 'note'}.")
    for wanted in filter.values():
        _check_wanted(wanted)


def _check_wanted(wanted: object) -> None:
    if isinstance(wanted, list | tuple):
        for one in wanted:
            _check_wanted(one)
    if not isinstance(wanted, Mapping):
        return
    operators = is_operators(wanted)
    for key, operand in wanted.items():
        if not operators:
            _check_wanted(operand)
        elif key not in OPERATORS:
            raise InvalidInput(f"Got the filter operator {key!r}.", f"one of {', '.join(OPERATORS)}", "Check it.")
        elif key in COMPARISONS and not isinstance(operand, int | float | str):
            raise InvalidInput(f"Got {operand!r} for {key}.", "a number or a string", "Use $eq for others.")


def as_stored(wanted: object) -> Any:
    """Returns a filter, or a part of one, in the form in which values are stored: a date as a string."""
    if isinstance(wanted, Mapping):
        return {key: as_stored(one) for key, one in wanted.items()}
    if isinstance(wanted, list | tuple):
        return [as_stored(one) for one in wanted]
    return plain_value(wanted) if isinstance(wanted, datetime | date | UUID | Enum | np.generic) else wanted


def is_operators(wanted: Mapping[str, object]) -> bool:
    """Returns whether a part of a filter consists of operators, and not of entries of a dict."""
    return any(isinstance(key, str) and key.startswith("$") for key in wanted)


def passes(value: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    """Returns whether a value satisfies a filter, with the semantics of LangGraph's ``InMemoryStore``.

    A missing entry is None. ``$gt`` and similar operators compare values as numbers if ``float`` can parse both, else
    two strings as strings. Other values do not pass; ``InMemoryStore`` raises an error for them.
    """
    return all(_equals(value.get(key), wanted) for key, wanted in (filter or {}).items())


def _equals(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if is_operators(wanted):
            return all(_holds(found, operator, operand) for operator, operand in wanted.items())
        return isinstance(found, dict) and all(_equals(found.get(key), one) for key, one in wanted.items())
    if isinstance(wanted, list | tuple):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(_equals(one, other) for one, other in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)


def _holds(found: Any, operator: str, operand: Any) -> bool:
    if operator in ("$eq", "$ne"):
        operand = list(operand) if isinstance(operand, tuple) else operand
        return bool(found == operand) is (operator == "$eq")
    compare = COMPARISONS[operator]
    try:
        return compare(float(found), float(operand))
    except (TypeError, ValueError, OverflowError):
        return isinstance(found, str) and isinstance(operand, str) and compare(found, operand)


def from_json(text: str) -> dict[str, Any]:
    """Returns a stored value, a new object for each caller."""
    value: dict[str, Any] = json.loads(text)
    return value


def all_from_json(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Returns stored values, new objects for each caller; parsed together, which is faster."""
    values: list[dict[str, Any]] = json.loads(f"[{','.join(texts)}]")
    return values
