"""A source: the frequency of use, over all time and recently, for any cue."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pam_retriever.arrays import best, union
from pam_retriever.retrieval.mixture.pools import Cues, Pools
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
        self._last: tuple[tuple[int, int], Float32] | None = None
        self._best: tuple[Float32, int, Int64] | None = None

    def score(self, cues: Cues, pools: Pools) -> Float32:
        del cues
        return self._columns()[pools.row] * pools.visible[:, None]

    def propose(self, cues: Cues, n: int) -> Sequence[Int64]:
        columns, last = self._columns(), self._best
        if last is None or last[0] is not columns or last[1] != n:
            found = union(*(best(column, n) for column in columns.T))
            last = self._best = columns, n, found
        return [last[2]] * len(cues)

    def _columns(self) -> Float32:
        """Returns the features (N, F), cached until the next request or memory."""
        n = len(self._log)
        if self._last is not None and self._last[0] == (n, self._log.size):
            return self._last[1]
        self._follow()
        ever, *recent = self._counts
        columns = [np.log1p(np.maximum(ever, 0))]
        for life, faded in zip(self.HALF_LIVES, recent, strict=True):
            share = 0.5 ** (1 / life)
            columns.append(log_share(faded * ((1 - share) / max(1 - share**n, 1e-9))))
        found: Float32 = np.stack(columns, axis=1).astype(np.float32)
        self._last = (n, self._log.size), found
        return found

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
