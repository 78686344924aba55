"""The storage of names and mentions in SQLite.

There are three kinds of numbers, distinguished by their sign and by ``are_phrases`` of ``links``. The number of a name
is positive; the table ``names`` has its words. The number of a link's key or of a shared phrase is negative. It is a
hash of the string, so no table has to store it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np

from pam_retriever.mentions.scripts import is_unspaced, letters
from pam_retriever.mentions.sql import COUNT, MOST_COUNTED, NAMED, SQL, TEXTS, named_in, page_cache
from pam_retriever.mentions.steps import KnownSteps
from pam_retriever.types import Int64

SCHEMA = (
    "CREATE TABLE names (number INTEGER PRIMARY KEY AUTOINCREMENT, phrase TEXT NOT NULL UNIQUE)",
    # words and pairs of words that begin names, with the number of words of the longest such name, or more
    "CREATE TABLE beginnings (words TEXT PRIMARY KEY, longest INTEGER NOT NULL) WITHOUT ROWID",
    # names of memories, and keys of links to them
    "CREATE TABLE called (number INTEGER NOT NULL, row INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE, "
    "short INTEGER NOT NULL, PRIMARY KEY (number, row)) WITHOUT ROWID",
    "CREATE INDEX called_of_memory ON called (row)",
    # names, links and phrases in texts, with the first position in characters
    "CREATE TABLE mentions (row INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE, number INTEGER NOT NULL, "
    "start INTEGER NOT NULL, length INTEGER NOT NULL, PRIMARY KEY (row, number)) WITHOUT ROWID",
    "CREATE INDEX mentions_of_name ON mentions (number)",
)
INDEXES = {"called": "called_of_memory", "mentions": "mentions_of_name"}  # the secondary index of each table
WRONG = {
    "names": "typeof(phrase) != 'text' OR number NOT IN (SELECT number FROM called)",
    "beginnings": "typeof(words) != 'text' OR typeof(longest) != 'integer'",
    "called": "typeof(number) != 'integer' OR typeof(short) != 'integer' OR row NOT IN (SELECT row FROM memories) "
    "OR (number > 0 AND number NOT IN (SELECT number FROM names))",
    "mentions": "typeof(number) != 'integer' OR typeof(start) != 'integer' OR typeof(length) != 'integer' "
    "OR row NOT IN (SELECT row FROM memories) OR (number > 0 AND number NOT IN (SELECT number FROM names))",
}
TABLES = ("mentions", "called", "beginnings", "names")
BEGINNING = 10_000  # characters of a text in which names and links of the latest memories are looked for
AT_ONCE = 1000  # memories per read of metadata
CACHE = 256 << 10  # KiB of pages in memory while all names are written, because they are not sorted
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Document:
    """The parts of a memory in which names and mentions are searched."""

    row: int
    id: str
    text: str | None
    metadata: Mapping[str, object]


@dataclass(frozen=True)
class Groups:
    """Rows for each of n numbers, or numbers for each of n rows: the i-th has ``rows[starts[i]:starts[i + 1]]``.

    Attributes:
        starts: (n + 1,).
        rows: (m,).
    """

    starts: Int64
    rows: Int64

    @property
    def counts(self) -> Int64:
        """The number (n,) of rows of each."""
        counts: Int64 = self.starts[1:] - self.starts[:-1]  # a fifth of the time of np.diff
        return counts


@dataclass(frozen=True)
class Mentions:
    """Mentions in texts: arrays (m,), ordered by row and number."""

    rows: Int64
    numbers: Int64
    starts: Int64
    lengths: Int64


class SQLiteMentions:
    """Names and mentions in tables beside the memories, and phrases from the full-text index.

    Writes belong to the caller's transaction.

    Args:
        sql: a database with the tables of ``SCHEMA``, ``memories`` and ``words``.

    Attributes:
        steps: the steps from memories to others.
    """

    def __init__(self, sql: SQL) -> None:
        self._sql, self.steps = sql, KnownSteps(sql)

    def longest(self, beginnings: Iterable[str]) -> Mapping[str, int]:
        return dict(self._where_in("SELECT words, longest FROM beginnings WHERE words IN", list(beginnings)))  # type: ignore[arg-type]

    def known(self, phrases: Iterable[str]) -> Mapping[str, int]:
        return dict(self._where_in("SELECT phrase, number FROM names WHERE phrase IN", list(phrases)))  # type: ignore[arg-type]

    def texts(self) -> int:
        """Returns the number of memories with a text."""
        return int(str(self._sql.fetch("SELECT count(*) FROM words_docsize")[0][0]))

    def documents(self, rows: Int64, texts: bool = True) -> list[Document]:
        """Returns the stored memories of ``rows``, in their order; without their texts if these are not needed."""
        text = "text" if texts else "NULL"
        return _documents(self._where_in(f"SELECT row, id, {text}, metadata FROM memories WHERE row IN", rows.tolist()))

    def metadatas(self) -> Iterator[list[str]]:
        """Yields the metadata of all memories as JSON, in batches."""
        last: object = -1
        while found := self._sql.fetch(
            "SELECT row, metadata FROM memories WHERE row > ? ORDER BY row LIMIT ?", [last, AT_ONCE]
        ):
            yield [str(metadata) for _, metadata in found]
            last = found[-1][0]

    def latest(self, count: int) -> list[Document]:
        """Returns the latest ``count`` memories, with the first ``BEGINNING`` characters of their texts."""
        return _documents(
            self._sql.fetch(
                "SELECT row, id, substr(text, 1, ?), metadata FROM memories ORDER BY row DESC LIMIT ?",
                [BEGINNING, count],
            )
        )

    def rows(self) -> Int64:
        """Returns all rows, sorted."""
        return np.sort(_numbers(self._sql.fetch("SELECT group_concat(row) FROM memories")[0][0]))

    def rows_containing(self, phrase: str, limit: int) -> Int64:
        """Returns the rows of all texts with these folded words in this order, and maybe more; at most ``limit``."""
        words = letters(phrase)
        # a text may have spaces, pairs of letters, or the parts of a word (two letters at least) after a word
        between = sum(2 + len(word) // 2 for word in words[:-1])
        rows = self._matching(f"""NEAR("{'" "'.join(words)}", {between})""", limit)
        # many texts have these words near each other, fewer have them beside each other
        beside = " ".join(words)
        return rows if len(rows) < limit or is_unspaced(beside) else self._matching(f'"{beside}"', limit)

    def _matching(self, query: str, limit: int) -> Int64:
        found = self._sql.fetch(
            "SELECT group_concat(rowid) FROM (SELECT rowid FROM words WHERE words MATCH ? LIMIT ?)",
            [f"text : {query}", limit],
        )
        return _numbers(found[0][0])

    def add_names(self, phrases: Sequence[str]) -> dict[str, int]:
        """Stores new names, in order; returns their numbers, which ascend."""
        last = self._sql.fetch("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'names'")[0][0]
        numbers = {phrase: number for number, phrase in enumerate(phrases, int(str(last)) + 1)}
        self._write("INSERT INTO names (phrase, number) VALUES (?, ?)", numbers.items())
        self.add_beginnings(phrases)
        return numbers

    def add_beginnings(self, phrases: Sequence[str]) -> None:
        """Stores the beginnings of names, by which a search finds them."""
        self._write(
            "INSERT INTO beginnings VALUES (?, ?) "
            "ON CONFLICT (words) DO UPDATE SET longest = max(longest, excluded.longest)",
            beginnings(phrases).items(),
        )

    def prune_beginnings(self) -> None:
        """Removes beginnings that only deleted names had: these would reveal words of deleted names."""
        names = [str(phrase) for (phrase,) in self._sql.fetch("SELECT phrase FROM names")]
        self._write("DELETE FROM beginnings", [()])
        self._write("INSERT INTO beginnings VALUES (?, ?)", beginnings(names).items())

    def drop_names(self, numbers: Int64) -> None:
        """Deletes names and all their mentions."""
        listed = [(number,) for number in numbers.tolist()]
        self._write("DELETE FROM mentions WHERE number = ?", listed)
        self._write("DELETE FROM names WHERE number = ?", listed)

    def called_of(self, rows: Int64) -> Int64:
        """Returns the numbers of the names of ``rows``, without duplicates."""
        found = self._where_in("SELECT DISTINCT number FROM called WHERE row IN", rows.tolist())
        return np.array(found, np.int64).reshape(-1)

    def named(self, rows: Int64) -> set[int]:
        """Returns those of the ``rows`` that have a full name."""
        found = self._where_in("SELECT row FROM called WHERE number > 0 AND NOT short AND row IN", rows.tolist())
        return {int(str(row)) for (row,) in found}

    def drop_called(self, rows: Int64) -> None:
        """Deletes the names of ``rows``."""
        self._write("DELETE FROM called WHERE row = ?", ((row,) for row in rows.tolist()))

    def add_called(self, called: Iterable[tuple[int, int, bool]]) -> None:
        """Stores names of memories, as (number, row, short)."""
        self._write("INSERT INTO called (number, row, short) VALUES (?, ?, ?)", called)

    def drop_mentions(self, rows: Int64) -> None:
        """Deletes the mentions in the texts of ``rows``."""
        self._write("DELETE FROM mentions WHERE row = ?", ((row,) for row in rows.tolist()))

    def add_mentions(self, mentions: Iterable[tuple[int, int, int, int]]) -> None:
        """Stores mentions in texts, as (row, number, start, length)."""
        self._write("INSERT INTO mentions (row, number, start, length) VALUES (?, ?, ?, ?)", mentions)

    def unused(self, numbers: Int64) -> Int64:
        """Returns the ``numbers`` of names that no memory has."""
        found = self._where_in(
            "SELECT number FROM names WHERE NOT EXISTS "
            "(SELECT 1 FROM called WHERE called.number = names.number) AND number IN",
            numbers[numbers > 0].tolist(),
        )
        return np.array(found, np.int64).reshape(-1)

    def names(self) -> dict[str, int]:
        """Returns all names and their numbers."""
        return dict(self._sql.fetch("SELECT phrase, number FROM names"))

    def looked_up(self, numbers: Int64, limit: int) -> list[tuple[list[int], int]]:
        """Returns for each name the memories as ``named_in`` does, and the number of texts up to ``MOST_COUNTED``."""
        limits = {"named": limit + 1, "counted": MOST_COUNTED}
        return [(named_in(line, limit), count) for line, count in self._each(f"{NAMED}, {COUNT}", numbers, limits)]

    def mentions_of(self, rows: Int64) -> Mentions:
        """Returns the mentions in the texts of ``rows``."""
        found = self._where_in(
            "SELECT row, number, start, length FROM mentions WHERE row IN", rows.tolist(), "ORDER BY row, number"
        )
        columns = np.array(found, np.int64).reshape(-1, 4).T
        return Mentions(*columns)

    def mentioning(self, numbers: Int64, limit: int | None) -> Groups:
        """Returns the memories whose texts contain these names; none if there are more than ``limit``."""
        found = self._each(TEXTS, numbers, {"texts": -1 if limit is None else limit + 1})
        groups = [[*map(int, line.split(","))] if line else [] for (line,) in found]
        return grouped([rows if limit is None or len(rows) <= limit else [] for rows in groups])

    def clear(self) -> None:
        """Deletes all names and mentions."""
        for table in TABLES:
            self._write(f"DELETE FROM {table}", [()])

    @contextmanager
    def in_bulk(self, table: str) -> Iterator[None]:
        """Writes to a table are faster inside the block, some reads slower: it has no secondary index until the end."""
        index = INDEXES[table]
        with page_cache(self._sql, CACHE):
            self._sql.fetch(f"DROP INDEX {index}")
            yield
            self._sql.fetch(next(one for one in SCHEMA if one.startswith(f"CREATE INDEX {index} ")))

    def _write(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        self._sql.changes.names = True
        self._sql.run_many(statement, rows)

    def _where_in(self, select: str, values: Sequence[object], then: str = "") -> list[tuple[object, ...]]:
        return self._sql.fetch(
            f"{select} (SELECT value FROM json_each(?)) {then}",
            [json.dumps(values) if values and isinstance(values[0], str) else str(values)],  # the same for numbers
        )

    def _each(self, select: str, values: Int64, limits: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """Returns for each value the columns of ``select``, in order."""
        parameters = {"values": str(values.tolist()), **limits}
        return self._sql.fetch(f"SELECT {select} FROM json_each(:values) ORDER BY key", parameters)


def beginnings(phrases: Iterable[str]) -> dict[str, int]:
    """Returns the first word of names (two words for names of three or more), with the most words of such a name."""
    longest: dict[str, int] = {}
    for phrase in phrases:
        parts = phrase.split(" ", 2)
        count = phrase.count(" ") + 1
        longest[parts[0]] = max(count, longest.get(parts[0], 0))
        if count > 2:
            pair = f"{parts[0]} {parts[1]}"
            longest[pair] = max(count, longest.get(pair, 0))
    return longest


def _documents(found: Iterable[Sequence[object]]) -> list[Document]:
    """Reads rows of row, id, text and metadata."""
    return [
        Document(int(str(row)), str(id), text if isinstance(text, str) else None, json.loads(str(metadata)))
        for row, id, text, metadata in found
    ]


def _numbers(text: object) -> Int64:
    return np.array(str(text).split(","), np.int64) if text else _NONE


def grouped(groups: Sequence[Sequence[int]]) -> Groups:
    """Joins groups of rows."""
    starts = np.array([0, *accumulate(map(len, groups))], np.int64)
    return Groups(starts, np.array([*chain.from_iterable(groups)], np.int64))
