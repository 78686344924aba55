"""Mentions that rank before other evidence: of any stored cue before ``fit``, of one without experience after it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.arrays import among
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.retrieval.candidates import Candidates, Scorer
from pam_retriever.retrieval.cues import Cues
from pam_retriever.retrieval.sources import Contributions
from pam_retriever.types import Float32, Int64

MENTIONED = "mentions"  # the source of cues without experience, if memories have names
Part = tuple[Int64, Int64, Float32]
"""Query, row and value of each pair to which a source gives a value."""


class FirstMentions:
    """The mentions of cues that were never experienced. They rank before the memories that the predictor finds.

    Args:
        scorer: of mentions; None to ignore them.
        cues: Q of them; only stored memories without experience have mentions here.
        links: which memories were experienced.
        allowed: sorted rows to choose from; None for all.
    """

    def __init__(self, scorer: Scorer | None, cues: Cues, links: CooccurrenceGraph, allowed: Rows | None) -> None:
        self._found: dict[int, Candidates] = {}
        if scorer is None:
            return
        for at in np.flatnonzero((cues.own >= 0) & ~links.experienced(cues.own)).tolist():
            [found] = scorer.score(cues.only(at), None, allowed)
            found = found.at(np.flatnonzero(found.scores > 0))
            if len(found.rows):
                self._found[at] = found

    def added_to(self, part: Part) -> Part:
        """Returns a part (query, row, value) with all mentions; the value of those that are not in it is 0."""
        if not self._found:
            return part
        query = np.repeat(list(self._found), [len(one.rows) for one in self._found.values()])
        row = np.concatenate([one.rows for one in self._found.values()])
        value = np.zeros(len(row), np.float32)
        return np.concatenate([part[0], query]), np.concatenate([part[1], row]), np.concatenate([part[2], value])

    def rank(self, query: Int64, row: Int64, share: Float32) -> tuple[Float32, Float32, Float32]:
        """Ranks mentions first, and the others scaled to the lowest of them.

        Args:
            query: (E,) of each pair, sorted, and ``row`` (E,) within it; they contain all mentions.
            row: the memory of each pair.
            share: (E,) by the predictor and by links.

        Returns:
            The scores (E,); their part from mentions, (E,); the factors (E,) of the other part.
        """
        mentioned, factor = np.zeros(len(row), np.float32), np.ones(len(row), np.float32)
        for at, found in self._found.items():
            start, end = np.searchsorted(query, [at, at + 1])
            position = start + np.searchsorted(row[start:end], found.rows)
            factor[start:end] = found.scores.min()
            mentioned[position], factor[position] = found.scores, 0
        return mentioned + share * factor, mentioned, factor

    def factors(self, query: Int64, row: Int64) -> Float32:
        """Returns factors (E,) for other scores of pairs, sorted by query, so that mentions are first.

        A factor is 0 for a mention, and else the lowest score of the mentions; 1 for a cue without mentions.
        """
        factors = np.ones(len(row), np.float32)
        for at, found in self._found.items():
            start, end = np.searchsorted(query, [at, at + 1])
            mentioned = among(np.sort(found.rows), row[start:end])
            factors[start:end] = np.where(mentioned, 0, found.scores.min())
        return factors

    def ways(self, at: int, rows: Int64) -> Int64 | None:
        """Returns the ways (n, ways, 2) to the memories ``rows`` (n,) of a cue; None for a cue without mentions."""
        found = self._found.get(at)
        if found is None:
            return None
        assert found.mentions is not None
        order = np.argsort(found.rows)
        known, there = found.rows[order], among(found.rows[order], rows)
        ways = np.zeros((len(rows), *found.mentions.shape[1:]), np.int64)
        ways[there] = found.mentions[order[known.searchsorted(rows[there])]]
        return ways


class InTurnScorer:
    """Returns the answers of one scorer, then answers of another, scaled to the lowest score of the first.

    Args:
        first: the first scorer; its answers have mentions.
        then: the second scorer, of all memories; None for the answers of the first alone.
        min_score: drop hits with a lower score.
    """

    def __init__(self, first: Scorer, then: Scorer | None, min_score: float | None = None) -> None:
        self._first, self._then, self._min_score = first, then, min_score

    def score(self, cues: Cues, k: int | None, allowed: Rows | None) -> list[Candidates]:
        first = self._first.score(cues, k, allowed)
        if self._then is None:
            return [one.best(k, self._min_score) for one in first]
        answers = zip(first, self._then.score(cues, k, allowed), strict=True)
        return [in_turn(one, other).best(k, self._min_score) for one, other in answers]


def in_turn(one: Candidates, other: Candidates) -> Candidates:
    """Returns the mentions of one scorer, then the others of another, scaled to the lowest score of the first."""
    rest = other.at(np.flatnonzero(~np.isin(other.rows, one.rows)))
    scores = rest.scores * one.scores.min(initial=1)
    unknown = np.full(len(one.rows), np.nan, np.float32)
    named = one.mentions
    if named is not None:
        named = np.concatenate([named, np.zeros((len(rest.rows), *named.shape[1:]), named.dtype)])
    return Candidates(
        np.concatenate([one.rows, rest.rows]),
        np.concatenate([one.scores, scores]),
        np.concatenate([one.similarity, rest.similarity]),
        None if rest.association is None else np.concatenate([unknown, rest.association]),
        np.concatenate([one.hops, rest.hops]),
        confidence=None if rest.confidence is None else np.concatenate([unknown, rest.confidence]),
        mentions=named,
        sources=None if rest.sources is None else _after_mentions(one.scores, rest.sources.scaled(rest.scores, scores)),
    )


def _after_mentions(scores: Float32, others: Contributions) -> Contributions:
    """Returns the parts of mentions, which are their ``scores`` (n,), and then those of other memories."""
    names = (*others.names, *({MENTIONED} - set(others.names)))
    values = np.zeros((len(scores) + len(others.values), len(names)), np.float32)
    values[: len(scores), names.index(MENTIONED)] = scores
    values[len(scores) :, : len(others.names)] = others.values
    return replace(others, names=names, values=values)
