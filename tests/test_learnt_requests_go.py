"""The regression over past requests goes with what it has learnt, whatever removes it, and whenever."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import safetensors.numpy
from engine_servers import fresh_milvus, fresh_postgres
from test_learnt_requests import DIM, weights_of
from test_learnt_requests import copy as copy
from test_learnt_requests import fitted as fitted

from pam_retriever import IndexFormatError, InvalidInput, PredictiveAssociativeIndex
from pam_retriever.experience.feedback import LEARNT_REQUESTS, MIXTURE
from pam_retriever.retrieval.mixture import learnt_fitting
from pam_retriever.store.sqlite.database import SQLiteDatabase


def bound(index: PredictiveAssociativeIndex) -> None:
    index.set_capacity(20)
    index.add(np.ones((1, DIM)), ["one more"])


@pytest.mark.parametrize("change", [lambda index: index.prune(20), bound], ids=["pruned", "beyond the capacity"])
def test_it_goes_with_the_weakest_memories(copy, change):
    assert weights_of(copy) is not None
    change(copy)
    assert len(copy) == 20
    assert weights_of(copy) is None and copy._store.database.settings.get(LEARNT_REQUESTS) is None
    assert copy.recall(np.ones(DIM), k=3, text="please")


def meanwhile(monkeypatch, change) -> None:
    """Runs ``change`` after a fit has read the requests, and before it stores what it learnt."""
    fit = learnt_fitting.fit_feedback

    def fit_and_change(*given):
        result = fit(*given)
        change()
        return result

    monkeypatch.setattr(learnt_fitting, "fit_feedback", fit_and_change)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda index: index.delete_feedback("r3"),
        lambda index: index.feedback(np.ones(DIM), ["t1"], text="changed", id="r3"),
        lambda index: index.delete("t1"),
        lambda index: index.prune(39),
    ],
    ids=["deleted", "replaced", "a memory deleted", "a memory pruned"],
)
def test_what_is_removed_during_a_fit_is_in_no_weights_after_it(copy, monkeypatch, change):
    meanwhile(monkeypatch, lambda: change(copy))
    copy.fit(progress=False)
    assert weights_of(copy) is None and copy._store.database.settings.get(LEARNT_REQUESTS) is None
    assert copy._store.database.settings.get(MIXTURE) is not None


def test_a_fit_that_ends_after_all_feedback_is_gone_stores_nothing_of_it(copy, monkeypatch):
    meanwhile(monkeypatch, lambda: copy.delete_feedback(where={}))
    copy.fit(progress=False)
    settings = copy._store.database.settings
    assert weights_of(copy) is None
    assert settings.get(LEARNT_REQUESTS) is None and settings.get(MIXTURE) is None


@pytest.mark.parametrize("from_scratch", [False, True])
def test_a_fit_without_any_feedback_left_removes_what_was_learnt_from_it(copy, from_scratch):
    """There are no trajectories, either; the next fit has nothing to remove, and says so."""
    copy.delete_feedback(where={})
    assert copy.fit(from_scratch=from_scratch, progress=False).requests == 0
    settings = copy._store.database.settings
    assert settings.get(MIXTURE) is None and settings.get(LEARNT_REQUESTS) is None
    report = copy.last_fit()
    assert report.requests == 0 and not report.validation.worths
    with pytest.raises(InvalidInput, match="no trajectories"):
        copy.fit(from_scratch=from_scratch, progress=False)


def test_no_commit_of_a_fit_holds_weights_of_a_removed_request(copy, monkeypatch):
    """So a fit that is killed leaves none, either."""
    transaction, held = SQLiteDatabase.transaction, []

    @contextmanager
    def observed(database):
        with transaction(database):
            yield
        held.append(weights_of(copy) is not None)

    meanwhile(monkeypatch, lambda: copy.delete_feedback("r3"))
    monkeypatch.setattr(SQLiteDatabase, "transaction", observed)
    copy.fit(progress=False)
    assert held and not any(held)


@pytest.mark.parametrize(
    "damaged",
    [
        lambda about: list(about),
        lambda about: {**about, "last": 2**70},
        lambda about: {**about, "memories": [2**70]},
        lambda about: {**about, "memories": {}},
    ],
    ids=["a list", "a large number", "a large row", "no rows"],
)
def test_weights_with_a_damaged_setting_go_with_the_next_deletion(copy, damaged):
    about = copy._store.database.settings.get(LEARNT_REQUESTS)
    copy._store.set_setting(LEARNT_REQUESTS, damaged(about))
    assert copy.delete_feedback("r3") == 1
    assert weights_of(copy) is None


def test_weights_whose_sums_are_too_large_are_reported(copy):
    settings = copy._store.database.settings
    arrays = safetensors.numpy.load(settings.weights(LEARNT_REQUESTS))
    arrays["weights"] = np.full_like(arrays["weights"], 3e38)
    copy._store.set_setting(LEARNT_REQUESTS, settings.get(LEARNT_REQUESTS), safetensors.numpy.save(arrays))
    copy._evidence.clear()
    with pytest.raises(IndexFormatError, match="Fit again"):
        copy.recall(np.ones(DIM), text="please")


@pytest.mark.parametrize("fresh", [fresh_postgres, pytest.param(fresh_milvus, marks=pytest.mark.slow)])
def test_an_engine_forgets_it_with_the_weakest_memories(fresh):
    with PredictiveAssociativeIndex(DIM, fresh()) as index:
        ids = index.add(np.eye(DIM)[:5])
        index.feedback(np.ones(DIM), ids[:1])
        rows = index._store.database.memories.rows().tolist()
        about = {"requests": 1, "last": 10**6, "memories": rows, "mixture": {}}
        index._store.set_setting(LEARNT_REQUESTS, about, b"weights")
        assert weights_of(index) is not None
        index.prune(keep=3)
        assert weights_of(index) is None and index._store.database.settings.get(LEARNT_REQUESTS) is None
