"""Fused recall for a query with a text: lexical, dense and association scores, smoothed among neighbours.

The candidates are the best memories of each source, and their neighbours in trajectories. So the work does not grow
with the index. Every candidate then gets the exact score of every source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.arrays import among, union
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.mentions.edges import MENTIONS, Mentioned
from pam_retriever.model.keys import Channels, query_vectors
from pam_retriever.retrieval.candidates import Candidates, Tiers
from pam_retriever.retrieval.coherence import neighbour_weights, pairs_within
from pam_retriever.retrieval.cues import FOR_WORDS, Cues, recognised
from pam_retriever.retrieval.directed import DirectedShares
from pam_retriever.retrieval.lexical import Lexicon, best_of
from pam_retriever.retrieval.mentioned import Mentioning, added_by
from pam_retriever.retrieval.sources import Contributions, check_without
from pam_retriever.retrieval.timeline import QuestionTimes, TimeEvidence
from pam_retriever.store.view import View
from pam_retriever.types import Float32, Int64

# Weights, chosen on two conversations of LoCoMo (docs/results/real-data.md). The best lexical score is scaled to 1,
# unless it is a smaller share of the best possible score than ENOUGH (benchmarks/notes/default-recall.md).
# A label is a string in the metadata that the query contains, for example the name of the speaker.
LEXICAL, LABEL = 0.5, 0.15
ENOUGH = 0.3
NUMBERED = 0.6  # weight of the numbers in a question that few texts hold, added too (benchmarks/notes/other-kinds.md)
TIME = 0.6  # weight of the times in a question, added to the others, which end near 1 (benchmarks/priors/fit_times.py)
SMOOTHING = 0.3  # weight of the mean score of the neighbours
WINDOW = 2  # largest distance to a neighbour in positions, for scores and for words
SOURCES = ("words", "labels", "similarity", "association", "mentions", "neighbours", "times")
Directed = Callable[[Int64, Float32], Float32]
Keys = Callable[[Int64], Float32]  # returns the keys (n, width) of stored rows (n,)
CANDIDATES = FOR_WORDS  # number of candidates per source for as many hits, see ``Tiers``
THEN = 30  # of these, by similarity and by words, among the memories of a time that a question names
FEW_THEN = 1000  # most such memories that are compared with the question one by one


class HybridScorer:
    """The best memories for queries with a vector and a text.

    Scores lie in [-1, 1]; the times in a question add at most 0.65.

    Args:
        view: a view of an index, which is fitted if ``channels`` use association.
        lexicon: the words of the texts.
        channels: the weights of similarity and association.
        min_score: drop hits with a lower score.
        times: reads the times in questions; None to ignore them.
        without: names of ``SOURCES`` to leave out.
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
        """See ``Scorer``. The cues have texts; each answer has its BM25, at most 1."""
        assert cues.texts is not None
        count = len(self._view.similar) if allowed is None else len(allowed)
        k = count if k is None else k
        tiers = Tiers(CANDIDATES, k, count, self._min_score)
        for n in tiers.sizes():
            tiers.add(self._best_of(cues, n, k, allowed))
        return tiers.best()

    def _best_of(self, cues: Cues, n: int, k: int, allowed: Rows | None) -> list[Candidates]:
        """Returns at most ``k`` and ``n`` candidates of each cue, from ``n`` per source."""
        association = None
        if allowed is cues.among and n <= cues.near.shape[1]:
            near = cues.near[:, :n]  # the look-up of the cues serves
        else:
            near = self._view.similar.search(cues.given, n, allowed)[1]
        if self._channels.association:
            only = replace(self._channels, similarity=0.0)
            association = query_vectors(only, cues.given, cues.completed, cues.predicted)
            near = np.concatenate([near, self._index.search(association, n, allowed)[1]], axis=1)
        towards = self._towards(cues) if self._channels.association else [None] * len(cues)
        return [
            self._score_one(
                cues, at, near[at], (None if association is None else association[at], towards[at]), n, allowed
            ).best(min(k, n), None)
            for at in range(len(cues))
        ]

    def _towards(self, cues: Cues) -> Sequence[Directed | None]:
        """For each cue, returns the directed part of the association."""
        links = self._view.links
        if links.direction is None:
            return [None] * len(cues)
        found = DirectedShares.of(self._view, cues, recognised(cues, links))
        return [partial(found.of_pairs, at) for at in range(len(cues))]

    def _score_one(
        self,
        cues: Cues,
        at: int,
        near: Int64,
        evidence: tuple[Float32 | None, Directed | None],
        n: int,
        allowed: Rows | None,
    ) -> Candidates:
        """Returns the candidates of one cue, ``n`` per source, given the rows ``near`` from look-ups."""
        assert cues.texts is not None
        association, towards = evidence
        lexicon, links, query = self._lexicon, self._view.links, cues.given[at]
        terms = lexicon.asked(cues.texts[at])
        by_words = lexicon.scores(terms)
        candidates = union(near[near >= 0], best_of(by_words, n, allowed))
        time_evidence = None if self._times is None else self._times.evidence(cues.texts[at], cues.visible)
        if time_evidence is not None:
            candidates = union(candidates, self._then(time_evidence, by_words, query, n, allowed))
        mentioned = None
        if self._mentioning is not None and "mentions" not in self._without:
            mentioned = self._mentioning.from_question(query, cues.texts[at], by_words, candidates, allowed)
            candidates = union(candidates, mentioned.rows)
        _, met, distance = _around(links, candidates, 2 * WINDOW, cues.visible)
        pool = union(candidates, met[distance <= WINDOW])
        if links.direction is None:
            rows = union(candidates, met)  # neighbours also affect the scores of the pool
        else:  # the neighbours are on the other side: a memory that came after is found by its predecessors
            rows = union(pool, _around(links.reversed(), pool, WINDOW, cues.visible)[1])
        question = Question(query, terms, association, cues.visible, mentioned, self._without, towards)
        scored = score_rows(question, rows, self._index.keys, links, lexicon, self._channels)
        scores, similarity, lexical, parts = scored.scores, scored.similarity, scored.lexical, scored.association
        sources = scored.sources
        if time_evidence is not None:
            sources = {**sources, "times": np.float32(TIME) * time_evidence.at(rows)}
            scores = scores + sources["times"]
        chosen = among(pool, rows) & (rows != cues.own[at])
        if allowed is not None:
            chosen &= holds(allowed, rows)
        position = np.flatnonzero(chosen)
        hops = np.full(len(position), 0 if parts is None else 1, np.int64)
        associated = None if parts is None else parts[position]
        return Candidates(
            rows[position],
            scores[position],
            similarity[position],
            associated,
            hops,
            lexical=lexical[position],
            mentions=None if mentioned is None else mentioned.ways(rows[position]),
            sources=Contributions.of({name: column[position] for name, column in sources.items()}),
        )

    def _then(
        self, time_evidence: TimeEvidence, by_words: Float32, query: Float32, n: int, allowed: Rows | None
    ) -> Int64:
        """Returns the best memories, by similarity and by words, among the memories of the times in the question."""
        n, then = n * THEN // CANDIDATES, time_evidence.best(allowed)
        if len(then) <= n:
            return then
        if len(then) <= FEW_THEN:  # a product with their keys takes a third of the time of a look-up
            similarity = self._view.similar.keys(then) @ query
            near = then[np.argpartition(-similarity, n - 1)[:n]]
        else:
            near = self._view.similar.search(query[None], n, then)[1][0]
        return union(near[near >= 0], best_of(by_words, n, then))


