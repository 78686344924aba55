"""Queries and writes work while the weights of the evidence are fitted, and do not change the result."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from conftest import PATIENCE, pause_training

from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.retrieval.mixture import corpus, feedback_evidence, learnt_fitting

DIM, THINGS, REQUESTS = 16, 20, 150
QUICK = FitConfig(hidden=8, passes=2)


def with_feedback(index: PredictiveAssociativeIndex) -> PredictiveAssociativeIndex:
    random = np.random.default_rng(0)
    ids = [f"t{at}" for at in range(THINGS)]
    index.add(random.normal(size=(THINGS, DIM)), ids, [f"thing {at}" for at in range(THINGS)])
    centres, topic = random.normal(size=(5, DIM)), random.integers(0, 5, REQUESTS)
    asked = centres[topic] + 0.3 * random.normal(size=(REQUESTS, DIM))
    index.feedback(asked, [[f"t{at}", f"t{at + 5}"] for at in topic], text=[f"about {at}" for at in topic])
    return index


def new_index(kind: str, path) -> PredictiveAssociativeIndex:
    return with_feedback(
        PredictiveAssociativeIndex(DIM) if kind == "memory" else PredictiveAssociativeIndex.open(path, DIM)
    )


def meanwhile(index: PredictiveAssociativeIndex) -> None:
    """Writes and reads in threads. A waiting writer has precedence over new readers; both must finish."""
    vector = np.ones(DIM)
    for step in range(3):
        index.add(vector[None] + step, [f"new{step}"], ["thing"])
        assert f"new{step}" in index.recall(vector, 40, text="thing").ids
        index.feedback(vector, [f"new{step}", "t3"], text="thing")
        index.delete(f"t{step}")
        assert f"t{step}" not in index.recall(vector, 40, text="thing").ids
        index.observe(["t10", "t11"])


@pytest.mark.parametrize("kind", ["folder", pytest.param("memory", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (corpus, "Corpus"),
        (feedback_evidence, "evidence_of"),
        (learnt_fitting, "fit_feedback"),
        (learnt_fitting, "ask_held_out"),
    ],
)
def test_others_ask_and_write_at_any_step_of_it(tmp_path, monkeypatch, kind, module, name):
    """While a fit pauses at any of its steps, other threads can query and write; its result stays the same."""
    alone = new_index(kind, tmp_path / "alone")
    expected = alone.fit(progress=False).validation
    weights = alone._store.database.settings.get("mixture")
    alone.close()
    step, reached, goes_on = getattr(module, name), threading.Event(), threading.Event()

    def held(*given):
        if threading.current_thread() is fit:
            reached.set()
            assert goes_on.wait(PATIENCE)
        return step(*given)

    monkeypatch.setattr(module, name, held)
    index = new_index(kind, tmp_path / "index")
    reports, done = [], threading.Event()
    fit = threading.Thread(target=lambda: reports.append(index.fit(progress=False)))
    others = threading.Thread(target=lambda: (meanwhile(index), done.set()))
    fit.start()
    try:
        assert reached.wait(PATIENCE)
        others.start()
        assert done.wait(PATIENCE)  # the fit is still paused
        assert not reports
    finally:
        goes_on.set()
        fit.join(PATIENCE)
    assert reports[0].requests == REQUESTS
    assert reports[0].validation == expected
    assert index._store.database.settings.get("mixture") == weights
    index.recall(np.ones(DIM), 5, text="thing")
    index.close()


@pytest.mark.parametrize("kind", ["folder", pytest.param("memory", marks=pytest.mark.slow)])
@pytest.mark.parametrize("gone", ["memory", "trajectory"])
@pytest.mark.parametrize("before", [False, True])
def test_a_fit_knows_what_was_deleted_while_it_trained(tmp_path, monkeypatch, kind, gone, before):
    """The weights were trained on it, so the report of an erasure says so, and the next fit trains without it."""
    index = new_index(kind, tmp_path / "index")
    index.observe_many([[f"t{at}" for at in range(first, first + 5)] for first in range(0, THINGS, 5)])
    if before:  # a deletion before the fit is learnt by it, the one during it is not
        index.fit(config=QUICK, progress=False)
        index.delete("t19")
    trained, goes_on = pause_training(monkeypatch)
    fit = index.fit(config=QUICK, progress=False, background=True)
    assert trained.wait(PATIENCE)
    if gone == "memory":
        assert index.erase("t0").learnt, "these weights are stored later"
    else:
        index.delete_trajectory(index.trajectories()[0].id)
    goes_on.set()
    assert fit.result().steps
    assert index.erase("unknown").learnt
    assert index.fit(config=QUICK, progress=False).steps, "it trains again, without the deleted steps"
    assert not index.erase("unknown").learnt
    index.close()


def test_a_process_that_fits_again_and_again_keeps_one_predictor(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=4) as index:
        index.add(np.eye(4), ids := list("abcd"))
        for seed in range(3):
            index.fit([ids], config=QUICK, seed=seed, from_scratch=True, progress=False)
            assert len(index._store.copies.predictors) == 1
