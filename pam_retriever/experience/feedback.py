"""Feedback: requests, and the memories that served them or did not."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pam_retriever.arrays import is_number
from pam_retriever.errors import InvalidInput, counted
from pam_retriever.experience.dates import read_timestamp
from pam_retriever.filters.metadata import check_metadatas
from pam_retriever.limits import MAX_WEIGHT
from pam_retriever.types import Float32, Int64, Metadata, Times
from pam_retriever.validation import check_id, check_ids, check_text, read_list

Used = Sequence[str] | Mapping[str, float]
MIXTURE = "mixture"  # the setting with the weights of the evidence
LEARNT_REQUESTS = "learnt_requests"  # the setting with the regression over all requests, and the weights with it
POPULARITY = "popularity"  # the setting with the bound on popularity
WRITER = "session"  # the default metadata key for the author of a request
MOST_OF_ONE = 3.0  # the default bound on the uses that one author adds to the popularity of a memory


@dataclass(frozen=True)
class Feedback:
    """A request, and the memories that served it.

    Attributes:
        id: the id of the request.
        vector: (dim,) float32, the request.
        text: the text of the request, or None.
        used: the weight of each memory by id: above 0 if it served the request, below 0 if it was shown and did not
            help.
        metadata: the metadata of the request.
        timestamp: the timestamp of the request, or None.
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
    """Checked requests that are about to be stored.

    Attributes:
        ids: n ids.
        texts: n texts, or None.
        weights: for each request, the weight of each memory by id.
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
    """Requests in the order of time, and the memories that served them.

    Attributes:
        vectors: (n, dim) float32.
        texts: n texts; empty for a request without a text.
        times: (n,) NaN if unknown.
        request: (E,) position of a request, rising.
        rows: (E,) a memory that served it, or did not.
        weights: (E,) the weight of this memory; below 0 if it did not help.
        writers: the author of each of the n requests; None for no author.
        numbers: (n,) the numbers of arrival.
    """

    vectors: Float32
    texts: list[str]
    times: Times
    request: Int64
    rows: Int64
    weights: Float32
    writers: list[Hashable]
    numbers: Int64

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
    """Checks the arguments of ``PredictiveAssociativeIndex.feedback`` for n requests, except the vectors.

    Raises:
        InvalidInput: an argument is invalid. The message names the request by its position.
    """
    count = len(texts)
    for name, given in (("used", used), ("unused", unused), ("timestamps", timestamps)):
        if given is not None and len(given) != count:
            raise InvalidInput(
                f"Got {name} of length {len(given)} for {counted(count, 'request')}.", "as many", "Give one each."
            )
    checked = [None if text is None else check_text(text, f"text of request {at}") for at, text in enumerate(texts)]
    useless = unused or [()] * count
    weights = [
        weights_of_request(one, other, f"request {at}")
        for at, (one, other) in enumerate(zip(used, useless, strict=True))
    ]
    times: list[float | None] = (
        [None] * count
        if timestamps is None
        else [None if time is None else read_timestamp(time) for time in timestamps]
    )
    return NewFeedback(check_ids(ids, count), checked, weights, check_metadatas(metadatas, count), times)


def weights_of_request(used: Used, unused: Sequence[str], request: str) -> dict[str, float]:
    """Returns the weight of each memory of one request by id.

    Args:
        used: ids, or weights by id.
        unused: ids of memories that did not help.
        request: what a message calls the request.

    Raises:
        InvalidInput: an id or a weight is invalid, or there is none.
    """
    where = f"used of {request}"
    if isinstance(used, str) or isinstance(unused, str):
        raise InvalidInput(f"Got one string in {where}.", "a list of ids, or {id: weight}", "Wrap it in [ ].")
    given = used.items() if isinstance(used, Mapping) else [(id, 1.0) for id in read_list(where, used)]
    weights: dict[str, float] = {}
    for id, weight in given:
        if not is_number(weight) or not 0 < weight <= MAX_WEIGHT:
            raise InvalidInput(
                f"Got the weight {weight!r} of {id!r} in {where}.",
                f"a number above 0, of at most {MAX_WEIGHT:g}",
                "Use unused= for what failed.",
            )
        weights[check_id(id, where)] = float(weight)
    for id in read_list(f"unused of {request}", unused):
        if weights.get(check_id(id, f"unused of {request}"), -1.0) > 0:
            raise InvalidInput(f"{id!r} is in used and in unused of {request}.", "one of the two", "Decide.")
        weights[id] = -1.0
    if not weights:
        raise InvalidInput(
            f"Got {request}, which used nothing.",
            "at least one id in used or unused",
            "Skip requests that nothing served.",
        )
    return weights