@dataclass(frozen=True)
class Question:
    """One question with a text.

    Attributes:
        given: (d,) its vector, of unit length.
        terms: its words, stemmed.
        association: (2d + code,) the query vector of association; None for none.
        visible: sorted rows that may count as evidence; None for all.
        mentioned: the memories that the question and its best hits name; None if no memory has a name.
        without: names of ``SOURCES`` to leave out.
        towards: returns the directed part of the association of rows (n,); None without a direction.
    """

    given: Float32
    terms: list[str]
    association: Float32 | None = None
    visible: Rows | None = None
    mentioned: Mentioned | None = None
    without: frozenset[str] = frozenset()
    towards: Directed | None = None


@dataclass(frozen=True)
class Scored:
    """Scores of rows for a question, (n,) each. ``association`` may be None. The ``sources`` sum to the scores."""

    scores: Float32
    similarity: Float32
    lexical: Float32
    association: Float32 | None
    sources: dict[str, Float32]


def score_rows(
    question: Question,
    rows: Int64,
    keys_of: Keys,
    links: CooccurrenceGraph,
    lexicon: Lexicon,
    channels: Channels,
) -> Scored:
    """Returns the mean of similarity, words, labels and association of sorted ``rows``, smoothed among neighbours.

    Only neighbours in ``rows`` count. BM25 is scaled to 1 for the best row, unless the best is poor (``ENOUGH``): a
    question that shares one common word with a text says little by words.
    """
    near = _around(links.reversed(), rows, WINDOW, question.visible)[:2]
    if "neighbours" in question.without:
        near = near[0][:0], near[1][:0]
    keys, association = keys_of(rows), question.association
    similarity: Float32 = keys[:, : len(question.given)] @ question.given
    parts = None if association is None else keys @ association
    if parts is not None and question.towards is not None:
        parts = question.towards(rows, parts)
    pairs = pairs_within(rows, *near)
    weights = neighbour_weights(links, rows, keys[:, : len(question.given)], *pairs)
    counts = lexicon.counts(question.terms, rows)
    lexical = lexicon.score(question.terms, rows, *near, weights, counts)
    lexical /= max(float(lexical.max(initial=0)), ENOUGH * lexicon.reach(question.terms, rows, counts), 1e-9)
    words, numbered = np.float32(LEXICAL) * lexical, lexicon.numbered(question.terms, counts)
    if numbered is not None:
        words = words + np.float32(NUMBERED) * numbered
    labels = LABEL * lexicon.label(question.terms, rows)
    contributions = {
        "words": words,
        "labels": labels,
        "similarity": np.float32(channels.similarity) * similarity,
    }
    if parts is not None:
        contributions["association"] = np.float32(channels.association) * parts
    if question.mentioned is not None:
        contributions["mentions"] = np.float32(MENTIONS) * added_by(question.mentioned, rows)
    contributions = {name: column for name, column in contributions.items() if name not in question.without}
    scores = sum(contributions.values(), np.zeros(len(rows), np.float32))
    total = np.float32(LEXICAL + LABEL + channels.total)
    if question.mentioned is not None or numbered is not None:
        # mentions and numbers may raise a score above the maximum of the weighted mean
        total *= np.float32(max(float(scores.max(initial=0)) / float(total), 1.0))
    own = scores / total
    scores = _smooth(own, *pairs, weights)
    sources = {name: column / total for name, column in contributions.items()} | {"neighbours": scores - own}
    return Scored(scores, similarity, lexical, parts, sources)


