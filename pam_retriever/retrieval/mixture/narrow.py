"""Projections of the past requests, which say which requests deserve an exact comparison."""

from __future__ import annotations

import numpy as np

from pam_retriever.arrays import GrowingArray
from pam_retriever.types import Float32

FROM = 1_500_000  # numbers of all vectors: fewer are compared in less time than their projections
WIDTH, SPARE = 96, 8  # directions of a projection, and the ones that only help to find them
SAMPLE, ROUNDS = 2_048, 2  # vectors that determine the directions, and rounds of the iteration that finds them


class NarrowVectors:
    """The projections of vectors onto their main directions.

    The directions depend on the number of vectors and on the first of them alone. So vectors that arrived one by one
    have the same projections as the same vectors in one piece.
    """

    def __init__(self) -> None:
        self._on = 0  # the number of vectors that determined the directions
        self._directions: Float32 = np.empty((0, WIDTH), np.float32)
        self._projections = GrowingArray(np.empty((0, WIDTH), np.float32))

    def products(self, queries: Float32, vectors: Float32) -> Float32 | None:
        """Returns the approximate inner products (Q, n) of queries and vectors; None if they are few or narrow.

        Args:
            queries: (Q, dim).
            vectors: (n, dim) the vectors of the last call, and those that were added since.
        """
        if vectors.size < FROM or vectors.shape[1] < 2 * WIDTH:
            return None
        self._follow(vectors)
        products: Float32 = (queries @ self._directions) @ self._projections.values.T
        return products

    def _follow(self, vectors: Float32) -> None:
        """Projects the vectors that were added; with twice the number, finds the directions again."""
        on = 1 << (len(vectors).bit_length() - 1)
        if on != self._on:
            self._on, self._directions = on, _main_directions(vectors[: on : max(1, on // SAMPLE)])
            self._projections = GrowingArray(np.empty((0, WIDTH), np.float32))
        self._projections.extend(vectors[len(self._projections) :] @ self._directions)


def _main_directions(vectors: Float32) -> Float32:
    """Returns the ``WIDTH`` main directions (dim, WIDTH) of vectors, by subspace iteration (Halko et al. 2011)."""
    random = np.random.default_rng(0)
    found = random.standard_normal((vectors.shape[1], WIDTH + SPARE), np.float32)
    for _ in range(ROUNDS):
        found, _ = np.linalg.qr(vectors.T @ (vectors @ found))
    _, _, rotation = np.linalg.svd(vectors @ found, full_matrices=False)
    directions: Float32 = (found @ rotation.T)[:, :WIDTH]
    return np.ascontiguousarray(directions)
