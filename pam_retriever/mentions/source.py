"""The score of mentions: of memories that the question or its best hits name, and of memories that name these.

If the text of a hit s contains the name n of a memory t, then t gets from s the score

    strength(s)^1.5 * idf(n) * share(t | n) * (1 + 4 * left(s, t))

strength is the score by similarity and words. idf is that of BM25 (Robertson and Zaragoza 2009), scaled to 0 for a name
in half of the texts and 1 for the rarest. share divides an ambiguous name among its memories. left is the part of the
question's words that t contains and s does not: a second step counts more if it covers the rest of the question.

A name of the question gives its memories idf(n) * share(t | n). One word in lower case among others may be any word,
so it gives a tenth, unless few texts hold it. What a mention adds is limited by the score of s (``limits.py``).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pam_retriever.arrays import among, distinct, firsts, union
from pam_retriever.mentions.edges import NO_EDGES, PRIOR, Edges, Mentioned, Question
from pam_retriever.mentions.finder import Occurrence, find
from pam_retriever.mentions.folding import fold
from pam_retriever.mentions.limits import limited
from pam_retriever.mentions.links import phrase_number
from pam_retriever.mentions.names import STOP_WORDS
from pam_retriever.mentions.steps import BEARERS, NO_COLUMNS, Steps
from pam_retriever.mentions.store import SQLiteMentions
from pam_retriever.types import Bools, Float32, Int64

SEEDS = 10  # number of best hits whose mentions are followed
POWER = 1.5  # exponent of their scores
LEFT = 4.0  # weight of the rest of the question
TEMPERATURE = 0.1  # of the softmax over scores that divides an ambiguous name
LONGEST_PHRASE = 8  # words of the question in one phrase
# chosen on first halves (benchmarks/real/documents.py) and on manual pages (benchmarks/real/pages.py)
ANY_WORD = 0.1  # weight of a name in the question that is one word in lower case among others, unless it is rare:
FEW_TEXTS = 3  # a word that as many texts hold at most is a name


class MentionSource:
    """Scores candidates by mentions.

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
        texts = self._store.texts() if self._texts is None else self._texts
        strengths = _Strengths(rows, scores, question)
        asked, rest = self._asked(question, texts)
        strengths.add((asked, PRIOR["asked"]))
        seeds = strengths.best(SEEDS)
        followed = _Followed(question, seeds, self._store.steps.of(seeds.rows.tolist()))
        named, naming, shared = followed.edges(texts)
        strengths.add((named, PRIOR["names"]), (naming, PRIOR["named by"]))
        seeds = strengths.best(SEEDS)
        followed = _Followed(question, seeds, self._store.steps.of(seeds.rows.tolist()), only_named=True)
        second, *_ = followed.edges(texts)
        return _gather([limited(asked, named, question, rest), named, naming, second, shared])

    def _asked(self, question: Question, texts: int) -> tuple[Edges, str]:
        """Returns edges to the memories that the question names, and the rest of its text."""
        text = question.text or ""
        found = find([text], self._store)[0] if text else []
        if not found:
            return NO_EDGES, text
        numbers = distinct(np.array([one.name for one in found], np.int64))
        bearers = self._store.looked_up(numbers, BEARERS)
        sizes = np.array([len(rows) for rows, _ in bearers], np.int64)
        targets = np.array([row for rows, _ in bearers for row in rows], np.int64)
        counts = np.array([count for _, count in bearers], np.int64).repeat(sizes)
        weights, numbers = _idf(counts, texts), numbers.repeat(sizes)
        mask = question.allowed(targets)
        _share(question, weights, numbers, targets, np.flatnonzero(mask & (sizes.repeat(sizes) > 1)))
        if len(fold(text).split()) > 1:
            meant = np.array([one.name for one in found if _is_a_name(text[one.start : one.end])], np.int64)
            unsure = ~among(distinct(meant), numbers) & (counts > FEW_TEXTS)
            weights[unsure] *= np.float32(ANY_WORD)
            left_out = set(numbers[unsure].tolist())
            found = [one for one in found if one.name not in left_out]
        edges = Edges(np.full(len(targets), -1, np.int64), numbers, targets, weights).at(mask & (weights > 0))
        return edges, _without(text, found)


