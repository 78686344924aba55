"""Every experiment of the architecture and of JEPA runs in a small world, by the command that the notes name."""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import QUICK

from benchmarks.architecture.__main__ import NAMES
from benchmarks.jepa import __main__ as jepa
from benchmarks.worlds import paper

pytestmark = pytest.mark.slow
# what is smaller in each experiment: its constants, and the arguments of its world
CONSTANTS: dict[str, dict[str, Any]] = {
    "bridging": {"CUES": 20},
    "familiarity": {"CUES": 20},
    "salience": {"EVENTS": 2, "ROUTINE": 30, "SHORT": QUICK},
    "decay": {"SIZES": (2_000, 4_000), "CUES": 10, "TRAINED": 40, "RECENT": 50},
    "streaming": {"STATES": 8_000, "CAPACITY": 2_000, "TRAINED": 1_000, "MARKS": (2_000, 4_000, 8_000)}
    | {"CUES": 10, "RECENT": 50, "CONFIG": QUICK},
    "specificity": {"DAYS": 15, "CUES": 10, "LISTED": 20},
    "imagination": {"CUES": 20, "PAPERS_LOSS": QUICK},
    "thresholds": {"CUES": 20, "STRANGERS": 10},
    "switched_on": {},
}
WORLDS: dict[str, dict[str, int]] = {
    "bridging": {"episodes": 60, "entities": 15},
    "familiarity": {"episodes": 30},
    "salience": {"episodes": 40},
    "decay": {"routines": 20},
    "streaming": {"routines": 20},
    "imagination": {"episodes": 30},
    "thresholds": {"episodes": 30, "entities": 10},
}


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_of_the_architecture(ran, monkeypatch, name):
    experiment = importlib.import_module(f"benchmarks.architecture.{name}")
    small: dict[str, Any] = dict(CONSTANTS[name])
    if hasattr(experiment, "FitConfig"):
        small["FitConfig"] = lambda **_: QUICK
    if name in WORLDS:
        build = experiment.build
        small["build"] = lambda seed, **given: build(seed, **(given | WORLDS[name]))
    for constant, value in small.items():
        monkeypatch.setattr(experiment, constant, value)
    if name == "switched_on":
        world = paper.build(42, 5)
        monkeypatch.setattr(paper, "build", lambda *_: world)
    assert ran("benchmarks.architecture.__main__", name)[f"architecture/{name}"]["tables"]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    """Returns the folder of the models, which several experiments share."""
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize("name", jepa.EXPERIMENTS)
def test_an_experiment_of_jepa(ran, monkeypatch, tmp_path, models, name):
    small = {"setup.QUERIES": 40, "prediction.STARTS": 20, "surprise.EPISODES": 6, "association.FIT": QUICK}
    for constant, value in small.items():
        monkeypatch.setattr(f"benchmarks.jepa.{constant}", value)
    monkeypatch.setattr(jepa, "Setup", partial(jepa.Setup, episodes=6))
    folders = (f"--models={models}", f"--results={tmp_path}")
    found = ran("benchmarks.jepa.__main__", name, "--passes=1", "--device=cpu", *folders)
    assert found[f"jepa/{name}"]["columns"]
