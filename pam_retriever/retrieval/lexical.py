"""Lexical search: BM25 over each memory and, with a lower weight, over its neighbours in trajectories.

A turn of a conversation seldom names its topic; its neighbours do. So the term frequencies of a memory are its own plus
a share of its neighbours' (measured in docs/results/real-data.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.arrays import largest
from pam_retriever.mentions.phrases import without_phrases
from pam_retriever.mentions.spelling import misspellings
from pam_retriever.retrieval.postings import MOST_OCCURRENCES, NOWHERE, Postings, TermScores, Words
from pam_retriever.store.database import Database
from pam_retriever.store.sqlite.words import shared_tokenizer
from pam_retriever.types import Float32, Int64

K1, B = 1.2, 0.75  # BM25 (Robertson and Zaragoza 2009) with Lucene's idf, which is never negative
CONTEXT_SHARE = 0.5  # weight of a term in a neighbour
MOST_CONTEXT = 4  # the terms of all neighbours together weigh at most as much as the terms of this many
MANY = 2_000  # texts with a term of the question; the best of more are found in another way, which pays then
RARE, MANY_EACH = 10, 20  # a number tells things apart if at most 10 texts hold it, and at most one in 20
_NUMBER = re.compile(r"(?!(?:19|20)\d\d$)(?:[a-z]*\d){4,}[a-z]*")  # at least four figures, no year
MOST_MISTYPED = 8  # a question with more unknown terms is in another language, and each look-up takes milliseconds
LONG = 5  # in a question of more words, each word counts less: they are redundant


@dataclass(frozen=True)
class Terms:
    """T terms of a question that some text holds, and their idf (T,)."""

    words: Words
    postings: list[Postings]
    idf: Float32

    def counts(self, rows: Int64) -> Float32:
        """Returns how often each of the texts holds each term, (T, n)."""
        found = [posting.at(rows) for posting in self.postings]
        return np.array(found, np.float32).reshape(len(found), len(rows))

    def bm25(self, rows: Int64, counts: Float32) -> Float32:
        """Returns the BM25 (n,) of the own words of ``rows``, given the ``counts`` of the terms."""
        weights = self.idf[:, None] * _saturate(counts, self.words.lengths[rows] / self.words.mean)
        total: Float32 = weights.sum(axis=0)
        return total


class Lexicon:
    """The words of an index, read on demand and changed by each write.

    Args:
        database: the database.
        last: leave out the memories of later rows; None for none.
    """

    def __init__(self, database: Database, last: int | None = None) -> None:
        self._database, self._last_row = database, last
        self._tokenize = shared_tokenizer()
        self._last: tuple[str, list[str]] = "", []  # the terms of the last text, which several sources need
        self._words: Words | None = None  # replaced as a whole: another thread may read it

    def terms(self, text: str) -> list[str]:
        """Returns the terms of a query, stemmed, without stop words."""
        last, terms = self._last
        if last != text:
            self._last = text, (terms := self._tokenize(text))
        return terms[:]

    def asked(self, text: str) -> list[str]:
        """Returns the terms of a question, as ``terms`` does, and the terms that mistyped ones may be meant to be.

        A term that no memory holds is joined by the most frequent one that differs from it by one typing error. Words
        of phrases such as "could you tell me" are left out.
        """
        terms, words = self.terms(without_phrases(text)), self._now()
        unknown = [term for term in terms if not self._held(words, term)]
        if len(unknown) > MOST_MISTYPED:
            return terms
        return sorted({*terms, *filter(None, (self._meant(words, term) for term in unknown))})

    def _meant(self, words: Words, term: str) -> str | None:
        """Returns the most frequent term that an unknown one may be meant to be; None if there is none."""
        if term not in words.meant:
            near = self._database.memories.held(misspellings(term))
            held = [(self._held(words, one), one) for one in near]
            words.meant[term] = max(held)[1] if held and max(held)[0] else None
        return words.meant[term]

    def _held(self, words: Words, term: str) -> int:
        """Returns in how many texts and labels a term is, or so many if it is too frequent to be read."""
        found = [self._posting(words, term, column) for column in ("text", "labels")]
        return sum(MOST_OCCURRENCES if one.frequent else len(one.rows) for one in found)

    def terms_of(self, texts: Sequence[str]) -> list[list[str]]:
        """Returns the terms of each of several texts, as ``terms`` does for one."""
        if len(texts) == 1:  # a question: other sources ask for its terms, too
            return [self.terms(texts[0])]
        return self._tokenize.each(texts)

    def terms_of_requests(self, texts: Sequence[str]) -> list[list[str]]:
        """Returns the terms of each of several past requests, without phrases, as ``asked`` leaves them out."""
        return self.terms_of([without_phrases(text) for text in texts])

    def best(self, terms: list[str], n: int, allowed: Rows | None) -> Int64:
        """Returns the ``n`` rows with the highest BM25 of their own words, without rows that hold no term."""
        return best_of(self.scores(terms), n, allowed)

    def scores(self, terms: list[str]) -> Float32:
        """Returns the BM25 of all memories by row, of their own words."""
        words = self._now()
        scores = np.zeros(len(words.lengths), np.float32)
        for term in terms:
            words.scores.of(term, partial(self._scores_of, words)).add_to(scores)
        return scores

    def _scores_of(self, words: Words, term: str) -> TermScores:
        """Returns the BM25 of the memories that hold a term, for this term."""
        posting = self._posting(words, term, "text")
        own = posting.counts.astype(np.float32)
        values = words.idf(posting) * _saturate(own, words.lengths[posting.rows] / words.mean)
        return TermScores.of(posting.rows, values.astype(np.float32, copy=False), len(words.lengths))

    def posting(self, term: str) -> Postings:
        """Returns the rows whose text holds a term."""
        return self._posting(self._now(), term, "text")

    @property
    def lengths(self) -> Float32:
        """The length of each text in characters, by row; 0 without a text."""
        return self._now().lengths

    def counts(self, terms: list[str], rows: Int64) -> list[Float32]:
        """Returns for each term how often the text of each of ``rows`` (n,) holds it."""
        words = self._now()
        return [self._posting(words, term, "text").at(rows) for term in terms]

    def score(
        self,
        terms: list[str],
        rows: Int64,
        position: Int64,
        met: Int64,
        weights: Float32 | None = None,
        counts: list[Float32] | None = None,
    ) -> Float32:
        """Returns the BM25 (n,) of ``rows``, with part of their neighbours' terms; at least 0.

        Args:
            terms: the terms of the query.
            rows: (n,).
            position: the position in ``rows`` of the memory of each neighbour in ``met``.
            met: neighbours of ``rows`` in trajectories.
            weights: (n,) how much the neighbours of each row count; None if all count in full.
            counts: the ``counts`` of ``rows``; None if they are not known.
        """
        words = self._now()
        counts = self.counts(terms, rows) if counts is None else counts
        many = np.bincount(position, minlength=len(rows))[position]
        share = CONTEXT_SHARE * np.minimum(1, MOST_CONTEXT / many)
        if weights is not None:
            share = share * weights[position]
        position = np.concatenate([np.arange(len(rows)), position])
        weight = np.concatenate([np.ones(len(rows)), share])
        lengths = np.concatenate([words.lengths[rows], words.lengths[met]])
        length = np.bincount(position, weight * lengths, len(rows)).astype(np.float32)
        length /= max(float(length.mean()), 1.0) if len(rows) else 1.0
        total = np.zeros(len(rows), np.float32)
        for term, count in zip(terms, counts, strict=True):
            posting = self._posting(words, term, "text")
            if len(posting.rows):
                if len(met):
                    held = np.concatenate([count, posting.at(met)])
                    count = np.bincount(position, weight * held, len(rows)).astype(np.float32)
                total += words.idf(posting) * _saturate(count, length)
        return total

    def numbered(self, terms: list[str], counts: list[Float32]) -> Float32 | None:
        """Returns the share (n,) of the rare numbers of a question, such as "992223", that each row holds.

        Args:
            terms: the terms of the question.
            counts: the ``counts`` of the rows.

        Returns:
            None if the question has no such number, or no row holds one.
        """
        held = [count > 0 for term, count in zip(terms, counts, strict=True) if self._is_rare_number(term)]
        found = [one for one in held if one.any()]
        return np.mean(found, axis=0, dtype=np.float32) if found else None

    def _is_rare_number(self, term: str) -> bool:
        """Whether a term is a number that so few texts hold that it tells things apart."""
        if _NUMBER.fullmatch(term) is None:
            return False
        posting = self.posting(term)
        return not posting.frequent and len(posting.rows) <= max(min(RARE, self.texts // MANY_EACH), 1)

    def reach(self, terms: list[str], rows: Int64, counts: list[Float32] | None = None) -> float:
        """Returns the BM25 of a memory of mean length that holds each term once.

        A term that none of ``rows`` (n,) holds counts as a term of no text, so that hidden memories change nothing.
        A label of one of them, such as the name of a speaker, and a term that is too frequent to be read do not count.

        Args:
            terms: the terms of the query.
            rows: (n,).
            counts: their ``counts``; None if they are not known.
        """
        words = self._now()
        counts = self.counts(terms, rows) if counts is None else counts
        total, unknown = 0.0, words.idf(NOWHERE)
        for term, count in zip(terms, counts, strict=True):
            posting = self._posting(words, term, "text")
            if count.any():
                total += words.idf(posting)
            elif not (posting.frequent or self._posting(words, term, "labels").at(rows).any()):
                total += unknown
        return total * min(1.0, LONG / max(len(terms), 1))

    def own(self, terms: list[str], rows: Int64) -> Float32:
        """Returns the BM25 (n,) of the own words of ``rows``, on the same scale for all memories; at least 0."""
        query_terms = self.query_terms(terms)
        return query_terms.bm25(rows, query_terms.counts(rows))

    def query_terms(self, terms: list[str]) -> Terms:
        """Returns those terms of a question that some text holds, and their idf, to score several sets of texts."""
        words = self._now()
        postings = [posting for term in terms if len((posting := self._posting(words, term, "text")).rows)]
        return Terms(words, postings, np.array([words.idf(posting) for posting in postings], np.float32))

    def part(self, text: str, rows: Int64) -> Float32:
        """Returns the part (n,) of the terms of a text, by idf, that each of ``rows`` (n,) has; 0 without terms."""
        words = self._now()
        return _part(words, [self._posting(words, term, "text") for term in self._tokenize(text)], rows)

    def idf(self, term: str) -> float:
        """The idf of a term; 0 for a term that no text holds."""
        posting = self.posting(term)
        return self._now().idf(posting) if len(posting.rows) else 0.0

    @property
    def texts(self) -> int:
        """The number of memories with a text."""
        return self._now().count

    def label(self, terms: list[str], rows: Int64) -> Float32:
        """Returns for each of ``rows`` (n,) the share of the query's label terms in its labels, from 0 to 1."""
        words = self._now()
        postings = [self._posting(words, term, "labels") for term in terms]
        return _part(words, [posting for posting in postings if len(posting.rows)], rows)

    def _posting(self, words: Words, term: str, column: str) -> Postings:
        posting = words.postings.get((term, column))
        if posting is None:
            posting = Postings.read(self._database.memories, term, column)
            if self._last_row is not None:
                there = posting.rows <= self._last_row
                posting = replace(posting, rows=posting.rows[there], counts=posting.counts[there])
            words.postings[term, column] = posting
        return posting

    def _now(self) -> Words:
        """Returns the current words. The index does not change during a query."""
        memories, words = self._database.memories, self._words
        version = memories.words_version
        if words is None or words.version != version:
            changed = None if words is None or self._last_row is not None else memories.words_since(words.version)
            if words is None or changed is None:
                words = Words.read(memories, self._last_row)
            else:
                words = words.followed_by(changed, version, memories.last_row)
            self._words = words
        return words


def best_of(scores: Float32, n: int, allowed: Rows | None) -> Int64:
    """Returns the ``n`` allowed rows with the highest of the ``scores`` of all rows, without those that score 0."""
    if allowed is None:
        above = scores > 0
        if np.count_nonzero(above) > max(n, MANY):
            return largest(scores, n)
        found = np.flatnonzero(above)
    else:
        rows = np.asarray(allowed)
        rows = rows[rows < len(scores)]
        found = rows[scores[rows] > 0]
    return found if len(found) <= n else found[np.argpartition(-scores[found], n - 1)[:n]]


def _part(words: Words, postings: list[Postings], rows: Int64) -> Float32:
    """Returns the part (n,) of some terms, by idf, that each of ``rows`` (n,) has; 0 without terms."""
    total, most = np.zeros(len(rows), np.float32), 0.0
    for posting in postings:
        idf = words.idf(posting)
        total += idf * (posting.at(rows) > 0)
        most += idf
    return total / np.float32(most) if most else total


def _saturate(count: Float32, length: Float32) -> Float32:
    """Returns BM25's term weight for a count, in a text of ``length`` times the mean."""
    weight = count * (K1 + 1) / (count + K1 * (1 - B + B * length))
    return weight.astype(np.float32, copy=False)
