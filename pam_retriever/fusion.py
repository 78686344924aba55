"""Fused recall for a query in words: lexical, dense and association scores, and the neighbours' evidence.

The candidates are the best of each source and what was experienced next to those, so the work does not grow with
the bank; every candidate then gets every score exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pam_retriever.backends import Backend
from pam_retriever.channels import Channels, query_vectors
from pam_retriever.lexical import Lexicon
from pam_retriever.links import Links
from pam_retriever.recall import Cues, Found
from pam_retriever.selection import holds
from pam_retriever.types import Float32, Int64

# Weights, chosen on two conversations of LoCoMo (docs/real-data.md). The lexical score is scaled to 1 for the
# best candidate; a label is a string in the metadata, such as the speaker's name, that the query names.
FUSED = Channels(similarity=1.0, forward=0.1, reverse=0.1, mutual=0.1)
LEXICAL, LABEL = 0.5, 0.15
SMOOTHING = 0.3  # how much the mean score of the memories around counts
WINDOW = 2  # positions: how far "around" reaches, for scores and for words
CANDIDATES = 100  # of each source, and at least as many as hits are asked for


@dataclass(frozen=True)
class Fused(Found):
    """The answers to one query, with their BM25, 1 for the best candidate; (n,)."""

    lexical: Float32 = field(kw_only=True)


def fuse(
    cues: Cues,
    texts: list[str],
    channels: Channels,
    similar: Backend,
    backend: Backend,
    lexicon: Lexicon,
    links: Links,
    k: int,
    *,
    min_score: float | None = None,
    allowed: Int64 | None = None,
) -> list[Found]:
    """The best memories for queries that are given as vectors and as words.

    Args:
        cues: Q of them.
        texts: Q queries in words.
        channels: the weights of similarity and association.
        similar: over p, for the candidates that look like the query.
        backend: over the keys that ``channels`` need.
        lexicon: over the texts.
        links: what was experienced next to what.
        k: how many hits at most.
        min_score: leave out hits that score less.
        allowed: sorted rows to choose from; None for all.

    Returns:
        Q ``Fused`` answers; scores in [-1, 1].
    """
    n = max(CANDIDATES, k + 1)
    looks, association = cues.looks, None
    near = similar.search(looks, n, allowed)[1]
    if channels.association:
        only = replace(channels, similarity=0.0)
        association = query_vectors(only, looks, cues.completed, cues.predicted)
        near = np.concatenate([near, backend.search(association, n, allowed)[1]], axis=1)
    answers: list[Found] = []
    for at, text in enumerate(texts):
        terms = lexicon.terms(text)
        candidates = np.union1d(near[at][near[at] >= 0], lexicon.best(terms, n, allowed))
        _, met, distance = links.around(candidates, 2 * WINDOW)
        pool = np.union1d(candidates, met[distance <= WINDOW])
        rows = np.union1d(candidates, met)  # what the scores of the pool lean on too
        near_rows = links.around(rows, WINDOW)
        keys = backend.keys(rows)
        similarity: Float32 = keys[:, : looks.shape[1]] @ looks[at]
        parts = None if association is None else keys @ association[at]
        lexical = lexicon.score(terms, rows, *near_rows[:2])
        lexical /= max(float(lexical.max(initial=0)), 1e-9)
        scores = LEXICAL * lexical + LABEL * lexicon.label(terms, rows) + np.float32(channels.similarity) * similarity
        if parts is not None:
            scores += np.float32(channels.association) * parts
        scores = _smooth(scores / np.float32(LEXICAL + LABEL + channels.total), rows, *near_rows[:2])
        chosen = np.isin(rows, pool) & (rows != cues.own[at])
        if allowed is not None:
            chosen &= holds(allowed, rows)
        if min_score is not None:
            chosen &= scores >= min_score
        place = np.flatnonzero(chosen)
        best = place[np.argsort(-scores[place], kind="stable")[:k]]
        hops = np.full(len(best), 0 if parts is None else 1, np.int64)
        associated = None if parts is None else parts[best]
        answers.append(Fused(rows[best], scores[best], similarity[best], associated, hops, lexical=lexical[best]))
    return answers


def _smooth(scores: Float32, rows: Int64, place: Int64, met: Int64) -> Float32:
    """Each score mixed with the mean of those around it; alone for a memory outside all trajectories."""
    there = np.minimum(np.searchsorted(rows, met), len(rows) - 1)
    inside = rows[there] == met
    place, there = place[inside], there[inside]
    count = np.bincount(place, minlength=len(rows))
    mean = np.bincount(place, scores[there], len(rows)) / np.maximum(count, 1)
    mixed = (scores + SMOOTHING * np.where(count, mean, scores)) / (1 + SMOOTHING)
    return mixed.astype(np.float32)
