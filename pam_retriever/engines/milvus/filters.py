"""Translates filters to Milvus: the expression is true for all memories that satisfy the filter, and maybe for others.

Milvus compares JSON differently from this library, and differently by version. So equality, ``$in``, ``$contains`` and
``$exists`` use an array of tags that are computed here. Ranges of numbers use the JSON. A negation is not translated.
``MilvusSelected`` checks the results again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pam_retriever.engines.compiler import Compiler, Path
from pam_retriever.filters.conditions import Kind, Symbol, Value
from pam_retriever.filters.stored import to_json
from pam_retriever.types import Int64

MOST_TAGS = 4_000  # per memory; Milvus allows 4,096 in an array
MANY = "*"  # the only tag of a memory with more tags: it passes, and ``MilvusSelected`` checks it
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
EXACT = 2**53
MOST_LISTED = 1_000  # rows in an expression; more are checked afterwards


def tags_of(metadata: str) -> list[str]:
    """Returns the tags of metadata, as an array."""
    entries: Mapping[str, Any] = json.loads(metadata)
    tags = set()
    for key, value in entries.items():
        tags.add(_tag(key, "there"))
        if isinstance(value, bool):
            tags.add(_tag(key, "bool"))
        tags.add(_tag(key, "is", _plain(value)))
        for item in value if isinstance(value, list) else ():
            tags.add(_tag(key, "holds", _plain(item)))
    return sorted(tags) if len(tags) <= MOST_TAGS else [MANY]


class MilvusCompiler(Compiler):
    """Translates a filter for Milvus; an empty expression is true for all."""

    true, false = "", "row < 0"

    def join(self, terms: list[str], word: str) -> str:
        if word == "OR" and "" in terms:
            return ""
        clauses = [term for term in terms if term]
        return super().join(clauses, word.lower()) if clauses or word == "OR" else ""

    def negated(self, test: str) -> str:
        del test  # the negation of a test that is true for too many memories would exclude some that match
        return ""

    def is_listed(self, rows: Int64) -> str:
        return f"row in {rows.tolist()}" if len(rows) <= MOST_LISTED else ""

    def has(self, path: Path) -> str:
        return _any([_tag(path[0], "there")])  # tags are of top-level entries; ``MilvusSelected`` checks the rest

    def is_none(self, path: Path) -> str:
        return self._is(path, [_plain(None)])

    def is_among(self, path: Path, kind: Kind, values: Sequence[Value]) -> str:
        return self._is(path, [["nested", value] if kind == "nested" else _plain(value) for value in values])

    def compares(self, path: Path, kind: Kind, symbol: Symbol, value: Value) -> str:
        key = path[0]
        numeric = kind == "number" and not isinstance(value, str) and abs(value) < EXACT
        if len(path) == 1 and numeric and NAME.fullmatch(key):
            return f'(entries["{key}"] {symbol} {value!r} or {_any([_tag(key, "bool")])})'
        return self.has(path)

    def has_entry(self, path: Path, kind: Kind, value: Value) -> str:
        del kind
        return _any([_tag(path[0], "holds", _plain(value))]) if len(path) == 1 else self.has(path)

    def has_part(self, path: Path, value: str) -> str:
        del value
        return self.has(path)

    def _is(self, path: Path, values: list[Any]) -> str:
        return _any([_tag(path[0], "is", value) for value in values]) if len(path) == 1 else self.has(path)


def _any(tags: list[str]) -> str:
    return f"array_contains_any(tags, {json.dumps([*tags, MANY])})"


def _plain(value: Any) -> Any:
    """Returns the same string for equal values: 1, 1.0 and True are equal, and so are 0 and -0.0."""
    if isinstance(value, bool | int | float):
        return repr(float(value) + 0.0) if abs(value) < 1e300 else "huge"  # -0.0 + 0.0 is 0.0
    return ["nested", to_json(value)] if isinstance(value, list | dict) else [value]


def _tag(*parts: Any) -> str:
    return hashlib.blake2b(to_json(parts).encode(), digest_size=12).hexdigest()
