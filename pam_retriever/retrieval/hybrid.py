"""Fused recall for a query in words: lexical, dense and association scores, and the neighbours' evidence.

The candidates are the best of each source and what was experienced next to those, so the work does not grow with
the bank; every candidate then gets every score exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pam_retriever.ann import AnnIndex
from pam_retriever.ann.selection import Rows, holds
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.mentions.source import Mentioned
from pam_retriever.model.keys import Channels, query_vectors
from pam_retriever.retrieval.candidates import Candidates
from pam_retriever.retrieval.cues import Cues, recognised
from pam_retriever.retrieval.directed import Towards
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.mentioned import Mentioning, added_by
from pam_retriever.retrieval.sources import Contributions, check_without
from pam_retriever.retrieval.timeline import Heard, QuestionTimes
from pam_retriever.store.view import View
from pam_retriever.types import Float32, Int64

# Weights, chosen on two conversations of LoCoMo (docs/results/real-data.md). The lexical score is scaled to 1 for the
# best candidate; a label is a string in the metadata, such as the speaker's name, that the query names.
FUSED = Channels(similarity=1.0, forward=0.1, reverse=0.1, mutual=0.1)
LEXICAL, LABEL = 0.5, 0.15
MENTIONS = 1.6  # of what mentions add, chosen on half of the questions of three sets (benchmarks/real/documents.py)
TIME = 0.4  # of what the times in a question say, beside all of that, which ends near 1 (benchmarks/real/times.py)
SMOOTHING = 0.3  # how much the mean score of the memories around counts
WINDOW = 2  # positions: how far "around" reaches, for scores and for words
SOURCES = ("words", "labels", "similarity", "association", "mentions", "neighbours", "times")
Directed = Callable[[Int64, Float32], Float32]
CANDIDATES = 100  # of each source, and at least as many as hits are asked for


class HybridScorer:
    """The best memories for queries that are given as vectors and as words.

    Scores lie in [-1, 1]; the times in a question add up to 0.4.

    Args:
        view: of an index; fitted where ``channels`` ask for association.
        lexicon: over the texts.
        channels: the weights of similarity and association.
        min_score: leave out hits that score less.
        times: reads the times in questions; None does not count them.
        without: names of ``SOURCES`` that do not count.
    """

    def __init__(
        self,
        view: View,
        lexicon: Lexicon,
        channels: Channels,
        min_score: float | None = None,
        times: QuestionTimes | None = None,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self._view, self._lexicon, self._channels, self._min_score = view, lexicon, channels, min_score
        self._without = check_without(without, SOURCES)
        self._times = None if "times" in without else times
        self._index = view.index_of(channels)
        self._mentioning = Mentioning.of(view, lexicon)

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        """As ``Scorer``, for cues with texts; each answer has its BM25, 1 for the best candidate."""
        assert cues.texts is not None
        assert k is not None, "words need a k"
        n = max(CANDIDATES, k + 1)
        near, association = self._view.similar.search(cues.looks, n, allowed)[1], None
        if self._channels.association:
            only = replace(self._channels, similarity=0.0)
            association = query_vectors(only, cues.looks, cues.completed, cues.predicted)
            near = np.concatenate([near, self._index.search(association, n, allowed)[1]], axis=1)
        towards = self._towards(cues) if self._channels.association else [None] * len(cues)
        return [
            self._score_one(
                cues, at, near[at], (None if association is None else association[at], towards[at]), k, allowed
            )
            for at in range(len(cues))
        ]

    def _towards(self, cues: Cues) -> Sequence[Directed | None]:
        """For each cue what is left of association in the direction that is asked for."""
        links = self._view.links
        if links.direction is None:
            return [None] * len(cues)
        found = Towards.of(self._view, cues, recognised(cues, links))
        return [partial(found.of_query, at) for at in range(len(cues))]

    def _score_one(
        self,
        cues: Cues,
        at: int,
        near: Int64,
        asked: tuple[Float32 | None, Directed | None],
        k: int,
        allowed: Rows | None,
    ) -> Candidates:
        """The answer to one cue, given the rows ``near`` that look-ups found."""
        assert cues.texts is not None
        association, towards = asked
        lexicon, links, looks = self._lexicon, self._view.links, cues.looks[at]
        terms = lexicon.terms(cues.texts[at])
        candidates = np.union1d(near[near >= 0], lexicon.best(terms, max(CANDIDATES, k + 1), allowed))
        heard = None if self._times is None else self._times.hear(cues.texts[at], cues.visible)
        if heard is not None:
            candidates = np.union1d(candidates, self._then(heard, terms, looks, k, allowed))
        mentioned = None
        if self._mentioning is not None and "mentions" not in self._without:
            mentioned = self._mentioning.from_question(looks, cues.texts[at], candidates, allowed)
            candidates = np.union1d(candidates, mentioned.rows)
        _, met, distance = _around(links, candidates, 2 * WINDOW, cues.visible)
        pool = np.union1d(candidates, met[distance <= WINDOW])
        if links.direction is None:
            rows = np.union1d(candidates, met)  # what the scores of the pool lean on too
        else:  # they lean the other way: what came after is found by what came before it
            rows = np.union1d(pool, _around(links.reversed(), pool, WINDOW, cues.visible)[1])
        question = Question(looks, terms, association, cues.visible, mentioned, self._without, towards)
        scored = score_rows(question, rows, self._index, links, lexicon, self._channels)
        scores, similarity, lexical, parts = scored.scores, scored.similarity, scored.lexical, scored.association
        sources = scored.sources
        if heard is not None:
            sources = {**sources, "times": np.float32(TIME) * heard.at(rows)}
            scores = scores + sources["times"]
        chosen = np.isin(rows, pool) & (rows != cues.own[at])
        if allowed is not None:
            chosen &= holds(allowed, rows)
        place = np.flatnonzero(chosen)
        hops = np.full(len(place), 0 if parts is None else 1, np.int64)
        associated = None if parts is None else parts[place]
        found = Candidates(
            rows[place],
            scores[place],
            similarity[place],
            associated,
            hops,
            lexical=lexical[place],
            mentions=None if mentioned is None else added_by(mentioned, rows[place])[1],
            sources=Contributions.of({name: column[place] for name, column in sources.items()}),
        )
        return found.best(k, self._min_score)

    def _then(self, heard: Heard, terms: list[str], looks: Float32, k: int, allowed: Rows | None) -> Int64:
        """The best of the memories that the times in a question name."""
        n, then = max(CANDIDATES, k + 1), heard.best()
        if allowed is not None:
            then = then[holds(allowed, then)]
        near = self._view.similar.search(looks[None], n, then)[1][0]
        return np.union1d(near[near >= 0], self._lexicon.best(terms, n, then))


@dataclass(frozen=True)
class Question:
    """One question in words.

    Attributes:
        looks: (d,) its vector, of unit length.
        terms: its words, as the lexicon has them.
        association: (2d + code,) the query vector of association; None for none.
        visible: sorted rows that may count as evidence; None for all.
        mentioned: whom it and its best hits name; None where no memory has a name.
        without: names of ``SOURCES`` that do not count.
        towards: what is left of the association of rows (n,) in the direction that is asked for; None without one.
    """

    looks: Float32
    terms: list[str]
    association: Float32 | None = None
    visible: Rows | None = None
    mentioned: Mentioned | None = None
    without: frozenset[str] = frozenset()
    towards: Directed | None = None


@dataclass(frozen=True)
class Scored:
    """Rows as a question finds them: (n,) each; ``association`` is None without. ``sources`` add up to the scores."""

    scores: Float32
    similarity: Float32
    lexical: Float32
    association: Float32 | None
    sources: dict[str, Float32]


def score_rows(
    question: Question,
    rows: Int64,
    index: AnnIndex,
    links: CooccurrenceGraph,
    lexicon: Lexicon,
    channels: Channels,
) -> Scored:
    """The weighted mean of similarity, words, labels and association of sorted ``rows``, smoothed among neighbours.

    Neighbours that are not among ``rows`` do not count. BM25 is scaled to 1 for the best of them.
    """
    near = _around(links.reversed(), rows, WINDOW, question.visible)
    if "neighbours" in question.without:
        near = near[0][:0], near[1][:0], near[2][:0]
    keys, association = index.keys(rows), question.association
    similarity: Float32 = keys[:, : len(question.looks)] @ question.looks
    parts = None if association is None else keys @ association
    if parts is not None and question.towards is not None:
        parts = question.towards(rows, parts)
    lexical = lexicon.score(question.terms, rows, *near[:2])
    lexical /= max(float(lexical.max(initial=0)), 1e-9)
    labels = LABEL * lexicon.label(question.terms, rows)
    said = {"words": LEXICAL * lexical, "labels": labels, "similarity": np.float32(channels.similarity) * similarity}
    if parts is not None:
        said["association"] = np.float32(channels.association) * parts
    if question.mentioned is not None:
        said["mentions"] = np.float32(MENTIONS) * added_by(question.mentioned, rows)[0]
    said = {name: column for name, column in said.items() if name not in question.without}
    scores = sum(said.values(), np.zeros(len(rows), np.float32))
    total = np.float32(LEXICAL + LABEL + channels.total)
    if question.mentioned is not None:
        # a mention may add more than the mean of the others has room for
        total *= np.float32(max(float(scores.max(initial=0)) / float(total), 1.0))
    own = scores / total
    scores = _smooth(own, rows, *near[:2])
    sources = {name: column / total for name, column in said.items()} | {"neighbours": scores - own}
    return Scored(scores, similarity, lexical, parts, sources)


def plain_scores(
    question: Question, rows: Int64, index: AnnIndex, links: CooccurrenceGraph, lexicon: Lexicon
) -> Float32:
    """(n,) what recall without association and without feedback gives each of sorted ``rows``."""
    _, met, _ = _around(links.reversed(), rows, WINDOW, question.visible)
    every = np.union1d(rows, met)
    scores = score_rows(question, every, index, links, lexicon, Channels(similarity=1)).scores
    return scores[np.searchsorted(every, rows)]


def _around(links: CooccurrenceGraph, rows: Int64, window: int, visible: Rows | None) -> tuple[Int64, Int64, Int64]:
    """As ``links.around``: only the memories that may count as evidence."""
    place, met, distance = links.around(rows, window)
    if visible is None:
        return place, met, distance
    seen = holds(visible, met)
    return place[seen], met[seen], distance[seen]


def _smooth(scores: Float32, rows: Int64, place: Int64, met: Int64) -> Float32:
    """Each score mixed with the mean of those around it; alone for a memory outside all trajectories."""
    there = np.minimum(np.searchsorted(rows, met), len(rows) - 1)
    inside = rows[there] == met
    place, there = place[inside], there[inside]
    count = np.bincount(place, minlength=len(rows))
    mean = np.bincount(place, scores[there], len(rows)) / np.maximum(count, 1)
    mixed = (scores + SMOOTHING * np.where(count, mean, scores)) / (1 + SMOOTHING)
    return mixed.astype(np.float32)
