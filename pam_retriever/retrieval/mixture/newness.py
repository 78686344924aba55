"""A source: memories that nothing used, and that were added after past requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.types import Float32, Float64, Int64

NEWNESS = "newness"
EACH, STEPS = 32, 64  # the missing mass is computed for each number of requests up to 32, and for some larger ones


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
