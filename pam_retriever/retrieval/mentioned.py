"""Mentions in recall: asks ``mentions.source`` about a question or a stored memory, within a view and a filter."""

from __future__ import annotations

import numpy as np

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.arrays import among, union
from pam_retriever.mentions.edges import LEXICAL, PRIOR, WAYS, Mentioned
from pam_retriever.mentions.finder import find
from pam_retriever.mentions.limits import bounded
from pam_retriever.mentions.source import MentionSource
from pam_retriever.retrieval.candidates import Candidates
from pam_retriever.retrieval.cues import Cues
from pam_retriever.retrieval.first_mentions import MENTIONED
from pam_retriever.retrieval.lexical import Lexicon, Terms
from pam_retriever.retrieval.postings import Postings
from pam_retriever.retrieval.sources import Contributions
from pam_retriever.store.columns import from_json
from pam_retriever.store.index_mentions import IndexMentions
from pam_retriever.store.view import View
from pam_retriever.types import Bools, Float32, Int64, Mention

BEST = 50  # best memories by similarity and words whose mentions are followed


class MentionQuery:
    """One question, in the form that ``MentionSource`` needs.

    Args:
        view: a view of the index.
        lexicon: the words of the index.
        query: (d,) the question, at unit length.
        allowed: sorted rows to choose from; None for all.
    """

    def __init__(self, view: View, lexicon: Lexicon, query: Float32, allowed: Rows | None) -> None:
        self.text: str | None = None
        self.term_weights: Float32 = np.empty(0, np.float32)
        self._view, self._lexicon, self._query, self._rows = view, lexicon, query, allowed
        self._postings: list[Postings] = []
        self._by_words: Float32 | None = None  # a stored memory asks without words

    def with_words(self, text: str, terms: Terms, by_words: Float32, best: float) -> MentionQuery:
        """Adds the words: a text, its terms, the BM25 of all memories by row, and the highest of it."""
        self.text = text
        if len(terms.postings):
            self.term_weights, self._postings = terms.idf, terms.postings
            self._by_words, self._per_bm25 = by_words, np.float32(LEXICAL / max(best, 1e-9))
        return self

    def scores(self, rows: Int64) -> Float32:
        similarity: Float32 = self._view.similar.keys(rows) @ self._query
        if self._by_words is not None:
            similarity += self._per_bm25 * self._by_words[rows]
        return similarity

    def holds(self, rows: Int64) -> Bools:
        held = [among(posting.rows, rows) for posting in self._postings]
        return np.array(held, bool).reshape(len(held), len(rows))

    def part(self, words: str, rows: Int64) -> Float32:
        return self._lexicon.part(words, rows)

    def allowed(self, rows: Int64) -> Bools:
        return np.ones(len(rows), bool) if self._rows is None else holds(self._rows, rows)


class Mentioning:
    """Follows the mentions of a view.

    Args:
        view: a view of an index in which memories have names.
        lexicon: the words of the index.
    """

    def __init__(self, view: View, lexicon: Lexicon) -> None:
        self._view, self._lexicon = view, lexicon
        self._source = MentionSource(view.database.mentions.store, lexicon.texts)

    @classmethod
    def of(cls, view: View, lexicon: Lexicon) -> Mentioning | None:
        """Returns an instance; None if no memory has a name."""
        mentions = view.database.mentions
        return cls(view, lexicon) if mentions.known else None

    def from_memory(self, query: Float32, row: int, allowed: Rows | None) -> Mentioned:
        """Returns the memories that a memory names, and those that name it; see ``from_question``."""
        return self._source.score(
            MentionQuery(self._view, self._lexicon, query, allowed), np.array([row]), np.ones(1, np.float32)
        )

    def from_question(
        self, query: Float32, text: str, by_words: Float32, found: Int64, allowed: Rows | None
    ) -> Mentioned:
        """Returns the memories that a question names, and those that its best hits name.

        Args:
            query: (d,) the question, at unit length.
            text: its text.
            by_words: the BM25 of all memories by row, of the terms of this text.
            found: rows, which include the best by similarity and the best by words.
            allowed: sorted rows to choose from; None for all.
        """
        terms, most = self._lexicon.query_terms(self._lexicon.asked(text)), float(by_words[found].max(initial=0))
        mention_query = MentionQuery(self._view, self._lexicon, query, allowed).with_words(text, terms, by_words, most)
        found = found[mention_query.allowed(found)]
        scores = mention_query.scores(found)
        best = np.argsort(-scores, kind="stable")[:BEST]
        return bounded(self._source.score(mention_query, found[best], scores[best]), mention_query)


