"""What ``fit`` stores, and its removal once the experience or the feedback that it was learnt from is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pam_retriever.errors import IndexFormatError
from pam_retriever.experience.existed import EXISTED
from pam_retriever.experience.feedback import LEARNT_REQUESTS, MIXTURE
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.store.database import Database, Settings
from pam_retriever.store.feedback_fit import LearntFrom
from pam_retriever.store.growth import settle_removed
from pam_retriever.store.model_metadata import FORGOTTEN, MODEL, mark_forgotten, read_model
from pam_retriever.types import Int64

NO_ROWS: Int64 = np.empty(0, np.int64)
PREDICTOR = "predictor"  # the name of the weights of the predictor in an engine
# settings; weights are stored under the same names
NEXT = "next"  # the weights of the evidence of the next step
SPREAD = "spread"  # the calibration of the spread of imagined points
LAST_FIT = "last_fit"  # the report
REPLACED = "replaced"  # how many writes replaced the vectors of experienced memories with others
FROM_EXPERIENCE = (MODEL, PREDICTOR, NEXT, SPREAD, LAST_FIT)
FROM_FEEDBACK = (MIXTURE, LEARNT_REQUESTS)
IN_WORDS = {
    NEXT: "the weights of recall_next, which fit learnt",
    SPREAD: "the spread of imagined points, which fit measured",
    LAST_FIT: "the report of the last fit",
    MIXTURE: "the weights of the sources, which fit learnt from feedback",
    LEARNT_REQUESTS: "the regression over past requests, which fit learnt from feedback",
    EXISTED: "which memories existed at past requests",
}


def nothing_to_learn(links: CooccurrenceGraph, gone: Int64 = NO_ROWS) -> bool:
    """Returns whether no trajectory has two steps, without the steps of the memories in the rows ``gone``."""
    rows, trajectory, _, _ = links.steps()
    left = trajectory[~np.isin(rows, gone)]
    return not (left[1:] == left[:-1]).any()


def mark_forgotten_rows(database: Database, links: CooccurrenceGraph, gone: Int64) -> None:
    """Inside a transaction that removes memories: records that the predictor may have learnt them."""
    if links.experienced(gone).any():
        mark_forgotten(database.settings)


def forget_rows(database: Database, links: CooccurrenceGraph, gone: Int64) -> None:
    """Inside a transaction: removes memories like ``Database.forget``, and the regression that learnt any of them."""
    held = database.trajectories.numbers(rows=gone)
    database.forget(gone)
    settle_removed(database, held)
    mark_forgotten_rows(database, links, gone)
    discard(database, stale_requests(database, gone))


def learnt_what_was_deleted(settings: Settings) -> bool:
    """Returns whether ``fit`` trained the predictor, and experience was deleted since.

    A predictor that the caller trained (``reencode``) is the caller's, as the encoder is.
    """
    model = read_model(settings)
    by_fit = model is not None and (model.get("recipe") is not None or model.get("learnt_to", 0) > 0)
    return by_fit and bool(settings.get(FORGOTTEN))


def stale(database: Database, links: CooccurrenceGraph, gone: Int64, every: bool) -> tuple[str, ...]:
    """Inside a transaction: returns the names of results of ``fit`` whose experience or feedback is gone.

    Args:
        database: the database.
        links: the graph of experience, before the memories in the rows ``gone`` leave it.
        gone: rows that the transaction removes.
        every: whether to look at all results; else only at the regression over requests.
    """
    if not every:
        return stale_requests(database, gone)
    forgotten = learnt_what_was_deleted(database.settings) and nothing_to_learn(links, gone)
    names = FROM_EXPERIENCE if forgotten else ()
    if len(database.feedback):
        return (*names, *stale_requests(database, gone))
    fitted = database.settings.get(MODEL) is not None
    return (*names, *FROM_FEEDBACK) if fitted else (*names, *FROM_FEEDBACK, LAST_FIT)


def stale_requests(database: Database, gone: Int64 = NO_ROWS) -> tuple[str, ...]:
    """Inside a transaction: returns the name of the regression over requests if one of these is no longer stored.

    It has weights of each request and of each memory that these used, so it is discarded with any of them.

    Args:
        database: the database, after the transaction removed requests.
        gone: rows of memories that the transaction removes.
    """
    try:
        about = database.settings.get(LEARNT_REQUESTS)
        if about is None:
            return ()
        learnt_from = LearntFrom.read(about)
    except IndexFormatError:
        return (LEARNT_REQUESTS,)
    left = len(database.feedback) - database.feedback.arrived(learnt_from.last)
    whole = left == learnt_from.requests and not np.isin(gone, learnt_from.memories).any()
    return () if whole else (LEARNT_REQUESTS,)


def put(settings: Settings, name: str, value: object, weights: bytes | None = None) -> None:
    """Inside a transaction: stores a value that JSON can hold, and weights under the same name."""
    settings.set(name, value)
    if weights is not None:
        settings.set_weights(name, weights)


def put_feedback_fit(database: Database, mixture: object, about: Mapping[str, Any], weights: bytes | None) -> None:
    """Inside a transaction: stores what ``fit`` learnt from feedback, if that is still there.

    Requests and memories may have been removed since ``fit`` read them. So nothing that was learnt from these is
    committed: a process that is killed after the commit leaves nothing of them.

    Args:
        database: the database.
        mixture: the weights of the evidence.
        about: the setting of the regression over requests.
        weights: the weights of the regression; None if it does not help.
    """
    if not len(database.feedback):
        discard(database, FROM_FEEDBACK)
        return
    put(database.settings, MIXTURE, mixture)
    if weights is None:
        discard(database, (LEARNT_REQUESTS,))
        return
    put(database.settings, LEARNT_REQUESTS, about, weights)
    discard(database, stale_requests(database, _missing(database, about)))


def forget_unsound(database: Database, damaged: Iterable[str]) -> list[str]:
    """Inside a transaction: removes damaged results of ``fit``, and those of feedback that is lost.

    Args:
        database: the database.
        damaged: names of the damaged results, besides the predictor.

    Returns:
        What was removed, in words.
    """
    names = set(damaged)
    if not len(database.feedback):
        names |= {name for name in FROM_FEEDBACK if is_stored(database.settings, name)}
    about = None if LEARNT_REQUESTS in names else database.settings.get(LEARNT_REQUESTS)
    if about is not None:
        names |= set(stale_requests(database, _missing(database, about)))
    discard(database, tuple(names))
    if about is None:
        database.settings.remove(LEARNT_REQUESTS)  # its weights may be there without it
    return [words for name, words in IN_WORDS.items() if name in names]


def _missing(database: Database, about: object) -> Int64:
    """Returns the rows of the memories of the regression over requests that are not stored."""
    memories = LearntFrom.read(about).memories
    missing: Int64 = np.setdiff1d(memories, np.array(list(database.memories.contents(memories)), np.int64))
    return missing


def is_stored(settings: Settings, name: str) -> bool:
    """Returns whether a result of ``fit`` is stored, damaged or not."""
    try:
        return settings.get(name) is not None
    except IndexFormatError:  # no JSON
        return True


def discard(database: Database, names: tuple[str, ...]) -> bool:
    """Inside a transaction: removes these results of ``fit``; returns whether the predictor was among them."""
    predictor = MODEL in names and database.settings.get(MODEL) is not None
    if predictor:
        forgotten = database.settings.get(FORGOTTEN)
        database.discard_keys()
        database.settings.set(FORGOTTEN, forgotten)  # a fit that runs meanwhile has learnt the removed data
    for name in names:
        if is_stored(database.settings, name) or name == PREDICTOR:
            database.settings.remove(name)
    return predictor
