"""Mentions as a source of recall: memories that the question or its best hits name, and memories that name these.

If the text of a hit s contains the name n of a memory t, then t gets from s the score

    strength(s)^1.5 * idf(n) * share(t | n) * (1 + 4 * left(s, t))

strength is the score by similarity and words. idf is that of BM25 (Robertson and Zaragoza 2009), scaled to 0 for a name
in half of the texts and 1 for the rarest. share divides an ambiguous name among its memories. left is the part of the
question's words that t contains and s does not: a second step counts more if it covers the rest of the question.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from pam_retriever.arrays import among, concatenated, distinct, starts_of
from pam_retriever.mentions.finder import find
from pam_retriever.mentions.folding import words
from pam_retriever.mentions.links import are_phrases, phrase_number
from pam_retriever.mentions.names import STOP_WORDS
from pam_retriever.mentions.store import Groups, SQLiteMentions, grouped
from pam_retriever.types import Bools, Float32, Int64

Way = Literal["asked", "names", "named by", "second step", "shares"]
WAYS: tuple[Way, ...] = get_args(Way)
# weights relative to cosine + LEXICAL * BM25 (1 for the best), chosen on half of the questions of three sets
# (benchmarks/real/documents.py), the same for all
PRIOR = dict(zip(WAYS, (1.0, 0.35, 0.08, 0.03, 0.25), strict=True))
LEXICAL = 0.3
SEEDS = 10  # number of best hits whose mentions are followed
POWER = 1.5  # exponent of their scores
LEFT = 4.0  # weight of the rest of the question
BEARERS = 100  # a name that more memories have is ignored
READERS = 100  # if more texts name a memory, they are not followed
TEMPERATURE = 0.1  # of the softmax over scores that divides an ambiguous name
LONGEST_PHRASE = 8  # words of the question in one phrase


class Question(Protocol):
    """The data of a question that the source needs. All rows are rows of memories that may be found."""

    text: str | None
    term_weights: Float32  # (T,) idf of the question's terms

    def scores(self, rows: Int64) -> Float32:
        """Returns (n,) cosine + LEXICAL * BM25, scaled to 1 for the best hit."""

    def holds(self, rows: Int64) -> Bools:
        """Returns whether each of the texts has each of the question's terms, (T, n)."""

    def allowed(self, rows: Int64) -> Bools:
        """Returns which rows (n,) may be found, and may lead to others."""


@dataclass(frozen=True)
class Edges:
    """Edges (m,) between memories; ``numbers`` are the numbers of the name, link or phrase of each edge."""

    sources: Int64
    numbers: Int64
    targets: Int64
    weights: Float32

    def at(self, positions: Int64 | Bools) -> Edges:
        """Returns the edges at these positions."""
        return Edges(self.sources[positions], self.numbers[positions], self.targets[positions], self.weights[positions])


_NONE: Int64 = np.empty(0, np.int64)
_NO_EDGES = Edges(_NONE, _NONE, _NONE, np.empty(0, np.float32))


@dataclass(frozen=True)
class Mentioned:
    """The mentions for a question.

    Attributes:
        rows: (n,) sorted.
        features: (n, 5) the strength for each of ``WAYS``, at least 0.
        sources: (n, 5) the memory from which the strength comes; -1 for the question itself, or for no strength.
        numbers: (n, 5) the number of the name, link or phrase; 0 for none.
    """

    rows: Int64
    features: Float32
    sources: Int64
    numbers: Int64

    def of(self, rows: Int64) -> Float32:
        """Returns the features (m, 5) of memories (m,); else 0."""
        features = np.zeros((len(rows), len(WAYS)), np.float32)
        there, position = self._positions(rows)
        features[there] = self.features[position]
        return features

    def ways(self, rows: Int64) -> Int64:
        """Returns the sources and numbers (m, 5, 2) of memories (m,); else 0."""
        ways = np.zeros((len(rows), len(WAYS), 2), np.int64)
        there, position = self._positions(rows)
        ways[there, :, 0], ways[there, :, 1] = self.sources[position], self.numbers[position]
        return ways

    def _positions(self, rows: Int64) -> tuple[Bools, Int64]:
        """Returns a mask of the ``rows`` (m,) that are mentioned, and the positions of these in ``self.rows``."""
        there = among(self.rows, rows)
        return there, self.rows.searchsorted(rows[there])


