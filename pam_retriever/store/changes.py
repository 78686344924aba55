"""What each of the last transactions changed, so that a reader in another process takes in that and nothing else.

A transaction notes it while it writes, and stores it as a setting of its own before it commits. A reader that is
further behind than these settings go, or that finds one missing, reads everything anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pam_retriever.filters import to_json
from pam_retriever.store.columns import from_json
from pam_retriever.types import Int64

PREFIX = "changes:"  # of the keys of the settings
KEPT = 1_000  # transactions
MOST_RANGES = 1_000  # of rows, or trajectories, in one transaction; beyond that reading all anew is hardly slower
# settings of which nothing in the memory of a reader is made: it asks the database
ASKED: Final = ("grew:", "forgotten", "words_removed", "ann", "graph", "capacity", "mentions", "names", "embedder")

# a setting: in the row after the last of the others, also where there are none but what transactions changed
PUT_SETTING = (
    "INSERT OR REPLACE INTO settings (rowid, key, value) "
    "VALUES ((SELECT max(0, coalesce(max(rowid), 0)) + 1 FROM settings), ?, ?)"
)

Fetch = Callable[..., list[Any]]


@dataclass
class Changes:
    """What was written.

    Attributes:
        rows: of memories that were stored, replaced or removed.
        removed: numbers of trajectories that were removed.
        grown: number of a trajectory -> the first position that is new.
        settings: keys.
        everything: more than that: all vectors, or the weights of an encoder.
    """

    rows: set[int] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)
    grown: dict[int, int] = field(default_factory=dict)
    settings: set[str] = field(default_factory=set)
    everything: bool = False

    def grew(self, number: int, first: int) -> None:
        """A trajectory has more steps, from position ``first`` on."""
        self.grown[number] = min(first, self.grown.get(number, first))

    @property
    def refitted(self) -> bool:
        """Whether the predictor, or more than memories and steps, may be another."""
        return self.everything or "model" in self.settings

    @property
    def retold(self) -> bool:
        """Whether what is kept of words and requests may be stale."""
        return bool(self.rows or self.settings)

    def add(self, later: Changes) -> None:
        """Takes in what was written after it."""
        self.rows |= later.rows
        self.removed |= later.removed
        for number, first in later.grown.items():
            self.grew(number, first)
        self.settings |= later.settings
        self.everything = self.everything or later.everything

    def to_json(self) -> str:
        """As a setting holds it."""
        rows, removed = _ranges(self.rows), _ranges(self.removed)
        if max(len(rows), len(removed), len(self.grown)) > MOST_RANGES or self.everything:
            return to_json({"everything": True})
        grown = {str(number): first for number, first in self.grown.items()}
        settings = sorted(key for key in self.settings if not key.startswith(ASKED))
        return to_json({"rows": rows, "removed": removed, "grown": grown, "settings": settings})

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Changes:
        """What ``to_json`` made; whatever else it is: everything."""
        try:
            if not stored.get("everything"):
                grown = {int(number): int(first) for number, first in stored["grown"].items()}
                rows, removed = _unranged(stored["rows"]), _unranged(stored["removed"])
                return cls(rows, removed, grown, set(map(str, stored["settings"])))
        except (KeyError, TypeError, ValueError, AttributeError):
            pass
        return cls(everything=True)


def store_changes(fetch: Fetch, version: int, changes: Changes) -> None:
    """Inside a transaction that makes ``version`` of the database: keeps what it changed.

    Rows below 0 leave those of other settings as they are, so that a copy without changes is the same in every byte.
    """
    values = [-version, f"{PREFIX}{version}", changes.to_json()]
    fetch("INSERT OR REPLACE INTO settings (rowid, key, value) VALUES (?, ?, ?)", values)
    if version > KEPT:
        fetch("DELETE FROM settings WHERE rowid = ?", [KEPT - version])


def changes_between(fetch: Fetch, seen: int, now: int) -> Changes | None:
    """What was changed after version ``seen``, up to ``now``; None where that is not known."""
    if seen < 0 or not 0 <= now - seen <= KEPT:
        return None
    found = fetch("SELECT value FROM settings WHERE rowid >= ? AND rowid < ? ORDER BY rowid DESC", [-now, -seen])
    if len(found) != now - seen:
        return None
    together = Changes()
    for (value,) in found:
        together.add(Changes.of(from_json(value, "What a transaction changed")))
    return together


def forget_changes(fetch: Fetch) -> bool:
    """Removes what is kept of all transactions; returns whether there was any."""
    there = bool(fetch("SELECT 1 FROM settings WHERE rowid < 0 LIMIT 1"))
    if there:
        fetch("DELETE FROM settings WHERE rowid < 0")
    return there


def forget_kept(fetch: Fetch) -> bool:
    """Removes what names files beside the database, which a copy has not; returns whether there was any."""
    there = bool(fetch("SELECT 1 FROM settings WHERE key IN ('ann', 'graph')"))
    if there:
        fetch("DELETE FROM settings WHERE key IN ('ann', 'graph')")
    return there


def _ranges(numbers: set[int]) -> list[list[int]]:
    """First and last of each run of numbers."""
    if not numbers:
        return []
    ordered: Int64 = np.array(sorted(numbers), np.int64)
    cuts = np.flatnonzero(np.diff(ordered) > 1)
    firsts, lasts = ordered[np.r_[0, cuts + 1]], ordered[np.r_[cuts, len(ordered) - 1]]
    return np.stack([firsts, lasts], axis=1).tolist()  # type: ignore[no-any-return]


def _unranged(ranges: list[list[int]]) -> set[int]:
    return {number for first, last in ranges for number in range(int(first), int(last) + 1)}
