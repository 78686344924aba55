"""A projection of the memories to two dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from pam_retriever.errors import InvalidInput, MissingExtra
from pam_retriever.filters.conditions import key_path
from pam_retriever.filters.stored import at_path
from pam_retriever.store.columns import from_json
from pam_retriever.store.view import View
from pam_retriever.types import Float32, Int64

FITTED_ON = 5_000  # memories that determine the two axes
AT_ONCE = 20_000  # memories whose vectors are in memory at the same time
UMAP_MOST = 20_000  # memories that UMAP can place in about a minute

Method = Literal["pca", "umap"]


@dataclass(frozen=True)
class Projection:
    """Memories as points of a plane.

    Attributes:
        ids: n ids, in the order of adding.
        points: (n, 2) float32.
        sessions: (n,) the first trajectory of each, numbered from 0 in the order of arrival; -1 for none.
        values: the value of a metadata key in each, None without one; empty if no key was given.
        explained: the shares of the variance along the two axes; (0, 0) if undefined.
        total: number of memories in the index; the points are an even sample.
    """

    ids: tuple[str, ...]
    points: Float32 = field(repr=False)
    sessions: Int64 = field(repr=False)
    values: tuple[object, ...] = field(repr=False)
    explained: tuple[float, float]
    total: int


def project(view: View, limit: int, method: Method, by: str | None) -> Projection:
    """See ``Inspecting.project``."""
    if not isinstance(method, str) or method not in ("pca", "umap"):
        raise InvalidInput(f"Got method={method!r}.", "'pca' or 'umap'", "Use 'pca' if in doubt.")
    if by is not None and not isinstance(by, str):
        raise InvalidInput(f"Got by={by!r}.", "a metadata key, or None", "Pass its name.")
    every = view.database.memories.rows()
    limit = min(limit, UMAP_MOST) if method == "umap" else limit
    rows = every if len(every) <= limit else every[np.linspace(0, len(every) - 1, limit).astype(np.int64)]
    ids, values = _contents(view, rows, by)
    rows = np.array(list(ids), np.int64)
    if method == "umap":
        points, explained = _umap(view.similar.keys(rows)), (0.0, 0.0)
    else:
        points, explained = _pca(view, rows)
    return Projection(tuple(ids.values()), points, _sessions(view, rows), values, explained, len(every))


def _contents(view: View, rows: Int64, by: str | None) -> tuple[dict[int, str], tuple[object, ...]]:
    """Returns row -> id of stored memories, sorted, and their values of a metadata key."""
    ids: dict[int, str] = {}
    values: list[object] = []
    for start in range(0, len(rows), AT_ONCE):
        contents = view.database.memories.contents(rows[start : start + AT_ONCE])
        for row in sorted(contents):
            id, _, metadata = contents[row]
            ids[row] = id
            if by is not None:
                known = from_json(metadata, f"The metadata of {id!r}")
                values.append(known[by] if by in known else at_path(known, key_path(by))[1])
    return ids, tuple(values)


def _pca(view: View, rows: Int64) -> tuple[Float32, tuple[float, float]]:
    """Returns points (n, 2) along the first two principal components (Pearson 1901), and the shares of both."""
    if not len(rows):
        return np.empty((0, 2), np.float32), (0.0, 0.0)
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), FITTED_ON)).astype(np.int64)]
    vectors = view.similar.keys(some).astype(np.float32)
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    variances, directions = np.linalg.eigh((centred.T @ centred).astype(np.float64) / len(some))
    axes = np.zeros((len(mean), 2))
    count = min(2, len(mean))
    axes[:, :count] = directions[:, ::-1][:, :count]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), [0, 1]] + 1e-30)  # the same picture every time
    points = np.empty((len(rows), 2), np.float32)
    for start in range(0, len(rows), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        points[part] = (view.similar.keys(rows[part]) - mean) @ axes
    shares = np.append(np.clip(variances[::-1], 0, None), 0)[:2] / max(float(variances.sum()), 1e-12)
    return points, (float(shares[0]), float(shares[1]))


def _umap(vectors: Float32) -> Float32:
    """Returns points by UMAP (McInnes, Healy and Melville 2018), if the package is installed."""
    try:
        from umap import UMAP
    except ImportError as error:
        raise MissingExtra("umap-learn", "umap", "project(method='umap')") from error
    if len(vectors) < 4:
        return np.zeros((len(vectors), 2), np.float32)
    neighbours = min(15, len(vectors) - 1)
    points: Float32 = UMAP(n_neighbors=neighbours, random_state=0).fit_transform(vectors).astype(np.float32)
    return points


def _sessions(view: View, rows: Int64) -> Int64:
    """Returns the number (n,) of the first trajectory of each memory; -1 for none."""
    held, numbers, _, _ = view.links.steps()
    found = np.full(len(rows), -1, np.int64)
    if not len(held):
        return found
    order = np.lexsort((numbers, held))
    first = np.unique(held[order], return_index=True)
    position = np.minimum(np.searchsorted(first[0], rows), len(first[0]) - 1)
    there = first[0][position] == rows
    ranked = np.unique(numbers)
    found[there] = np.searchsorted(ranked, numbers[order][first[1]][position[there]])
    return found
