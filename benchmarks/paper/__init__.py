"""The paper's experiments: ``python -m benchmarks.paper <experiment>``."""

from __future__ import annotations

from benchmarks.paper import edges, held_out, main_table, matched, resampling, shuffle

# in the order in which ``all`` runs them
EXPERIMENTS = {
    "main": main_table,
    "resampling": resampling,
    "matched": matched,
    "shuffle": shuffle,
    "held_out": held_out,
    "edges": edges,
}
