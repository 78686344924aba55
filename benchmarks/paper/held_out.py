"""Held-out query states: training never uses 20 % of the states as queries (pam.tex 5.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.baselines.graph import co_occurrences
from benchmarks.paper import reference
from benchmarks.paper.fits import trained, under
from benchmarks.paper.main_table import ROWS
from benchmarks.paper.partial import Partial, plain
from benchmarks.paper.protocol import choose_queries, evaluate
from benchmarks.paper.setting import WINDOW, Setting
from benchmarks.paper.tables import Table
from pam_retriever import Channels

TRAINED, HELD_OUT = "trained anchors", "held-out anchors"


def run(setting: Setting) -> list[Table]:
    parts = setting.parts("held_out")
    columns: dict[str, dict[str, Any]] = {}
    if setting.protocol == "strict":
        columns |= parts.get("exact graph", lambda: _exact(setting))
    # the score of recall, and the paper's score alone
    for name, forward_only in (("joint", False), ("forward only", True)):
        if not setting.seeds or (forward_only and setting.fit_config.objective != "joint"):
            continue  # the published recipe has no other objective
        found = parts.get(f"trained on {name}", lambda forward_only=forward_only: _fit(setting, forward_only))
        columns |= {f"{column} (trained on {name})": values for column, values in found["columns"].items()}
    published = reference.HELD_OUT if setting.published_world else {}
    return [Table("Held-out query states", ROWS, columns, published)]


def split(setting: Setting) -> np.ndarray:
    """Returns (M,) whether a state is among the 80 % that are queries in training, as published."""
    order = np.arange(len(setting.world.states))
    np.random.RandomState(42).shuffle(order)
    anchors = np.zeros(len(order), bool)
    anchors[order[: int(len(order) * 0.8)]] = True
    return anchors


def _fit(setting: Setting, forward_only: bool) -> dict[str, Any]:
    anchors = split(setting)
    partial = Partial(anchors[setting.associations.anchors()], anchors)
    config = replace(plain(setting), code=0) if forward_only else plain(setting)
    name = "held-out forward" if forward_only else "held-out"
    fitted = trained(setting, setting.seeds[0], name, config=config, partial=partial)
    columns = {}
    for channel, channels in {**fitted.channels, "forward + reverse": Channels(forward=1, reverse=1)}.items():
        for which, only in ((TRAINED, anchors), (HELD_OUT, ~anchors)):
            queries = choose_queries(setting.world, WINDOW, only=np.flatnonzero(only))
            scores = under(setting.protocol, fitted.scores(channels))
            columns[f"{which}: {channel}"] = evaluate(scores, queries, setting.world)
    return {"fit": fitted.report, "columns": columns}


def _exact(setting: Setting) -> dict[str, Any]:
    """Scores by the rows or columns of the cues in the table of trained associations."""
    anchors = split(setting)
    graph = co_occurrences(setting.experience, len(anchors), WINDOW).tolil()
    graph[np.flatnonzero(~anchors)] = 0
    graph = graph.tocsr()
    queries = choose_queries(setting.world, WINDOW, only=np.flatnonzero(~anchors))
    ways = {"row": graph, "column": graph.T.tocsr()}
    return {
        f"{HELD_OUT}: exact graph, by {way}": evaluate(
            under(setting.protocol, lambda rows, table=table: table[rows].toarray()), queries, setting.world
        )
        for way, table in ways.items()
    }
