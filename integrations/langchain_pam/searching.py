"""Questions to the index, with what LangChain expects on top: callable filters, empty stores, diversity."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from langchain_core.documents import Document

from langchain_pam.documents import to_document
from langchain_pam.options import Filter
from pam_retriever import Hit, InvalidInput, NotFitted, PredictiveAssociativeIndex, Record, UnknownId
from pam_retriever.channels import unit
from pam_retriever.validation import check_count

FEWEST_FETCHED = 64  # what a search with a callable filter looks at first
GROWTH = 4  # and how much more it looks at each time that were too few

Cue = str | npt.ArrayLike


def ask(
    index: PredictiveAssociativeIndex | None, cue: Cue, k: int, where: Filter | None = None, **settings: Any
) -> list[Hit]:
    """The best ``k`` memories that satisfy the filter; none from an empty store.

    Args:
        index: None if nothing was ever stored.
        cue: the id of a memory, or a vector.
        k: how many.
        where: a filter dict, or a function of a document; either is applied before the ``k`` are chosen.
        settings: of ``PredictiveAssociativeIndex.recall``.

    Raises:
        InvalidInput, UnknownId, NotFitted: as ``recall`` does.
    """
    if index is None:
        return []
    try:
        if callable(where):
            return _ask_accepted(index, cue, k, where, settings)
        hits: list[Hit] = index.recall(cue, k, where=where, **settings)
        return hits[:k]  # several hops reach up to k memories each
    except (InvalidInput, NotFitted):
        # asking for the length first would cost every search a count over the whole store
        if len(index):
            raise
        return []


def _ask_accepted(
    index: PredictiveAssociativeIndex,
    cue: Cue,
    k: int,
    accepts: Callable[[Document], bool],
    settings: dict[str, Any],
) -> list[Hit]:
    """Looks at more and more of the best memories, until ``k`` are accepted or all were looked at."""
    if settings.get("hops", 1) != 1:
        raise InvalidInput(
            f"Got a callable filter with hops={settings['hops']}.",
            "a filter dict, which each hop can follow",
            "For example {'year': {'$gte': 2020}}.",
        )
    k = check_count("k", k)
    stored = len(index)
    fetched = max(FEWEST_FETCHED, GROWTH * k)
    while True:
        fetched = min(fetched, stored)
        hits: list[Hit] = index.recall(cue, fetched, **settings)
        accepted = [hit for hit in hits if accepts(to_document(hit))]
        if len(accepted) >= k or fetched >= stored:
            return accepted[:k]
        fetched *= GROWTH


def usable_mode(index: PredictiveAssociativeIndex | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a retriever: mode "hybrid" if none is given, and similarity if nothing was learnt.

    Only "hybrid" gives way, since it asks for similarity and for what associations there are.
    "association" and "specific" promise an association, and are refused before ``fit``.
    """
    settings = {"mode": "hybrid", **settings}
    if settings["mode"] == "hybrid" and (index is None or not index.is_fitted):
        settings |= {"mode": "similarity", "hops": 1}
    return settings


def forget_all(index: PredictiveAssociativeIndex) -> None:
    """Deletes every memory; they are found by a search for anything, which leaves none out."""
    anything = [1.0] * index.dim
    while hits := ask(index, anything, max(len(index), 1), mode="similarity"):
        index.delete([hit.id for hit in hits])


def records_of(index: PredictiveAssociativeIndex | None, ids: Sequence[str]) -> list[Record]:
    """Those of the ids that are stored, each once, in the order of ``ids``."""
    if index is None:
        return []
    distinct = list(dict.fromkeys(ids))
    try:
        return index.get(distinct)
    except UnknownId:
        return [record for id in distinct for record in _record_of(index, id)]


def _record_of(index: PredictiveAssociativeIndex, id: str) -> list[Record]:
    try:
        return index.get([id])
    except UnknownId:
        return []


def diverse(query: npt.ArrayLike, vectors: Sequence[npt.NDArray[np.float32]], k: int, lambda_mult: float) -> list[int]:
    """Maximal marginal relevance (Carbonell and Goldstein, 1998).

    Takes the vector closest to the query, then each time the one with the largest
    ``lambda_mult * cos(query, v) - (1 - lambda_mult) * max over the taken u of cos(u, v)``.

    Returns:
        The places of at most ``k`` of the ``vectors``, in the order of choice.
    """
    if not vectors:
        return []
    candidates = unit(np.stack(vectors))
    relevance = candidates @ unit(np.asarray(query, np.float32)[None])[0]
    chosen = [int(relevance.argmax())]
    redundancy = candidates @ candidates[chosen[0]]
    while len(chosen) < min(k, len(vectors)):
        gain = lambda_mult * relevance - (1 - lambda_mult) * redundancy
        gain[chosen] = -np.inf
        chosen.append(int(gain.argmax()))
        redundancy = np.maximum(redundancy, candidates @ candidates[chosen[-1]])
    return chosen
