"""A source: requests that were made before."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pam_retriever.arrays import distinct
from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.retrieval.mixture.shares import log_share
from pam_retriever.types import Float32, Int64


class RepeatedRequests:
    """Scores memories that served the same request before, or a request that hardly differs.

    ``PastUse`` averages over many similar requests. This source is narrow: a request has weight 1 with the same vector,
    a fifth at cosine .95, and almost 0 at .8.

    Args:
        log: past requests.
    """

    name, features = "asked again", ("asked_again",)
    WIDTH = 30.0  # width of the kernel exp(WIDTH * (cosine - 1))
    LEAST = 0.01  # smaller weights are dropped

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._last = LastAnswer[tuple[Int64, Int64, Float32]]()

    def score(self, cues: Cues, pools: Pools) -> Float32:
        cue, position, weight = self._same(cues)
        if not len(cue):
            return np.zeros((len(pools), 1), np.float32)
        used, rows, counts = self._log.uses.expand(position)
        # five different answers to the same request are a fifth each
        total = np.maximum(np.bincount(cue, weight, len(cues)), 1).astype(np.float32)
        each: Float32 = (weight / total[cue])[used] * counts
        share = pools.add_up(cue[used], rows, each)
        return (log_share(share) * pools.visible)[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        cue, position, _ = self._same(cues)
        return [distinct(self._log.uses.expand(position[cue == at])[1])[:n] for at in range(len(cues))]

    def _same(self, cues: Cues) -> tuple[Int64, Int64, Float32]:
        """Returns pairs of a question and a past request that hardly differ, with weights; computed once for both."""
        return self._last.of(lambda: self._compare(cues), cues, len(self._log))

    def _compare(self, cues: Cues) -> tuple[Int64, Int64, Float32]:
        if not len(self._log):
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)
        cosines = self._log.likeness(cues)[0]
        found = np.flatnonzero(cosines > 1 + math.log(self.LEAST) / self.WIDTH)  # one index is faster than a pair
        cue, position = np.divmod(found, cosines.shape[1])
        is_request = cues.rows[cue] < 0  # a stored memory is not a request
        cue, position = cue[is_request], position[is_request]
        return cue, position, np.minimum(np.exp(np.float32(self.WIDTH) * (cosines[cue, position] - 1)), 1)
