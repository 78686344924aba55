"""Scores of memories for the periods in a question: a source of recall that raises scores and never excludes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pam_retriever.errors import InvalidInput
from pam_retriever.timewords.periods import Period

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
DAY_SECONDS = 86400.0
FAR = 10  # beyond this many ``TimePrior.days`` a score is 0


@dataclass(frozen=True)
class TextPeriods:
    """The periods in the texts of memories, as flat arrays.

    Attributes:
        row: (m,) the memory of each period, 0 to n - 1.
        start: (m,) POSIX seconds.
        end: (m,) POSIX seconds, after ``start``.
    """

    row: Int64
    start: Float64
    end: Float64

    @classmethod
    def of(cls, periods: Sequence[Sequence[Period]]) -> TextPeriods:
        """Builds the arrays from the periods of each of n memories."""
        flat = [
            (row, period.start.timestamp(), period.end.timestamp()) for row, own in enumerate(periods) for period in own
        ]
        rows, starts, ends = zip(*flat, strict=True) if flat else ((), (), ())
        return cls(np.array(rows, np.int64), np.array(starts, np.float64), np.array(ends, np.float64))

    def placed(self, rows: Int64) -> TextPeriods:
        """Returns a copy in which each row is replaced by its position in sorted ``rows`` (n,)."""
        return TextPeriods(np.searchsorted(rows, self.row).astype(np.int64), self.start, self.end)


@dataclass(frozen=True)
class TimePrior:
    """Parameters of the scores by a period. Defaults are for dialogues.

    People tell what happened, announce what will happen, and date things loosely. So the days beside a period count.

    Attributes:
        beside: score of a memory from directly before or after the period; a memory inside the period has score 1.
        days: number of days after which that score is e times smaller.
        in_text: score of a memory whose text names a period inside the period of the question.
        named: added for a text that names a period inside the period of the question, so that among the memories of
            that time those that name it come first.
        relative: factor for a period that depends on now: "last week", in a question about what somebody said, may be
            the week before it was said.
    """

    beside: float = 0.5
    days: float = 5.0
    in_text: float = 1.0
    named: float = 0.07
    relative: float = 0.67

    def __post_init__(self) -> None:
        shares = (self.beside, self.relative)
        if min(shares) < 0 or max(shares) > 1 or self.days <= 0 or self.in_text < 0 or self.named < 0:
            raise InvalidInput(
                f"{self}.",
                "beside and relative from 0 to 1, days above 0, the rest at least 0",
                "Correct it.",
            )


def time_scores(
    question: Sequence[Period], times: Float64, texts: TextPeriods | None = None, prior: TimePrior | None = None
) -> Float64:
    """Returns how well each memory fits the periods of a question, with less weight if many memories fit.

    The overlap with a period, from 0 to 1, is multiplied by BM25's idf (Robertson and Zaragoza 2009) of the period,
    divided by that of a period with a single memory. It is Lucene's idf, which is above 0 also if most memories fit: in
    an index of a few notes, many are of one month. Texts that name the period are few, so they get a small score of
    their own in addition.

    Args:
        question: the periods of the question; none gives zeros.
        times: (n,) POSIX seconds of each memory, NaN for a memory without a time.
        texts: the periods in the texts of the memories.
        prior: the parameters.

    Returns:
        (n,) scores from 0 to 1, and at most ``named`` more (with an ``in_text`` of at most 1); for several periods the
        largest.
    """
    prior, n = prior or TimePrior(), len(times)
    scores: Float64 | None = None
    for period in question:
        start, end = period.start.timestamp(), period.end.timestamp()
        overlap, named = _of_times(start, end, times, prior), _of_texts(start, end, n, texts, prior)
        if named is None:
            found = overlap * rarity(float(overlap.sum()), n)
        else:
            overlap = np.maximum(overlap, named)
            found = overlap * rarity(float(overlap.sum()), n) + named * (prior.named * rarity(float(named.sum()), n))
        if period.relative:
            found *= prior.relative
        scores = found if scores is None else np.maximum(scores, found)
    return np.zeros(n) if scores is None else scores


def rarity(inside: float, n: int) -> float:
    """Returns Lucene's idf of a period that ``inside`` of ``n`` memories fit, as a share of that of a single memory."""
    if n < 2:
        return 1.0
    inside = min(inside, n)
    return float(np.log1p((n - inside + 0.5) / (inside + 0.5)) / np.log1p((n - 0.5) / 1.5))


def _of_times(start: float, end: float, times: Float64, prior: TimePrior) -> Float64:
    """Returns how well the time of each memory (n,) fits a period."""
    own, days = np.zeros(len(times)), prior.days * DAY_SECONDS  # 0 for a memory without a time
    near = ((times > start - FAR * days) & (times < end + FAR * days)).nonzero()[0]
    then = times[near]
    fits = prior.beside * np.exp(np.maximum(np.maximum(start - then, then - end), 0) / -days)
    fits[(then >= start) & (then < end)] = 1
    own[near] = fits
    return own


def _of_texts(start: float, end: float, n: int, texts: TextPeriods | None, prior: TimePrior) -> Float64 | None:
    """Returns the largest share (n,) of a period in a text of each memory that lies inside a period; None for none."""
    if texts is None or not len(texts.row):
        return None
    there = ((texts.start < end) & (texts.end > start)).nonzero()[0]  # few texts name a period of the question
    if not len(there):
        return None
    named, first, last = np.zeros(n), texts.start[there], texts.end[there]
    parts = prior.in_text * (np.minimum(last, end) - np.maximum(first, start)) / (last - first)
    np.maximum.at(named, texts.row[there], parts)
    return named
