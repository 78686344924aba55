"""What every call to an engine reads first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class State:
    """The one row that every call reads first.

    Attributes:
        version: counted up by every transaction that writes.
        model: the version at which predictor, encoder or calibration changed last.
        texts: the version at which a memory changed last.
        logged_from: of removals before this version there is no record any more.
        generation: the number of the table with the keys; 0 before ``fit``.
        memories: how many there are.
        last_row: the highest row that any memory ever had.
        last_trajectory: the highest number that any trajectory ever had.
    """

    version: int
    model: int
    texts: int
    logged_from: int
    generation: int
    memories: int
    last_row: int
    last_trajectory: int
