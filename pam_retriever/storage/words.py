"""The words of the memories: SQLite's FTS5 index, changed in the same transaction as they are.

Each text is one document, and the strings in its metadata are its labels. The index holds no copy of either;
triggers keep it in step, whoever writes.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Any

import numpy as np

from pam_retriever.types import Int64

TOKENIZER = "porter unicode61 remove_diacritics 2"
LABELS = "(SELECT group_concat(value, ' ') FROM json_each({0}.metadata) WHERE type = 'text')"
ADD = f"INSERT INTO words (rowid, text, labels) SELECT new.row, new.text, {LABELS.format('new')};"
REMOVE = (
    "INSERT INTO words (words, rowid, text, labels) "
    f"SELECT 'delete', old.row, old.text, {LABELS.format('old')} WHERE old.text IS NOT NULL;"
)
SCHEMA = (
    f"CREATE VIRTUAL TABLE words USING fts5 (text, labels, content = '', tokenize = '{TOKENIZER}')",
    f"CREATE TRIGGER words_added AFTER INSERT ON memories WHEN new.text IS NOT NULL BEGIN {ADD} END",
    f"CREATE TRIGGER words_removed AFTER DELETE ON memories WHEN old.text IS NOT NULL BEGIN {REMOVE} END",
    "CREATE TRIGGER words_changed AFTER UPDATE OF text, metadata ON memories "
    f"BEGIN {REMOVE} {ADD.replace(';', ' WHERE new.text IS NOT NULL;')} END",
)
# read-only views of the index, a connection's own
VOCABULARY = "CREATE VIRTUAL TABLE temp.places USING fts5vocab (main, words, instance)"
# Function words, and the words that make a question: no memory is about them.
STOP_WORDS = """
a about after an and are as at be been before being both but by can could did do does during for from had has
have he her his how i if in into is it its me my no not of on or our s she should so such t than that the
their them then there these they this those to us was we were what when where which who whom why will with
would you your
"""

Fetch = Callable[..., list[Any]]


def places(fetch: Fetch, term: str, column: str, most: int) -> tuple[Int64, Int64]:
    """The rows whose ``column`` holds a term, sorted, and how often each does; of ``most`` occurrences at most."""
    # one string for all rows: reading them one by one takes longer than finding them
    found = fetch(
        "SELECT group_concat(doc) FROM (SELECT doc FROM temp.places WHERE term = ? AND col = ? LIMIT ?)",
        [term, column, most],
    )[0][0]
    rows, counts = np.unique(_numbers(found), return_counts=True)
    return rows, counts.astype(np.int64)


def lengths(fetch: Fetch) -> tuple[Int64, Int64]:
    """The rows that have a text, and its length in characters."""
    rows, lengths = fetch("SELECT group_concat(row), group_concat(length(text)) FROM memories WHERE text IS NOT NULL")[
        0
    ]
    return _numbers(rows), _numbers(lengths)


class Tokenizer:
    """Turns a query into the terms that the index would make of it."""

    def __init__(self) -> None:
        # a database of its own, so that asking never writes to the one that is asked
        self._run = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False).execute
        self._run(f"CREATE VIRTUAL TABLE query USING fts5 (text, content = '', tokenize = '{TOKENIZER}')")
        self._stop_words = frozenset(STOP_WORDS.split())
        self._run("CREATE VIRTUAL TABLE terms USING fts5vocab (query, row)")

    def __call__(self, text: str) -> list[str]:
        """Distinct terms, sorted; without stop words, unless there is nothing else."""
        words = re.findall(r"\w+", text.replace("\x00", " ").lower())
        kept = [word for word in words if word not in self._stop_words] or words
        self._run("INSERT INTO query (rowid, text) VALUES (1, ?)", [" ".join(kept)])
        terms = [term for (term,) in self._run("SELECT term FROM terms")]
        self._run("INSERT INTO query (query) VALUES ('delete-all')")
        return terms


def _numbers(text: str | None) -> Int64:
    return np.fromstring(text, np.int64, sep=",") if text else np.empty(0, np.int64)
