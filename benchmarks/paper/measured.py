"""One baseline, fitted once, measured under both protocols: quality, cost, memory, noise."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.baselines import TRAINED, UNTRAINED
from benchmarks.baselines.base import Baseline, OnVectors, Recognising
from benchmarks.baselines.bilinear import PublishedBilinear
from benchmarks.paper import noise
from benchmarks.paper.fits import under
from benchmarks.paper.protocol import evaluate
from benchmarks.paper.setting import PROTOCOLS, WINDOW, Setting

COST = ["fit, s", "a query, ms", "numbers kept, millions"]
PASSES, PUBLISHED_PASSES = 40, 200
TIMED = 100  # queries
BILINEAR = "bilinear, as published"


def baselines(setting: Setting) -> dict[str, Callable[[], Baseline]]:
    """Returns all baselines; the trained ones use the setting's passes."""
    passes = setting.passes or PASSES
    trained = {name: lambda make=make: make(passes) for name, make in TRAINED.items()}
    published = {BILINEAR: lambda: PublishedBilinear(epochs=setting.passes or PUBLISHED_PASSES)}
    return {**UNTRAINED, **trained, **published}


def measured(setting: Setting, name: str) -> dict[str, Any]:
    """Returns the figures of one baseline under the setting's protocol, also with noise.

    Returns:
        "figures": rows of the main table and of ``COST``; "noise": recall by noise level, where the nearest memory
        replaces the noisy cue; "noise, bare": recall from the noisy cue itself, if the baseline supports it.
    """
    passes = f"-passes{setting.passes}" if setting.passes else ""
    both = replace(setting, protocol="both", config="baselines", passes=None, stop_after=None)
    found = both.parts(f"measured{passes}").get(name, lambda: _measure(setting, baselines(setting)[name]()))
    return {"figures": found[setting.protocol] | found["cost"]} | {
        kind: found[kind] for kind in ("noise", "noise, bare") if kind in found
    }


def _measure(setting: Setting, baseline: Baseline) -> dict[str, Any]:
    states = setting.world.states
    started = time.perf_counter()
    baseline.fit(setting.experience, states, WINDOW)
    fitted = time.perf_counter() - started
    timed = setting.queries.precision[:TIMED]
    started = time.perf_counter()
    baseline.scores(timed)
    seconds = time.perf_counter() - started
    cost = (fitted, 1000 * seconds / len(timed), baseline.floats() / 1e6)
    strict = replace(setting, protocol="strict")
    found: dict[str, Any] = {"cost": dict(zip(COST, cost, strict=True))}
    for protocol in PROTOCOLS:
        found[protocol] = evaluate(under(protocol, baseline.scores), setting.queries, setting.world)
    found["noise"] = noise.curve(Recognising(baseline, states).scores_of, strict)
    if isinstance(baseline, OnVectors):
        found["noise, bare"] = noise.curve(baseline.scores_of, strict)
    return found
