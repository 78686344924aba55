"""Query expansion: finds associates of the hits of another retriever, by spreading activation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pam_retriever.arrays import concatenated
from pam_retriever.errors import InvalidInput, NotFitted, UnknownId
from pam_retriever.retrieval.association import AssociationScorer
from pam_retriever.retrieval.candidates import Scorer
from pam_retriever.retrieval.cues import read_cues, read_filters
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.retrieval.mentioned import MentionScorer
from pam_retriever.store.view import View
from pam_retriever.types import Float64
from pam_retriever.validation import check_finite, check_id

Scores = Mapping[str, float] | Sequence[Mapping[str, float]]

FAN_OUT = 40  # associates per hit
HUGE = 1e300  # the difference of larger scores may overflow


def read_found(found: Scores) -> tuple[list[dict[str, float]], bool]:
    """Reads the hits of each query; returns them, and whether several queries were given.

    Raises:
        InvalidInput: the hits are not scores by id.
    """
    batch = not isinstance(found, Mapping)
    every: Any = found if batch else [found]
    if not isinstance(every, Sequence) or isinstance(every, str) or not all(isinstance(one, Mapping) for one in every):
        raise InvalidInput(
            f"Got found={type(found).__name__}.", "{id: score}, or a list of such dicts", "Pass scores by id."
        )
    return [
        {check_id(id, "found"): check_finite(f"score of {id!r}", score) for id, score in one.items()} for one in every
    ], batch


def expand(
    view: View,
    lexicon: Lexicon,
    found: Sequence[Mapping[str, float]],
    k: int | None,
    where: Mapping[str, Any] | None,
    cue_where: Mapping[str, Any] | None = None,
) -> list[dict[str, float]]:
    """Returns the associates of the hits of each query; see ``PredictiveAssociativeIndex.expand``.

    Raises:
        InvalidInput, NotFitted, UnknownId: see ``expand``.
    """
    scorer = _scorer(view, lexicon)
    ids = list(dict.fromkeys(id for one in found for id in one))
    if not ids:
        return [{} for _ in found]
    position = {id: at for at, id in enumerate(ids)}
    query = np.repeat(np.arange(len(found)), [len(one) for one in found])
    seed = np.array([position[id] for one in found for id in one], np.int64)
    weight = np.concatenate([_weights(np.array(list(one.values()), np.float64)) for one in found])

    allowed, among = read_filters(view, where, cue_where)
    try:
        cues = replace(read_cues(view, view.associative or view.similar, ids, allowed=among), visible=allowed)
    except UnknownId as error:
        fix = "Leave other hits out, or pass cue_where= for hits that where= leaves out."
        raise UnknownId(error.got, "hits that are in the index and that the filter allows", fix) from error
    answers = scorer.score(cues, FAN_OUT, allowed)
    count = np.array([len(answer.rows) for answer in answers])
    rows = np.concatenate([answer.rows for answer in answers])
    shares = np.concatenate([answer.scores / max(float(answer.scores.sum()), 1.0) for answer in answers])
    entry = concatenated((np.cumsum(count) - count)[seed], count[seed])
    value = np.repeat(weight, count[seed]) * shares[entry]

    width = int(rows.max(initial=0)) + 1
    pairs, pair = np.unique(np.repeat(query, count[seed]) * width + rows[entry], return_inverse=True)
    total = np.bincount(pair, value, len(pairs))
    names = view.database.memories.contents(np.unique(pairs % width))
    order = np.lexsort((-total, pairs // width))
    ends = np.searchsorted(pairs[order] // width, np.arange(1, len(found)))
    return [
        {names[row][0]: score for row, score in zip((pairs[one] % width).tolist(), total[one].tolist(), strict=True)}
        for one in (positions[:k] for positions in np.split(order, ends))
    ]


def _scorer(view: View, lexicon: Lexicon) -> Scorer:
    """Returns the source of associates: the predictor, the links, and mentions; see ``recall``.

    Raises:
        NotFitted: there is none.
    """
    directed = view.links.direction is not None
    mentions = None if directed else MentionScorer.of(view, lexicon)  # a mention has no direction
    if view.associative is not None and view.calibration is not None:
        return AssociationScorer(view, mentions=mentions)
    if view.associative is None and mentions is not None:
        return mentions
    if directed and MentionScorer.of(view, lexicon) is not None:
        given = f"Got direction={view.links.direction!r} on an index that was never fitted. Names have no direction."
        raise NotFitted(given, "a fitted index, or no direction", "Call fit(), or leave direction out.")
    raise NotFitted("The index is not fitted, and no memory has a name.", "a fitted index, or names", "Call fit().")


def _weights(scores: Float64) -> Float64:
    """Returns the weight (n,) of each hit: the square of its score above the last one; the sum is 1."""
    largest = np.abs(scores).max(initial=0)
    if largest > HUGE:
        scores = scores / largest
    above = scores - scores.min(initial=np.inf)
    best = above.max(initial=0)
    shares = (above / best) ** 2 if best > 0 else np.ones_like(above)  # before the square, which may underflow to 0
    weights: Float64 = shares / shares.sum()
    return weights
