"""What names and mentions need of a database, and parts of statements about a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

FIRST_PHRASE = -1 << 61  # the numbers of phrases are from here to -1; lower ones belong to keys of links
MOST_COUNTED = 100_000  # mentions of one name; a name with more is common in an index of any size
# of the number ``value``: its texts, counted and listed; and its memories, "9-1" for memory 9 and a short name
COUNT = "(SELECT count(*) FROM (SELECT 1 FROM mentions WHERE number = value LIMIT :counted))"
TEXTS = "(SELECT group_concat(row) FROM (SELECT row FROM mentions WHERE number = value LIMIT :texts))"
NAMED = (
    "(SELECT group_concat(row || '-' || short) FROM (SELECT row, short FROM called WHERE number = value LIMIT :named))"
)


class Written(Protocol):
    """What a transaction wrote, such as ``store.sqlite.changes.Changes``."""

    version: int
    names: bool


class SQL(Protocol):
    """A connection inside a transaction, such as ``store.sqlite.connection.Connection``."""

    @property
    def version(self) -> int: ...
    @property
    def known_version(self) -> int | None: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def changes(self) -> Written: ...
    def fetch(self, sql: str, parameters: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]: ...
    def run_many(self, sql: str, rows: Iterable[Sequence[object]]) -> None: ...


@contextmanager
def page_cache(sql: SQL, size: int) -> Iterator[None]:
    """SQLite keeps up to ``size`` KiB of pages in memory inside the block, for writes that are not in order."""
    before = sql.fetch("PRAGMA cache_size")[0][0]
    sql.fetch(f"PRAGMA cache_size = {-size}")
    try:
        yield
    finally:
        sql.fetch(f"PRAGMA cache_size = {before}")


def named_in(line: str | None, limit: int) -> list[int]:
    """Returns the memories with a full name, if any, else with a short name, of those that ``NAMED`` lists.

    No memory if there are more than ``limit``.
    """
    if line is None:
        return []
    pairs = [pair.split("-") for pair in line.split(",")]
    full = [int(row) for row, short in pairs if short == "0"]
    return [] if len(pairs) > limit else full or [int(row) for row, _ in pairs]
