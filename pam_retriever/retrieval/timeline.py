"""Times of memories, times in their texts, and the evidence from times in a question."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Literal

import numpy as np

from pam_retriever.ann import chunks
from pam_retriever.ann.selection import Rows, holds
from pam_retriever.arrays import union
from pam_retriever.errors import InvalidInput, MissingExtra
from pam_retriever.locks import Mutex
from pam_retriever.retrieval.anchors import DatedMemories, may_have_anchor, read_anchor
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.store.database import Database
from pam_retriever.store.sqlite.times import EPOCH, StoredTimes
from pam_retriever.timewords.periods import OPEN_END, OPEN_START, Period, When
from pam_retriever.timewords.scores import TextPeriods, time_scores
from pam_retriever.types import Bools, Float32, Int64, NamedTime, Time, Times
from pam_retriever.validation import check_finite

log = logging.getLogger(__name__)
Interval = When | tuple[float | None, float | None]  # of dates, or of numbers
MOST_CHANGED = 1_000  # memories whose times are read again one by one
NOTICED = 0.01  # a smaller score is not reported as evidence


@dataclass(frozen=True)
class TimeEvidence:
    """The evidence of the times in a question.

    Attributes:
        rows: (n,) the memories with dates, sorted.
        scores: (n,) their scores, at least 0; see ``time_scores``.
    """

    rows: Int64
    scores: Times

    def at(self, rows: Int64) -> Float32:
        """Returns the scores (m,) of some memories; 0 for a memory without a date."""
        position = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        found: Float32 = np.where(self.rows[position] == rows, self.scores[position], 0).astype(np.float32)
        return found

    def best(self, allowed: Rows | None) -> Int64:
        """Returns the allowed memories that score at least half of the maximum."""
        found: Int64 = self.rows[self.scores >= self.scores.max() / 2]
        return found if allowed is None else found[holds(allowed, found)]


@dataclass(frozen=True)
class ParsedTimes:
    """The times at one version of the index.

    Attributes:
        version: the version of memories and times.
        stored: the memories with dates.
        read: the memories whose texts were parsed.
        named: the periods that these texts contain, by row.
        placed: the named periods, by position in ``read``.
    """

    version: tuple[int, int]
    stored: StoredTimes
    read: StoredTimes
    named: TextPeriods
    placed: TextPeriods


class Timeline:
    """The dates of an index. Texts are parsed when a question first contains a time, and when they change.

    Args:
        database: the database.
        lexicon: its words.
    """

    def __init__(self, database: Database, lexicon: Lexicon) -> None:
        self._database, self._lexicon = database, lexicon
        self._building = Mutex()
        self._known: ParsedTimes | None = None  # replaced as a whole: another thread may read it
        self._asked: tuple[tuple[int, int], str | None] | None = None  # a version, and the kind of its times
        self._missed = False

    def periods(self, text: str, now: datetime | None, visible: Rows | None = None) -> list[Period]:
        """Returns the periods in a question, or the period before or after an event; none if no memory has a date."""
        if self._kind() != "dates":
            return []
        from pam_retriever.timewords.reader import read_question  # not imported if no memory has a date

        periods = self._read(lambda: read_question(text, now))
        if not periods and may_have_anchor(text):
            dated = self._dated()
            anchored = None if dated is None else read_anchor(text, self._lexicon, dated, visible)
            return [] if anchored is None else [anchored]
        return periods

    def _kind(self) -> str | None:
        """Returns the kind of the stored times; asks the database once for each version of them."""
        version = self._version()
        asked = self._asked
        if asked is None or asked[0] != version:
            self._asked = asked = (version, self._database.times.kind())
        return asked[1]

    def _version(self) -> tuple[int, int]:
        return self._database.memories.words_version, self._database.times.log.version

    def evidence(self, periods: Sequence[Period], visible: Rows | None = None) -> TimeEvidence | None:
        """Returns the evidence of periods for the memories; None for no evidence.

        Args:
            periods: the periods of a question.
            visible: sorted rows of the memories that count; None for all.
        """
        dated = self._dated() if periods else None
        if dated is None:
            return None
        rows, times, named = dated.rows, dated.times, dated.placed
        if visible is not None:
            seen, of_seen = holds(visible, rows), holds(visible, dated.named.row)
            rows, times = rows[seen], times[seen]
            named = TextPeriods(dated.named.row[of_seen], named.start[of_seen], named.end[of_seen]).placed(rows)
        scores = time_scores(periods, times, named)
        return TimeEvidence(rows, scores) if scores.any() else None

    def _dated(self) -> DatedMemories | None:
        """Returns the times of memories and of their texts; None if no memory has a date."""
        known = self._now()
        if known is None or not len(known.stored.rows):
            return None
        if known.read is not known.stored:
            with self._building:
                known = self._known or known
                if known.read is not known.stored:
                    self._known = known = self._with_texts(known)
        return DatedMemories(known.stored.rows, known.stored.times, known.named, known.placed)

    def rows_when(self, when: Interval, now: datetime | None) -> tuple[Int64, Times]:
        """Returns the memories in an interval, the newest first, and their times.

        Raises:
            InvalidInput: ``when`` is invalid, or no memory has a time.
            MissingExtra: parsing the words needs the extra ``times``.
        """
        table = self._database.times
        kind = table.kind()
        if kind is None:
            raise InvalidInput(
                f"Got when={when!r} for an index whose memories have no times.",
                "memories with timestamps",
                "Pass add(..., timestamps=...), or Trajectory(timestamps=...) with dates; "
                "in a file of events, give each line a time in ISO 8601.",
            )
        if kind == "numbers":
            return table.between(*_numbers(when))
        from pam_retriever.timewords.when import read_when

        start, end = read_when(when, now)  # type: ignore[arg-type]  # numbers are refused there
        return table.between(start.timestamp(), end.timestamp())

    def named_times(
        self, rows: Int64, periods: Sequence[Period], visible: Rows | None, zone: tzinfo
    ) -> list[tuple[NamedTime, ...]]:
        """For each of ``rows``, returns the supporting periods of the question, and those in its text.

        Args:
            rows: the memories.
            periods: the periods of the question.
            visible: sorted rows of the memories that count; None for all.
            zone: the zone of the question, in which its periods are shown.
        """
        table = self._database.times
        if table.kind() != "dates":
            return [()] * len(rows)
        stored = table.of(rows)
        local_times = {row: _local(time, zone) for row, time, zone in _columns(stored)}
        period_scores = [
            (period, time_evidence.at(rows))
            for period in periods
            if (time_evidence := self.evidence([period], visible)) is not None
        ]
        texts = self._database.memories.contents(rows)
        found = []
        for at, row in enumerate(rows.tolist()):
            when, text = local_times.get(row), texts[row][1]
            named = [_named(period, "question", when, zone) for period, scores in period_scores if scores[at] > NOTICED]
            if when is not None and text:
                named += [_named(period, "text", when, when.tzinfo) for period in self._read_text(text, when)]
            found.append(tuple(named))
        return found

    def _now(self) -> ParsedTimes:
        """Returns the stored times; nobody writes during a query."""
        version, known = self._version(), self._known
        if known is None or known.version != version:
            with self._building:
                stored = self._stored(known)
                none = TextPeriods.of([])
                old = known or ParsedTimes(version, stored, _nothing(), none, none)
                self._known = known = replace(old, version=version, stored=stored)
        return known

    def _stored(self, known: ParsedTimes | None) -> StoredTimes:
        """Returns the stored times; reads only those that changed, if it is known which."""
        table = self._database.times
        if table.kind() != "dates":
            return _nothing()
        if known is not None:
            memories = self._database.memories.written_since(known.version[0])
            times = table.log.since(known.version[1])
            if memories is not None and times is not None and len(memories) + len(times) <= MOST_CHANGED:
                changed = union(memories, times)
                return known.stored.followed_by(changed, table.of(changed))
        return table.all()

    def _with_texts(self, known: ParsedTimes) -> ParsedTimes:
        """Returns a copy of ``known`` in which new and changed texts are parsed."""
        stored = known.stored
        same = _same(known.read, stored)
        mask = np.isin(known.named.row, stored.rows[same])
        old = TextPeriods(known.named.row[mask], known.named.start[mask], known.named.end[mask])
        parts = [old, *(self._named_in(stored, np.flatnonzero(~same)[chunk]) for chunk in chunks(int((~same).sum())))]
        named = TextPeriods(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in ("row", "start", "end"))
        )
        return replace(known, read=stored, named=named, placed=named.placed(stored.rows))

    def _named_in(self, stored: StoredTimes, positions: Int64) -> TextPeriods:
        """Returns the periods in the texts of some memories, by row."""
        rows = stored.rows[positions]
        texts = self._database.memories.contents(rows)
        named: list[list[Period]] = []
        for row, time, zone in zip(rows.tolist(), stored.times[positions], stored.zones[positions], strict=True):
            text, when = texts[row][1], _local(float(time), int(zone))
            named.append(self._read_text(text, when) if text and when is not None else [])
        found = TextPeriods.of(named)
        return TextPeriods(rows[found.row], found.start, found.end)

    def _read_text(self, text: str, when: datetime) -> list[Period]:
        from pam_retriever.timewords.reader import read_text

        return self._read(lambda: read_text(text, when))

    def _read(self, read: Callable[[], list[Period]]) -> list[Period]:
        """Returns the parsed periods; none if parsing needs an extra that is not installed."""
        try:
            return read()
        except MissingExtra as error:
            if not self._missed:
                self._missed = True
                log.warning("Some times in questions and texts are not read: %s", error)
            return []


@dataclass(frozen=True)
class QuestionTimes:
    """Parses the times in questions, and returns their evidence.

    Attributes:
        timeline: the timeline of the index.
        now: the time to which "yesterday" refers; None for the clock.
    """

    timeline: Timeline
    now: datetime | None

    def evidence(self, text: str, visible: Rows | None) -> TimeEvidence | None:
        """Returns the evidence of the times in a question among the visible memories; None without times."""
        return self.timeline.evidence(self.timeline.periods(text, self.now, visible), visible)

    def named_times(self, rows: Int64, text: str | None, visible: Rows | None) -> list[tuple[NamedTime, ...]]:
        """See ``Timeline.named_times``; the question may be None."""
        periods = [] if text is None else self.timeline.periods(text, self.now, visible)
        zone = None if self.now is None else self.now.tzinfo
        return self.timeline.named_times(rows, periods, visible, zone or timezone.utc)


def moment(time: float) -> datetime | None:
    """Converts seconds since 1970; None for NaN and outside the years 1 to 9999."""
    return None if np.isnan(time) else _local(time, 0)


def read_clock(now: Time | None) -> datetime | None:
    """Returns the time to which words refer: midnight of a date; None for the clock, and for plain numbers."""
    if isinstance(now, datetime):
        return now
    return datetime(now.year, now.month, now.day, tzinfo=timezone.utc) if isinstance(now, date) else None


def _numbers(when: object) -> tuple[float, float]:
    """Parses an interval in the caller's unit."""
    if not isinstance(when, tuple) or len(when) != 2 or when == (None, None):
        raise InvalidInput(
            f"Got when={when!r} for an index whose timestamps are numbers.",
            "a pair (start, end) of numbers, None for an open one",
            "Words of time need timestamps that are dates.",
        )
    start, end = when
    first = -np.inf if start is None else check_finite("when[0]", start)
    last = np.inf if end is None else check_finite("when[1]", end)
    if first >= last:
        raise InvalidInput(f"Got when={when!r}.", "a start before the end", "Exchange them, or widen it.")
    return float(first), float(last)


