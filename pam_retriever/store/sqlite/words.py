"""The full-text index of the memories: SQLite's FTS5, changed in the same transaction as the memories.

Each text is one document. The strings in its metadata are its labels. The index holds no copy of the texts; triggers
update it at every write. ``scripts.cut`` puts spaces into texts of scripts that have none, and between the parts of
identifiers; the triggers call it as an SQL function, only for texts that may have such letters.
"""

from __future__ import annotations

import sqlite3
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np

from pam_retriever.mentions import folding
from pam_retriever.mentions.identifiers import with_parts
from pam_retriever.mentions.scripts import cut, is_unspaced, separated, split
from pam_retriever.mentions.stop_words import content_words, without_question_words
from pam_retriever.store.faults import for_sqlite
from pam_retriever.types import Int64

TOKENIZER = f"porter {folding.TOKENIZER}"
OLD_TOKENIZER = "porter unicode61 remove_diacritics 2"  # of formats 1 and 2: it split words at vowel signs
LABELS = "(SELECT group_concat(value, ' ') FROM json_each({0}.metadata) WHERE type = 'text')"
# letters that ``cut`` may change are accents, or after U+0590; quotes, dashes and symbols are no reason to call it.
# Each call may wait for another thread that runs Python, so texts without such letters do without it
_CUT_SCRIPTS = (  # all of it in format 3
    "CASE WHEN length(CAST({0} AS BLOB)) = length({0}) OR "
    "{0} NOT GLOB '*[\u0300-\u036f\u0483-\u0487\u0590-\u1fff\u20d0-\u20f0\u2c00-\U0010ffff]*' "
    "AND NOT instr(CAST({0} AS BLOB), x'00') THEN {0} ELSE cut({0}) END"  # GLOB ends at NUL
)
# or the parts of identifiers; GLOB takes ten times as long as lower
_CUT = f"CASE WHEN {{0}} <> lower({{0}}) AND {{0}} GLOB '*[a-z][A-Z]*' THEN cut({{0}}) ELSE {_CUT_SCRIPTS} END"


def _columns(memory: str, cut: str | None = _CUT) -> str:
    """Returns the SQL of row, text and labels of a memory, as they are indexed; ``cut`` is None in formats 1 and 2."""
    text, labels = f"{memory}.text", LABELS.format(memory)
    if cut:
        text = cut.format(text)
        labels = f"(SELECT {cut.format('said')} FROM (SELECT {labels} AS said))"
    return f"{memory}.row, {text}, {labels}"


def _schema(tokenizer: str, cut: str | None) -> tuple[str, ...]:
    """Returns the full-text index and the triggers that update it. The tokenizer is an SQL string."""
    add = f"INSERT INTO words (rowid, text, labels) SELECT {_columns('new', cut)}"
    remove = (
        "INSERT INTO words (words, rowid, text, labels) "
        f"SELECT 'delete', {_columns('old', cut)} WHERE old.text IS NOT NULL;"
    )
    return (
        f"CREATE VIRTUAL TABLE words USING fts5 (text, labels, content = '', tokenize = {tokenizer})",
        f"CREATE TRIGGER words_added AFTER INSERT ON memories WHEN new.text IS NOT NULL BEGIN {add}; END",
        f"CREATE TRIGGER words_removed AFTER DELETE ON memories WHEN old.text IS NOT NULL BEGIN {remove} END",
        "CREATE TRIGGER words_changed AFTER UPDATE OF text, metadata ON memories "
        f"BEGIN {remove} {add} WHERE new.text IS NOT NULL; END",
    )


SCHEMA = _schema(f'"{TOKENIZER}"', _CUT)
FORMAT_3 = _schema(f'"{TOKENIZER}"', _CUT_SCRIPTS)
FORMAT_1 = _schema(f"'{OLD_TOKENIZER}'", None)  # and 2
_ADD_ALL = f"INSERT INTO words (rowid, text, labels) SELECT {_columns('memories')} FROM memories WHERE text IS NOT NULL"
# the words of all memories are indexed again
UPDATE = (
    *(f"DROP TRIGGER words_{change}" for change in ("added", "removed", "changed")),
    "DROP TABLE words",
    *SCHEMA,
    _ADD_ALL,
)
# read-only views of the index, which only this connection has
VOCABULARY = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.places USING fts5vocab (main, words, instance)"

