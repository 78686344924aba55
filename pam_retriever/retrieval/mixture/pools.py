"""Cues, and the candidates to score for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from pam_retriever.ann.selection import Rows
from pam_retriever.arrays import distinct, starts_of
from pam_retriever.types import Bools, Direction, Float32, Int64

WordList = Sequence[str]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Cues:
    """A batch of cues.

    Attributes:
        vectors: (Q, dim) float32, unit length.
        words: Q lists of words; empty for cues without words.
        rows: (Q,) the stored memory of each cue, -1 for a question.
        direction: use only neighbours before a memory ("after") or after it ("before") as evidence for it; None: both.
        texts: Q questions in words, None for one without words; None if all are without words.
        nows: Q times that words such as "yesterday" are relative to, None for the clock; None for the clock for all.
        allowed: sorted rows of the memories that may be found or may lead to others; None for all.
    """

    vectors: Float32
    words: Sequence[WordList]
    rows: Int64
    direction: Direction | None = None
    texts: Sequence[str | None] | None = None
    nows: Sequence[datetime | None] | None = None
    allowed: Rows | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, at: Int64) -> Cues:
        """Returns the cues at these positions."""
        positions = at.tolist()
        return replace(
            self,
            vectors=self.vectors[at],
            words=[self.words[n] for n in positions],
            rows=self.rows[at],
            texts=None if self.texts is None else [self.texts[n] for n in positions],
            nows=None if self.nows is None else [self.nows[n] for n in positions],
        )


@dataclass(frozen=True)
class Pools:
    """Candidates for each cue, as pairs of cue and row.

    Attributes:
        cue: (P,) the position of the cue, rising.
        row: (P,) the memory, rising within a cue.
        starts: (Q,) the first pair of each cue.
        size: the number of memories.
        hidden: (P,) mask of pairs whose past use is hidden; None for no such pair. A source of use treats them as never
            used.
    """

    cue: Int64
    row: Int64
    starts: Int64
    size: int
    hidden: Bools | None = None

    @classmethod
    def full(cls, cues: int, size: int) -> Pools:
        """Returns every memory for every cue."""
        row = np.tile(np.arange(size), cues)
        return cls(np.repeat(np.arange(cues), size), row, np.arange(cues) * size, size)

    @classmethod
    def of(cls, candidates: Sequence[Int64], size: int) -> Pools:
        """Returns chosen memories for each cue; sorts lists and removes duplicates. No list may be empty."""
        ordered = [rows if (rows[1:] > rows[:-1]).all() else distinct(rows) for rows in candidates]
        lengths = np.array([len(rows) for rows in ordered])
        starts = starts_of(lengths)[:-1]
        return cls(np.repeat(np.arange(len(ordered)), lengths), np.concatenate(ordered), starts, size)

    def __len__(self) -> int:
        return len(self.cue)

    def of_cue(self, at: int) -> slice:
        """Returns the slice of the pairs of one cue."""
        end = self.starts[at + 1] if at + 1 < len(self.starts) else len(self)
        return slice(int(self.starts[at]), int(end))

    def of_cues(self) -> list[slice]:
        """Returns the slice of the pairs of each cue."""
        return [self.of_cue(at) for at in range(len(self.starts))]

    @property
    def is_full(self) -> bool:
        """Whether every cue has every memory."""
        return len(self.row) == len(self.starts) * self.size

    @cached_property
    def keys(self) -> Int64:
        """Rising numbers (P,), one per pair."""
        keys: Int64 = self.cue * self.size + self.row
        return keys

    @cached_property
    def visible(self) -> Float32:
        """The factor (P,) of each pair: 0 if it is hidden, else 1."""
        if self.hidden is None:
            return np.ones(len(self), np.float32)
        return (~self.hidden).astype(np.float32)

    def add_up(self, cue: Int64, row: Int64, value: Float32) -> Float32:
        """Returns the sum (P,) of the values (E,) of each pair, or the sums (P, n) of several values (n, E).

        Drops values of memories that are not candidates.
        """
        position = cue * self.size + row
        if not self.is_full:
            wanted = position
            position = np.minimum(np.searchsorted(self.keys, wanted), len(self) - 1)
            there = self.keys[position] == wanted
            position, value = position[there], value[..., there]
        if value.ndim == 1:
            return np.bincount(position, value, len(self)).astype(np.float32)
        every = (np.arange(len(value))[:, None] * len(self) + position).reshape(-1)
        sums = np.bincount(every, value.reshape(-1), value.shape[0] * len(self))
        return sums.reshape(len(value), len(self)).T.astype(np.float32, order="C")

    def spread(self, values: Float32) -> Float32:
        """Returns the value (P,) of each pair's memory, from one value per memory (size,)."""
        spread: Float32 = values[self.row]
        return spread

    def grid(self, values: Float32) -> Float32:
        """Returns the value (P,) of each pair, from (Q, size)."""
        return values.reshape(-1) if self.is_full else values[self.cue, self.row]


class LastAnswer(Generic[Answer]):
    """The last answer of a calculation: proposals and features, and several sources, ask it of the same cues."""

    def __init__(self) -> None:
        self._last: tuple[tuple[object, ...], Answer] | None = None

    def of(self, calculate: Callable[[], Answer], *asked: object) -> Answer:
        """Returns the last answer if the same objects, and equal numbers, are ``asked`` again; else calculates it."""
        last = self._last
        if last is None or not all(map(_is_same, last[0], asked)):
            self._last = last = asked, calculate()
        return last[1]


def _is_same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, int) and one == other)
