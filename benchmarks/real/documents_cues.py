"""Documents that were never experienced as cues, after a ``fit`` on other documents; see ``benchmarks.real.documents``.

All passages of a file are one index, with their titles. The supporting passages of a quarter of its questions are the
trajectories of ``fit``. Cues are supporting passages of another quarter that lie in no trajectory; to find are the
other supporting passages of the same question. Both quarters are of the half that is for tuning.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.real.documents_pool import Pool
from pam_retriever import Hits, PredictiveAssociativeIndex

CUTS = (2, 5, 10)
TURNS = 3  # times that each cue is asked, to measure the cost


def measure(pool: Pool, seed: int) -> dict[str, Any]:
    """Returns recall and processor time with and without mentions, and of similarity, for the cues of one file."""
    half = pool.halves()[0]
    quarter = half.stop // 2
    index = fitted(pool, range(quarter), seed)
    training = {passage for question in range(quarter) for passage in pool.supporting[question]}
    pairs = [
        (str(cue), [other for other in pool.supporting[question] if other != cue])
        for question in range(quarter, half.stop)
        for cue in pool.supporting[question]
        if cue not in training
    ]
    ways: dict[str, Callable[[str], Hits]] = {
        "search": lambda cue: index.search(cue, k=max(CUTS)),
        "recall without mentions": lambda cue: index.recall(cue, k=max(CUTS), without=["mentions"]),
        "recall": lambda cue: index.recall(cue, k=max(CUTS)),
    }
    found: dict[str, list[list[float]]] = {name: [] for name in ways}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS):
        for cue, others in pairs:
            for name, ask in ways.items():
                started = time.process_time()
                hits = ask(cue)
                taken[name].append(1e3 * (time.process_time() - started))
                if turn == 0:
                    ids = [int(id) for id in hits.ids]
                    found[name].append([float(np.isin(others, ids[:cut]).mean()) for cut in CUTS])
    return {
        "cues": len(pairs),
        "R@2/5/10": {name: np.mean(values, axis=0).round(4).tolist() for name, values in found.items()},
        "p50 processor ms": {name: float(np.median(values)) for name, values in taken.items()},
    }


def fitted(pool: Pool, training: range, seed: int) -> PredictiveAssociativeIndex:
    """Returns an index of all passages, fitted on the supporting passages of the questions ``known``."""
    index = PredictiveAssociativeIndex(pool.vectors.shape[1])
    ids = [str(at) for at in range(len(pool.texts))]
    index.add(pool.vectors, ids, pool.texts, [{"title": title} for title in pool.titles])
    index.fit([[str(passage) for passage in pool.supporting[at]] for at in training], seed=seed, progress=False)
    return index