def plain_scores(question: Question, rows: Int64, keys_of: Keys, links: CooccurrenceGraph, lexicon: Lexicon) -> Float32:
    """Returns the scores (n,) of sorted ``rows`` in a recall without association and without feedback."""
    _, met, _ = _around(links.reversed(), rows, WINDOW, question.visible)
    every = union(rows, met) if len(met) else rows
    scores = score_rows(question, every, keys_of, links, lexicon, Channels(similarity=1)).scores
    return scores[np.searchsorted(every, rows)]


def _around(links: CooccurrenceGraph, rows: Int64, window: int, visible: Rows | None) -> tuple[Int64, Int64, Int64]:
    """The same as ``links.around``, with only the memories that may count as evidence."""
    position, met, distance = links.around(rows, window)
    if visible is None:
        return position, met, distance
    seen = holds(visible, met)
    return position[seen], met[seen], distance[seen]


def _smooth(scores: Float32, one: Int64, other: Int64, weights: Float32 | None) -> Float32:
    """Mixes each score with the mean of its neighbours. A memory outside all trajectories keeps its score."""
    count = np.bincount(one, minlength=len(scores))
    mean = np.bincount(one, scores[other], len(scores)) / np.maximum(count, 1)
    smoothing = SMOOTHING if weights is None else SMOOTHING * weights
    mixed = (scores + smoothing * np.where(count, mean, scores)) / (1 + smoothing)
    return mixed.astype(np.float32)