def _without(text: str, found: list[Occurrence]) -> str:
    """Returns a text without its names, which are in their order."""
    ends = [0, *(one.end for one in found)]
    starts = [*(one.start for one in found), len(text)]
    return " ".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _is_a_name(words: str) -> bool:
    """Returns whether words among others that are also a name are meant as one: not so a single one in lower case."""
    lower = words == words.lower() and words != words.title()  # Chinese and Georgian names begin with no capital
    return not lower or len(fold(words).split()) > 1


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

    def add(self, *several: tuple[Edges, float]) -> None:
        """For each pair of edges and a weight, adds the strongest edge to each target, times the weight."""
        targets = np.concatenate([edges.targets for edges, _ in several])
        if not len(targets):
            return
        rows = union(self._rows, targets)
        known = among(self._rows, rows)
        scores = np.empty(len(rows), np.float32)
        scores[known], scores[~known] = self._scores, self._question.scores(rows[~known])
        for edges, weight in several:
            strongest = np.zeros(len(rows), np.float32)
            np.maximum.at(strongest, rows.searchsorted(edges.targets), edges.weights)
            scores += np.float32(weight) * strongest
        self._rows, self._scores = rows, scores

    def best(self, n: int) -> Seeds:
        position = np.sort(np.argsort(-self._scores, kind="stable")[:n])
        return Seeds(self._rows[position], np.maximum(self._scores[position], 0))


class _Followed:
    """The steps from seeds, joined: to memories that they name, to those that name them, to those that share a phrase.

    Args:
        question: the question.
        seeds: the seeds.
        steps: the steps from each.
        only_named: leave out all but the first.
    """

    def __init__(self, question: Question, seeds: Seeds, steps: list[Steps], only_named: bool = False) -> None:
        self._question, self._seeds, self._steps = question, seeds, steps
        parts = [one.columns[:, : one.named] for one in steps]
        if not only_named:
            parts += [one.columns[:, one.named : one.named + one.naming] for one in steps]
            parts += [one.columns[:, one.named + one.naming :] for one in steps]
        lengths = [part.shape[1] for part in parts]
        self._numbers, self._targets, self._counts, self._sizes = np.concatenate([NO_COLUMNS, *parts], axis=1)
        self._sources = np.tile(np.arange(len(steps)), 1 if only_named else 3).repeat(lengths)
        named = sum(lengths[: len(steps)])
        naming = named + sum(lengths[len(steps) : 2 * len(steps)])
        self._named, self._naming, self._sharing = slice(named), slice(named, naming), slice(naming, None)

    def edges(self, texts: int) -> list[Edges]:
        """Returns edges of each kind to allowed memories.

        They are weighted by the strength of their sources, and by the rest of the question.

        Args:
            texts: the number of memories with a text.
        """
        question, seeds, targets = self._question, self._seeds, self._targets
        mask = question.allowed(targets)
        sizes = self._sizes if mask.all() else self._sizes_among(mask)
        weights = _idf(self._counts, texts)
        several = np.flatnonzero(mask[self._named] & (sizes[self._named] > 1))
        _share(question, weights, self._numbers, targets, several, self._sources)
        weights[self._naming] /= sizes[self._naming]
        weights[self._sharing] /= np.sqrt(sizes[self._sharing])
        mask = mask & (weights > 0) & (seeds.rows[self._sources] != targets)
        if mask[self._sharing].any():
            mask[self._sharing] &= ~among(_phrases_of(question.text), self._numbers[self._sharing])
        sources, weights = self._sources[mask], weights[mask]
        weights = weights * (seeds.strengths ** np.float32(POWER))[sources]
        weights *= 1 + np.float32(LEFT) * _left(question, seeds.rows, sources, targets[mask])
        every = Edges(seeds.rows[sources], self._numbers[mask], targets[mask], weights)
        ends = [0, *(np.count_nonzero(mask[: one.stop]) for one in (self._named, self._naming)), len(weights)]
        return [every.at(slice(*pair)) for pair in pairwise(ends)]

    def _sizes_among(self, allowed: Bools) -> Int64:
        """Returns how many memories share each step, if only seeds and ``allowed`` targets (m,) of steps count."""
        rows = self._seeds.rows
        sizes: Int64 = self._sizes.copy()
        found = [((at, number), row) for at, one in enumerate(self._steps) for number, row in one.bearers]
        bearers = np.array([row for _, row in found], np.int64)
        counted = among(rows, bearers) | self._question.allowed(bearers)
        with_name = Counter(found[at][0] for at in np.flatnonzero(counted))
        steps = zip(self._sources[self._naming].tolist(), self._numbers[self._naming].tolist(), strict=True)
        sizes[self._naming] = [1 + with_name[step] for step in steps]
        sources, numbers = self._sources[self._sharing], self._numbers[self._sharing]
        if len(sources):
            counted = allowed[self._sharing] | among(rows, self._targets[self._sharing])
            starts = np.flatnonzero(firsts(sources) | firsts(numbers))
            shared = np.add.reduceat(counted.astype(np.int64), starts)
            sizes[self._sharing] = np.maximum(shared, 1).repeat(_lengths(starts, len(sources)))
        return sizes


