"""Epsilon-ball recall (pam.tex 3.6): a threshold instead of a number of hits.

Moments at the ends of an episode have half as many associates as moments in its middle. A stranger is a memory without
any trajectory, so it has no associates. The threshold of scores and the best fixed k are chosen on one half of the
cues, by the best F1, and reported on the other half; the choice does not use strangers. A calibrated threshold needs no
choice: confidence .5 is the point where a hit is as likely right as wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.worlds.persistent import WINDOW, build
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.experience.cooccurrence import associate
from pam_retriever.types import Hit

CUES, STRANGERS = 400, 100
MOST, AS_LIKELY_AS_NOT = 30, 0.5


def run(seed: int) -> dict[str, Any]:
    world = build(seed, episodes=150, entities=45)
    random = np.random.default_rng(seed)
    strangers = random.standard_normal((STRANGERS, world.states.shape[1])).astype(np.float32)
    strangers *= np.linalg.norm(world.states, axis=1).mean() / np.linalg.norm(strangers, axis=1, keepdims=True)
    graph = associate(world.experience(), len(world.states), WINDOW)
    met = [{str(row) for row in rows} for rows in np.split(graph.indices, graph.indptr[1:-1])]
    cues = [str(cue) for cue in random.permutation(len(world.states))[:CUES]]
    tables: dict[str, dict[str, dict[str, float]]] = {}
    settings: dict[str, float] = {}
    shuffled = random.permutation(world.episodes.ravel()).reshape(world.episodes.shape)
    for title, episodes in (("as it was", world.episodes), ("time shuffled", shuffled)):
        index = PredictiveAssociativeIndex(dim=world.states.shape[1])
        index.add(world.states, [str(row) for row in range(len(world.states))])
        index.add(strangers, [f"stranger {n}" for n in range(STRANGERS)])
        trips = [[str(row) for row in episode] for episode in episodes]
        index.fit(trips, window=WINDOW, config=FitConfig(hidden=256, passes=100), progress=False)
        fold, test = cues[: CUES // 2], cues[CUES // 2 :]
        if not settings:  # the control uses the settings chosen for the real index
            plain = index.recall(fold, k=MOST)
            scores = np.unique(np.round([hit.score for hits in plain for hit in hits], 2))
            f1 = {
                s: evaluate([[h.id for h in hits if h.score >= s] for hits in plain], fold, met)["F1"] for s in scores
            }
            best_k = {
                k: evaluate([[h.id for h in hits[:k]] for hits in plain], fold, met)["F1"] for k in range(1, MOST + 1)
            }
            settings = {"min_score": float(max(f1, key=f1.get)), "k": max(best_k, key=best_k.get)}  # type: ignore[arg-type]
        ball, first = {"k": None, "min_score": settings["min_score"]}, {"k": int(settings["k"])}
        for name, options, confident in (
            (f"min_score={settings['min_score']:.2f}", ball, 0.0),
            (f"k={settings['k']:.0f}", first, 0.0),
            (f"confidence >= {AS_LIKELY_AS_NOT}", {"k": MOST}, AS_LIKELY_AS_NOT),
        ):
            found = true_share(index.recall(test, **options), confident)
            column = evaluate(found, test, met)
            column["hits"] = float(np.mean([len(ids) for ids in found]))
            nobody = true_share(index.recall([f"stranger {n}" for n in range(STRANGERS)], **options), confident)
            column["hits of a stranger"] = float(np.mean([len(ids) for ids in nobody]))
            tables.setdefault("against who was met", {})[f"{name}, {title}"] = column
    return {"chosen": settings, "tables": tables}


def true_share(answers: list[list[Hit]], confident: float) -> list[list[str]]:
    return [[hit.id for hit in hits if confident <= (hit.confidence or 0)] for hits in answers]


def evaluate(found: list[list[str]], cues: list[str], met: list[set[str]]) -> dict[str, float]:
    right = sum(len(met[int(cue)] & set(ids)) for cue, ids in zip(cues, found, strict=True))
    precision = right / max(sum(map(len, found)), 1)
    recall = right / sum(len(met[int(cue)]) for cue in cues)
    return {"precision": precision, "recall": recall, "F1": 2 * precision * recall / max(precision + recall, 1e-9)}
