"""Word statistics of an index in memory: postings and lengths of texts, which follow writes.

Reading the postings of a frequent term takes longer than any other part of a question, so a write changes those that
are known, in place of reading them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from pam_retriever.store.database import Memories
from pam_retriever.store.sqlite.words import ChangedWords
from pam_retriever.types import Bools, Float32, Int64

MOST_OCCURRENCES = 100_000  # a more frequent term carries too little information to be worth reading
KEPT = 4_000_000  # rows in postings that a write keeps, 64 MB, of the terms that were read last
DENSE = 0.25  # from this share of the texts on, the scores of all texts take less room and far less time to add
A_TERM = 64  # the further cost of a term, in rows


@dataclass(frozen=True)
class Postings:
    """The sorted rows that hold a term, and the counts; none if the term is too frequent to be read."""

    rows: Int64
    counts: Int64
    frequent: bool = False

    @classmethod
    def read(cls, memories: Memories, term: str, column: str) -> Postings:
        """Reads the postings of a term in "text" or "labels"."""
        return cls._of(*memories.positions(term, column, MOST_OCCURRENCES))

    @classmethod
    def _of(cls, rows: Int64, counts: Int64) -> Postings:
        return replace(NOWHERE, frequent=True) if counts.sum() >= MOST_OCCURRENCES else cls(rows, counts)

    def at(self, rows: Int64) -> Float32:
        """Returns the count (n,) of the term in each of ``rows``."""
        if not len(self.rows):
            return np.zeros(len(rows), np.float32)
        position = self.rows.searchsorted(rows)
        there = self.rows.take(position, mode="clip") == rows
        counts: Float32 = (self.counts.take(position, mode="clip") * there).astype(np.float32)
        return counts

    def without(self, rows: Int64) -> Postings:
        """Returns the postings without sorted ``rows``."""
        position = self.rows.searchsorted(rows)
        there = position[self.rows.take(position, mode="clip") == rows] if len(self.rows) else position[:0]
        return Postings(np.delete(self.rows, there), np.delete(self.counts, there)) if len(there) else self

    def joined(self, rows: Int64, counts: Int64) -> Postings:
        """Returns the postings and those of other, sorted ``rows``."""
        if self.frequent:
            return self
        position = self.rows.searchsorted(rows)
        return self._of(np.insert(self.rows, position, rows), np.insert(self.counts, position, counts))


NOWHERE = Postings(np.empty(0, np.int64), np.empty(0, np.int64))  # the postings of a term that no text holds


@dataclass(frozen=True)
class TermScores:
    """The scores of texts for a term.

    Attributes:
        rows: (n,) the texts that hold the term; None for all texts.
        values: (n,) their scores.
    """

    rows: Int64 | None
    values: Float32

    @classmethod
    def of(cls, rows: Int64, values: Float32, size: int) -> TermScores:
        """Returns the scores of distinct texts (n,), of ``size`` texts."""
        if len(rows) < DENSE * size:
            return cls(rows, values)
        every = np.zeros(size, np.float32)
        every[rows] = values
        return cls(None, every)

    def add_to(self, scores: Float32) -> None:
        """Adds them to the ``scores`` (size,) of all texts."""
        if self.rows is None:
            scores += self.values
        else:
            scores[self.rows] += self.values


class TermScoreCache:
    """The scores of the terms that were asked for. Threads may share it.

    Args:
        most: the number of scores from which on it is emptied.
    """

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._known: dict[str, TermScores] = {}

    def of(self, term: str, make: Callable[[str], TermScores]) -> TermScores:
        """Returns the scores for a term, which ``make`` returns if they are not known."""
        found = self._known.get(term)
        if found is None:
            found = make(term)
            if self._count > self._most:
                self._known, self._count = {}, 0
            self._known[term] = found
            self._count += len(found.values)
        return found


@dataclass(frozen=True)
class Words:
    """Word statistics of one version. Threads share them: only ``postings``, ``scores`` and ``meant`` grow, by entries.

    Attributes:
        version: the ``words_version``.
        lengths: by row, the length of a text in characters; 0 without a text.
        has_text: by row, whether the memory has a text.
        characters: the length of all texts.
        postings: by term and column, those that were read.
        scores: the BM25 of the texts by term.
        meant: by term of a question, the term that it may be meant to be; None for none.
    """

    version: int
    lengths: Float32
    has_text: Bools
    characters: int
    postings: dict[tuple[str, str], Postings] = field(default_factory=dict)
    meant: dict[str, str | None] = field(default_factory=dict, init=False)
    scores: TermScoreCache = field(default_factory=lambda: TermScoreCache(KEPT), init=False)
    count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", int(self.has_text.sum()))

    @classmethod
    def read(cls, memories: Memories, last: int | None) -> Words:
        """Reads the lengths of all texts; postings are read on demand. Leaves out the rows after ``last``."""
        rows, texts = memories.lengths()
        if last is not None:
            rows, texts = rows[rows <= last], texts[rows <= last]
        lengths, has_text = np.zeros(memories.last_row + 1, np.float32), np.zeros(memories.last_row + 1, bool)
        lengths[rows], has_text[rows] = texts.astype(np.float32), True
        return cls(memories.words_version, lengths, has_text, int(texts.sum()))

    def followed_by(self, changed: ChangedWords, version: int, last_row: int) -> Words:
        """Returns the statistics after some memories were added, changed or removed."""
        last_row = max(last_row, int(changed.rows.max(initial=-1)))
        more = max(last_row + 1 - len(self.lengths), 0)
        lengths, has_text = np.pad(self.lengths, (0, more)), np.pad(self.has_text, (0, more))
        characters = self.characters - int(lengths[changed.rows].sum(dtype=np.float64)) + int(changed.lengths.sum())
        lengths[changed.rows], has_text[changed.rows] = 0, False
        lengths[changed.texts], has_text[changed.texts] = changed.lengths, True
        postings, known = _latest(self.postings.copy()), changed.rows[changed.rows < len(self.lengths)]
        if len(known):  # a term that was too frequent may no longer be
            postings = {key: one.without(known) for key, one in postings.items() if not one.frequent}
        for key, (rows, counts) in changed.postings.items():
            if key in postings:
                postings[key] = postings[key].joined(rows, counts)
        return Words(version, lengths, has_text, characters, postings)

    @property
    def mean(self) -> float:
        """The mean length of the texts, at least 1."""
        return max(self.characters / self.count, 1.0) if self.count else 1.0

    def idf(self, posting: Postings) -> float:
        """The idf of a term, as in Lucene."""
        df = len(posting.rows)
        return float(np.log1p((self.count - df + 0.5) / (df + 0.5)))


def _latest(postings: dict[tuple[str, str], Postings]) -> dict[tuple[str, str], Postings]:
    """Returns the entries that were added last, as many as a write keeps."""
    left = KEPT - len(postings) * A_TERM - sum(len(one.rows) for one in postings.values())
    for key in list(postings):
        if left >= 0:
            break
        left += A_TERM + len(postings.pop(key).rows)
    return postings