def _idf(counts: Int64, texts: int) -> Float32:
    """Returns the idf (n,) of names from their counts of texts: 1 for the rarest, 0 for a name in half of all."""
    idf = np.log((np.maximum(texts - counts, 0) + 0.5) / (counts + 0.5)) / np.log(texts + 1.5)
    rare: Float32 = np.minimum(np.maximum(idf, 0), 1).astype(np.float32)
    return rare


def _share(
    question: Question, weights: Float32, numbers: Int64, targets: Int64, several: Int64, sources: Int64 | None = None
) -> None:
    """Divides the weights of ambiguous names among their memories, by a softmax over scores for the question.

    Args:
        question: the question.
        weights: (m,) of edges, which are changed.
        numbers: (m,) of the edges.
        targets: (m,) of the edges.
        several: the positions of the edges to share, those of one name together.
        sources: (m,) of the edges; None for one source of all.
    """
    if not len(several):
        return
    numbers = numbers[several]
    first = firsts(numbers)
    if sources is not None:
        first |= firsts(sources[several])
    starts = np.flatnonzero(first)
    counts = _lengths(starts, len(several))
    scores = (question.scores(targets[several]) / TEMPERATURE).astype(np.float64)
    parts = np.exp(scores - np.maximum.reduceat(scores, starts).repeat(counts))
    weights[several] *= (parts / np.add.reduceat(parts, starts).repeat(counts)).astype(np.float32)


def _lengths(starts: Int64, end: int) -> Int64:
    """Returns the lengths (n,) of consecutive lists that begin at ``starts`` (n,), and the last of which has an end."""
    lengths: Int64 = np.append(starts[1:], end) - starts
    return lengths


def _left(question: Question, seeds: Int64, sources: Int64, targets: Int64) -> Float32:
    """Returns the part (m,) of the question's terms, by idf, that the target of an edge has and its source has not.

    Args:
        question: the question.
        seeds: the memories from which edges lead.
        sources: (m,) positions in ``seeds``.
        targets: (m,) memories.
    """
    weights = question.term_weights
    if not len(sources) or not len(weights):
        return np.zeros(len(sources), np.float32)
    held = question.holds(np.concatenate([seeds, targets]))
    new = held[:, len(seeds) :] & ~held[:, : len(seeds)].take(sources, axis=1)
    part: Float32 = weights @ new / weights.sum()
    return part


def _gather(several: list[Edges]) -> Mentioned:
    """Returns the strongest edge of each way to each memory."""
    columns = zip(*((edges.sources, edges.numbers, edges.targets, edges.weights) for edges in several), strict=True)
    sources, numbers, targets, weights = map(np.concatenate, columns)
    ways = np.arange(len(several)).repeat([len(edges.targets) for edges in several])
    rows = distinct(targets)
    features = np.zeros((len(rows), len(several)), np.float32)
    found = Mentioned(rows, features, np.full(features.shape, -1, np.int64), np.zeros(features.shape, np.int64))
    order = np.argsort(weights, kind="stable")  # the strongest is written last, and remains
    at = rows.searchsorted(targets[order]), ways[order]
    found.features[at], found.sources[at], found.numbers[at] = weights[order], sources[order], numbers[order]
    return found


def _phrases_of(text: str | None) -> Int64:
    """Returns the numbers of all phrases of the question that ``capitalised`` might find in a text."""
    sequence = fold(text).split()[:1000] if text else []
    phrases = {
        " ".join(sequence[at:end])
        for at, first in enumerate(sequence)
        if first not in STOP_WORDS
        for end in range(at + 2, min(at + LONGEST_PHRASE, len(sequence)) + 1)
    }
    return np.array(sorted(phrase_number(phrase) for phrase in phrases), np.int64)
