"""The data types of a file of items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from langgraph.store.base import Item, SearchItem

from langgraph_pam.reading import Namespace, all_from_json, from_json
from pam_retriever.types import Float32

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SEPARATOR = "."  # joins the labels of a namespace, which have no dot


@dataclass(frozen=True)
class Put:
    """An item to store, which replaces a stored item; without a value, an item to delete.

    Attributes:
        namespace: namespace of the item, not empty.
        key: key of the item.
        value: value as JSON; None deletes the item.
        ttl: time to live in minutes, None for ever.
        texts: n texts that were embedded.
        vectors: (n, d), none of them zeros.
    """

    namespace: Namespace
    key: str
    value: str | None
    ttl: float | None
    texts: Sequence[str]
    vectors: Float32


@dataclass(frozen=True)
class Change:
    """A pending change of an index: the current vectors of an item.

    Attributes:
        id: increases with each change.
        path: path of the namespace, labels joined by dots.
        namespace: number of the namespace.
        item: number of the item.
        time: time of the change, in microseconds since 1970; it never decreases.
        before: number of vectors of the item in the index before the change.
        most: the largest number of vectors that the item may have had since then.
        texts: n texts.
        vectors: n vectors as float32, concatenated.
    """

    id: int
    path: str
    namespace: int
    item: int
    time: int
    before: int
    most: int
    texts: list[str]
    vectors: bytes

    def matrix(self) -> Float32:
        """Returns the vectors (n, d)."""
        return np.frombuffer(self.vectors, np.float32).reshape(len(self.texts), -1)


class Row(NamedTuple):
    """A stored item, its value as JSON; times in microseconds, ``ttl`` in minutes."""

    id: int
    path: str
    key: str
    value: str
    created: int
    updated: int
    ttl: float | None
    vectors: int

    def item(self) -> Item:
        """Returns the item, a new object for each caller."""
        return Item(
            value=from_json(self.value),
            key=self.key,
            namespace=from_path(self.path),
            created_at=as_datetime(self.created),
            updated_at=as_datetime(self.updated),
        )


def found_items(found: Sequence[tuple[Row, float | None]]) -> list[SearchItem]:
    """Returns items with scores as answers to a search, new objects for each caller."""
    values = all_from_json([row.value for row, _ in found])
    return [
        SearchItem(from_path(row.path), row.key, value, as_datetime(row.created), as_datetime(row.updated), score)
        for (row, score), value in zip(found, values, strict=True)
    ]


def to_path(namespace: Namespace) -> str:
    """Returns the labels of a namespace joined by dots."""
    return SEPARATOR.join(namespace)


@lru_cache(maxsize=1_000)
def from_path(path: str) -> Namespace:
    """Returns the labels of a namespace."""
    return tuple(path.split(SEPARATOR))


@lru_cache(maxsize=1_000)
def as_datetime(microseconds: int) -> datetime:
    """Returns a stored time, in UTC."""
    return EPOCH + timedelta(microseconds=microseconds)
