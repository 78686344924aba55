"""The filter language in PostgreSQL: a condition on the columns ``entries`` (jsonb) and ``metadata`` (its text).

``@>`` and small ``$in`` use the GIN index. jsonb keeps numbers as decimals, so what lies beyond 53 bits, where a
double is no longer the number that its digits say, is compared by a function that reads it as SQLite does.
"""

from __future__ import annotations

from typing import Any

from pam_retriever.filters import Compiler, Kind, to_json

EXACT = 2**53
INDEXED_UP_TO = 16  # values of $in that are worth one look-up each

# what SQLite compares: integers of 64 bits exactly, everything else as a double
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
    """Writes a filter for PostgreSQL."""

    true, false = "true", "false"
    most_parameters = 60_000  # of 65,535

    def has(self, key: str) -> str:
        return self._with("(entries ? %s)", key)

    def is_none(self, key: str) -> str:
        return self._contains({key: None})

    def compares(self, key: str, kind: Kind, symbol: str, value: Any) -> str:
        if kind == "text" and symbol == "=":
            return self._contains({key: value})
        if kind == "text":
            return self._string(key, f'(entries ->> %s) COLLATE "C" {symbol} %s', key, value)
        if kind == "nested":
            return self._nested(key, "= %s", value)
        if abs(value) >= EXACT:
            return self._with(f"coalesce(number_of(metadata, %s) {symbol} %s::numeric, false)", key, _digits(value))
        if symbol == "=":
            return self._number_or_boolean(value, lambda one: {key: one})
        return self._number(key, f"{symbol} %s::numeric", _digits(value))

    def is_among(self, key: str, kind: Kind, values: list[Any]) -> str:
        if len(values) <= INDEXED_UP_TO:
            return self.join([self.compares(key, kind, "=", value) for value in values], "OR")
        if kind == "text":
            return self._string(key, "(entries ->> %s) = ANY(%s::text[])", key, values)
        if kind == "nested":
            return self._nested(key, "= ANY(%s::text[])", values)
        digits = [_digits(value) for value in values]
        if any(abs(value) >= EXACT for value in values):
            return self._with("coalesce(number_of(metadata, %s) = ANY(%s::numeric[]), false)", key, digits)
        return self._number(key, "= ANY(%s::numeric[])", digits)

    def has_entry(self, key: str, kind: Kind, value: Any) -> str:
        if kind == "number":
            return self._number_or_boolean(value, lambda one: {key: [one]})
        return self._contains({key: [value]})

    def has_part(self, key: str, value: str) -> str:
        return self._string(key, "strpos(entries ->> %s, %s) > 0", key, value)

    # ---- SQL

    def _with(self, sql: str, *parameters: Any) -> str:
        self.parameters += parameters
        return sql

    def _contains(self, part: dict[str, Any]) -> str:
        return self._with("(entries @> %s::jsonb)", to_json(part))

    def _number_or_boolean(self, value: Any, part: Any) -> str:
        """1 is True and 0 is False, as in Python."""
        same = [value, bool(value)] if value in (0, 1) else [value]
        return self.join([self._contains(part(one)) for one in same], "OR")

    def _string(self, key: str, test: str, *parameters: Any) -> str:
        return self._with(f"coalesce(jsonb_typeof(entries -> %s) = 'string' AND {test}, false)", key, *parameters)

    def _nested(self, key: str, test: str, value: Any) -> str:
        kind = "jsonb_typeof(entries -> %s) IN ('array', 'object')"
        return self._with(f"coalesce({kind} AND (metadata::json ->> %s) {test}, false)", key, key, value)

    def _number(self, key: str, test: str, value: Any) -> str:
        number = (
            "CASE jsonb_typeof(entries -> %s) WHEN 'number' THEN (entries -> %s)::numeric "
            "WHEN 'boolean' THEN (entries -> %s)::boolean::int END"
        )
        return self._with(f"coalesce(({number}) {test}, false)", key, key, key, value)


def _digits(value: float) -> str:
    """A number as ``number_of`` reads it: below 64 bits exactly."""
    if isinstance(value, float) and EXACT <= abs(value) < 2**63:
        return str(int(value))
    return repr(value)
