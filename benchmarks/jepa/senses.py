"""The effect of each modality: missing in the cue, and missing everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.jepa.association import ROWS, both, fitted, measure
from benchmarks.jepa.setup import JOINT, Setup
from benchmarks.worlds.multimodal import MISSING
from pam_retriever.jepa import Observations


def missing(setup: Setup) -> dict[str, Any]:
    """Measures recall from cues that lack one sense, or all but one; training had all senses."""
    trained = setup.train("joint", JOINT)
    stored, fresh = both(setup, trained.encoder.encode)
    index = fitted(setup, stored)
    columns = {"all senses": measure(setup, index, fresh)}
    for sense in MISSING:
        columns[f"cue without {sense}"] = measure(setup, index, *_cues(setup, trained.encoder.encode, without=(sense,)))
    for sense in MISSING:
        others = tuple(other for other in MISSING if other != sense)
        columns[f"cue of {sense} alone"] = measure(setup, index, *_cues(setup, trained.encoder.encode, without=others))
    return {"columns": columns, "rows": ROWS}


def ablation(setup: Setup) -> dict[str, Any]:
    """Measures recall without one sense in training, memories and cues."""
    columns = {}
    for sense in MISSING:
        senses = tuple(other for other in MISSING if other != sense)
        without = setup.train(f"joint-no-{sense}", replace(JOINT, settle=0), senses)
        memories, queries = (_only(o, senses) for o in (setup.stored, setup.fresh))
        # a moment without any sense left stays a memory and a cue; its input says that every sense is missing
        columns[f"never {sense}"] = measure(
            setup, fitted(setup, without.encoder.encode(memories)), without.encoder.encode(queries)
        )
    return {"columns": columns, "rows": ROWS}


def _cues(setup: Setup, encode: Any, without: tuple[str, ...]) -> tuple[Any, str, Any]:
    there = np.any([setup.fresh.present[sense] for sense in MISSING if sense not in without], axis=0)
    some = np.flatnonzero(there)
    return encode(setup.fresh[some].without(*without)), "association", setup.cues[some]


def _only(observations: Observations, senses: tuple[str, ...]) -> Observations:
    return Observations({s: observations.values[s] for s in senses}, {s: observations.present[s] for s in senses})