class MentionSource:
    """Scores candidates by mentions. Caches nothing.

    Args:
        store: the storage of names and mentions.
        texts: number of memories with a text; None reads it from the store.
    """

    def __init__(self, store: SQLiteMentions, texts: int | None = None) -> None:
        self._store, self._texts = store, texts

    def score(self, question: Question, rows: Int64, scores: Float32) -> Mentioned:
        """Follows mentions from a question and from its hits.

        Args:
            question: the question to answer.
            rows: (n,) distinct: the best hits by similarity and words, or the memory that is the question.
            scores: (n,) their ``question.scores``; 1 for the memory that is the question.

        Returns:
            Every memory that at most two steps of mentions reach.
        """
        names = _Names(self._store)
        of_question = self._edges_of_question(question, names)
        strengths = _Strengths(rows, scores, question)
        strengths.add(of_question, PRIOR["asked"])
        seeds = strengths.best(SEEDS)
        mentions = self._store.numbers_in(seeds.rows)
        edges = [
            self._named(question, seeds, mentions, names),
            self._naming(question, seeds, names),
            self._shared(question, seeds, mentions),
        ]
        named, naming, shared = _passed_on(question, edges, seeds)
        strengths.add(named, PRIOR["names"])
        strengths.add(naming, PRIOR["named by"])
        seeds = strengths.best(SEEDS)
        edges = [self._named(question, seeds, self._store.numbers_in(seeds.rows), names)]
        [second] = _passed_on(question, edges, seeds)
        return _gather([of_question, named, naming, second, shared])

    def _edges_of_question(self, question: Question, names: _Names) -> Edges:
        """Returns edges to the memories that the question names."""
        found = find([question.text], self._store)[0] if question.text else []
        if not found:
            return _NO_EDGES
        numbers = distinct(np.array([one.name for one in found], np.int64))
        bearers, counts = names.look_up(numbers)
        bearers = _found(question, bearers)
        weights = np.repeat(self._idf(counts), bearers.counts) * _shares(question, bearers)
        edges = Edges(
            np.full(len(bearers.rows), -1, np.int64), np.repeat(numbers, bearers.counts), bearers.rows, weights
        )
        return edges.at((edges.weights > 0) & question.allowed(edges.targets))

    def _named(self, question: Question, seeds: Seeds, mentions: Groups, names: _Names) -> Edges:
        """Returns edges from seeds to the memories that their texts name or link to."""
        mask = ~are_phrases(mentions.rows)
        sources, mentioned = np.repeat(seeds.rows, mentions.counts)[mask], mentions.rows[mask]
        numbers, which = np.unique(mentioned, return_inverse=True)
        bearers, counts = names.look_up(numbers)
        bearers = _found(question, bearers)
        weights = np.repeat(self._idf(counts), bearers.counts) * _shares(question, bearers)
        mention, position = _spread(bearers, which)
        return Edges(sources[mention], mentioned[mention], bearers.rows[position], weights[position])

    def _naming(self, question: Question, seeds: Seeds, names: _Names) -> Edges:
        """Returns edges from seeds to the memories whose texts name or link to them."""
        numbers = self._store.called_of(seeds.rows)
        bearers, counts = names.look_up(numbers)
        bearers = _found(question, bearers, seeds)
        readers = self._store.mentioning(numbers, READERS)
        parts = self._idf(counts) / np.maximum(bearers.counts, 1)
        named, position = _spread(readers, np.repeat(np.arange(len(numbers)), bearers.counts))
        number = np.repeat(np.arange(len(numbers)), bearers.counts)[named]
        edges = Edges(bearers.rows[named], numbers[number], readers.rows[position], parts[number].astype(np.float32))
        return edges.at(seeds.have(edges.sources))

    def _shared(self, question: Question, seeds: Seeds, mentions: Groups) -> Edges:
        """Returns edges to memories that share a phrase with the texts of seeds, unless the question contains it."""
        mask = are_phrases(mentions.rows)
        if mask.any():
            mask &= ~among(_phrases_of(question.text), mentions.rows)
        sources, mentioned = np.repeat(seeds.rows, mentions.counts)[mask], mentions.rows[mask]
        numbers, which = np.unique(mentioned, return_inverse=True)
        readers = self._store.mentioning(numbers, READERS)
        rare, readers = self._idf(readers.counts), _found(question, readers, seeds)
        parts = rare / np.sqrt(np.maximum(readers.counts - 1, 1))
        mention, position = _spread(readers, which)
        weights = parts[which[mention]].astype(np.float32)
        return Edges(sources[mention], mentioned[mention], readers.rows[position], weights)

    def _idf(self, counts: Int64) -> Float32:
        """Returns the idf (n,) of names from their counts of texts: 1 for the rarest, 0 for a name in half of all."""
        texts = self._store.texts() if self._texts is None else self._texts
        idf = np.log((np.maximum(texts - counts, 0) + 0.5) / (counts + 0.5)) / np.log(texts + 1.5)
        rare: Float32 = np.clip(idf, 0, 1).astype(np.float32)
        return rare


