"""Noise robustness, which the paper does not test: noisy queries, and noisy stored states."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.baselines.base import Recognising
from benchmarks.baselines.counts import Counts
from benchmarks.baselines.similarity import Similarity
from benchmarks.paper.fits import CHANNELS, JOINT, index_of
from benchmarks.paper.protocol import Queries, Ranks, evaluate_ranks, ranks_of
from benchmarks.paper.setting import WINDOW, Setting
from benchmarks.paper.tables import Columns, Table, mean_of
from pam_retriever import Channels, PredictiveAssociativeIndex
from pam_retriever.model.keys import unit
from pam_retriever.types import Float32, Int64

QUERY_NOISE = (0.0, 0.1, 0.3, 0.6, 0.8, 1.0)  # standard deviation per dimension; the world's own is 0.3
STORED_NOISE = (0.3, 0.6, 1.0)
QUERIES = 200  # per metric
Ask = Callable[[Float32], Float32]
"""Scores every memory for any vectors: (Q, d) -> (Q, M)."""


def run(setting: Setting) -> list[Table]:
    if not setting.seeds or setting.protocol == "published":  # the paper has no protocol for noise
        return []
    parts = setting.parts("noise")
    runs = [parts.get(f"query noise, seed {seed}", lambda seed=seed: _queries(setting, seed)) for seed in setting.seeds]
    curves = {name: {level: mean_of([one[name][level] for one in runs]) for level in runs[0][name]} for name in runs[0]}
    stored = {
        f"{level}": parts.get(f"stored noise {level}", lambda level=level: _stored(setting, level))
        for level in STORED_NOISE
    }
    others = {name: {level: found[name] for level, found in stored.items()} for name in stored["0.3"]}
    return [
        *tables(curves, "Query noise"),
        *tables(others, f"Noise on the stored states, training seed {setting.seeds[0]}"),
    ]


def tables(curves: dict[str, dict[str, dict[str, float]]], title: str) -> list[Table]:
    """Returns one table per metric: a line per method, a column per noise level."""
    levels = list(next(iter(curves.values())))
    return [
        Table(
            f"{title}: {row}", levels, {name: {at: curve[at][row] for at in levels} for name, curve in curves.items()}
        )
        for row in ("AP@1", "R@20", "CBR@20")
    ]


def curve(ask: Ask, setting: Setting) -> dict[str, dict[str, float]]:
    """Returns recall by level of query noise."""
    return {
        str(level): evaluate_ranks(ranks_of(_asked(ask, setting, level)), chosen(setting), setting.world)
        for level in QUERY_NOISE
    }


def chosen(setting: Setting) -> Queries:
    return setting.queries.first(QUERIES)


def noisy(setting: Setting, level: float) -> Callable[[Int64], Float32]:
    """Returns the query states with noise; all levels and methods scale the same random draw."""
    among = chosen(setting).union()
    # not the legacy generator: with seed 42 it would repeat the draws of the world
    noise = np.random.default_rng(0).standard_normal((len(among), setting.world.states.shape[1]), np.float32)
    return lambda rows: setting.world.states[rows] + np.float32(level) * noise[np.searchsorted(among, rows)]


def _asked(ask: Ask, setting: Setting, level: float) -> Callable[[Int64], Float32]:
    cues = noisy(setting, level)

    def scores(rows: Int64) -> Float32:
        found = ask(cues(rows))
        if setting.protocol == "strict":
            found[np.arange(len(rows)), rows] = -np.inf
        return found

    return scores


def _recalled(index: PredictiveAssociativeIndex, cues: Callable[[Int64], Float32], channels: Channels | None) -> Ranks:
    """Returns the ranks by ``recall``, without the state that the query is a view of."""

    def ranks(rows: Int64) -> list[Int64]:
        hits = index.recall_many(cues(rows), k=21, channels=channels)
        found = [np.array([int(hit.id) for hit in one]) for one in hits]
        return [ids[ids != row][:20] for ids, row in zip(found, rows, strict=True)]

    return ranks


def _queries(setting: Setting, seed: int) -> Columns:
    index, fitted = index_of(setting, seed)
    columns: Columns = {}
    for name, channels in {"default recall": None, f"{JOINT}, completed cue": CHANNELS[JOINT]}.items():
        columns[name] = {
            str(level): evaluate_ranks(
                _recalled(index, noisy(setting, level), channels), chosen(setting), setting.world
            )
            for level in QUERY_NOISE
        }
    for name in ("forward", JOINT):
        channels = CHANNELS[name]
        columns[f"{name}, bare cue"] = curve(
            lambda cues, channels=channels: fitted.score(channels, unit(cues), fitted.predict(cues)), setting
        )
    columns["forward, nearest memory"] = curve(
        lambda cues: _nearest(fitted.units, cues, fitted.scores(CHANNELS["forward"])), setting
    )
    return columns


def _nearest(units: Float32, cues: Float32, scores: Callable[[Int64], Float32]) -> Float32:
    return scores((unit(cues) @ units.T).argmax(axis=1))


def _stored(setting: Setting, level: float) -> dict[str, dict[str, float]]:
    """Measures noisy stored states: all methods learn the noisy states, and queries are the states without noise."""
    states = setting.world.states
    noise = np.random.default_rng(1).standard_normal(states.shape, np.float32)
    blurred = states + np.float32(level) * noise
    index, fitted = index_of(setting, setting.seeds[0], f"stored-noise-{level}", blurred)
    queries, world = chosen(setting), setting.world
    columns = {
        "default recall": _recalled(index, lambda rows: states[rows], None),
        f"{JOINT}, completed cue": _recalled(index, lambda rows: states[rows], CHANNELS[JOINT]),
    }
    found = {name: evaluate_ranks(ranks, queries, world) for name, ranks in columns.items()}
    counts, cosine = Counts(), Similarity()
    counts.fit(setting.experience, blurred, WINDOW)
    cosine.fit(setting.experience, blurred, WINDOW)
    asks: dict[str, Ask] = {
        "forward, bare cue": lambda cues: fitted.score(CHANNELS["forward"], unit(cues), fitted.predict(cues)),
        "exact graph of the nearest memory": Recognising(counts, blurred).scores_of,
        "cosine": cosine.scores_of,
    }
    for name, ask in asks.items():
        found[name] = evaluate_ranks(ranks_of(_asked(ask, setting, 0.0)), queries, world)
    return found
