"""The conditions of a filter, as a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pam_retriever.types import Int64

Kind = Literal["number", "text", "nested"]
Symbol = Literal[">", ">=", "<", "<="]
Value = str | int | float
"""The form of a value for comparisons: a bool as 0 or 1, a list or a dict as its JSON."""


@dataclass(frozen=True)
class All:
    """Every part holds. Without parts it is true."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Some:
    """At least one part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Condition


@dataclass(frozen=True)
class Has:
    """The key exists."""

    key: str


@dataclass(frozen=True)
class IsNone:
    """The value is stored as None."""

    key: str


@dataclass(frozen=True)
class Among:
    """The value has this kind, and is one of ``values``."""

    key: str
    kind: Kind
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Compares:
    """The value has this kind, and the comparison ``symbol`` with the operand is true."""

    key: str
    kind: Kind
    symbol: Symbol
    value: Value


@dataclass(frozen=True)
class HasEntry:
    """The value is a list with this entry."""

    key: str
    kind: Kind
    value: Value


@dataclass(frozen=True)
class HasPart:
    """The value is a string that contains this part."""

    key: str
    value: str


@dataclass(frozen=True)
class Timed:
    """The memory has a time with ``start`` <= time < ``end``; ``kind`` None takes dates and numbers."""

    start: float
    end: float
    kind: Literal["dates", "numbers"] | None


@dataclass(frozen=True, eq=False)
class Listed:
    """The memory is in one of these rows (n,): replaces ``Timed`` after its times were looked up."""

    rows: Int64


Test = Has | IsNone | Among | Compares | HasEntry | HasPart
Condition = All | Some | Not | Test | Timed | Listed


def key_path(key: str) -> tuple[str, ...]:
    """Returns the path of a key, for memories without an entry of this name."""
    return tuple(key.split("."))
