"""Limits of what mentions add to a memory.

Both compare the memory with the one that leads to it. Without them, pages that name each other would come before the
page that answers: a question about a part of something names the page of the whole.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pam_retriever.arrays import among, distinct
from pam_retriever.mentions.edges import MENTIONS, PRIOR, WAYS, Edges, Mentioned, Question
from pam_retriever.types import Float32, Int64

# chosen on the first halves of three sets and on manual pages (benchmarks/real/pages.py)
CEILING, BEYOND = 0.9, 0.1  # share of the source's score up to which a mention counts in full; weight of the rest


def bounded(found: Mentioned, question: Question) -> Mentioned:
    """Limits what mentions add to a memory by the score of the memories that lead to it.

    Args:
        found: the mentions for a question with a text.
        question: the question.

    Returns:
        The same memories, whose ways but "asked" have smaller features.
    """
    sources = found.sources[:, 1:]
    leading = distinct(sources[sources >= 0])
    if not len(leading):
        return found
    weights = np.float32(MENTIONS) * np.array([PRIOR[way] for way in WAYS], np.float32)
    added = found.features[:, 1:] @ weights[1:]
    own = question.scores(found.rows) + weights[0] * found.features[:, 0]
    of_sources = question.scores(leading) + weights[0] * found.of(leading)[:, 0]
    best = np.where(sources >= 0, of_sources[leading.searchsorted(np.maximum(sources, 0)).clip(0, len(leading) - 1)], 0)
    lost = _lost(added, np.float32(CEILING) * best.max(axis=1) - own)
    features = found.features.copy()
    features[:, 1:] *= 1 - np.divide(lost, added, out=np.zeros_like(added), where=added > 0)[:, None]
    return replace(found, features=features)


def limited(asked: Edges, named: Edges, question: Question, rest: str) -> Edges:
    """Limits what a name in the question adds to its memory by the score of hits whose texts hold this name.

    A hit with a higher score than the memory limits it as far as it has the other words of the question. A page that
    names the page "Landlock" answers "create a ruleset of Landlock". A text with the title of a film says little of
    "the director of this film", though it may look more like the question.

    Args:
        asked: edges from the question to the memories that it names.
        named: edges from hits to the memories that they name.
        question: the question.
        rest: its text without the names.

    Returns:
        The same edges as ``asked``, some of them with smaller weights.
    """
    at, sources = _with_the_same_name(asked, named)
    if not len(at):
        return asked
    hits = distinct(sources)
    position = hits.searchsorted(sources)
    part, scores = question.part(rest, hits)[position], question.scores(hits)[position]
    own = question.scores(asked.targets[at])
    weight = np.float32(MENTIONS * PRIOR["asked"])
    lost = part * _lost(weight * asked.weights[at], np.float32(CEILING) * scores - own) * (scores > own)
    weights = asked.weights.copy()
    np.minimum.at(weights, at, asked.weights[at] - lost / weight)
    return replace(asked, weights=weights)


def _with_the_same_name(asked: Edges, named: Edges) -> tuple[Int64, Int64]:
    """Returns positions (m,) in ``asked``, and the sources (m,) of ``named`` by the same name to the same memory."""
    numbers, targets = distinct(asked.numbers), distinct(asked.targets)
    named = named.at(among(numbers, named.numbers) & among(targets, named.targets))
    pairs, others = (
        numbers.searchsorted(edges.numbers) * len(targets) + targets.searchsorted(edges.targets)
        for edges in (asked, named)
    )
    order = np.argsort(pairs)
    there = among(pairs[order], others)
    return order[pairs[order].searchsorted(others[there])], named.sources[there]


def _lost(added: Float32, room: Float32) -> Float32:
    """Returns what does not count of ``added`` (n,) scores: nine tenths of what is beyond the ``room`` (n,)."""
    beyond: Float32 = np.maximum(added - np.maximum(room, 0), 0)
    return np.float32(1 - BEYOND) * beyond