def _local(time: float, zone: int) -> datetime | None:
    """Returns a stored date as local time; None outside the years 1 to 9999."""
    try:
        return (EPOCH + timedelta(seconds=time)).astimezone(timezone(timedelta(seconds=zone)))
    except (OverflowError, ValueError):
        return None


def _columns(stored: StoredTimes) -> list[tuple[int, float, int]]:
    return list(zip(stored.rows.tolist(), stored.times.tolist(), stored.zones.tolist(), strict=True))


def _named(
    period: Period, source: Literal["question", "text"], said_at: datetime | None, zone: tzinfo | None
) -> NamedTime:
    start = None if period.start <= OPEN_START else period.start
    end = None if period.end >= OPEN_END else period.end
    # days begin at midnight of the zone in which the words were read
    local = replace(period, start=_in_zone(period.start, zone), end=_in_zone(period.end, zone))
    return NamedTime(period.expression, start, end, local.meaning, source, said_at)


def _in_zone(at: datetime, zone: tzinfo | None) -> datetime:
    try:
        return at.astimezone(zone)
    except OverflowError:  # in the first or the last hours of the calendar
        return at


def _nothing() -> StoredTimes:
    empty: Int64 = np.empty(0, np.int64)
    return StoredTimes(empty, np.empty(0), empty, empty)


def _same(old: StoredTimes, new: StoredTimes) -> Bools:
    """Returns which of the new memories (n,) are known with the same contents and time."""
    if not len(old.rows):
        return np.zeros(len(new.rows), bool)
    at = np.minimum(np.searchsorted(old.rows, new.rows), len(old.rows) - 1)
    same: Bools = (
        (old.rows[at] == new.rows)
        & (old.times[at] == new.times)
        & (old.zones[at] == new.zones)
        & (old.versions[at] == new.versions)
    )
    return same