# the setting that says that segments may hold removed words: until FTS5 merges the segments, it only marks these words
REMOVED = "words_removed"

# bytes of the record in which FTS5 describes its segments. Each "optimize" of SQLite 3.40 adds two levels of two bytes,
# and from 2,000 levels on FTS5 reports its own index as damaged, for good. Newer versions limit the levels.
MOST_BYTES = 1000

MOST_KNOWN, LONGEST_KNOWN = 50_000, 64  # words of questions whose terms a process keeps, and their characters
LONGEST_TERM = 1_000  # bytes in UTF-8; a longer one is ignored: FTS5 cuts it after 32,768, also within a character

Fetch = Callable[..., list[Any]]


def erase_removed(fetch: Fetch) -> bool:
    """Inside a transaction: merges the segments if they may hold removed words; returns whether it did."""
    if not fetch("SELECT 1 FROM settings WHERE key = ?", [REMOVED]):
        return False
    fetch("INSERT INTO words (words) VALUES ('optimize')")
    if fetch("SELECT length(block) FROM words_data WHERE id = 10")[0][0] > MOST_BYTES:
        _rebuild(fetch)
    fetch("DELETE FROM settings WHERE key = ?", [REMOVED])
    return True


def _rebuild(fetch: Fetch) -> None:
    """Inside a transaction: indexes the words of all memories again."""
    fetch("INSERT INTO words (words) VALUES ('delete-all')")
    fetch(_ADD_ALL)


def set_up(connection: sqlite3.Connection) -> None:
    """Defines the SQL function that the triggers call, in a connection that may change memories."""
    connection.create_function("cut", 1, for_sqlite(cut), deterministic=True)


def positions(fetch: Fetch, term: str, column: str, most: int) -> tuple[Int64, Int64]:
    """Returns the sorted rows whose ``column`` holds a term, with counts, from at most ``most`` occurrences."""
    # one string for all rows: reading rows one by one takes longer than finding them
    found = fetch(
        "SELECT group_concat(doc) FROM (SELECT doc FROM temp.places WHERE term = ? AND col = ? LIMIT ?)",
        [term, column, most],
    )[0][0]
    if not found:  # mostly a label that no memory has
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows, counts = np.unique(_numbers(found), return_counts=True)
    return rows, counts.astype(np.int64)


def held(fetch: Fetch, terms: Sequence[str]) -> list[str]:
    """Returns those of some sorted terms that some memory holds."""
    found, at = [], 0
    while at < len(terms):  # from one stored term to the next: most terms of ``terms`` are between two of them
        stored = fetch("SELECT term FROM temp.places WHERE term >= ? LIMIT 1", [terms[at]])
        if not stored:
            break
        at = bisect_left(terms, stored[0][0], at)
        if at < len(terms) and terms[at] == stored[0][0]:
            found.append(terms[at])
            at += 1
    return found


def lengths(fetch: Fetch) -> tuple[Int64, Int64]:
    """Returns the rows that have a text, and the length of each text in characters."""
    rows, lengths = fetch("SELECT group_concat(row), group_concat(length(text)) FROM memories WHERE text IS NOT NULL")[
        0
    ]
    return _numbers(rows), _numbers(lengths)


@dataclass(frozen=True)
class ChangedWords:
    """The words of memories that were added, changed or removed.

    Attributes:
        rows: these memories, sorted.
        texts: those of them that have a text now, sorted.
        lengths: the length of each of these texts in characters.
        postings: by term and column, the sorted rows that hold the term now, and the count in each.
    """

    rows: Int64
    texts: Int64
    lengths: Int64
    postings: dict[tuple[str, str], tuple[Int64, Int64]]


def changed(fetch: Fetch, rows: Int64) -> ChangedWords:
    """Returns the present words of some memories (n,), sorted, of which some may be gone."""
    found = fetch(
        f"SELECT row, length(text), text, {LABELS.format('memories')} FROM memories "
        "WHERE text IS NOT NULL AND row IN (SELECT value FROM json_each(?)) ORDER BY row",
        [str(rows.tolist())],
    )
    postings = shared_tokenizer().postings((row, text, labels) for row, _, text, labels in found)
    texts, lengths = (np.array([one[at] for one in found], np.int64) for at in (0, 1))
    return ChangedWords(rows, texts, lengths, postings)


