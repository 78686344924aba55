"""The state of an index in an engine, which every call reads first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class State:
    """The one row that every call reads first.

    Attributes:
        version: raised by every transaction that writes.
        model: the version of the last change of predictor, encoder or calibration.
        texts: the version of the last change of a memory.
        logged_from: the first version whose removals are still recorded.
        generation: the number of the table with the keys; 0 before ``fit``.
        memories: number of memories.
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
