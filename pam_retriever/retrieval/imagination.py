"""Imagination (Dury 1, 3): the predicted point, whether or not a memory is near it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.display import ShownImagination
from pam_retriever.errors import EmptyIndex, NotFitted, UnknownId, counted
from pam_retriever.model.keys import unit
from pam_retriever.retrieval.candidates import Candidates
from pam_retriever.retrieval.cues import Cues, plain_cues, read_cues, read_filters
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.mentioned import MentionScorer
from pam_retriever.retrieval.results import to_hits
from pam_retriever.store.database import Settings
from pam_retriever.store.experience_fit import read_spread
from pam_retriever.store.learnt import SPREAD
from pam_retriever.store.model_metadata import read_model
from pam_retriever.store.view import View
from pam_retriever.types import Float32, Float64, Hit, Int64
from pam_retriever.validation import check_count, check_seed

SAMPLE = 1_000  # experienced memories on which the spread is calibrated
MENTIONED = 40  # best mentions of a memory whose mean is its point
AT_ONCE = 50  # of these, look-ups under one lock


@dataclass(frozen=True, eq=False)
class Imagination(ShownImagination):
    """The region in which the associates of a query are expected. Distances between unit vectors are 0 to 2.

    Attributes:
        point: (dim,) float32 of unit length: the predicted point, or the mean of the mentions.
        spread: expected root mean square distance of associates from the point, as ``fit`` measured it; for a point
            from mentions the distance of these memories, weighted as in the mean.
        distance: the distance from the point to the nearest stored memory other than the query.
        nearest: the memories nearest to the point; their score is the cosine.
    """

    point: Float32 = field(repr=False)
    spread: float
    distance: float
    nearest: tuple[Hit, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Imagination):
            return NotImplemented
        mine, others = (self.spread, self.distance, self.nearest), (other.spread, other.distance, other.nearest)
        return mine == others and np.array_equal(self.point, other.point)

    def __hash__(self) -> int:
        return hash(self.point.tobytes())

    def sample(self, count: int, seed: int = 0) -> Float32:
        """Returns unit vectors (count, dim) around the point, as query vectors for any vector store.

        Their root mean square distance from the point is ``spread``, as for the associates. If dim is 1, there are only
        the point and its opposite.

        Raises:
            InvalidInput: the count is no whole number of at least 1, or the seed is none.
        """
        count, random = check_count("count", count), np.random.default_rng(check_seed(seed))
        away = random.standard_normal((count, len(self.point)))
        away -= np.outer(away @ self.point, self.point)  # moves along the sphere
        away /= np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-30)  # zeros if dim is 1
        angle = 2 * np.arcsin(min(self.spread, 2.0) / 2)
        return unit((np.cos(angle) * self.point + np.sin(angle) * away).astype(np.float32))


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


class PointSource(Protocol):
    """Gives each cue the point near which its associates are expected, and the spread around it."""

    @property
    def neighbours(self) -> int:
        """The number of memories near a point on which its spread depends."""
        ...

    def points(self, cues: Cues, queries: list[str] | Float32, mentioned: Collection[int]) -> Float32:
        """Returns the point (Q, d) of each cue. The points of the cues ``mentioned`` are replaced.

        Raises:
            NotFitted: another cue has no point.
        """
        ...

    def spreads(self, cosines: Float32) -> Float32:
        """Returns the spread (Q,) of points with these cosines (Q, n) to the memories nearest to them."""
        ...


class Predictions:
    """Points of the predictor, with the spread that ``fit`` measured.

    Args:
        calibration: of the predictor.
    """

    def __init__(self, calibration: SpreadCalibration) -> None:
        self._calibration, self.neighbours = calibration, calibration.neighbours

    def points(self, cues: Cues, queries: list[str] | Float32, mentioned: Collection[int]) -> Float32:  # noqa: ARG002
        return cues.predicted[:, : cues.given.shape[1]].copy()

    def spreads(self, cosines: Float32) -> Float32:
        return self._calibration.spread(_mean_squared(cosines[:, : self.neighbours]))


class MentionsAlone:
    """Before ``fit``: only cues with mentions have a point, and it is replaced."""

    neighbours = 1

    def points(self, cues: Cues, queries: list[str] | Float32, mentioned: Collection[int]) -> Float32:
        silent = next((at for at in range(len(cues)) if at not in mentioned), None)
        if silent is not None:
            stored = isinstance(queries, list)
            got = f"The memory {queries[silent]!r} has no mentions or is in a trajectory" if stored else "Got a vector"
            raise NotFitted(
                f"{got}, and the index was never fitted.",
                "a fitted index, or ids of memories with mentions that no trajectory holds",
                "Call fit.",
            )
        return cues.given.copy()

    def spreads(self, cosines: Float32) -> Float32:
        return np.zeros(len(cosines), np.float32)


def check_imaginable(view: View) -> None:
    """Refuses an index that cannot imagine.

    Raises:
        NotFitted: before ``fit`` if no memory has a name.
        EmptyIndex: there are fewer than two memories.
    """
    if view.associative is None and not view.database.mentions.known:
        raise NotFitted(
            "Got imagine() on an index that was never fitted, without names.", "a fitted index, or names", "Call fit."
        )
    if len(view.similar) < 2:
        raise EmptyIndex(
            f"The index holds {counted(len(view.similar), 'memory')}.", "at least two", "Call add() first."
        )


def imagine(
    view: View,
    source: PointSource,
    lexicon: Lexicon,
    queries: list[str] | Float32,
    k: int,
    complete: bool,
    where: Mapping[str, Any] | None = None,
) -> list[Imagination]:
    """See ``PredictiveAssociativeIndex.imagine``. The index has passed ``check_imaginable``.

    Args:
        view: a view of the index.
        source: gives the points of cues without mentions.
        lexicon: the words of the index, read if a cue has mentions.
        queries: ids, or vectors.
        k: number of memories near the point.
        complete: complete vectors to stored memories.
        where: metadata filter.
    """
    allowed, _ = read_filters(view, where, None)
    if allowed is not None and len(allowed) < 2:
        raise EmptyIndex(f"The filter leaves {counted(len(allowed), 'memory')}.", "at least two", "Use another where=.")
    cues = _cues(view, queries, complete, allowed)
    by_mentions = _mean_mentions(view, lexicon, cues, allowed)
    points = source.points(cues, queries, by_mentions.keys())
    for at, (point, _) in by_mentions.items():
        points[at] = point
    cosines, rows = _others(view, points, cues.own, max(k, source.neighbours), allowed)
    spreads = source.spreads(cosines)
    for at, (_, spread) in by_mentions.items():
        spreads[at] = spread
    hits = to_hits(view, cues, _nearest(view, cues, cosines[:, :k], rows[:, :k]), explain=False)
    distances = np.sqrt(np.clip(2 - 2 * cosines[:, 0], 0, 4))
    return [
        Imagination(point, float(spread), float(distance), tuple(nearest))
        for point, spread, distance, nearest in zip(points, spreads, distances, hits, strict=True)
    ]


def _cues(view: View, queries: list[str] | Float32, complete: bool, allowed: Rows | None) -> Cues:
    """Reads the queries: completed to stored memories, or predicted from as they are."""
    if not complete and not isinstance(queries, list):
        return plain_cues(queries, None if view.associative is None else view.predict(queries))
    try:
        return read_cues(view, view.associative or view.similar, queries, allowed=allowed)
    except UnknownId as error:
        fix = "Pass the vector of a text, or of a memory that where= leaves out."
        raise UnknownId(error.got, "vectors, or ids that are in the index and that the filter allows", fix) from error


def _mean_mentions(view: View, lexicon: Lexicon, cues: Cues, allowed: Rows | None) -> dict[int, tuple[Float32, float]]:
    """Returns the mean of the mentions of each stored cue without experience that has some, and their distance to it.

    As in ``recall``, a memory with experience is answered from its experience. The mean is at unit length; a memory
    counts by its share of the mentions. The root mean square distance follows from the length of the mean.
    """
    found: dict[int, tuple[Float32, float]] = {}
    stored = np.flatnonzero(cues.own >= 0)
    asking = stored[~view.links.experienced(cues.own[stored])]
    mentions = MentionScorer.of(view, lexicon) if len(asking) else None
    if mentions is None:
        return found
    for at in asking.tolist():
        named = mentions.score(cues.only(at), MENTIONED, allowed)[0]
        total = float(named.scores.sum())
        if total > 0:
            mean: Float32 = ((named.scores / total) @ view.similar.keys(named.rows)).astype(np.float32)
            length = float(np.linalg.norm(mean))
            if length > 1e-6:
                found[at] = mean / length, float(np.sqrt(max(0.0, 2 - 2 * length)))
    return found


def _nearest(view: View, cues: Cues, cosines: Float32, rows: Int64) -> list[Candidates]:
    """Returns the memories near the points as candidates, from arrays (Q, k) padded with -1."""
    found = []
    for at, (cosine, row) in enumerate(zip(cosines, rows, strict=True)):
        there = row >= 0
        best = row[there]
        similarity = view.similar.keys(best) @ cues.given[at]
        found.append(Candidates(best, cosine[there], similarity, None, np.ones(len(best), np.int64)))
    return found


@dataclass(frozen=True)
class SpreadSample:
    """A sample of experienced memories, with the distances of their associates from the predicted points.

    Attributes:
        model: the entries of the setting "model" that name the predictor.
        rows: (S,) the memories.
        points: (S, d) their predicted points.
        true: (S,) the mean squared distance of the point to the associates.
        neighbours: the mean number of associates.
    """

    model: Mapping[str, object]
    rows: Int64
    points: Float32
    true: Float64
    neighbours: int

    @classmethod
    def of(cls, view: View) -> SpreadSample:
        """Draws the sample; it is empty if all experienced associates were deleted."""
        assert view.associative
        stored = view.database.memories.rows()
        rows = stored[view.links.experienced(stored)]
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:SAMPLE])
        owner, associate, _ = view.links.of(rows, view.window)
        degree = np.bincount(owner, minlength=len(rows))
        rows, degree, owner = rows[degree > 0], degree[degree > 0], np.cumsum(degree > 0)[owner] - 1
        points = view.associative.keys(rows)[:, view.dim : 2 * view.dim]
        distinct, position = np.unique(associate, return_inverse=True)
        met = np.einsum("nd,nd->n", points[owner], view.similar.keys(distinct)[position])
        true = np.bincount(owner, weights=2 - 2 * met, minlength=len(rows)) / degree
        neighbours = max(1, round(float(degree.mean()))) if len(rows) else 1
        return cls(_model_of(view.database.settings) or {}, rows, points, true, neighbours)

    def chunks(self) -> list[slice]:
        """Returns parts of the sample that take a short time each."""
        return [slice(start, start + AT_ONCE) for start in range(0, len(self.rows), AT_ONCE)]

    def distances(self, view: View, chunk: slice) -> Float32:
        """Returns the mean squared distance of each point of a part to the nearest memories."""
        return _mean_squared(_others(view, self.points[chunk], self.rows[chunk], self.neighbours)[0])

    def fit(self, squared: list[Float32]) -> SpreadCalibration:
        """Fits the linear function to the distances of all parts."""
        if not len(self.rows):
            return SpreadCalibration(1, 0.0, 1.0)
        near, true = np.concatenate(squared), self.true
        slope = float(np.cov(near, true)[0, 1] / near.var(ddof=1)) if len(near) > 2 and near.var() > 1e-12 else 0.0
        return SpreadCalibration(self.neighbours, float(true.mean() - slope * near.mean()), slope)

    def to_stored(self, calibration: SpreadCalibration) -> dict[str, object]:
        """Returns the form that ``stored_spread`` reads, for JSON."""
        return {"model": dict(self.model), **asdict(calibration)}


def calibrate(view: View) -> SpreadCalibration:
    """Fits the linear function of ``SpreadCalibration`` on experienced associations."""
    sample = SpreadSample.of(view)
    return sample.fit([sample.distances(view, chunk) for chunk in sample.chunks()])


def stored_spread(settings: Settings) -> SpreadCalibration | None:
    """Returns the calibration that ``fit`` stored; None if there is none, or if it is of another predictor.

    Raises:
        IndexFormatError: it is damaged.
    """
    stored = settings.get(SPREAD)
    if not isinstance(stored, dict) or stored.get("model") != _model_of(settings):
        return None
    return SpreadCalibration(*read_spread(stored))


def _model_of(settings: Settings) -> dict[str, object] | None:
    """Returns what names the predictor, and the vectors for which it was trained: ``reencode`` removes the recipe."""
    model = read_model(settings)
    return None if model is None else {name: model.get(name) for name in ("sha256", "window", "recipe")}


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