class Tokenizer:
    """Turns texts into the terms of the index. Any number of threads may call it."""

    def __init__(self) -> None:
        # idle databases: creating one takes ten times as long as a query
        self._idle: list[sqlite3.Connection] = []
        self._known: dict[str, tuple[str, ...]] = {}  # the terms of a word; words of questions repeat
        weakref.finalize(self, _close_all, self._idle)

    def __call__(self, text: str) -> list[str]:
        """Returns distinct terms, sorted, without terms that are too long. Omits stop words if other words exist."""
        return self.each([text])[0]

    def each(self, texts: Iterable[str]) -> list[list[str]]:
        """Returns the terms of each text: several texts ask SQLite once for the words that are new."""
        asked = [_words_of(text) for text in texts]
        known = self._known  # another thread may replace it
        found = {word: known[word] for words in asked for word in words if word in known}
        unknown = list(dict.fromkeys(word for words in asked for word in words if word not in found))
        if unknown:
            new = self._terms_of(unknown)
            found.update(new)
            kept = [one for one in new.items() if len(one[0]) <= LONGEST_KNOWN]
            if len(known) + len(kept) > MOST_KNOWN:
                self._known = known = {}
            known.update(kept[:MOST_KNOWN])
        return [sorted({term for word in words for term in found[word]}) for words in asked]

    def _terms_of(self, words: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Returns the terms of each word."""
        with self._database() as database:
            database.executemany("INSERT INTO query (rowid, text) VALUES (?, ?)", enumerate(words))
            found = database.execute(
                "SELECT doc, term FROM places WHERE length(CAST(term AS BLOB)) <= ?", [LONGEST_TERM]
            ).fetchall()
        terms: dict[str, tuple[str, ...]] = dict.fromkeys(words, ())
        for at, term in found:
            terms[words[at]] += (term,)
        return terms

    def postings(self, texts: Iterable[tuple[int, str, str | None]]) -> dict[tuple[str, str], tuple[Int64, Int64]]:
        """Returns the postings of memories, each given by row, text and labels: see ``ChangedWords``."""
        with self._database() as database:
            database.executemany(
                "INSERT INTO query (rowid, text, labels) VALUES (?, ?, ?)",
                ((row, cut(text), cut(labels)) for row, text, labels in texts),
            )
            found = database.execute(
                "SELECT term, col, doc, count(*) FROM places WHERE length(CAST(term AS BLOB)) <= ? "
                "GROUP BY term, col, doc ORDER BY term, col, doc",
                [LONGEST_TERM],
            ).fetchall()
        postings = {}
        for key, each in groupby(found, lambda one: (one[0], one[1])):
            _, _, rows, counts = zip(*each, strict=True)
            postings[key] = np.array(rows, np.int64), np.array(counts, np.int64)
        return postings

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Yields an empty database, which no other thread has meanwhile."""
        try:
            database = self._idle.pop()
        except IndexError:
            database = _new_query()
        try:
            yield database
            database.execute("INSERT INTO query (query) VALUES ('delete-all')")
        except BaseException:
            database.close()  # it may still hold words
            raise
        self._idle.append(database)


def _words_of(text: str) -> dict[str, None]:
    """Returns the distinct words of a text in small letters, without stop words if it has others."""
    text = with_parts(text.replace("\x00", " ")).lower()
    if is_unspaced(text):
        text = without_question_words(text)
    return dict.fromkeys(content_words(split(separated(text))))


@cache
def shared_tokenizer() -> Tokenizer:
    """Returns the tokenizer of this process: a new one takes longer than a query of a small index."""
    return Tokenizer()


def _new_query() -> sqlite3.Connection:
    """Returns a new database in memory, so that queries write nothing to the database of the index."""
    database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    database.execute(f"CREATE VIRTUAL TABLE query USING fts5 (text, labels, content = '', tokenize = \"{TOKENIZER}\")")
    database.execute("CREATE VIRTUAL TABLE terms USING fts5vocab (query, row)")
    database.execute("CREATE VIRTUAL TABLE places USING fts5vocab (query, instance)")
    return database


def _close_all(databases: list[sqlite3.Connection]) -> None:
    for database in databases:
        database.close()


def _numbers(text: str | None) -> Int64:
    return np.fromstring(text, np.int64, sep=",") if text else np.empty(0, np.int64)
