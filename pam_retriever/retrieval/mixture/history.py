"""All past requests of an index, and memories whose first use is in a part of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Protocol

import numpy as np

from pam_retriever.experience.feedback import MOST_OF_ONE
from pam_retriever.retrieval.mixture.pools import Cues, WordList
from pam_retriever.retrieval.mixture.requests import RequestLog, Uses
from pam_retriever.types import Bools, Float32, Int64


class StoredCues(Protocol):
    """The memories as cues, by position."""

    def __len__(self) -> int: ...

    def take(self, at: Int64) -> Cues:
        """Returns the memories at positions (m,)."""
        ...


@dataclass(frozen=True)
class History:
    """All past requests, and the memories as cues.

    Attributes:
        vectors: (n, dim) float32, unit length.
        words: n lists of words.
        uses: the memories that each request used.
        stored: every memory as a cue; its length is the number of memories.
        timed: whether the requests are in the order of time.
        writers: the author of each of the n requests; see ``RequestLog``.
        most: the most popularity that one author may add.
        texts: n requests in words; None without words.
        nows: n times of the requests, None for the clock; None for the clock for all.
        existing: (n,) the number of memories when each request arrived; None for all memories.
    """

    vectors: Float32
    words: Sequence[WordList]
    uses: Uses
    stored: StoredCues
    timed: bool = True
    writers: Sequence[Hashable] | None = None
    most: float = MOST_OF_ONE
    texts: Sequence[str | None] | None = None
    nows: Sequence[datetime | None] | None = None
    existing: Int64 | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def log(self, at: Int64 | None = None) -> RequestLog:
        """Returns the log of the requests at these positions, or of all."""
        at = np.arange(len(self)) if at is None else at
        writers = None if self.writers is None else [self.writers[n] for n in at.tolist()]
        words, existing = [self.words[n] for n in at.tolist()], None if self.existing is None else self.existing[at]
        return RequestLog(self.vectors[at], words, self.uses.take(at), len(self.stored), writers, self.most, existing)

    @cached_property
    def served(self) -> Uses:
        """The memories that served each request, without those that did not help."""
        return self.uses.helpful()

    def cues(self, at: Int64) -> Cues:
        """Returns requests as cues."""
        every = Cues(self.vectors, self.words, np.full(len(self), -1), texts=self.texts, nows=self.nows)
        return every.take(at)


@dataclass(frozen=True)
class FirstUses:
    """Memories whose first use is in the held-out part.

    Many of them did not exist before, but memories that are unused today do exist. So newcomers are candidates only for
    questions that used them, and with a lower weight: the expected rate of first uses, estimated by the share of
    memories that were used once (Good 1953).

    Memories that were never used are candidates for all questions. But missing use is weak evidence against the latest
    of them, for example new tools or files. So the number of never-used memories that count is the expected number of
    first uses; the others are doubtful.

    Attributes:
        rows: (N,) mask of the newcomers.
        factor: weight of a use of a newcomer.
        absent: (N,) mask of never-used memories that are doubtful.
    """

    rows: Bools
    factor: float
    absent: Bools

    @classmethod
    def of(cls, history: History, known: Bools, held: Int64, random: np.random.Generator) -> FirstUses:
        """Finds the newcomers of the part ``held``, if the ``known`` memories (N,) were used before."""
        times = np.bincount(history.served.rows, minlength=len(history.stored))
        rows = (times > 0) & ~known
        expected = float((times == 1).sum() / max(times.sum(), 1))
        served = rows[history.served.expand(held)[1]]
        found = float(served.mean()) if len(served) else 0.0
        odds = expected * (1 - found) / max(found * (1 - expected), 1e-9)
        never = np.bincount(history.uses.rows, minlength=len(history.stored)) == 0  # nor shown without help
        absent = never & (random.random(len(never)) >= expected / max(float(never.mean()), 1e-9))
        return cls(rows, min(1.0, odds), absent)
