"""The order of shards in a training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pam_retriever.training.shards import PASS, Shards
from pam_retriever.types import Int64


class ScheduledShard(NamedTuple):
    """One shard at its turn.

    Attributes:
        at: the pass.
        blocks: the argument of ``Shards.read``.
        first: whether it is in the first pass, and is not the last turn of the schedule.
        before: number of turns before it, assuming that each pass has as many shards as this pass. (Samples of old
            experience differ in length.)
        turns: number of turns of the whole schedule under the same assumption, without an early stop.
    """

    at: int
    blocks: Int64
    first: bool
    before: int
    turns: int


class Schedule:
    """The shards of all passes. Each pass is drawn when it begins, because the time may end before the last one.

    Args:
        shards: the experience.
        first_pass: its first pass, as ``shards`` drew it.
        passes: number of passes.
        stop_after: stop after this many passes; None for all.
    """

    def __init__(self, shards: Shards, first_pass: list[Int64], passes: int, stop_after: int | None) -> None:
        self._shards, self._first_pass, self._passes = shards, first_pass, passes
        self._last = min(stop_after or passes, passes)
        # one more turn, to learn the memories held out of the first shard
        self._again = passes == 1 and len(first_pass) > 1

    def __len__(self) -> int:
        """The number of turns until the schedule stops, assuming that each pass has as many shards as the first."""
        return self._last * len(self._first_pass) + self._again

    def after(self, done: int) -> Iterator[ScheduledShard]:
        """Yields the turns after the first ``done``."""
        number = 0
        for at in range(done if self._shards.whole else 0, self._last):
            each = self._first_pass if not at else self._shards.of_pass(self._shards.generator(PASS, at))
            if self._shards.whole:
                number = at
            turns = self._passes * len(each) + self._again
            for position, blocks in enumerate(each):
                if number >= done:
                    yield ScheduledShard(at, blocks, not at, at * len(each) + position, turns)
                number += 1
        if self._again and number >= done:
            turns = len(self._first_pass)
            yield ScheduledShard(0, self._first_pass[0], False, turns, turns + 1)
