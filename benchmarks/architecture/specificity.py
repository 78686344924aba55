"""Specificity (pam.tex 3.10): one copy of an object among similar copies, on one day among other days.

There are kinds of objects, each with many near-identical copies. On every day copies of some kinds appear among the
moments of that day. The cue is a weighted sum of a view of the kind and a view of a moment of the day. Exactly one
memory is relevant: the copy of that kind on that day. Similarity finds the kind, and association finds the day. The
weight was chosen on seed 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pam_retriever import Channels, FitConfig, PredictiveAssociativeIndex
from pam_retriever.types import Float32, Hit

DIM, WINDOW = 64, 5
KINDS, DAYS, THINGS, MOMENTS = 20, 150, 3, 4  # a day: three objects among four moments
LIKE = 0.3  # norm of the vector that distinguishes a copy from its kind; the vector of the kind has norm 1
KIND_SHARE, NOISE = 0.5, 0.2
CUES, LISTED = 150, 200


def run(seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    kinds = random.standard_normal((KINDS, DIM)) / np.sqrt(DIM)
    things = np.argsort(random.random((DAYS, KINDS)), axis=1)[:, :THINGS]  # the kinds of each day
    copies = kinds[things] + LIKE * random.standard_normal((DAYS, THINGS, DIM)) / np.sqrt(DIM)
    moments = random.standard_normal((DAYS, MOMENTS, DIM)) / np.sqrt(DIM)
    names = [[f"{day}: thing {at}" for at in range(THINGS)] for day in range(DAYS)]
    others = [[f"{day}: moment {at}" for at in range(MOMENTS)] for day in range(DAYS)]
    days = [random.permutation([*names[day], *others[day]]).tolist() for day in range(DAYS)]
    every = [name for day in names for name in day] + [name for day in others for name in day]
    vectors = np.concatenate([copies.reshape(-1, DIM), moments.reshape(-1, DIM)]).astype(np.float32)

    def learn(trips: list[list[str]]) -> PredictiveAssociativeIndex:
        index = PredictiveAssociativeIndex(dim=DIM)
        index.add(vectors, every)
        index.fit(trips, window=WINDOW, config=FitConfig(hidden=256, passes=100), progress=False)
        return index

    index = learn(days)
    shuffled = learn(random.permutation(np.array(days).ravel()).reshape(DAYS, -1).tolist())
    day, thing, moment = (random.integers(0, n, CUES) for n in (DAYS, THINGS, MOMENTS))
    look = kinds[things[day, thing]] + NOISE * random.standard_normal((CUES, DIM)) / np.sqrt(DIM)
    then = moments[day, moment] + NOISE * random.standard_normal((CUES, DIM)) / np.sqrt(DIM)
    mixed = (KIND_SHARE * look + then).astype(np.float32)
    right = [names[d][t] for d, t in zip(day, thing, strict=True)]
    ask: dict[str, Callable[[], list[list[Hit]]]] = {
        "similarity, of the thing alone": lambda: index.search(look, k=LISTED),
        "similarity": lambda: index.search(mixed, k=LISTED),
        "association": lambda: index.recall(mixed, k=LISTED),
        "union (better of both)": lambda: by_maximum(index.recall(mixed, k=len(every), channels=SUM)),
        "sum of both": lambda: index.recall(mixed, k=LISTED, channels=SUM),
        "intersection (specific)": lambda: index.recall(mixed, k=LISTED, mode="specific"),
        "specific, time shuffled": lambda: shuffled.recall(mixed, k=LISTED, mode="specific"),
        "specific, days shuffled in the cues": lambda: index.recall(unrelated(look, then), k=LISTED, mode="specific"),
    }

    def unrelated(object_vectors: Float32, moments_: Float32) -> Float32:
        return (KIND_SHARE * object_vectors + random.permutation(moments_)).astype(np.float32)

    cue_moments = [others[d][m] for d, m in zip(day, moment, strict=True)]  # memories in the cue are not hits
    table = {name: ranks(answers(), right, cue_moments) for name, answers in ask.items()}
    return {"memories": len(every), "copies of a kind": DAYS * THINGS / KINDS, "tables": {"rank of the one": table}}


SUM = Channels(similarity=1.0, forward=0.25, reverse=0.25, mutual=0.5)  # the sum, with the weights of "specific"


def by_maximum(answers: list[list[Hit]]) -> list[list[Hit]]:
    """Returns the hits, sorted by the larger of similarity and association."""
    return [sorted(hits, key=lambda hit: -max(hit.similarity, hit.association or 0.0)) for hits in answers]


def ranks(answers: list[list[Hit]], right: list[str], leave_out: list[str]) -> dict[str, float]:
    """Returns the ranks of the relevant memories; a missing memory gets the rank after the last."""
    listed = [
        [*(hit.id for hit in hits[:LISTED] if hit.id != cue), one]
        for hits, one, cue in zip(answers, right, leave_out, strict=True)
    ]
    found = np.array([ids.index(one) + 1 for ids, one in zip(listed, right, strict=True)], np.float64)
    return {
        "first": float((found == 1).mean()),
        "MRR": float((1 / found).mean()),
        "median rank": float(np.median(found)),
    }
