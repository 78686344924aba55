"""Lexical search: BM25 over each memory and, for less, over what was experienced next to it.

A turn of a conversation seldom says what it is about; its neighbours do. So a memory's term frequencies are its
own plus a share of its neighbours' (docs/real-data.md measures what that brings).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.storage.documents import Documents
from pam_retriever.storage.words import Tokenizer
from pam_retriever.types import Float32, Int64

K1, B = 1.2, 0.75  # of BM25 (Robertson and Zaragoza 2009), with Lucene's idf, which is never negative
CONTEXT_SHARE = 0.5  # a neighbour's term counts as half of one
MOST_CONTEXT = 4  # neighbours' terms weigh at most as those of so many
MOST_OCCURRENCES = 100_000  # a term with more tells too little to be worth reading them all


@dataclass(frozen=True)
class Postings:
    """The rows that hold a term, sorted, and how often."""

    rows: Int64
    counts: Int64

    def at(self, rows: Int64) -> Float32:
        """(n,) how often each of ``rows`` holds the term."""
        if not len(self.rows):
            return np.zeros(len(rows), np.float32)
        place = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        counts: Float32 = np.where(self.rows[place] == rows, self.counts[place], 0).astype(np.float32)
        return counts


class Lexicon:
    """The words of an index, read when they are asked for and kept until something is written.

    Args:
        documents: the database.
    """

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._tokenize = Tokenizer()
        self._words_version = -1
        self._postings: dict[tuple[str, str], Postings] = {}
        self._lengths: Float32 = np.empty(0, np.float32)  # by row; 0 without a text
        self._count, self._mean = 0, 1.0

    def terms(self, text: str) -> list[str]:
        """The terms of a query, stemmed, without stop words."""
        return self._tokenize(text)

    def best(self, terms: list[str], n: int, allowed: Int64 | None) -> Int64:
        """The ``n`` rows with the highest BM25 of their own words; those without any of them are left out."""
        self._follow_changes()
        scores = np.zeros(len(self._lengths), np.float32)
        for term in terms:
            posting = self._posting(term, "text")
            own = posting.counts.astype(np.float32)
            scores[posting.rows] += self._idf(posting) * _saturate(own, self._lengths[posting.rows] / self._mean)
        if allowed is not None:
            inside = np.zeros(len(scores), bool)
            inside[allowed[allowed < len(scores)]] = True
            scores[~inside] = 0
        n = min(n, len(scores))
        if not n:
            return np.empty(0, np.int64)
        found = np.argpartition(-scores, n - 1)[:n].astype(np.int64)
        return found[scores[found] > 0]

    def score(self, terms: list[str], rows: Int64, place: Int64, met: Int64) -> Float32:
        """(n,) BM25 of ``rows``, their neighbours' terms counted in part; at least 0.

        Args:
            terms: of the query.
            rows: (n,).
            place: the place in ``rows`` of each neighbour in ``met``.
            met: memories that were experienced next to those.
        """
        self._follow_changes()
        many = np.bincount(place, minlength=len(rows))[place]
        share = CONTEXT_SHARE * np.minimum(1, MOST_CONTEXT / many)
        place, met = np.concatenate([np.arange(len(rows)), place]), np.concatenate([rows, met])
        weight = np.concatenate([np.ones(len(rows)), share])
        length = np.bincount(place, weight * self._lengths[met], len(rows)).astype(np.float32)
        length /= max(float(length.mean()), 1.0) if len(rows) else 1.0
        total = np.zeros(len(rows), np.float32)
        for term in terms:
            posting = self._posting(term, "text")
            if len(posting.rows):
                count = np.bincount(place, weight * posting.at(met), len(rows)).astype(np.float32)
                total += self._idf(posting) * _saturate(count, length)
        return total

    def label(self, terms: list[str], rows: Int64) -> Float32:
        """(n,) how much of what the query shares with any metadata each of ``rows`` has, from 0 to 1."""
        self._follow_changes()
        total, most = np.zeros(len(rows), np.float32), 0.0
        for term in terms:
            posting = self._posting(term, "labels")
            if len(posting.rows):
                idf = self._idf(posting)
                total += idf * (posting.at(rows) > 0)
                most += idf
        return total / np.float32(most) if most else total

    def _posting(self, term: str, column: str) -> Postings:
        posting = self._postings.get((term, column))
        if posting is None:
            posting = Postings(*self._documents.memories.places(term, column, MOST_OCCURRENCES))
            if posting.counts.sum() >= MOST_OCCURRENCES:
                posting = Postings(np.empty(0, np.int64), np.empty(0, np.int64))
            self._postings[term, column] = posting
        return posting

    def _idf(self, posting: Postings) -> float:
        df = len(posting.rows)
        return float(np.log1p((self._count - df + 0.5) / (df + 0.5)))

    def _follow_changes(self) -> None:
        version = self._documents.memories.words_version
        if version == self._words_version:
            return
        rows, lengths = self._documents.memories.lengths()
        self._lengths = np.zeros(self._documents.memories.last_row + 1, np.float32)
        self._lengths[rows] = lengths.astype(np.float32)
        self._count, self._mean = len(rows), max(float(lengths.mean()), 1.0) if len(rows) else 1.0
        self._postings = {}
        self._words_version = version


def _saturate(count: Float32, length: Float32) -> Float32:
    """BM25's term weight for a count, in a text of ``length`` times the mean."""
    weight = count * (K1 + 1) / (count + K1 * (1 - B + B * length))
    return weight.astype(np.float32, copy=False)
