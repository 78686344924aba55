"""The times of memories in SQLite: given to ``add``, or taken from the steps of trajectories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta, timezone
from typing import Literal

import numpy as np

from pam_retriever.errors import InvalidInput
from pam_retriever.experience.dates import read_timestamp
from pam_retriever.filters.conditions import Timed
from pam_retriever.store.sqlite.connection import Connection
from pam_retriever.store.sqlite.settings import SQLiteSettings
from pam_retriever.store.sqlite.write_log import WriteLog
from pam_retriever.types import Int64, Time, Times
from pam_retriever.validation import check_length, read_list

Kind = Literal["dates", "numbers"]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
KIND = "times"  # the setting with the kind of the times of an index


@dataclass(frozen=True)
class NewTimes:
    """The times of n memories that are about to be stored.

    Attributes:
        times: n, seconds since 1970 for dates; None for a memory without a time.
        zones: n, seconds east of UTC.
        kind: "dates", or "numbers" in the caller's unit; None if no memory has a time.
    """

    times: tuple[float | None, ...]
    zones: tuple[int, ...]
    kind: Kind | None

    @classmethod
    def of(cls, given: Sequence[Time | None] | None, length: int) -> NewTimes:
        """Checks the times of ``length`` memories.

        Raises:
            InvalidInput: there is another number of times, a value is no time, or there are both dates and numbers.
        """
        if given is None:
            return cls((None,) * length, (0,) * length, None)
        if isinstance(given, str | date | float | int):
            raise InvalidInput(f"Got timestamps={given!r}.", "a list of times", "Wrap it in [ ].")
        given = read_list("timestamps", given)
        check_length("timestamps", len(given), length)
        times = tuple(None if time is None else read_timestamp(time) for time in given)
        dated = {isinstance(time, date) for time in given if time is not None}
        if len(dated) == 2:
            raise InvalidInput("Got timestamps that are in part dates.", "all of one kind", "Convert the others.")
        kind: Kind | None = None if not dated else "dates" if dated.pop() else "numbers"
        return cls(times, tuple(map(_zone, given)), kind)


def _zone(time: Time | None) -> int:
    east = time.utcoffset() if isinstance(time, datetime) else None
    return int((east or timedelta()).total_seconds())


@dataclass(frozen=True)
class StoredTimes:
    """The memories that have a time.

    Attributes:
        rows: (n,) sorted.
        times: (n,) their times.
        zones: (n,) seconds east of UTC.
        versions: (n,) a number that changes with the contents of a memory.
    """

    rows: Int64
    times: Times
    zones: Int64
    versions: Int64

    def followed_by(self, changed: Int64, now: StoredTimes) -> StoredTimes:
        """Returns the times after some memories were added, changed or removed.

        Args:
            changed: these memories, sorted.
            now: those of them that have a time now.
        """
        same = ~np.isin(self.rows, changed)
        order = np.argsort(np.concatenate([self.rows[same], now.rows]), kind="stable")
        names = [one.name for one in fields(self)]
        return StoredTimes(*(np.concatenate([getattr(self, name)[same], getattr(now, name)])[order] for name in names))


class SQLiteTimes:
    """The times of the memories of one index. A given time has precedence over the timestamps of steps.

    Args:
        connection: connection to the database.
        settings: the settings of the same database.

    Attributes:
        log: the memories whose times were written.
    """

    def __init__(self, connection: Connection, settings: SQLiteSettings) -> None:
        self._connection, self._settings = connection, settings
        self.log = WriteLog()

    def kind(self) -> Kind | None:
        """Returns the kind of the times; None if no memory has a time."""
        kind = self._settings.get(KIND)
        there = kind is not None and self._connection.fetch("SELECT EXISTS (SELECT 1 FROM times)")[0][0]
        return ("dates" if kind == "dates" else "numbers") if there else None

    def all(self) -> StoredTimes:
        """Returns every memory that has a time."""
        return self._stored("SELECT row, coalesce(given, handed), zone, checksum FROM times JOIN memories USING (row)")

    def of(self, rows: Int64) -> StoredTimes:
        """Returns the memories among ``rows`` that have a time."""
        return self._stored(
            "SELECT row, coalesce(given, handed), zone, checksum FROM times JOIN memories USING (row) "
            "WHERE row IN (SELECT value FROM json_each(?))",
            json.dumps(rows.tolist()),
        )

    def handed(self, rows: Int64) -> dict[int, float]:
        """Returns row -> the date that trajectories gave to the memory, for those of ``rows`` that have one."""
        found = self._connection.fetch(
            "SELECT row, handed FROM times WHERE handed IS NOT NULL AND row IN (SELECT value FROM json_each(?))",
            [json.dumps(rows.tolist())],
        )
        return dict(found)

    def moments(self, rows: Int64) -> dict[int, float | datetime]:
        """Returns row -> time: a datetime with its offset, or a number."""
        kind = self.kind() if len(rows) else None
        if kind is None:
            return {}
        found = self.of(rows)
        columns = zip(found.rows.tolist(), found.times.tolist(), found.zones.tolist(), strict=True)
        if kind == "numbers":
            return {row: time for row, time, _ in columns}
        return {row: as_datetime(time, _offset(east)) for row, time, east in columns}

    def rows_of(self, test: Timed) -> Int64:
        """Returns the memories whose time satisfies the condition, sorted.

        Raises:
            InvalidInput: the times of the index are of the other kind.
        """
        kind = self.kind()
        if kind is None:
            return np.empty(0, np.int64)
        if test.kind not in (None, kind):
            raise InvalidInput(
                f"Got {test.kind} to compare with times that are {kind}.", f"{kind}", "Compare with the same kind."
            )
        return np.sort(self.between(test.start, test.end)[0])

    def _stored(self, sql: str, *parameters: str) -> StoredTimes:
        found = self._connection.fetch(f"{sql} ORDER BY row", parameters)
        rows, times, zones, versions = zip(*found, strict=True) if found else ((), (), (), ())
        return StoredTimes(
            np.array(rows, np.int64),
            np.array(times, np.float64),
            np.array(zones, np.int64),
            np.array(versions, np.int64),
        )

    def between(self, start: float, end: float) -> tuple[Int64, Times]:
        """Returns the memories with ``start`` <= time < ``end``, the newest first, and their times."""
        found = self._connection.fetch(
            "SELECT row, coalesce(given, handed) AS time FROM times WHERE coalesce(given, handed) >= ? "
            "AND coalesce(given, handed) < ? ORDER BY time DESC, row DESC",
            [start, end],
        )
        return np.array([row for row, _ in found], np.int64), np.array([time for _, time in found], np.float64)

    def counts(self, bins: int) -> tuple[float, float, list[int]] | None:
        """Returns the first and the last time, and the numbers of memories in ``bins`` equal intervals, or None."""
        time = "coalesce(given, handed)"
        joined = "FROM times JOIN memories USING (row)"
        ((first, last),) = self._connection.fetch(f"SELECT min({time}), max({time}) {joined}")
        if first is None:
            return None
        found = self._connection.fetch(
            f"SELECT min(CAST(({time} - ?) * ? AS INTEGER), ?), count(*) {joined} GROUP BY 1",
            [first, bins / ((last - first) or 1.0), bins - 1],
        )
        counted = dict(found)
        return first, last, [counted.get(at, 0) for at in range(bins)]

    def check(self, new: Kind | None) -> None:
        """Checks that new times have the kind of the stored ones.

        Raises:
            InvalidInput: the index has times of the other kind.
        """
        kind = None if new is None else self.kind()
        if new is not None and kind is not None and kind != new:
            raise other_kind(new, kind)

    # ---- writing, inside a transaction

    def put(self, rows: Int64, new: NewTimes) -> None:
        """Stores the times of n memories. A memory without a given time gets the earliest date of its steps.

        Raises:
            InvalidInput: the index has times of the other kind.
        """
        if new.kind is None and self.kind() is None:
            self.log.begin()  # the texts may name times
            self.log.end(rows)
            return
        self._note(rows)
        self._take(new.kind)
        listed = rows.tolist()
        self._connection.run_many(
            "UPDATE times SET given = NULL, zone = 0 WHERE row = ? AND handed IS NOT NULL", _ones(listed)
        )
        self._connection.run_many("DELETE FROM times WHERE row = ? AND handed IS NULL", _ones(listed))
        self._connection.run_many(
            "INSERT INTO times (row, given, zone) VALUES (?, ?, ?) "
            "ON CONFLICT (row) DO UPDATE SET given = excluded.given, zone = excluded.zone",
            [
                (row, time, zone)
                for row, time, zone in zip(listed, new.times, new.zones, strict=True)
                if time is not None
            ],
        )

    def hand_down(self, rows: Int64, times: Sequence[float]) -> None:
        """Stores the dates of T steps, in increasing order, as times of their memories: a memory gets its earliest.

        Args:
            rows: (T,) the memories; -1 for a removed memory.
            times: T times, in seconds since 1970.

        Raises:
            InvalidInput: the index has times that are numbers.
        """
        self._note(rows[rows >= 0])
        self._take("dates")
        self._connection.run_many(
            "INSERT INTO times (row, handed) VALUES (?, ?) ON CONFLICT (row) DO UPDATE SET handed = excluded.handed "
            "WHERE handed IS NULL OR handed > excluded.handed",
            [(row, time) for row, time in zip(rows.tolist(), times, strict=True) if row >= 0],
        )

    def hand_over(self, dates: Mapping[int, float | None]) -> None:
        """Replaces the dates of trajectories by others, or by None; by row of memory."""
        self._note(np.array(list(dates), np.int64))
        self._connection.run_many("UPDATE times SET handed = ? WHERE row = ?", [(to, row) for row, to in dates.items()])
        self._connection.run_many(
            "DELETE FROM times WHERE row = ? AND given IS NULL AND handed IS NULL", _ones(list(dates))
        )

    def _note(self, rows: Int64) -> None:
        self.log.begin()
        self.log.end(rows)
        self._connection.changes.settings.add(KIND)

    def _take(self, new: Kind | None) -> None:
        """Sets the kind of the times, if there is none yet."""
        self.check(new)
        if new is not None and self.kind() is None:
            self._settings.set(KIND, new)


def other_kind(new: Kind, kind: Kind) -> InvalidInput:
    """Returns the error for new times that are not of the ``kind`` of the stored ones."""
    call = "datetime.fromtimestamp(seconds, timezone.utc)" if kind == "dates" else "time.timestamp()"
    return InvalidInput(
        f"Got timestamps that are {new}, for an index whose timestamps are {kind}.",
        f"{kind}",
        f"Convert them: a date counts in seconds since 1970. Use {call}.",
    )


def as_datetime(time: float, zone: timezone = timezone.utc) -> datetime:
    """Returns a stored time as a datetime; a time outside the years 1 to 9999 becomes their first or last instant."""
    try:
        return (EPOCH + timedelta(seconds=time)).astimezone(zone)
    except OverflowError:
        return (datetime.max if time > 0 else datetime.min).replace(tzinfo=timezone.utc)


def _offset(east: int) -> timezone:
    return timezone(timedelta(seconds=east)) if east else timezone.utc


def _ones(rows: Sequence[int]) -> list[tuple[int]]:
    return [(row,) for row in rows]
