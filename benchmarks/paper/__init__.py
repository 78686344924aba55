"""The paper's experiments: ``python -m benchmarks.paper <experiment>``."""

from __future__ import annotations

from benchmarks.paper import (
    bridging,
    ceilings,
    chains,
    compared,
    coverage,
    decay,
    edges,
    held_out,
    main_table,
    matched,
    noise,
    resampling,
    selection,
    shuffle,
)

# the order in which ``all`` runs them
EXPERIMENTS = {
    "main": main_table,
    "resampling": resampling,
    "matched": matched,
    "decay": decay,
    "chains": chains,
    "bridging": bridging,
    "held_out": held_out,
    "edges": edges,
    "shuffle": shuffle,
    "noise": noise,
    "compared": compared,
    "coverage": coverage,
    "selection": selection,
    "ceilings": ceilings,
}