class _Names:
    """The names that were looked up for a question: their memories, and the number of texts with each."""

    def __init__(self, store: SQLiteMentions) -> None:
        self._store, self._known = store, dict[int, tuple[list[int], int]]()

    def look_up(self, numbers: Int64) -> tuple[Groups, Int64]:
        """Returns the memories with each name, and the counts (n,) of texts that hold it."""
        listed = numbers.tolist()
        if new := [number for number in listed if number not in self._known]:
            self._known.update(zip(new, self._store.looked_up(np.array(new), BEARERS), strict=True))
        found = [self._known[number] for number in listed]
        return grouped([rows for rows, _ in found]), np.array([count for _, count in found], np.int64)


@dataclass(frozen=True)
class Seeds:
    """Memories (n,), sorted by row, whose mentions are followed, and their scores (n,), at least 0."""

    rows: Int64
    strengths: Float32

    def have(self, rows: Int64) -> Bools:
        """Returns which of ``rows`` (m,) are seeds."""
        return among(self.rows, rows)


class _Strengths:
    """Scores of memories, which grow while mentions are followed."""

    def __init__(self, rows: Int64, scores: Float32, question: Question) -> None:
        order = np.argsort(rows)
        self._rows, self._scores, self._question = rows[order], scores[order].astype(np.float32), question

    def add(self, edges: Edges, weight: float) -> None:
        """Adds the strongest edge to each target, times ``weight``."""
        if not len(edges.targets):
            return
        targets, which = np.unique(edges.targets, return_inverse=True)
        strongest = np.zeros(len(targets), np.float32)
        np.maximum.at(strongest, which, edges.weights)
        new = targets[~among(self._rows, targets)]
        if len(new):
            rows = np.concatenate([self._rows, new])
            scores = np.concatenate([self._scores, self._question.scores(new)])
            order = rows.argsort()
            self._rows, self._scores = rows[order], scores[order]
        self._scores[self._rows.searchsorted(targets)] += np.float32(weight) * strongest

    def best(self, n: int) -> Seeds:
        position = np.sort(np.argsort(-self._scores, kind="stable")[:n])
        return Seeds(self._rows[position], np.maximum(self._scores[position], 0))


def _joined(several: list[Edges]) -> tuple[Edges, Int64]:
    """Joins n lists of edges; returns also, for each edge (m,), the index of its list."""
    columns = [
        (edges.sources, edges.numbers, edges.targets, edges.weights.astype(np.float32, copy=False)) for edges in several
    ]
    ways = np.repeat(np.arange(len(several)), [len(edges.targets) for edges in several])
    return Edges(*map(np.concatenate, zip(*columns, strict=True))), ways


