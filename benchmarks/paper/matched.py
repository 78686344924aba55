"""Similarity-matched negatives: associates against other states of the same room (pam.tex 5.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import metrics
from benchmarks.baselines.similarity import Similarity
from benchmarks.paper import reference
from benchmarks.paper.fits import index_of
from benchmarks.paper.protocol import Scores
from benchmarks.paper.setting import WINDOW, Setting
from benchmarks.paper.tables import Table, deviation_of, mean_of


def run(setting: Setting) -> list[Table]:
    parts = setting.parts("matched")
    columns = {"cosine": parts.get("cosine", lambda: _cosine(setting))}
    runs = [parts.get(f"seed {seed}", lambda seed=seed: _seed(setting, seed)) for seed in setting.seeds]
    for name in runs[0] if runs else ():
        columns[name] = mean_of([one[name] for one in runs]) | {"queries": runs[0][name]["queries"]}
        if len(runs) > 1:
            columns[name]["SD"] = deviation_of([one[name] for one in runs])["AUC"]
    published = reference.MATCHED if setting.published_world and setting.protocol == "published" else {}
    title = {
        "published": "Same-room associates against all others in the room",
        "strict": "Same-room associates, each against the one in the room that is equally similar to the query",
    }[setting.protocol]
    return [Table(title, ["AUC", "SD", "queries"], columns, published)]


def matched_auc(scores: Scores, setting: Setting) -> dict[str, float]:
    """Returns the mean AUC, and the number of queries.

    Published: the negatives are all other states of the query's room. Strict: the negative of an associate is the other
    state of the room whose cosine to the query is nearest to that of the associate, so similarity cannot separate
    them.
    """
    world, found = setting.world, []
    similarity = Similarity()
    similarity.fit(setting.experience, world.states, WINDOW)
    for query in setting.queries.discrimination:
        room = np.flatnonzero(world.rooms == world.rooms[query])
        associates = setting.queries.associates[query]
        there = associates[world.rooms[associates] == world.rooms[query]]
        others = np.setdiff1d(room, np.append(associates, query))
        if len(there) < 3 or len(others) < 5:
            continue
        row = scores(np.array([query]))[0]
        if setting.protocol == "strict":
            cosine = similarity.scores(np.array([query]))[0]
            others = _matched(cosine, there, others)
        found.append(metrics.auc(row[there], row[others]))
    return {"AUC": float(np.mean(found)), "queries": len(found)}


def _matched(cosine: metrics.Array, there: metrics.Rows, others: metrics.Rows) -> metrics.Rows:
    """Matches each of ``there`` with the nearest of ``others`` by cosine; each of ``others`` is used at most once."""
    left = others.copy()
    chosen = []
    for associate in there:
        best = np.abs(cosine[left] - cosine[associate]).argmin()
        chosen.append(left[best])
        left = np.delete(left, best)
    return np.array(chosen)


def _cosine(setting: Setting) -> dict[str, Any]:
    cosine = Similarity()
    cosine.fit(setting.experience, setting.world.states, WINDOW)
    return matched_auc(cosine.scores, setting)


def _seed(setting: Setting, seed: int) -> dict[str, Any]:
    _, fitted = index_of(setting, seed)
    return {name: matched_auc(fitted.scores(channels), setting) for name, channels in fitted.channels.items()}
