"""Answers a recall: cues, scores, filters and hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pam_retriever.ann.selection import Rows, holds
from pam_retriever.retrieval.cues import read_cues, read_filters
from pam_retriever.retrieval.query import RecallSettings
from pam_retriever.retrieval.results import listed, to_hits, with_times
from pam_retriever.retrieval.scorers import Recall, scorer_of
from pam_retriever.retrieval.timeline import QuestionTimes
from pam_retriever.store.view import View
from pam_retriever.types import Hits


def answer(recall: Recall) -> list[Hits]:
    """Returns the hits of each query.

    Raises:
        InvalidInput, UnknownId: a query or a setting does not fit the view.
        NotFitted: the settings need a ``fit``.
    """
    view, settings, query = recall.view, recall.settings, recall.query
    scorer, channels = scorer_of(recall)
    allowed, among = read_filters(view, settings.where, settings.cue_where)
    index, complete = view.index_of(channels), settings.mode != "hybrid"
    cues = read_cues(view, index, query.queries, complete, query.texts, among)
    allowed = _within_when(recall, allowed)
    cues = cues if allowed is None else replace(cues, visible=allowed)
    found = scorer.score(cues, settings.k, allowed)
    hits = to_hits(view, cues, found, settings.explain)
    if not settings.explain:
        return hits
    texts: Sequence[str | None] = query.texts or [None] * len(hits)
    named = (recall.times.named_times(one.rows, text, allowed) for one, text in zip(found, texts, strict=True))
    return [with_times(some, times) for some, times in zip(hits, named, strict=True)]


def recent(view: View, settings: RecallSettings, times: QuestionTimes) -> Hits:
    """Returns the memories of ``when``, the newest first, without a query."""
    assert settings.when is not None
    rows, _ = times.timeline.rows_when(settings.when, times.now)
    if settings.where is not None:
        rows = rows[holds(view.database.memories.rows_where(settings.where), rows)]
    rows = rows[: settings.k]
    hits = listed(view, rows)
    return with_times(hits, times.named_times(rows, None, None)) if settings.explain else hits


def _within_when(recall: Recall, allowed: Rows | None) -> Rows | None:
    """Returns the allowed memories whose time is in ``when``."""
    if recall.settings.when is None:
        return allowed
    found, _ = recall.times.timeline.rows_when(recall.settings.when, recall.times.now)
    rows = np.sort(found)
    return rows if allowed is None else rows[holds(allowed, rows)]
