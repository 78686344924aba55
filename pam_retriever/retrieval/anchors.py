"""Events in questions as times: "what did we do before the move?" means the days before the memory of the move."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.store.sqlite.times import EPOCH
from pam_retriever.timewords.periods import Period
from pam_retriever.timewords.scores import TextPeriods
from pam_retriever.types import Int64, Times

ANCHORED = "anchored"  # the kind of a period before or after an event
DAYS = 30  # length of the period; on two dialogues 7 to 60 are as good (benchmarks/real/times.py)
CANDIDATES = 20  # memories that may be about the event
HELD = 0.75  # a memory about an event has at least this share of the event's words, weighted by idf
MOST_TERMS = 6  # number of words of an event; a longer phrase names no event
_ANCHOR = re.compile(r"\b(before|after|since|until)\s+([^.,;:?!]{3,80})", re.IGNORECASE)


@dataclass(frozen=True)
class DatedMemories:
    """The known times of memories.

    Attributes:
        rows: (n,) the memories that have dates, sorted.
        times: (n,) seconds since 1970.
        named: the periods that their texts name, by row.
        placed: the named periods, by position in ``rows``.
    """

    rows: Int64
    times: Times
    named: TextPeriods
    placed: TextPeriods


def may_have_anchor(text: str) -> bool:
    """Returns whether a question may name a time before or after an event."""
    return _ANCHOR.search(text) is not None


def read_anchor(text: str, lexicon: Lexicon, dated: DatedMemories, allowed: Rows | None) -> Period | None:
    """Returns the period before or after an event that a question names; None if no memory is about it.

    Args:
        text: the question.
        lexicon: the words of the index.
        dated: the times of memories.
        allowed: sorted rows of the memories that may be about the event; None for all.
    """
    found = _ANCHOR.search(text)
    terms = list(dict.fromkeys(lexicon.asked(found[2]))) if found else []
    if found is None or not 1 <= len(terms) <= MOST_TERMS:
        return None
    row = _memory_of(terms, lexicon, allowed)
    at = None if row is None else int(np.searchsorted(dated.rows, row))
    if row is None or at is None or at == len(dated.rows) or dated.rows[at] != row:
        return None
    named = np.flatnonzero(dated.named.row == row)[:1]
    start, end = (dated.named.start[named], dated.named.end[named]) if len(named) else (dated.times[[at]],) * 2
    try:
        first, last = (EPOCH + timedelta(seconds=float(edge[0])) for edge in (start, end))
        span = (
            (first - timedelta(DAYS), first)
            if found[1].lower() in ("before", "until")
            else (last, last + timedelta(DAYS))
        )
    except OverflowError:  # outside the years 1 to 9999
        return None
    return Period(*span, found[0].strip(), found.span(), ANCHORED, relative=True)


def _memory_of(terms: list[str], lexicon: Lexicon, allowed: Rows | None) -> int | None:
    """Returns the row of the best memory about an event, if it has nearly all of the event's words."""
    weights = np.array([lexicon.idf(term) for term in terms])
    if not weights.all():  # no text has one of the words
        return None
    rows = lexicon.best(terms, CANDIDATES, allowed)
    if not len(rows):
        return None
    rows = np.sort(rows)
    held = weights @ np.array([lexicon.posting(term).at(rows) > 0 for term in terms])
    scores = np.where(held >= HELD * weights.sum(), lexicon.own(terms, rows), 0)
    best = int(np.argmax(scores))
    return int(rows[best]) if scores[best] > 0 else None
