"""The steps that lead from a memory to others, whatever the question.

A question follows the steps from at most twenty memories. Steps that were read are kept until a commit changes a name
or a mention. They are numbers: no name is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pam_retriever.mentions.sql import COUNT, FIRST_PHRASE, MOST_COUNTED, NAMED, SQL, TEXTS, named_in
from pam_retriever.types import Int64

BEARERS = 100  # a name that more memories have is ignored
READERS = 100  # if more texts name a memory, they are not followed
KEPT = 200_000  # steps, 6.4 MB
A_MEMORY = 16  # the further cost of a memory, in steps
NO_VERSION = -1
Step = tuple[int, int, int, int]  # a column of ``Steps``
NO_COLUMNS = np.empty((4, 0), np.int64)

_NUMBERS = "SELECT key, number AS value FROM json_each(:rows) CROSS JOIN {} ON row = value"
_PHRASE = f"value BETWEEN {FIRST_PHRASE} AND -1"
# of each name of a memory: the memories with it, and those whose texts hold it; of each name, link or phrase in a text:
# the same, and the number of texts; a phrase has no memories, and the texts with a name are only counted
_READ = (
    f"SELECT key, value, 1, {NAMED}, {TEXTS}, 0 FROM ({_NUMBERS.format('called')}) UNION ALL "  # noqa: S608 - constants
    f"SELECT key, value, 0, CASE WHEN NOT {_PHRASE} THEN {NAMED} END, CASE WHEN {_PHRASE} THEN {TEXTS} END, "
    f"CASE WHEN NOT {_PHRASE} THEN {COUNT} END FROM ({_NUMBERS.format('mentions')}) ORDER BY 1, 3, 2"
)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps from one memory.

    Attributes:
        columns: (4, m) the number of the name, link or phrase; the memory to which it leads; how many texts hold it;
            and how many memories share it.
        named: of the first steps, to memories that the text names or links to. All memories with the name share it.
        naming: of the next steps, to memories whose texts name or link to this one. All memories with the name share
            it. The steps after these lead to memories whose texts hold a phrase of this text. These share it.
        bearers: pairs of a name of the memory and another memory with this name.
    """

    columns: Int64
    named: int
    naming: int
    bearers: list[tuple[int, int]]


class KnownSteps:
    """Reads the steps from memories, and keeps them. Threads may share it.

    Args:
        sql: the database with the names and mentions.
    """

    def __init__(self, sql: SQL) -> None:
        self._sql, self._kept = sql, _Kept(NO_VERSION)

    def of(self, rows: list[int]) -> list[Steps]:
        """Returns the steps from each of the ``rows``, which are distinct."""
        kept = self._now()
        found = {row: kept.steps[row] for row in rows if row in kept.steps}
        if len(found) < len(rows):
            new = self._read([row for row in rows if row not in found])
            found.update(new)
            kept.steps.update(new)
            kept.size += sum(one.columns.shape[1] + A_MEMORY for one in new.values())
        return [found[row] for row in rows]

    def _now(self) -> _Kept:
        """Returns what is kept of the version that was committed last; inside a transaction, nothing."""
        version, changes, kept = self._sql.version, self._sql.changes, self._kept
        if self._sql.known_version is None and not self._sql.read_only:
            return _Kept(NO_VERSION)
        if kept.version != version:
            same = kept.version + 1 == version == changes.version and not changes.names
            self._kept = kept = _Kept(version, kept.steps, kept.size) if same else _Kept(version)
        if kept.size > KEPT:
            self._kept = kept = _Kept(version)
        return kept

    def _read(self, rows: list[int]) -> dict[int, Steps]:
        steps = {row: _Lists(row) for row in rows}
        limits = {"rows": str(rows), "named": BEARERS + 1, "texts": READERS + 1, "counted": MOST_COUNTED}
        for at, *one in self._sql.fetch(_READ, limits):
            steps[rows[at]].add(*one)
        return {row: lists.steps() for row, lists in steps.items()}


@dataclass
class _Kept:
    """The steps from some memories, at one version of the database."""

    version: int
    steps: dict[int, Steps] = field(default_factory=dict)
    size: int = 0


class _Lists:
    """Collects the steps from a memory."""

    def __init__(self, row: int) -> None:
        self._row = row
        self._named, self._naming, self._sharing = list[Step](), list[Step](), list[Step]()
        self._bearers: list[tuple[int, int]] = []

    def add(self, number: int, own: int, bearers: str | None, readers: str | None, count: int) -> None:
        """Adds the steps of a number, from a row that ``_READ`` returns."""
        row, named = self._row, named_in(bearers, BEARERS)
        texts = [int(text) for text in readers.split(",")] if readers else []
        if len(texts) > READERS:
            return
        if own and row in named:
            self._naming += [(number, text, len(texts), len(named)) for text in texts if text != row]
            self._bearers += [(number, other) for other in named if other != row]
        elif not own and texts:
            self._sharing += [(number, text, len(texts), len(texts) - 1) for text in texts if text != row]
        elif not own and named != [row]:
            self._named += [(number, other, count, len(named)) for other in named]

    def steps(self) -> Steps:
        every = [*self._named, *self._naming, *self._sharing]
        columns = np.array([*zip(*every, strict=True)], np.int64) if every else NO_COLUMNS
        return Steps(columns, len(self._named), len(self._naming), self._bearers)