def _passed_on(question: Question, several: list[Edges], seeds: Seeds) -> list[Edges]:
    """Returns edges to allowed memories, weighted by the strength of their sources and the rest of the question."""
    edges, ways = _joined(several)
    mask = (edges.sources != edges.targets) & (edges.weights > 0) & question.allowed(edges.targets)
    edges, ways = edges.at(mask), ways[mask]
    strength = seeds.strengths[seeds.rows.searchsorted(edges.sources)] ** np.float32(POWER)
    weights = edges.weights * strength * (1 + np.float32(LEFT) * _left(question, edges))
    passed = Edges(edges.sources, edges.numbers, edges.targets, weights)
    return [passed.at(ways == way) for way in range(len(several))]


def _left(question: Question, edges: Edges) -> Float32:
    """Returns the part (m,) of the question's terms, by idf, that the target of an edge has and its source has not."""
    weights = question.term_weights
    if not len(edges.sources) or not weights.sum():
        return np.zeros(len(edges.sources), np.float32)
    held = question.holds(np.concatenate([edges.sources, edges.targets]))
    source, target = held[:, : len(edges.sources)], held[:, len(edges.sources) :]
    part: Float32 = weights @ (target & ~source) / weights.sum()
    return part


def _shares(question: Question, bearers: Groups) -> Float32:
    """Returns the share (m,) of each memory in an ambiguous name: a softmax over its scores for the question."""
    if bearers.counts.max(initial=0) <= 1:
        return np.ones(len(bearers.rows), np.float32)
    rows, which = np.unique(bearers.rows, return_inverse=True)
    scores = question.scores(rows)[which] / TEMPERATURE
    group = np.repeat(np.arange(len(bearers.counts)), bearers.counts)
    best = np.full(len(bearers.counts), -np.inf)
    np.maximum.at(best, group, scores)
    parts = np.exp(scores - best[group])
    shares: Float32 = (parts / np.bincount(group, parts, len(best))[group]).astype(np.float32)
    return shares


def _found(question: Question, groups: Groups, seeds: Seeds | None = None) -> Groups:
    """Returns the groups without memories that the question may not find; seeds stay."""
    mask = question.allowed(groups.rows)
    if mask.all():
        return groups
    if seeds is not None:
        mask = mask | seeds.have(groups.rows)
    return Groups(starts_of(mask)[groups.starts], groups.rows[mask])


def _spread(groups: Groups, which: Int64) -> tuple[Int64, Int64]:
    """For each i, returns all rows of group ``which[i]``, as pairs of i and a position in ``groups.rows``."""
    counts = groups.counts[which]
    left = np.repeat(np.arange(len(which)), counts)
    return left, concatenated(groups.starts[:-1][which], counts)


def _gather(several: list[Edges]) -> Mentioned:
    """Returns the strongest edge of each way to each memory."""
    edges, ways = _joined(several)
    rows, position = np.unique(edges.targets, return_inverse=True)
    features = np.zeros((len(rows), len(several)), np.float32)
    found = Mentioned(rows, features, np.full(features.shape, -1, np.int64), np.zeros(features.shape, np.int64))
    order = np.argsort(edges.weights, kind="stable")  # the strongest is written last, and remains
    edges, at = edges.at(order), (position[order], ways[order])
    found.features[at], found.sources[at], found.numbers[at] = edges.weights, edges.sources, edges.numbers
    return found


def _phrases_of(text: str | None) -> Int64:
    """Returns the numbers of all phrases of the question that ``capitalised`` might find in a text."""
    sequence = words(text)[:1000] if text else []
    phrases = {
        " ".join(sequence[at:end])
        for at, first in enumerate(sequence)
        if first not in STOP_WORDS
        for end in range(at + 2, min(at + LONGEST_PHRASE, len(sequence)) + 1)
    }
    return np.array(sorted(phrase_number(phrase) for phrase in phrases), np.int64)
