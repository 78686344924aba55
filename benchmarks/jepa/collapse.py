"""The effect of stop-gradient and EMA (both, each alone, neither) on the space and on recall."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.jepa.association import ROWS, both, fitted, measure
from benchmarks.jepa.setup import OUTWARD, Setup, health

STILL = replace(OUTWARD, settle=0)
ARMS = {
    "both": ("outward", OUTWARD),
    "stop-gradient alone": ("outward-stop", replace(STILL, momentum=None)),
    "EMA alone": ("outward-ema", replace(STILL, stop_gradient=False)),
    "neither": ("outward-neither", replace(STILL, momentum=None, stop_gradient=False)),
    "neither, variance term": ("outward-variance", replace(STILL, momentum=None, stop_gradient=False, variance=1.0)),
}


def collapse(setup: Setup) -> dict[str, Any]:
    """Trains the outward JEPA alone (its loss has no negatives) in each way, then the inward one over each space."""
    columns, curves = {}, {}
    for name, (senses, config) in ARMS.items():
        trained = setup.train(senses, config)
        stored, fresh = both(setup, trained.encoder.encode)
        columns[name] = {**health(stored), **measure(setup, fitted(setup, stored), fresh)}
        curves[name] = trained.curves
    return {"columns": columns, "rows": ["effective rank", "spread", *ROWS], "curves": curves}
