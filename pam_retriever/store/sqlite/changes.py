"""A log of the changes of the last transactions, so that a reader in another process reads only the changes.

Each transaction records its changes while it writes, and stores them as a setting before it commits. A reader reads
everything again if a setting that it needs is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pam_retriever.filters.stored import to_json
from pam_retriever.store.columns import from_json

PREFIX = "changes:"  # begins the keys of these settings
MAX_TRANSACTIONS = 10_000  # number of transactions in the log
MAX_RANGES = 1_000  # ranges of rows or trajectories in one transaction; for more, reading all again is hardly slower
ENCODERS = ("encoder", "outward")  # modules that make the vectors, with weights in the database
# readers keep no copy of these settings: they read them from the database
NOT_LOGGED: Final = ("grew:", "forgotten", "words_removed", "ann", "graph", "capacity", "mentions", "names", "embedder")

# a setting gets the row number after the last; the log is left out, so that an index without a log has the same numbers
PUT_SETTING = (
    "INSERT OR REPLACE INTO settings (rowid, key, value) "
    "VALUES ((SELECT max(0, coalesce(max(rowid), 0)) + 1 FROM settings), ?, ?)"
)

Fetch = Callable[..., list[Any]]


@dataclass
class Changes:
    """The changes of one or more transactions.

    Attributes:
        rows: rows of memories that were stored, replaced or removed.
        removed: numbers of trajectories that were removed.
        grown: number of a trajectory -> the first position that is new.
        settings: keys of the settings that changed.
        everything: whether other data changed, too: all vectors, or the weights of an encoder.
        names: whether names or mentions may have changed. Readers are not told: they keep nothing of an older version.
        version: the version of the database after the transaction; -1 if it is not known.
    """

    rows: set[int] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)
    grown: dict[int, int] = field(default_factory=dict)
    settings: set[str] = field(default_factory=set)
    everything: bool = False
    names: bool = False
    version: int = -1

    def grew(self, number: int, first: int) -> None:
        """Records that a trajectory has new steps from position ``first`` on."""
        self.grown[number] = min(first, self.grown.get(number, first))

    @property
    def refitted(self) -> bool:
        """Whether the predictor may have changed, or anything besides memories and steps."""
        return self.everything or "model" in self.settings

    @property
    def texts_may_have_changed(self) -> bool:
        """Whether copies of words and requests may be stale."""
        return bool(self.rows or self.settings)

    def add(self, later: Changes) -> None:
        """Adds the changes of a later transaction."""
        self.rows |= later.rows
        self.removed |= later.removed
        for number, first in later.grown.items():
            self.grew(number, first)
        self.settings |= later.settings
        self.everything = self.everything or later.everything

    def to_json(self) -> str:
        """The changes as JSON, for a setting."""
        rows, removed = ranges_of(self.rows), ranges_of(self.removed)
        if max(len(rows), len(removed), len(self.grown)) > MAX_RANGES or self.everything:
            return to_json({"everything": True})
        grown = {str(number): first for number, first in self.grown.items()}
        settings = sorted(key for key in self.settings if not key.startswith(NOT_LOGGED))
        return to_json({"rows": rows, "removed": removed, "grown": grown, "settings": settings})

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Changes:
        """Reads the output of ``to_json``; anything else counts as a change of everything."""
        try:
            if not stored.get("everything"):
                grown = {int(number): int(first) for number, first in stored["grown"].items()}
                rows, removed = _unranged(stored["rows"]), _unranged(stored["removed"])
                return cls(rows, removed, grown, set(map(str, stored["settings"])))
        except (KeyError, TypeError, ValueError, AttributeError):
            pass
        return cls(everything=True)


def store_changes(fetch: Fetch, version: int, changes: Changes) -> None:
    """Stores the changes of a transaction, inside it; ``version`` is the version of the database after the commit.

    Row numbers below 0 do not affect the row numbers of other settings. So a copy without changes has the same bytes.
    """
    values = [-version, f"{PREFIX}{version}", changes.to_json()]
    fetch("INSERT OR REPLACE INTO settings (rowid, key, value) VALUES (?, ?, ?)", values)
    if version > MAX_TRANSACTIONS:
        fetch("DELETE FROM settings WHERE rowid = ?", [MAX_TRANSACTIONS - version])


def changes_between(fetch: Fetch, seen: int, now: int) -> Changes | None:
    """Returns the changes after version ``seen``, up to ``now``; None if some of them are not in the log."""
    if seen < 0 or not 0 <= now - seen <= MAX_TRANSACTIONS:
        return None
    found = fetch("SELECT value FROM settings WHERE rowid >= ? AND rowid < ? ORDER BY rowid DESC", [-now, -seen])
    if len(found) != now - seen:
        return None
    together = Changes()
    for (value,) in found:
        together.add(Changes.of(from_json(value, "What a transaction changed")))
    return together


def forget_changes(fetch: Fetch) -> bool:
    """Deletes the log; returns whether there was one."""
    there = bool(fetch("SELECT 1 FROM settings WHERE rowid < 0 LIMIT 1"))
    if there:
        fetch("DELETE FROM settings WHERE rowid < 0")
    return there


def forget_cached_files(fetch: Fetch) -> bool:
    """Deletes settings that name files beside the database: a copy does not have these files."""
    there = bool(fetch("SELECT 1 FROM settings WHERE key IN ('ann-saved', 'graph')"))
    if there:
        fetch("DELETE FROM settings WHERE key IN ('ann-saved', 'graph')")
    return there


def ranges_of(numbers: set[int]) -> list[list[int]]:
    """Returns the first and the last of each run of consecutive numbers."""
    listed = sorted(numbers)
    if listed and listed[-1] - listed[0] == len(listed) - 1:  # as of a bulk
        return [[listed[0], listed[-1]]]
    ranges: list[list[int]] = []
    for number in listed:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges


def _unranged(ranges: list[list[int]]) -> set[int]:
    return {number for first, last in ranges for number in range(int(first), int(last) + 1)}
