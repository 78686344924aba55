"""The world and the protocol of the benchmark reproduce the published numbers, to the last digit."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.paper.protocol import choose_queries, evaluate
from benchmarks.worlds.paper import build
from pam_retriever.model.keys import unit


@pytest.mark.slow
def test_the_world_has_the_published_fingerprint():
    assert build(42).fingerprint() == {
        "float32_sum_in_float64": -40553.7554,
        "first_state_first_4": [0.19840227, -0.18388112, 0.2109067, 0.12820891],
        "first_12_rooms": [1] * 11 + [2],
        "sha256_of_room_ids_as_little_endian_int64": (
            "1c74b717c773bb11d653f3b122915cad6d3535c9354bd5ed947359aae3de3264"
        ),
    }


@pytest.mark.slow
def test_associations_are_all_pairs_within_the_window():
    world = build(42)
    pairs = world.associations(window=5)
    assert len(pairs) == 242_500
    assert set(np.unique(pairs[:, 1] - pairs[:, 0])) == {1, 2, 3, 4, 5}
    crossing = world.rooms[pairs[:, 0]] != world.rooms[pairs[:, 1]]
    assert round(float(crossing.mean()), 3) == 0.348


@pytest.mark.slow
def test_the_cosine_row_is_the_published_one():
    world = build(42)
    units = unit(world.states)
    figures = evaluate(lambda rows: units[rows] @ units.T, choose_queries(world), world)
    published = {"AP@1": 0.0, "AP@5": 0.0848, "AP@10": 0.0628, "AP@20": 0.0454, "AUC": 0.7892, "AUC_cross_room": 0.5033}
    assert {name: round(figures[name], 4) for name in published} == published
    assert round(figures["CBR@20"], 5) == 0.00033
