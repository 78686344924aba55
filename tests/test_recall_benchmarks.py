"""The benchmarks of default recall run at a small size."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.recall import regimes
from benchmarks.training import capacity, recipes
from pam_retriever import FitConfig
from pam_retriever.training import config


@pytest.mark.slow
def test_every_regime_is_measured_with_and_without_each_part():
    columns, sure = regimes.measure(7, FitConfig(hidden=64, passes=3), 0, trajectories=20)
    assert columns["default recall"]["CBR@20"] > columns["default recall, without exact links"]["CBR@20"]
    assert {f"held out, without {part}" for part in ("exact links", *regimes.HINTS)} <= set(columns)
    assert columns["held out"]["AP@20"] != columns["never experienced"]["AP@20"]
    assert sum(sure["default recall"]["hits"]) == 20 * 500


@pytest.mark.slow
def test_increments_are_compared_with_once(ran, monkeypatch):
    monkeypatch.setattr(config, "FEWEST_STEPS", 10)
    monkeypatch.setattr(config, "PASSES", 3)
    (found,) = ran("benchmarks.recall.continual", "--world-seed=7", "--trajectories=20", "--increments=2").values()
    assert [one["states"] for one in found["increments"]] == [1000, 2000]
    assert found["last increment"]["default"]["AP@1"] == 1


@pytest.mark.slow
def test_recipes_are_judged_on_stored_and_on_held_out_cues(ran, monkeypatch):
    monkeypatch.setattr(recipes, "VARIANTS", {"tiny": FitConfig(hidden=64, passes=3)})
    (found,) = ran("benchmarks.training.recipes", "--trajectories=20").values()
    tiny = found["columns"]["tiny"]
    assert tiny["stored, AP@1"] > tiny["held out, AP@1"] > 0
    assert tiny["stored, CBR@20"] > 0.9


def test_the_law_of_capacity_is_found_in_runs_that_follow_it():
    runs = []
    for load in np.geomspace(0.05, 2, 12):
        recall = 1 / (1 + (load / 0.3) ** 2.5)
        runs.append({"associations": load * 1000, "parameters": 1000, "network": {"CBR@20": recall}})
    found = capacity.law(runs, "network")
    assert found["half"] == pytest.approx(0.3, rel=1e-3)
    assert found["steepness"] == pytest.approx(2.5, rel=1e-3)
    assert found["R2 of the logits"] == pytest.approx(1, abs=1e-6)
