"""Imagination (Dury 1, 3): the predicted point, whether or not a memory is near it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.arrays import concatenated
from pam_retriever.display import ShownImagination
from pam_retriever.errors import EmptyIndex, NotFitted, counted
from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.retrieval.candidates import Candidates
from pam_retriever.retrieval.cues import plain_cues, read_cues, read_filters
from pam_retriever.retrieval.results import to_hits
from pam_retriever.store.view import View
from pam_retriever.types import Float32, Hit, Int64

SAMPLE = 1_000  # experienced memories on which the spread is calibrated


@dataclass(frozen=True)
class Imagination(ShownImagination):
    """The region in which the associates of a query are expected. Distances between unit vectors are 0 to 2.

    Attributes:
        point: (dim,) float32 of unit length: the predicted point.
        spread: expected root mean square distance of associates from the point.
        distance: the distance from the point to the nearest stored memory other than the query.
        nearest: the memories nearest to the point; their score is the cosine.
    """

    point: Float32 = field(repr=False)
    spread: float
    distance: float
    nearest: tuple[Hit, ...]

    def sample(self, count: int, seed: int = 0) -> Float32:
        """Returns unit vectors (count, dim) around the point, as query vectors for any vector store.

        Their root mean square distance from the point is ``spread``, as for the associates.
        """
        random = np.random.default_rng(seed)
        away = random.standard_normal((count, len(self.point)))
        away -= np.outer(away @ self.point, self.point)  # moves along the sphere
        away /= np.linalg.norm(away, axis=1, keepdims=True)
        angle = 2 * np.arcsin(min(self.spread, 2.0) / 2)
        points: Float32 = (np.cos(angle) * self.point + np.sin(angle) * away).astype(np.float32)
        return points


@dataclass(frozen=True)
class SpreadCalibration:
    """The squared spread as a linear function of the mean squared distance to the nearest memories.

    A point among memories is a good prediction. A point far from all memories is an average of distant ones. For a
    query with unknown associates there is no other information.
    """

    neighbours: int
    intercept: float
    slope: float

    def spread(self, squared: Float32) -> Float32:
        """Returns the spread (n,) from the mean squared distances (n,) of points to ``neighbours`` memories."""
        found: Float32 = np.sqrt(np.clip(self.intercept + self.slope * squared, 0, 4)).astype(np.float32)
        return found


def check_imaginable(view: View) -> None:
    """Refuses an index that cannot imagine.

    Raises:
        NotFitted: before ``fit``.
        EmptyIndex: there are fewer than two memories.
    """
    if view.associative is None:
        raise NotFitted("Got imagine() on an index that was never fitted.", "a fitted one", "Call fit first.")
    if len(view.similar) < 2:
        raise EmptyIndex(
            f"The index holds {counted(len(view.similar), 'memory')}.", "at least two", "Call add() first."
        )


def imagine(
    view: View,
    calibration: SpreadCalibration,
    queries: list[str] | Float32,
    k: int,
    complete: bool,
    where: Mapping[str, Any] | None = None,
) -> list[Imagination]:
    """See ``PredictiveAssociativeIndex.imagine``. The index has passed ``check_imaginable``."""
    assert view.associative is not None
    allowed, _ = read_filters(view, where, None)
    if allowed is not None and len(allowed) < 2:
        raise EmptyIndex(f"The filter leaves {counted(len(allowed), 'memory')}.", "at least two", "Use another where=.")
    if complete or isinstance(queries, list):
        cues = read_cues(view, view.associative, queries, allowed=allowed)
    else:
        cues = plain_cues(queries, view.predict(queries))
    points = cues.predicted[:, : view.dim]
    cosines, rows = _others(view, points, cues.own, max(k, calibration.neighbours), allowed)
    spreads = calibration.spread(_mean_squared(cosines[:, : calibration.neighbours]))
    found = []
    for at, (cosine, row) in enumerate(zip(cosines, rows, strict=True)):
        there = row[:k] >= 0
        best = row[:k][there]
        similarity = view.similar.keys(best) @ cues.given[at]
        found.append(Candidates(best, cosine[:k][there], similarity, None, np.ones(len(best), np.int64)))
    hits = to_hits(view, cues, found, explain=False)
    distances = np.sqrt(np.clip(2 - 2 * cosines[:, 0], 0, 4))
    return [
        Imagination(point, float(spread), float(distance), tuple(nearest))
        for point, spread, distance, nearest in zip(points, spreads, distances, hits, strict=True)
    ]


def calibrate(view: View) -> SpreadCalibration:
    """Fits the linear function of ``SpreadCalibration`` on experienced associations."""
    assert view.associative
    stored = view.database.memories.rows()
    rows, trajectories, positions, _ = view.database.trajectories.experienced()
    graph = associate(Experience(np.searchsorted(stored, rows), trajectories, positions), len(stored), view.window)
    degree = np.diff(graph.indptr)
    anchors = np.flatnonzero(degree)
    if not len(anchors):  # all experienced associates were deleted
        return SpreadCalibration(1, 0.0, 1.0)
    neighbours = max(1, round(float(degree[anchors].mean())))
    anchors = np.sort(np.random.default_rng(0).permutation(anchors)[:SAMPLE])
    points = view.associative.keys(stored[anchors])[:, view.dim : 2 * view.dim]
    cosines, _ = _others(view, points, stored[anchors], neighbours)
    near = _mean_squared(cosines)
    # the mean squared distance of each point to the associates of its memory
    entry = concatenated(graph.indptr[anchors], degree[anchors])
    which = np.repeat(np.arange(len(anchors)), degree[anchors])
    met = np.einsum("nd,nd->n", points[which], view.similar.keys(stored[graph.indices[entry]]))
    true = np.bincount(which, weights=2 - 2 * met) / degree[anchors]
    slope = float(np.cov(near, true)[0, 1] / near.var(ddof=1)) if len(near) > 2 and near.var() > 1e-12 else 0.0
    return SpreadCalibration(neighbours, float(true.mean() - slope * near.mean()), slope)


def _others(view: View, points: Float32, own: Int64, k: int, allowed: Rows | None = None) -> tuple[Float32, Int64]:
    """Returns cosines and rows of the ``k`` memories nearest to each point, except ``own``; padded with -inf and -1."""
    cosines, rows = view.similar.search(points, k + 1, allowed)
    cosines = np.where((rows == own[:, None]) | (rows < 0), -np.inf, cosines)
    order = np.argsort(-cosines, axis=1, kind="stable")[:, : max(k, 1)]
    cosines = np.take_along_axis(cosines, order, axis=1)
    rows = np.where(np.isfinite(cosines), np.take_along_axis(rows, order, axis=1), -1)
    return cosines, rows


def _mean_squared(cosines: Float32) -> Float32:
    """Returns the mean squared distance (n,) of unit vectors with these cosines (n, m), ignoring empty places."""
    there = np.isfinite(cosines)
    squared = np.where(there, 2 - 2 * np.where(there, cosines, 0), 0).sum(axis=1)
    mean: Float32 = squared / np.maximum(there.sum(axis=1), 1)
    return mean
