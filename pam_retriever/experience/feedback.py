"""Feedback: requests, and which memories served them or did not."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pam_retriever.errors import InvalidInput
from pam_retriever.types import Float32, Int64, Metadata, Times
from pam_retriever.validation import check_id, check_ids, check_metadatas, check_text, read_timestamp

Used = Sequence[str] | Mapping[str, float]
MIXTURE = "mixture"  # the setting that ``fit`` stores the weights of the evidence in
POPULARITY = "popularity"  # the setting that says whose uses are bounded, and
WRITER = "session"  # the key of metadata that says who made a request, unless it names another, and
MOST_OF_ONE = 3.0  # how many uses one writer adds to the popularity of a memory


@dataclass(frozen=True)
class Feedback:
    """A request that was made, and what served it.

    Attributes:
        id: its own id.
        vector: (dim,) float32, the request.
        text: the request in words, or None.
        used: the weight of each memory that served it, by id: above 0; below 0 for what was shown and did not help.
        metadata: what was stored with it.
        timestamp: when it was made, or None.
    """

    id: str
    vector: Float32
    text: str | None
    used: dict[str, float]
    metadata: dict[str, Any]
    timestamp: float | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Feedback):
            return NotImplemented
        mine = (self.id, self.text, self.used, self.metadata, self.timestamp)
        theirs = (other.id, other.text, other.used, other.metadata, other.timestamp)
        return mine == theirs and np.array_equal(self.vector, other.vector)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        what = self.text if self.text is None or len(self.text) <= 60 else self.text[:59] + "…"
        return f"Feedback(id={self.id!r}, text={what!r}, used={self.used!r}, timestamp={self.timestamp!r})"


@dataclass(frozen=True)
class NewFeedback:
    """Checked requests that are to be stored.

    Attributes:
        ids: n of them.
        texts: n requests in words, or None.
        weights: for each, the weight of each memory by id.
        metadatas: n JSON texts.
        timestamps: n numbers, or None.
    """

    ids: list[str]
    texts: list[str | None]
    weights: list[dict[str, float]]
    metadatas: list[str]
    timestamps: list[float | None]


@dataclass(frozen=True)
class PastRequests:
    """Requests in the order of time, and which memories served them.

    Attributes:
        vectors: (n, dim) float32.
        texts: n; empty for a request without words.
        times: (n,) NaN where it is not known.
        request: (E,) place of a request, rising.
        rows: (E,) a memory that it used.
        weights: (E,) how much; below 0 for what did not help.
        writers: n, who made each; None for nobody.
    """

    vectors: Float32
    texts: list[str]
    times: Times
    request: Int64
    rows: Int64
    weights: Float32
    writers: list[Hashable]

    def __len__(self) -> int:
        return len(self.vectors)


def read_feedback(
    texts: Sequence[str | None],
    used: Sequence[Used],
    unused: Sequence[Sequence[str]] | None,
    metadatas: Sequence[Metadata | None] | None,
    timestamps: Sequence[Any] | None,
    ids: Sequence[str] | None,
) -> NewFeedback:
    """Checks n requests as ``PredictiveAssociativeIndex.feedback`` is given them, but for their vectors.

    Raises:
        InvalidInput: naming the request by its place, and what is wrong with it.
    """
    count = len(texts)
    for name, given in (("used", used), ("unused", unused), ("timestamps", timestamps)):
        if given is not None and len(given) != count:
            raise InvalidInput(f"Got {len(given)} {name} for {count} requests.", "as many", "Give one each.")
    checked = [None if text is None else check_text(text, f"text of request {at}") for at, text in enumerate(texts)]
    useless = unused or [()] * count
    weights = [_weights(one, other, at) for at, (one, other) in enumerate(zip(used, useless, strict=True))]
    times: list[float | None] = (
        [None] * count
        if timestamps is None
        else [None if time is None else read_timestamp(time) for time in timestamps]
    )
    return NewFeedback(check_ids(ids, count), checked, weights, check_metadatas(metadatas, count), times)


def _weights(used: Used, unused: Sequence[str], at: int) -> dict[str, float]:
    where = f"used of request {at}"
    if isinstance(used, str) or isinstance(unused, str):
        raise InvalidInput(f"Got one string in {where}.", "a list of ids, or {id: weight}", "Wrap it in [ ].")
    given = used if isinstance(used, Mapping) else dict.fromkeys(used, 1.0)
    weights: dict[str, float] = {}
    for id, weight in given.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float | np.number) or not 0 < weight < math.inf:
            raise InvalidInput(
                f"Got the weight {weight!r} of {id!r} in {where}.",
                "a finite number above 0",
                "Use unused= for what failed.",
            )
        weights[check_id(id, where)] = float(weight)
    for id in unused:
        if check_id(id, f"unused of request {at}") in weights:
            raise InvalidInput(f"{id!r} is in used and in unused of request {at}.", "one of the two", "Decide.")
        weights[id] = -1.0
    if not weights:
        raise InvalidInput(
            f"Request {at} used nothing.", "at least one id in used or unused", "Skip requests that nothing served."
        )
    return weights
