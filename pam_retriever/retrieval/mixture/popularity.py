"""A source: the frequency of use, over all time and recently, for any cue."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.arrays import best, union
from pam_retriever.retrieval.mixture.pools import Cues, LastAnswer, Pools
from pam_retriever.retrieval.mixture.requests import RequestLog
from pam_retriever.retrieval.mixture.shares import grown, log_share
from pam_retriever.types import Float32, Int64


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
