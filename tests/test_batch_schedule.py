"""The batches of a training are drawn pass by pass, and equal the batches of a plan that is drawn at once."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever import FitConfig, InvalidInput, PredictiveAssociativeIndex
from pam_retriever.store.last_fit import from_stored, to_stored
from pam_retriever.training.schedule import Schedule
from pam_retriever.training.shards import InMemoryShards, Shards

IDS = [f"m{n}" for n in range(12)]
VECTORS = np.random.default_rng(3).standard_normal((12, 4)).astype(np.float32)


class Passes:
    """Shards that have the given number of batches in each pass."""

    def __init__(self, lengths: list[int], whole: bool = False) -> None:
        self.lengths, self.whole, self.drawn = lengths, whole, 0

    def generator(self, purpose: int, turn: int = 0) -> int:
        return turn

    def of_pass(self, turn: int) -> list[np.ndarray]:
        self.drawn += 1
        return [np.array([turn, position]) for position in range(self.lengths[turn % len(self.lengths)])]


def schedule(shards: Passes, passes: int, stop: int | None = None) -> Schedule:
    made: Shards = shards  # type: ignore[assignment]
    return Schedule(made, shards.of_pass(0), passes, stop)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 6), st.data())
def test_the_turns_are_those_of_a_whole_plan(lengths, stop, data):
    passes = len(lengths)
    turns = [(at, [at, position]) for at in range(min(stop, passes)) for position in range(lengths[at])]
    if passes == 1 and len(turns) > 1:
        turns.append((0, [0, 0]))
    done = data.draw(st.integers(0, len(turns)))
    found = list(schedule(Passes(lengths), passes, stop).after(done))
    assert [(turn.at, turn.blocks.tolist()) for turn in found] == turns[done:]
    assert [turn.first for turn in found] == [at < lengths[0] for at in range(done, len(turns))]


@given(st.integers(1, 4), st.integers(1, 6), st.booleans())
def test_passes_of_one_length_are_as_far_as_in_a_whole_plan(length, passes, whole):
    length = 1 if whole else length
    made = schedule(Passes([length], whole), passes)
    again = passes == 1 and length > 1
    assert len(made) == passes * length + again
    found = [(turn.before, turn.turns) for turn in made.after(0)]
    assert found == [(at, passes * length + again) for at in range(passes * length + again)]


def test_a_fit_that_a_clock_ends_does_not_draw_the_passes_after_it(monkeypatch):
    drawn, real = [], InMemoryShards.of_pass

    def of_pass(self, random):
        drawn.append(1)
        assert len(drawn) < 10_000, "all of ten million passes are drawn"
        return real(self, random)

    monkeypatch.setattr(InMemoryShards, "of_pass", of_pass)
    with PredictiveAssociativeIndex(4) as index:
        index.add(VECTORS, IDS)
        config = FitConfig(hidden=8, passes=10_000_000)
        report = index.fit([IDS], config=config, time_budget=0.05, progress=False)
    assert report.stopped_by == "time_budget"


def test_the_old_name_of_the_holdout_warns_and_means_the_same():
    with pytest.warns(DeprecationWarning, match="called holdout now"):
        old = FitConfig(hidden=8, probation=0.25)
    assert old == FitConfig(hidden=8, holdout=0.25)
    with pytest.warns(DeprecationWarning, match="called holdout now"):
        assert old.probation == 0.25
    with pytest.warns(DeprecationWarning, match="holdout"), pytest.raises(InvalidInput, match="both"):
        FitConfig(probation=0.25, holdout=0.25)
    with pytest.raises(AttributeError, match="held"):
        _ = old.held


def test_what_earlier_versions_stored_under_the_old_name_is_read():
    with PredictiveAssociativeIndex(4) as index:
        index.add(VECTORS, IDS)
        config = FitConfig(hidden=8, passes=2)
        report = index.fit([IDS], config=config, progress=False)
        kept = index._store.database.settings.get("model")["recipe"]
        assert kept["probation"] == config.holdout
        assert "holdout" not in kept
        assert index.fit(config=config, progress=False).stopped_by == "nothing new"
        stored = json.loads(json.dumps(to_stored(report)))
        stored["config"]["probation"] = stored["config"].pop("holdout")
        assert from_stored(stored).config == report.config
