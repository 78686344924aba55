"""Which shard a training takes when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pam_retriever.training.shards import PASS, Shards
from pam_retriever.types import Int64


class Turn(NamedTuple):
    """One shard in its turn.

    Attributes:
        at: which pass it is of.
        blocks: what ``Shards.read`` takes.
        first: it is of the first pass, and not the last turn of all.
        before: turns before it, as if each pass had as many shards as this one: rehearsals of the old differ in length.
        turns: of the whole schedule, likewise, stopped early or not.
    """

    at: int
    blocks: Int64
    first: bool
    before: int
    turns: int


class Schedule:
    """The shards of all passes. A pass is drawn when it begins: the clock may end a training long before the last.

    Args:
        shards: the experience.
        first_pass: its first pass, as ``shards`` drew it.
        passes: how many there are.
        stop_after: end after so many of them; None goes to the end.
    """

    def __init__(self, shards: Shards, first_pass: list[Int64], passes: int, stop_after: int | None) -> None:
        self._shards, self._first_pass, self._passes = shards, first_pass, passes
        self._last = min(stop_after or passes, passes)
        # what was held out of the first shard is learnt after all
        self._again = passes == 1 and len(first_pass) > 1

    def __len__(self) -> int:
        """Turns up to where it stops, as if each pass had as many shards as the first."""
        return self._last * len(self._first_pass) + self._again

    def after(self, done: int) -> Iterator[Turn]:
        """The turns that follow the first ``done``."""
        number = 0
        for at in range(done if self._shards.whole else 0, self._last):
            each = self._first_pass if not at else self._shards.of_pass(self._shards.generator(PASS, at))
            if self._shards.whole:
                number = at
            turns = self._passes * len(each) + self._again
            for place, blocks in enumerate(each):
                if number >= done:
                    yield Turn(at, blocks, not at, at * len(each) + place, turns)
                number += 1
        if self._again and number >= done:
            turns = len(self._first_pass)
            yield Turn(0, self._first_pass[0], False, turns, turns + 1)
