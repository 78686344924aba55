"""What happened with the hits of another retriever: activation that spreads from them along default recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pam_retriever.answer import Asking
from pam_retriever.bank import Bank
from pam_retriever.errors import InvalidInput
from pam_retriever.ranges import concatenated
from pam_retriever.types import Float32
from pam_retriever.validation import check_finite

FAN_OUT = 40  # memories that each hit brings up


def read_found(found: Any) -> tuple[list[dict[str, float]], bool]:
    """The hits of each query, and whether several queries were given.

    Raises:
        InvalidInput: anything but scores by id.
    """
    batch = not isinstance(found, Mapping)
    every = found if batch else [found]
    if not isinstance(every, Sequence) or isinstance(every, str) or not all(isinstance(one, Mapping) for one in every):
        raise InvalidInput(
            f"Got found={type(found).__name__}.", "{id: score}, or a list of such dicts", "Pass scores by id."
        )
    return [{id: check_finite(f"score of {id!r}", score) for id, score in one.items()} for one in every], batch


def spread(
    bank: Bank, found: Sequence[Mapping[str, float]], k: int | None, where: Mapping[str, Any] | None
) -> list[dict[str, float]]:
    """The associates of what was found, for each query; see ``PredictiveAssociativeIndex.spread``.

    Raises:
        InvalidInput, NotFitted, UnknownId: of the arguments.
    """
    ids = list(dict.fromkeys(id for one in found for id in one))
    if not ids:
        return [{} for _ in found]
    place = {id: at for at, id in enumerate(ids)}
    query = np.repeat(np.arange(len(found)), [len(one) for one in found])
    seed = np.array([place[id] for one in found for id in one], np.int64)
    weight = np.concatenate([_weights(np.array(list(one.values()), np.float32)) for one in found])

    answers = Asking(bank, None, where).recalled(ids, FAN_OUT)
    count = np.array([len(answer.rows) for answer in answers])
    rows = np.concatenate([answer.rows for answer in answers])
    shares = np.concatenate([answer.scores for answer in answers])
    entry = concatenated((np.cumsum(count) - count)[seed], count[seed])
    value = np.repeat(weight, count[seed]) * shares[entry]

    width = int(rows.max(initial=0)) + 1
    pairs, pair = np.unique(np.repeat(query, count[seed]) * width + rows[entry], return_inverse=True)
    total = np.bincount(pair, value, len(pairs))
    names = bank.documents.memories.contents(np.unique(pairs % width))
    order = np.lexsort((-total, pairs // width))
    ends = np.searchsorted(pairs[order] // width, np.arange(1, len(found)))
    return [
        {names[row][0]: score for row, score in zip((pairs[one] % width).tolist(), total[one].tolist(), strict=True)}
        for one in (places[:k] for places in np.split(order, ends))
    ]


def _weights(scores: Float32) -> Float32:
    """(n,) how much each hit counts: the best most, the last not at all, together 1; squared, for a few stand out."""
    above = (scores - scores.min(initial=np.inf)) ** 2
    above = above if above.any() else np.ones_like(scores)
    weights: Float32 = above / above.sum()
    return weights
