"""Familiarity (pam.tex 3.8): does a baseline of expected co-occurrence find the signal in clutter?

In the cluttered world every second step is a background that is always there; the clean world has no background.
Recall should find the moments that were experienced together with the cue. "raw counts" and "PMI" rank by the exact
co-occurrence without any learning.
"""

from __future__ import annotations

from typing import Any, Literal
from unittest import mock

import numpy as np

from benchmarks.worlds.cluttered import DIM, WINDOW, World, build
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.experience import weighting
from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.experience.weighting import step_counts, unfamiliarity
from pam_retriever.types import Float32, Int64

CUES = 400


def run(seed: int) -> dict[str, Any]:
    tables = {}
    for title, background in (("cluttered world", 20), ("clean world", 0)):
        world = build(seed, episodes=250, background=background)
        relevant = world.relevant()
        cues = np.array([row for row in range(background, len(world.states)) if len(relevant[row]) >= 2])
        cues = np.random.default_rng(seed).permutation(cues)[:CUES]
        shuffled = World(world.states, time_shuffled(world, seed), background)
        found = {
            "raw counts": exact(world, cues, "none", seed),
            "PMI": exact(world, cues, "log", seed),
            "fit": recalled(world, cues, "none"),
            "fit, difference (the paper's)": recalled(world, cues, "difference"),
            "fit, log": recalled(world, cues, "log"),
        }
        if background:
            found["fit, log, weights shuffled"] = with_shuffled_weights(world, cues, seed)
            found["fit, log, time shuffled"] = recalled(shuffled, cues, "log")
        tables[title] = {name: evaluate(world, cues, relevant, rows) for name, rows in found.items()}
    return {"tables": tables}


def experience(world: World) -> Experience:
    count, length = world.episodes.shape
    return Experience(world.episodes.ravel(), np.repeat(np.arange(count), length), np.tile(np.arange(length), count))


def exact(world: World, cues: Int64, scale: Literal["none", "log"], seed: int) -> list[Int64]:
    """Ranks the associates of each cue by their count, or by the ratio of the count to the baseline; ties at random."""
    graph = associate(experience(world), len(world.states), WINDOW)
    counts = step_counts(experience(world), len(world.states))
    one, other = counts[graph.anchors()], counts[graph.indices]
    above = unfamiliarity(graph.co_occurrences, one, other, float(counts.sum()), WINDOW, scale)
    scores = above if scale == "log" else graph.co_occurrences
    random = np.random.default_rng(seed)
    found = []
    for cue in cues:
        mine = slice(graph.indptr[cue], graph.indptr[cue + 1])
        order = np.lexsort((random.random(len(scores[mine])), -scores[mine]))
        found.append(graph.indices[mine][order])
    return found


def recalled(world: World, cues: Int64, familiarity: Literal["none", "log", "difference"]) -> list[Int64]:
    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(world.states, [str(row) for row in range(len(world.states))])
    config = FitConfig(familiarity=familiarity)
    index.fit([[str(row) for row in e] for e in world.episodes], window=WINDOW, config=config, progress=False)
    hits = index.recall([str(cue) for cue in cues], k=20)
    return [np.array([int(hit.id) for hit in one], np.int64) for one in hits]


def with_shuffled_weights(world: World, cues: Int64, seed: int) -> list[Int64]:
    """Runs the control: the weights are shuffled among the associations, in training and in the links."""
    random = np.random.default_rng(seed)

    def shuffled(*arguments: Any) -> Float32:
        return random.permutation(unfamiliarity(*arguments))

    with mock.patch.object(weighting, "unfamiliarity", shuffled):
        return recalled(world, cues, "log")


def time_shuffled(world: World, seed: int) -> Int64:
    return np.random.default_rng(seed).permutation(world.episodes.ravel()).reshape(world.episodes.shape)


def evaluate(world: World, cues: Int64, relevant: list[Int64], found: list[Int64]) -> dict[str, float]:
    first = [rows[: len(relevant[cue])] for cue, rows in zip(cues, found, strict=True)]
    pairs = list(zip(cues, first, found, strict=True))
    return {
        "R-precision": float(np.mean([np.isin(relevant[cue], rows).mean() for cue, rows, _ in pairs])),
        "background among them": float(np.mean([(rows < world.background).mean() for _, rows, _ in pairs])),
        "R@20": float(np.mean([np.isin(relevant[cue], rows[:20]).mean() for cue, _, rows in pairs])),
    }
