"""Two sources for any cue: the frequency of use, and memories that were added after past requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.arrays import best, union
from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.retrieval.mixture.shares import grown, log_share
from pam_retriever.types import Float32, Float64, Int64

NEWNESS = "newness"
EACH, STEPS = 32, 64  # the missing mass is computed for each number of requests up to 32, and for some larger ones


class Popularity:
    """How often a memory was used, over all time and recently, for any cue.

    Args:
        log: past requests.
    """

    name, features = "popularity", ("popularity", "recency_100", "recency_500")
    HALF_LIVES = (100, 500)  # in requests; recent frequency halves the weight of a use per half-life

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._through = 0
        self._counts = [np.zeros(log.size) for _ in self.features]  # of all uses, and with decay
        self._last = LastAnswer[Float32]()
        self._best = LastAnswer[Int64]()

    def score(self, cues: Cues, pools: Pools) -> Float32:
        del cues
        return self._columns()[pools.row] * pools.visible[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        columns = self._columns()
        return [self._best.of(lambda: union(*(best(column, n) for column in columns.T)), columns, n)] * len(cues)

    def _columns(self) -> Float32:
        """Returns the features (N, F), cached until the next request or memory."""
        return self._last.of(self._read_columns, len(self._log), self._log.size)

    def _read_columns(self) -> Float32:
        self._follow()
        n = len(self._log)
        ever, *recent = self._counts
        columns = [np.log1p(np.maximum(ever, 0))]
        for life, faded in zip(self.HALF_LIVES, recent, strict=True):
            share = 0.5 ** (1 / life)
            columns.append(log_share(faded * ((1 - share) / max(1 - share**n, 1e-9))))
        return np.stack(columns, axis=1).astype(np.float32)

    def _follow(self) -> None:
        """Counts the requests since the last question."""
        n = len(self._log)
        self._counts = [grown(counts, self._log.size) for counts in self._counts]
        if self._through == n:
            return
        new = np.arange(self._through, n)
        position, rows, weights = self._log.popular.expand(new)
        age = n - 1 - new[position]
        for counts, life in zip(self._counts, (np.inf, *self.HALF_LIVES), strict=True):
            counts *= 0.5 ** ((n - self._through) / life)
            np.add.at(counts, rows, weights * 0.5 ** (age / life))
        self._through = n


class Newness:
    """How much less it says that nothing used a memory, because the memory was added after past requests.

    A memory that was there for e requests and served none is expected to serve the next one less often than a new one.
    How much less, the missing mass says: the expected share of uses whose memory would serve none of e requests (Good
    1953). The feature is this share minus that for all requests. So it is 0 for a memory that all requests could have
    used, and for a memory that was used.

    Args:
        log: past requests.
    """

    name, features = NEWNESS, (NEWNESS,)

    def __init__(self, log: RequestLog) -> None:
        self._log, self._last = log, LastAnswer[Float32]()

    def score(self, cues: Cues, pools: Pools) -> Float32:
        del cues
        return pools.spread(self._last.of(self._of_memories, len(self._log), self._log.size))[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        del n
        return [np.empty(0, np.int64)] * len(cues)  # a memory is not wanted because it is new

    def _of_memories(self) -> Float32:
        found, exposures = np.zeros(self._log.size, np.float32), self._log.exposures
        new = np.flatnonzero(exposures < len(self._log))
        new = new[~np.isin(new, self._log.uses.rows)]
        if len(new):
            found[new] = newness(self._log, exposures[new])
        return found


def newness(log: RequestLog, exposures: Int64) -> Float32:
    """Returns the feature of never-used memories that were there for so many (m,) of the past requests."""
    times = np.bincount(np.diff(log.requests_of.starts))  # how many memories served 0, 1, 2, ... requests
    served = np.flatnonzero(times[1:]) + 1
    if not len(served):
        return np.zeros(len(exposures), np.float32)
    n = len(log)
    larger = np.round(np.geomspace(1, n + 1, STEPS)) - 1
    at: Float64 = np.union1d(np.arange(min(n, EACH)), larger)
    uses = times[served] * served
    missing = np.maximum(1 - served / n, 0) ** at[:, None] @ uses / uses.sum()
    found: Float32 = (np.interp(exposures, at, missing) - missing[-1]).astype(np.float32)
    return found
