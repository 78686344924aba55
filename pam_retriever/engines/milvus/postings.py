"""Full-text postings in memory, because Milvus cannot count words; updated on demand."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pam_retriever.engines.words import WordCounter
from pam_retriever.locks import Mutex
from pam_retriever.types import Int64

if TYPE_CHECKING:
    from pam_retriever.engines.milvus.memories import MilvusMemories


class Postings:
    """For each term, the memories that contain it, with counts.

    Args:
        memories: the source of the texts.
    """

    def __init__(self, memories: MilvusMemories) -> None:
        self._memories = memories
        self._count = WordCounter()
        self._seen = (-1, 0)
        self._version = -1  # everything up to this version is known, and is final
        self._mutex = Mutex()  # no thread reads the table while another one updates it
        self._table = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._table.execute("CREATE TABLE words (term TEXT, label INTEGER, row INTEGER, times INTEGER)")
        self._table.execute("CREATE INDEX terms ON words (term, label, row)")
        self._table.execute("CREATE INDEX rows ON words (row)")
        self._table.execute("CREATE TABLE texts (row INTEGER PRIMARY KEY, length INTEGER)")

    def positions(self, term: str, column: str, most: int) -> tuple[Int64, Int64]:
        """See ``Memories.positions``."""
        with self._mutex, self._table:
            self._follow()
            return _columns(
                self._table.execute(
                    "SELECT row, times FROM words WHERE term = ? AND label = ? ORDER BY row LIMIT ?",
                    [term, column == "labels", most],
                )
            )

    def held(self, terms: Sequence[str]) -> list[str]:
        """See ``Memories.held``."""
        with self._mutex, self._table:
            self._follow()
            found = self._table.execute(
                "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM words WHERE term = value)",
                [json.dumps(list(terms))],
            )
            return [term for (term,) in found]

    def lengths(self) -> tuple[Int64, Int64]:
        """See ``Memories.lengths``."""
        with self._mutex, self._table:
            self._follow()
            return _columns(self._table.execute("SELECT row, length FROM texts ORDER BY row"))

    def _follow(self) -> None:
        seen = (self._memories.words_version, self._memories.changes)
        if seen == self._seen:
            return
        changed = self._memories.texts_since(self._version)
        stored = set(self._memories.rows().tolist())
        gone = [row for (row,) in self._table.execute("SELECT row FROM texts") if row not in stored]
        stale = [(row,) for row in (*gone, *(row for row, _, _ in changed))]
        self._table.execute("BEGIN")
        self._table.executemany("DELETE FROM words WHERE row = ?", stale)
        self._table.executemany("DELETE FROM texts WHERE row = ?", stale)
        if changed:
            self._table.executemany("INSERT INTO words VALUES (?, ?, ?, ?)", self._count(*zip(*changed, strict=True)))
        lengths = [(row, len(text)) for row, text, _ in changed if text is not None]
        self._table.executemany("INSERT INTO texts VALUES (?, ?)", lengths)
        self._table.execute("COMMIT")
        self._seen, self._version = seen, self._memories.words_known


def _columns(found: sqlite3.Cursor) -> tuple[Int64, Int64]:
    table = np.array(found.fetchall(), np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]
