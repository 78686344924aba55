"""70/30 split of the associations: recall of associations that were not in training (pam.tex 5.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from benchmarks import metrics
from benchmarks.baselines.graph import discounted_walks, normalised
from benchmarks.baselines.similarity import Similarity
from benchmarks.paper import reference
from benchmarks.paper.fits import trained
from benchmarks.paper.partial import Partial, plain, subset
from benchmarks.paper.protocol import Scores
from benchmarks.paper.setting import WINDOW, Setting
from benchmarks.paper.tables import Table
from pam_retriever.experience.cooccurrence import Associations
from pam_retriever.types import Int64

TRAINED, HELD_OUT = "trained edges", "held-out edges"


def run(setting: Setting) -> list[Table]:
    parts = setting.parts("edges")
    columns = dict(parts.get("others", lambda: _others(setting)))
    if setting.seeds:
        columns |= parts.get("learned", lambda: _learned(setting))["columns"]
    published = reference.EDGES if setting.published_world else {}
    return [Table("70/30 split of the edges, cross-room associates", ["R@20", "MRR", "queries"], columns, published)]


def split(setting: Setting) -> tuple[np.ndarray, Int64]:
    """Returns (E,) whether each directed association is in training, and the shuffled undirected pairs (E / 2, 2)."""
    pairs = setting.world.associations(WINDOW)
    order = np.arange(len(pairs))
    np.random.RandomState(42).shuffle(order)
    mask = np.zeros(len(pairs), bool)
    mask[order[: int(0.7 * len(pairs))]] = True
    graph, count = setting.associations, len(setting.world.states)
    ends = np.sort(np.stack([graph.anchors(), graph.indices], axis=1), axis=1)
    key = np.sort(pairs, axis=1) @ [count, 1]
    position = np.argsort(key)
    return mask[position[np.searchsorted(key[position], ends @ [count, 1])]], pairs[order]


def cross_room_recall(scores: Scores, setting: Setting, relevant: Associations, known: Associations | None) -> dict:
    """Returns mean R@20 and MRR of cross-room associates in ``relevant``, over 300 queries with at least 3 of them.

    Args:
        scores: function from stored cues to their scores.
        setting: "published" takes the first 300 queries in the order of the split's list, "strict" a sample.
        relevant: the edges to find.
        known: edges whose ends the ranking leaves out, because they would displace others.
    """
    rooms = setting.world.rooms
    ends = [a[rooms[a] != rooms[q]] for q, a in enumerate(np.split(relevant.indices, relevant.indptr[1:-1]))]
    if setting.protocol == "published":
        _, pairs = split(setting)
        _, first = np.unique(pairs, return_index=True)
        order = pairs.reshape(-1)[np.sort(first)]
    else:
        order = np.random.RandomState(42).permutation(len(rooms))
    chosen = [q for q in order if len(ends[q]) >= 3][:300]
    recalls, ranks = [], []
    for query in chosen:
        row = scores(np.array([query]))[0]
        if setting.protocol == "strict":
            row[query] = -np.inf
            if known is not None:
                row[known.indices[known.indptr[query] : known.indptr[query + 1]]] = -np.inf
        recalls.append(metrics.recall(metrics.top(row[None], 20)[0], ends[query]))
        ranks.append(metrics.reciprocal_rank(row, ends[query]))
    return {"R@20": float(np.mean(recalls)), "MRR": float(np.mean(ranks)), "queries": len(chosen)}


def _learned(setting: Setting) -> dict[str, Any]:
    mask, _ = split(setting)
    fitted = trained(setting, setting.seeds[0], "edges", config=plain(setting), partial=Partial(mask))
    columns = {}
    for name, channels in fitted.channels.items():
        columns |= _both(name, fitted.scores(channels), setting, mask)
    return {"fit": fitted.report, "columns": columns}


def _others(setting: Setting) -> dict[str, Any]:
    """Scores by cosine, and by walks of two steps on the trained edges, which close triangles."""
    mask, _ = split(setting)
    cosine = Similarity()
    cosine.fit(setting.experience, setting.world.states, WINDOW)
    columns = _both("cosine", cosine.scores, setting, mask)
    if setting.protocol == "strict":
        part = subset(setting.associations, mask)
        ones = np.ones(len(part), np.float32)
        transition = normalised(sparse.csr_array((ones, part.indices, part.indptr), 2 * (len(setting.world.states),)))
        columns |= _both(
            "two steps on the trained edges",
            lambda rows: discounted_walks(transition, rows, np.array([0, 1], np.float32)),
            setting,
            mask,
        )
    return columns


def _both(name: str, scores: Scores, setting: Setting, mask: np.ndarray) -> dict[str, Any]:
    seen, unseen = subset(setting.associations, mask), subset(setting.associations, ~mask)
    return {
        f"{TRAINED}: {name}": cross_room_recall(scores, setting, seen, None),
        f"{HELD_OUT}: {name}": cross_room_recall(scores, setting, unseen, seen),
    }
