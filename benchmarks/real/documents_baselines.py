"""Baselines of ``benchmarks.real.documents``: fusion of ranks, links by rare names, PageRank over mentions."""

from __future__ import annotations

import numpy as np

from benchmarks.real.documents_pool import Pool, Scores
from pam_retriever.mentions.links import are_phrases
from pam_retriever.mentions.store import SQLiteMentions, grouped


def rank_fusion(pool: Pool) -> Scores:
    """Returns the reciprocal rank fusion of dense and BM25 (Cormack et al. 2009), k = 60."""
    ranks = [
        np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1) for scores in (pool.cosine, pool.words.scores)
    ]
    return sum((1 / (61 + rank) for rank in ranks), np.zeros_like(pool.cosine))


def mention_matrix(pool: Pool, store: SQLiteMentions, phrases: bool) -> Scores:
    """Returns (N, N) links by names or shared phrases, weighted by rarity."""
    rows = np.arange(1, len(pool.texts) + 1)
    found = store.mentions_of(rows)
    mask = are_phrases(found.numbers) == phrases
    numbers, which = np.unique(found.numbers[mask], return_inverse=True)
    looked_up = store.looked_up(numbers, 100)
    to = store.mentioning(numbers, 100) if phrases else grouped([named for named, _ in looked_up])
    n = np.array([count for _, count in looked_up])
    idf = np.maximum(np.log((len(rows) - n + 0.5) / (n + 0.5)), 0) / np.log(len(rows))
    matrix = np.zeros((len(rows), len(rows)))
    for row, number in zip(found.rows[mask].tolist(), which.tolist(), strict=True):
        targets = to.rows[to.starts[number] : to.starts[number + 1]] - 1
        matrix[row - 1, targets] = np.maximum(matrix[row - 1, targets], idf[number] / max(len(targets), 1))
    np.fill_diagonal(matrix, 0)
    return matrix


def cross_links(pool: Pool, links: Scores, share: float) -> Scores:
    """Returns dense + BM25, plus documents that share a rare name with one of the ten best."""
    best = np.argsort(-pool.base, axis=1, kind="stable")[:, :10]
    strengths = np.take_along_axis(pool.base, best, axis=1)
    return pool.base + share * np.max(strengths[:, :, None] * links[best], axis=1)


def pagerank(pool: Pool, links: Scores, damping: float) -> Scores:
    """Returns personalised PageRank over undirected mentions, restarting at the ten best (HippoRAG's mechanism)."""
    both = links + links.T
    step = both / np.maximum(both.sum(axis=1, keepdims=True), 1e-9)
    tenth = -np.sort(-pool.base, axis=1)[:, 9:10]
    start = np.where(pool.base >= tenth, np.maximum(pool.base, 0), 0)
    start /= start.sum(axis=1, keepdims=True)
    mass = start
    for _ in range(30):
        mass = (1 - damping) * start + damping * mass @ step
    return mass + 1e-6 * pool.base