class MentionScorer:
    """Finds the memories that a stored memory names or that name it, without experience.

    Args:
        view: a view of an index in which memories have names.
        lexicon: the words of the index.
    """

    def __init__(self, view: View, lexicon: Lexicon) -> None:
        self._view, self._mentioning = view, Mentioning(view, lexicon)

    @classmethod
    def of(cls, view: View, lexicon: Lexicon) -> MentionScorer | None:
        """Returns an instance; None if no memory has a name."""
        return cls(view, lexicon) if view.database.mentions.known else None

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        """See ``Scorer``. The cues are stored memories; scores lie in [0, 1]."""
        found = []
        for query, row in zip(cues.given, cues.own.tolist(), strict=True):
            mentioned = self._mentioning.from_memory(query, row, allowed)
            rows = mentioned.rows[mentioned.rows != row]
            scores, ways = added_by(mentioned, rows), mentioned.ways(rows)
            scores = scores / np.maximum(scores.max(initial=0), 1)
            similarity = self._view.similar.keys(rows) @ query
            hops = np.ones(len(rows), np.int64)
            sources = Contributions.of({MENTIONED: scores})
            found.append(Candidates(rows, scores, similarity, None, hops, mentions=ways, sources=sources).best(k, None))
        return found


def added_by(mentioned: Mentioned, rows: Int64) -> Float32:
    """For each of ``rows`` (n,), returns the score from its mentions."""
    added: Float32 = mentioned.of(rows) @ np.array([PRIOR[way] for way in WAYS], np.float32)
    return added


def mentions_of(view: View, found: Candidates, text: str | None) -> list[tuple[Mention, ...]]:
    """For each candidate, returns the positions in texts that led to it.

    Args:
        view: a view of the index.
        found: candidates that have ``mentions``.
        text: the text of the question.
    """
    index_mentions = view.database.mentions
    assert found.mentions is not None
    hits, ways = np.nonzero(found.mentions[:, :, 1])
    sources, numbers = found.mentions[hits, ways].T
    holders = np.where(np.array(WAYS)[ways] == "named by", found.rows[hits], sources)
    positions = _positions(index_mentions, np.unique(holders[holders >= 0]))
    mention_query = {
        one.name: (one.start, one.end - one.start) for one in find([text or ""], index_mentions.store)[0][::-1]
    }
    memories = union(holders, sources)  # and -1, the question
    contents = view.database.memories.contents(memories[memories >= 0])
    mentions: list[list[Mention]] = [[] for _ in found.rows]
    seen: set[tuple[int, int, int]] = set()  # a position may lead there in several ways; the first is reported
    columns = (hits.tolist(), ways.tolist(), sources.tolist(), numbers.tolist(), holders.tolist())
    for hit, way, source, number, holder in zip(*columns, strict=True):
        start, length = mention_query[number] if holder < 0 else positions[holder, number]
        if (hit, holder, start) in seen:
            continue
        seen.add((hit, holder, start))
        words = (text if holder < 0 else contents[holder][1]) or ""
        name = words[start : start + length]
        if source < 0:
            mentions[hit].append(Mention(None, name, WAYS[way], start, None))
        else:
            id, of_source, metadata = contents[source]
            called = _called(index_mentions, id, of_source, metadata)
            if holder == source and called.casefold() == name.casefold():
                called = id  # passages of a document have one title: which of them is it?
            mentions[hit].append(Mention(called, name, WAYS[way], start, id))
    return [tuple(several) for several in mentions]


def _positions(index_mentions: IndexMentions, rows: Int64) -> dict[tuple[int, int], tuple[int, int]]:
    """Returns (row, number) -> start and length of the names in the texts of ``rows``."""
    stored = index_mentions.store.mentions_of(rows)
    keys = zip(stored.rows.tolist(), stored.numbers.tolist(), strict=True)
    return dict(zip(keys, zip(stored.starts.tolist(), stored.lengths.tolist(), strict=True), strict=True))


def _called(index_mentions: IndexMentions, id: str, text: str | None, metadata: str) -> str:
    """Returns the first name of a memory, or its id."""
    from pam_retriever.mentions.openings import opening_names  # a long pattern, for explanations only

    known, naming = from_json(metadata, f"The metadata of {id!r}"), index_mentions.naming
    opening = opening_names(text)[0] if text and index_mentions.openings else None
    return naming.first_of(known, text) or opening or id
