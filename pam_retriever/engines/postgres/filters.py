"""Translates filters to PostgreSQL: conditions on the columns ``entries`` (jsonb) and ``metadata`` (its text).

``@>`` and small ``$in`` use the GIN index. jsonb stores numbers as decimals. Beyond 53 bits a double differs from its
digits, so a function compares such numbers as SQLite does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pam_retriever.engines.compiler import Compiler, Path
from pam_retriever.filters.conditions import Kind, Value
from pam_retriever.filters.stored import to_json
from pam_retriever.types import Int64

EXACT = 2**53
INDEXED_UP_TO = 16  # values of $in that are looked up one by one

# SQLite compares integers of 64 bits exactly, and everything else as doubles
NUMBER_OF = """
CREATE FUNCTION number_of(metadata text, key text) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT CASE
    WHEN raw = 'true' THEN 1 WHEN raw = 'false' THEN 0
    WHEN abs(n) < 9007199254740992 THEN n
    WHEN raw !~ '[.eE]' AND abs(n) < 9223372036854775808 THEN n
    WHEN abs(n) >= 1.7e308 THEN n
    WHEN abs(n) < 9.223372036854775e18 THEN raw::float8::int8::numeric
    ELSE raw::float8::text::numeric
END FROM (
    SELECT raw, CASE WHEN kind = 'number' THEN raw::numeric END AS n FROM (
        SELECT metadata::json ->> key AS raw, json_typeof(metadata::json -> key) AS kind
    ) AS stored WHERE kind IN ('number', 'boolean')
) AS read
$$
"""


class PostgresCompiler(Compiler):
    """Translates a filter for PostgreSQL."""

    most_parameters = 60_000  # of 65,535

    def is_listed(self, rows: Int64) -> str:
        return self._with("(memories.row = ANY(%s::bigint[]))", rows.tolist())

    def has(self, path: Path) -> str:
        if len(path) == 1:
            return self._with("(entries ? %s)", path[0])
        return self._with(f"({_at(path)} IS NOT NULL)", *path)

    def is_none(self, path: Path) -> str:
        return self._contains(path, None)

    def compares(self, path: Path, kind: Kind, symbol: str, value: Value) -> str:
        if isinstance(value, str):
            assert kind == "text"
            return self._string(path, f'({_text(path)}) COLLATE "C" {symbol} %s', *path, value)
        if abs(value) >= EXACT:
            return self._large(path, f"{symbol} %s::numeric", _digits(value))
        return self._number(path, f"{symbol} %s::numeric", _digits(value))

    def is_among(self, path: Path, kind: Kind, values: Sequence[Value]) -> str:
        if len(values) <= INDEXED_UP_TO:
            return self.join([self._equals(path, kind, value) for value in values], "OR")
        if kind == "text":
            return self._string(path, f"({_text(path)}) = ANY(%s::text[])", *path, list(values))
        if kind == "nested":
            return self._nested(path, "= ANY(%s::text[])", list(values))
        numbers = [value for value in values if not isinstance(value, str)]
        digits = [_digits(value) for value in numbers]
        if any(abs(value) >= EXACT for value in numbers):
            return self._large(path, "= ANY(%s::numeric[])", digits)
        return self._number(path, "= ANY(%s::numeric[])", digits)

    def has_entry(self, path: Path, kind: Kind, value: Value) -> str:
        if kind == "number":
            return self._number_or_boolean(path, value, lambda one: [one])
        return self._contains(path, [value])

    def has_part(self, path: Path, value: str) -> str:
        return self._string(path, f"strpos({_text(path)}, %s) > 0", *path, value)

    # ---- SQL

    def _equals(self, path: Path, kind: Kind, value: Value) -> str:
        if kind == "nested":
            return self._nested(path, "= %s", value)
        if isinstance(value, str):
            return self._contains(path, value)
        if abs(value) >= EXACT:
            return self._large(path, "= %s::numeric", _digits(value))
        return self._number_or_boolean(path, value, lambda one: one)

    def _with(self, sql: str, *parameters: object) -> str:
        self.parameters += parameters
        return sql

    def _contains(self, path: Path, part: object) -> str:
        for key in reversed(path):
            part = {key: part}
        return self._with("(entries @> %s::jsonb)", to_json(part))

    def _number_or_boolean(self, path: Path, value: Value, part: Callable[[Value], object]) -> str:
        """Returns a test of a number or a boolean: 1 equals True and 0 equals False, as in Python."""
        same = [value, bool(value)] if value in (0, 1) else [value]
        return self.join([self._contains(path, part(one)) for one in same], "OR")

    def _string(self, path: Path, test: str, *parameters: object) -> str:
        return self._with(f"coalesce(jsonb_typeof({_at(path)}) = 'string' AND {test}, false)", *path, *parameters)

    def _nested(self, path: Path, test: str, value: object) -> str:
        kind = f"jsonb_typeof({_at(path)}) IN ('array', 'object')"
        stored = _text(path, "metadata::json")
        return self._with(f"coalesce({kind} AND ({stored}) {test}, false)", *path, *path, value)

    def _number(self, path: Path, test: str, value: object) -> str:
        at = _at(path)
        number = (
            f"CASE jsonb_typeof({at}) WHEN 'number' THEN ({at})::numeric WHEN 'boolean' THEN ({at})::boolean::int END"
        )
        return self._with(f"coalesce(({number}) {test}, false)", *path, *path, *path, value)

    def _large(self, path: Path, test: str, value: object) -> str:
        """Returns a test of a number beyond 53 bits."""
        inside = "metadata" if len(path) == 1 else f"({_at(path[:-1], 'metadata::json')})::text"
        return self._with(f"coalesce(number_of({inside}, %s) {test}, false)", *path, value)


def _at(path: Path, root: str = "entries") -> str:
    """Returns the value at the end of a path; NULL if there is none, or if the path leads into a list."""
    return f"({root}{' -> %s' * len(path)})"


def _text(path: Path, root: str = "entries") -> str:
    """Returns the value at the end of a path as text; NULL in the same cases as ``_at``."""
    return f"{_at(path[:-1], root) if len(path) > 1 else root} ->> %s"


def _digits(value: float) -> str:
    """Returns a number in the form of ``number_of``: integers below 64 bits are exact."""
    if isinstance(value, float) and EXACT <= abs(value) < 2**63:
        return str(int(value))
    return repr(value)
