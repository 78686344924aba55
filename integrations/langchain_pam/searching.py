"""Questions to the index, with what LangChain expects on top: callable filters, and empty stores that answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt
from langchain_core.documents import Document

from langchain_pam.documents import to_document
from langchain_pam.options import Filter
from pam_retriever import EmptyIndex, Hit, InvalidInput, PredictiveAssociativeIndex, Record
from pam_retriever.validation import check_count

FIRST_LOOK = 64  # a callable filter looks at this many of the best hits first,
FIRST_LOOK_A_HIT = 4  # or at this many for each hit that is wanted, whichever is more

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
        return index.recall(cue, k, where=where, **settings)
    except EmptyIndex:
        return []


def _ask_accepted(
    index: PredictiveAssociativeIndex,
    cue: Cue,
    k: int,
    accepts: Callable[[Document], bool],
    settings: dict[str, Any],
) -> list[Hit]:
    """Ranks the best memories and, if too few of those are accepted, all of them."""
    if settings.get("hops", 1) != 1:
        raise InvalidInput(
            f"Got a callable filter with hops={settings['hops']}.",
            "a filter dict, which each hop can follow",
            "For example {'year': {'$gte': 2020}}.",
        )
    k = check_count("k", k)
    accepted: list[Hit] = []
    for ranked in (max(FIRST_LOOK, FIRST_LOOK_A_HIT * k), max(len(index), 1)):
        accepted = [hit for hit in index.recall(cue, ranked, **settings) if accepts(to_document(hit))]
        if len(accepted) >= k:
            break
    return accepted[:k]


def usable_mode(index: PredictiveAssociativeIndex | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a retriever: mode "hybrid" if none is given, and similarity if nothing was learnt.

    Only "hybrid" gives way, since it asks for similarity and for what associations there are.
    "association" and "specific" promise an association, and are refused before ``fit``.
    """
    settings = {"mode": "hybrid", **settings}
    if settings["mode"] == "hybrid" and (index is None or not index.is_fitted):
        settings |= {"mode": "similarity", "hops": 1}
    return settings


def records_of(index: PredictiveAssociativeIndex | None, ids: Sequence[str]) -> list[Record]:
    """Those of the ids that are stored, each once, in the order of ``ids``."""
    return [] if index is None else index.get(list(dict.fromkeys(ids)), missing_ok=True)
