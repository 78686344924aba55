"""Names and mentions in the copy of an engine's process; the texts stay in the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pam_retriever.engines.words import WordCounter
from pam_retriever.mentions.scripts import is_unspaced, joined, letters
from pam_retriever.mentions.sql import SQL
from pam_retriever.mentions.store import BEGINNING, Document, SQLiteMentions
from pam_retriever.store.database import Memories
from pam_retriever.types import Int64

AT_ONCE = 10_000  # memories per read
COMMON = 100_000  # a term in more texts hardly narrows the search for a name
FEW = 1_000  # candidate texts: reading them costs less than a query for another term of the name


class EngineMentions(SQLiteMentions):
    """See ``SQLiteMentions``.

    Args:
        sql: the database of the copy.
        memories: the memories in the engine.
    """

    def __init__(self, sql: SQL, memories: Memories) -> None:
        super().__init__(sql)
        self._memories, self._count_words = memories, WordCounter()

    def texts(self) -> int:
        return len(self._memories)

    def documents(self, rows: Int64, texts: bool = True) -> list[Document]:
        contents = self._memories.contents(rows)  # in any order
        found = [(row, *contents[row]) for row in rows.tolist() if row in contents]
        return [Document(row, id, text if texts else None, json.loads(metadata)) for row, id, text, metadata in found]

    def metadatas(self) -> Iterator[list[str]]:
        rows = self.rows()
        for at in range(0, len(rows), AT_ONCE):
            yield [metadata for _, _, metadata in self._memories.contents(rows[at : at + AT_ONCE]).values()]

    def latest(self, count: int) -> list[Document]:
        documents = self.documents(self.rows()[-count:][::-1])
        return [replace(one, text=one.text and one.text[:BEGINNING]) for one in documents]

    def rows(self) -> Int64:
        return self._memories.rows()

    def rows_containing(self, phrase: str, limit: int) -> Int64:
        rows = self._rows_with(" ".join(letters(phrase)), limit)
        # many texts have these letters, fewer have them beside each other
        return rows if len(rows) < limit or not is_unspaced(phrase) else self._rows_with(joined(phrase), limit)

    def _rows_with(self, text: str, limit: int) -> Int64:
        """Returns at most ``limit`` rows of all texts with the words of a text, and maybe more."""
        terms = sorted({term for term, *_ in self._count_words([0], [text], ["{}"])}, key=len, reverse=True)
        found, common = None, np.empty(0, np.int64)
        for term in terms:
            rows, _ = self._memories.positions(term, "text", COMMON)
            if len(rows) == COMMON:
                common = rows
                continue
            found = rows if found is None else np.intersect1d(found, rows)
            if len(found) <= FEW:
                break
        return (common if found is None else found)[:limit]
