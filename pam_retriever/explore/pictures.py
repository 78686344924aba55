"""Data for pictures of an index: the neighbourhood of a memory, and a map of all memories."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pam_retriever.errors import UnknownId
from pam_retriever.explore.answers import Plain, happened_with, memory, read_question
from pam_retriever.explore.source import Method
from pam_retriever.locks import Mutex
from pam_retriever.types import Float32, Hit, Int64
from pam_retriever.validation import check_count

if TYPE_CHECKING:
    import pam_retriever as pam

MOST_HOPS, MOST_NODES, FAN_OUT = 3, 60, 6
MOST_POINTS = 100_000
COLOURS = 10  # number of values of a field that get a separate colour
SHADES = 256  # number of shades for a field with an order
NONE = -1  # the group of a point without a value
CACHE_SIZE = 4  # pictures in the cache


def neighbourhood(index: pam.PredictiveAssociativeIndex, question: Mapping[str, Any]) -> Plain:
    """Returns a question or a memory, the memories that happened with it, and their associates, as nodes and edges.

    Args:
        index: the index to query.
        question: ``text`` or ``id``, ``where``; ``hops``, 1 to 3.

    Returns:
        ``nodes`` with positions in the plane, computed from their vectors, and ``edges``. An edge is exact if both were
        experienced together. Otherwise it has the mentions that lead from one to the other, or is predicted.

    Raises:
        InvalidInput, UnknownId: the question is invalid.
    """
    text, id, _, where, without = read_question(question)
    hops = check_count("hops", question.get("hops", 1), MOST_HOPS)
    fan_out = 2 * FAN_OUT if hops == 1 else FAN_OUT
    centre = id if id is not None else ""
    nodes: dict[str, int] = {centre: 0}
    edges: dict[tuple[str, str], Plain] = {}
    frontier = [centre]
    for hop in range(1, hops + 1):
        reached: list[str] = []
        for at in frontier:
            asks_words = hop == 1 and text is not None
            words, cue = (text, None) if asks_words else (None, at)
            for hit in happened_with(index, words, cue, fan_out, where, without):
                if hit.id not in nodes:
                    if len(nodes) >= MOST_NODES:
                        continue
                    nodes[hit.id] = hop
                    reached.append(hit.id)
                edges.setdefault(_pair(at, hit.id), _edge(at, hit))
        frontier = reached
    records = {record.id: record for record in index.get([one for one in nodes if one], missing_ok=True)}
    stored_nodes = [one for one in nodes if one in records]
    positions = (
        dict(zip(stored_nodes, _positions(np.stack([records[one].vector for one in stored_nodes])), strict=True))
        if stored_nodes
        else {}
    )
    drawn = [{**memory(records[one], 300), "hop": nodes[one], "at": positions[one]} for one in stored_nodes]
    if text is not None:
        drawn.insert(0, {"id": "", "name": text[:120], "text": text[:300], "hop": 0, "at": [0.0, 0.0], "metadata": {}})
    return {"nodes": drawn, "edges": list(edges.values())}


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _edge(at: str, hit: Hit) -> Plain:
    named = [str(one) for one in hit.mentions or () if (one.source_id or "") == at]
    both = {"score": hit.score, "similarity": hit.similarity, "exact": bool(hit.evidence), "named": named}
    return {"from": at, "to": hit.id, **both}


def _positions(vectors: Float32) -> list[list[float]]:
    """Returns positions (n, 2) from -1 to 1: the first two principal components of the vectors (n, d)."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    centred = unit - unit.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(vectors), 2))
    some = centred @ directions[:2].T
    points[:, : some.shape[1]] = some
    points /= max(float(np.abs(points).max()), 1e-12)
    return [[float(x), float(y)] for x, y in points]


class Maps:
    """Maps of all memories, with a cache of the last pictures."""

    def __init__(self) -> None:
        self._lock = Mutex()
        self._cache: dict[str | None, tuple[tuple[int, int, str], pam.Projection]] = {}

    def drawn(
        self, index: pam.PredictiveAssociativeIndex, by: str | None, refreshed: int, method: Method = "pca"
    ) -> bytes:
        """Returns a picture as bytes: length of the JSON head (4), head, points (n, 2) float32, groups (n,) int16.

        Args:
            index: the index with the memories.
            by: the metadata key for the colours; None for sessions.
            refreshed: a number that changes when a user refreshes the page.
            method: see ``project``.
        """
        picture = self._picture(index, by, refreshed, method)
        groups, legend = _coloured(picture, by)
        head = {"total": picture.total, "count": len(picture.ids), "explained": picture.explained, "legend": legend}
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 4)  # aligns the numbers after it
        return b"".join(
            [
                len(text).to_bytes(4, "little"),
                text,
                np.ascontiguousarray(picture.points, "<f4").tobytes(),
                groups.astype("<i2").tobytes(),
            ]
        )

    def point(self, index: pam.PredictiveAssociativeIndex, by: str | None, at: int) -> Plain:
        """Returns the memory of a point of the last picture.

        Raises:
            UnknownId: there is no such point.
        """
        with self._lock:
            stored_nodes = self._cache.get(by)
        if stored_nodes is None or at >= len(stored_nodes[1].ids):
            raise UnknownId(f"Got point {at}.", "one of the picture", "Draw it again.")
        return memory(index.get([stored_nodes[1].ids[at]])[0], 300)

    def _picture(
        self, index: pam.PredictiveAssociativeIndex, by: str | None, refreshed: int, method: Method
    ) -> pam.Projection:
        state = (refreshed, len(index), method)
        with self._lock:
            stored_nodes = self._cache.pop(by, None)
            picture = (
                stored_nodes[1]
                if stored_nodes is not None and stored_nodes[0] == state
                else index.project(MOST_POINTS, method, by=by)
            )
            self._cache[by] = state, picture  # moves it to the end: the least recently used comes first
            for old in list(self._cache)[:-CACHE_SIZE]:
                del self._cache[old]
        return picture


def _coloured(picture: pam.Projection, by: str | None) -> tuple[Int64, Plain]:
    """Returns the group of each point, and the meaning of the groups."""
    if by is None:
        last = max(int(picture.sessions.max(initial=-1)), 1)
        shades = picture.sessions * (SHADES - 1) // last
        return np.where(picture.sessions < 0, NONE, shades), {"kind": "order", "from": "first", "to": "last"}
    values = picture.values
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if numbers and len(set(numbers)) > COLOURS and len(numbers) == sum(value is not None for value in values):
        return _shaded(values, sorted(set(numbers)))
    counted = Counter(_as_text(value) for value in values if value is not None)
    named = [value for value, _ in counted.most_common(COLOURS)]
    position = {value: at for at, value in enumerate(named)}
    groups = [NONE if value is None else position.get(_as_text(value), len(named)) for value in values]
    others = len(counted) - len(named)
    return np.array(groups, np.int64), {"kind": "values", "values": [value[:60] for value in named], "others": others}


def _shaded(values: Sequence[object], ordered: list[float]) -> tuple[Int64, Plain]:
    position = {value: at * (SHADES - 1) // max(len(ordered) - 1, 1) for at, value in enumerate(ordered)}
    groups = [position[value] if isinstance(value, int | float) else NONE for value in values]
    return np.array(groups, np.int64), {"kind": "order", "from": _as_text(ordered[0]), "to": _as_text(ordered[-1])}


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
