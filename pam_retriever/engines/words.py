"""Words and groups of memories in an engine, counted and ordered in the same way as by SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from pam_retriever.locks import Mutex
from pam_retriever.mentions.scripts import cut
from pam_retriever.store.database import Grouped
from pam_retriever.store.sqlite.trajectories import groups_query
from pam_retriever.store.sqlite.words import LABELS, LONGEST_TERM, TOKENIZER

REMOVE_ALL = "INSERT INTO words (words) VALUES ('delete-all')"
Word = tuple[str, bool, int, int]
"""Term, whether it is a label, row, and count."""


class WordCounter:
    """Counts words with SQLite's tokenizer and stemmer, so that an engine finds the same memories as a folder."""

    def __init__(self) -> None:
        self._mutex = Mutex()
        self._run = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False).execute
        self._run(f"CREATE VIRTUAL TABLE words USING fts5 (text, labels, content = '', tokenize = \"{TOKENIZER}\")")
        self._run("CREATE VIRTUAL TABLE places USING fts5vocab (words, instance)")

    def __call__(self, rows: Sequence[int], texts: Sequence[str | None], metadatas: Sequence[str]) -> list[Word]:
        """Returns the words of each memory that has a text."""
        with self._mutex:
            self._run(REMOVE_ALL)  # an interrupt may have left words of an earlier call
            labels = LABELS.replace("{0}.metadata", "?1")
            for row, text, metadata in zip(rows, texts, metadatas, strict=True):
                if text is not None:
                    said = self._run(f"SELECT {labels}", [metadata]).fetchone()[0]
                    columns = [row, cut(text), cut(said)]
                    self._run("INSERT INTO words (rowid, text, labels) VALUES (?, ?, ?)", columns)
            found = self._run(
                "SELECT term, col = 'labels', doc, count(*) FROM places WHERE length(CAST(term AS BLOB)) <= ? "
                "GROUP BY term, col, doc",
                [LONGEST_TERM],
            ).fetchall()
            self._run(REMOVE_ALL)
        return [(term, bool(label), row, times) for term, label, row, times in found]


def grouped(memories: Iterable[tuple[int, str, str]], group_by: str, order_by: str | None) -> list[Grouped]:
    """Groups memories, given as (row, id, metadata), in the same way as ``Trajectories.groups``."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE TABLE memories (row INTEGER PRIMARY KEY, id TEXT, metadata TEXT)")
        connection.executemany("INSERT INTO memories VALUES (?, ?, ?)", memories)
        return connection.execute(*groups_query(group_by, order_by)).fetchall()
    finally:
        connection.close()
