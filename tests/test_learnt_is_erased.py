"""What ``fit`` learnt from erased memories is erased with the last of them: weights, calibrations, and the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE, QUICK, pause_training
from engine_servers import ENGINES, fresh_engine

from pam_retriever import InvalidInput, NotFitted, PredictiveAssociativeIndex, Trajectory
from pam_retriever.store.folder import weights
from pam_retriever.store.folder.repair import check
from pam_retriever.store.sqlite.database import SQLiteDatabase

DIM = 16
LEARNT = {"model", "next", "mixture", "spread", "last_fit"}
IDS = [f"m{number:03}" for number in range(120)]
OTHERS = [f"other{number}" for number in range(10)]  # never experienced


def fill(index: PredictiveAssociativeIndex, feedback: bool = True) -> PredictiveAssociativeIndex:
    random = np.random.default_rng(0)
    index.add(random.standard_normal((len(IDS), DIM)), IDS, [f"text {id}" for id in IDS])
    index.add(random.standard_normal((len(OTHERS), DIM)), OTHERS, [f"text {id}" for id in OTHERS])
    index.observe_many([Trajectory(IDS[at : at + 6], id=f"session {at}") for at in range(0, 120, 6)])
    if feedback:
        index.feedback(
            random.standard_normal((40, DIM)), [[id] for id in IDS[:40]], text=[f"ask {n}" for n in IDS[:40]]
        )
    index.fit(window=2, config=QUICK, progress=False)
    return index


def traces(index: PredictiveAssociativeIndex) -> list[bytes]:
    """Returns pieces of all weights, as a file holds them."""
    predictor = index._store.predictor
    assert predictor is not None
    arrays = [array.astype("<f4").tobytes() for array in predictor.arrays.values() if array.size > 16]
    packed = index._store.database.settings.weights("next")
    if packed:
        arrays.append(packed[-256:])
    return [array[at : at + 32] for array in arrays for at in (0, len(array) // 2) if any(array[at : at + 32])]


def found(folder: Path, pieces: list[bytes]) -> set[str]:
    files = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name for name, content in files.items() if any(piece in content for piece in pieces)}


def stored(index: PredictiveAssociativeIndex) -> set[str]:
    return LEARNT & set(index._store.database.settings.all())


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize(
    "kind",
    ["exact", "faiss:ivf,sq8", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("faiss:flat", "faiss:hnsw"))],
)
def test_nothing_that_was_learnt_outlives_the_last_experience(kind, others, tmp_path):
    path = tmp_path / "index"
    index = fill(PredictiveAssociativeIndex.open(path, dim=DIM, backend=kind))
    pieces = traces(index)
    assert stored(index) == LEARNT and len(pieces) > 6
    assert any(name.startswith("predictor-") for name in found(path, pieces)), "control: the weights are in files"
    index.close()

    index = PredictiveAssociativeIndex.open(path)
    reader = PredictiveAssociativeIndex.open(path, read_only=True, follow=True)
    assert reader.is_fitted
    report = index.erase(IDS if others else [*IDS, *OTHERS])
    assert not reader.is_fitted and len(reader) == len(OTHERS) * others
    reader.close()
    index.erase([])
    assert not report.learnt and "weights" not in repr(report)
    assert found(path, pieces) == set() and stored(index) == set()
    assert not list(path.glob("predictor-*"))
    assert not index.is_fitted and index.last_fit() is None
    assert [hit.id for hit in index.recall(np.ones(DIM), k=20)] == [hit.id for hit in index.search(np.ones(DIM), k=20)]
    with pytest.raises(NotFitted):
        index.imagine(np.ones(DIM))
    index.close()

    assert check(path) == []
    with PredictiveAssociativeIndex.open(path) as again:
        assert not again.is_fitted and len(again) == len(OTHERS) * others
        again.delete(OTHERS)
        fill(again)
        assert again.is_fitted and again.recall(IDS[0], k=1, mode="association")[0].id in IDS[:3]


def test_the_weights_stay_while_any_of_their_experience_is_left():
    index = fill(PredictiveAssociativeIndex(DIM))
    report = index.erase([*IDS[:100], *OTHERS])
    assert report.learnt and index.is_fitted and "next" in stored(index)
    assert "mixture" not in stored(index), "all requests were erased with their memories"
    index.fit(from_scratch=True, config=QUICK, progress=False)
    assert not index.erase([]).learnt and index.is_fitted


def test_fit_from_scratch_discards_what_was_deleted_before(tmp_path):
    index = fill(PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM))
    pieces = traces(index)
    index.delete(IDS)
    assert index.is_fitted, "delete alone leaves the weights to the next fit"
    report = index.fit(from_scratch=True, progress=False)
    assert report.stopped_by == "nothing to train on"
    assert not index.is_fitted and stored(index) == {"last_fit"} and index.last_fit() == report
    with pytest.raises(InvalidInput, match="no trajectories"):
        index.fit(from_scratch=True)
    index.close()
    assert found(tmp_path / "index", pieces) == set()


def test_a_fit_on_the_requests_that_are_left_keeps_no_weights_of_deleted_experience():
    index = fill(PredictiveAssociativeIndex(DIM))
    index.feedback(np.ones(DIM), used=[OTHERS[0]])
    index.delete_trajectory(where={})
    index.fit(config=QUICK, progress=False)
    assert not index.is_fitted and stored(index) == {"mixture", "last_fit"}
    index.delete_feedback(where={})
    index.erase([])
    assert stored(index) == set()


def test_a_fit_without_requests_keeps_no_weights_of_deleted_requests():
    index = fill(PredictiveAssociativeIndex(DIM))
    index.delete_feedback(where={})
    index.fit(config=QUICK, progress=False)
    assert "mixture" not in stored(index) and index.is_fitted and index.last_fit() is not None


@pytest.mark.parametrize("where", ["before the commit", "before the file is removed", "before it is overwritten"])
def test_an_erasure_that_is_killed_is_done_whole_or_not_at_all(where, tmp_path, monkeypatch):
    path = tmp_path / "index"
    index = fill(PredictiveAssociativeIndex.open(path, dim=DIM))
    pieces = traces(index)

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if where == "before the commit":
            patched.setattr(SQLiteDatabase, "discard_keys", killed)
        elif where == "before the file is removed":
            patched.setattr(weights, "remove_other_predictors", killed)
        else:
            patched.setattr(SQLiteDatabase, "erase_removed", killed)
        with pytest.raises(KeyboardInterrupt):
            index.erase(IDS)
    home = index._store._writable_folder
    home.database.connection.close()  # simulates the end of a process
    home.lock.release()
    with PredictiveAssociativeIndex.open(path) as again:
        done = where != "before the commit"
        assert (len(again), again.is_fitted) == (len(OTHERS) + len(IDS) * (not done), not done)
        if done:
            assert not list(path.glob("predictor-*"))
        again.erase(IDS)
        assert found(path, pieces) == set() and not again.is_fitted
    assert check(path) == []


def test_a_fit_that_ends_after_the_erasure_of_all_leaves_no_weights(tmp_path, monkeypatch):
    index = fill(PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM))
    index.observe(Trajectory(IDS[::7], id="another"))
    trained, goes_on = pause_training(monkeypatch)
    fit = index.fit(config=QUICK, progress=False, background=True, from_scratch=True)
    assert trained.wait(PATIENCE)
    index.erase(IDS)
    goes_on.set()
    fit.result()
    assert not index.is_fitted and stored(index) <= {"last_fit"}
    assert not list((tmp_path / "index").glob("predictor-*"))
    index.close()


@pytest.mark.parametrize("learnt", ["fit_next", "SpreadSample.fit"])
def test_an_erasure_of_all_after_the_training_leaves_nothing_of_the_rest_of_the_fit(monkeypatch, learnt):
    from pam_retriever.retrieval import imagination
    from pam_retriever.retrieval.sequences import fitting

    index = fill(PredictiveAssociativeIndex(dim=DIM), feedback=False)
    index.observe(Trajectory(IDS[::7], id="another"))
    *owner, name = learnt.split(".")
    owned = getattr(imagination, owner[0]) if owner else fitting
    fit = getattr(owned, name)

    def erased_meanwhile(*given):
        found = fit(*given)
        index.erase(IDS)
        return found

    monkeypatch.setattr(owned, name, erased_meanwhile)
    index.fit(window=2, config=QUICK, progress=False, from_scratch=True)
    assert stored(index) == set()


def test_a_tenant_loses_only_its_own_weights(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM) as index:
        fill(index)
        ann, ben = fill(index.tenant("ann")), fill(index.tenant("ben"))
        ann.erase(where={})
        assert (index.is_fitted, ann.is_fitted, ben.is_fitted) == (True, False, True)
    assert check(tmp_path / "index") == []


def test_a_predictor_that_the_caller_trained_stays_as_the_encoder_does():
    index = fill(PredictiveAssociativeIndex(DIM))
    settings = index._store.database.settings
    index._store.set_setting("model", {**settings.get("model"), "recipe": None, "learnt_to": 0})  # as ``reencode`` does
    report = index.erase(IDS)
    assert index.is_fitted and report.learnt
    index.fit(from_scratch=True, progress=False)
    assert not index.is_fitted


@pytest.mark.parametrize("kind", ENGINES)
def test_in_an_engine_too(kind):
    engine = fresh_engine(kind)
    index, other = PredictiveAssociativeIndex(DIM, backend=engine), PredictiveAssociativeIndex(DIM, backend=engine)
    with index, other:
        fill(index)
        assert other.is_fitted
        report = index.erase(IDS)
        assert report.memories == len(IDS) and not report.learnt
        assert not index.is_fitted and not other.is_fitted
        assert stored(index) == set() and index._store.database.settings.weights("predictor") is None
        assert len(other.search(np.ones(DIM), k=20)) == len(OTHERS)
        other.delete(OTHERS)
        fill(other)
        assert index.is_fitted and index.recall(IDS[0], k=1)
        index.delete(IDS)
        index.fit(from_scratch=True, progress=False)
        assert not other.is_fitted and len(other) == len(OTHERS)
    if kind == "pgvector":
        with PredictiveAssociativeIndex(DIM, backend=engine) as again:
            assert not again.is_fitted and len(again.search(np.ones(DIM), k=20)) == len(OTHERS)


@pytest.mark.parametrize("kind", ENGINES)
def test_no_replaced_table_of_an_engine_keeps_an_erased_memory(kind):
    engine = fresh_engine(kind)
    with PredictiveAssociativeIndex(DIM, backend=engine) as index:
        fill(index, feedback=False)
        index.fit(window=3, config=QUICK, progress=False)
        row, database = index._store.database.memories.rows_of([IDS[0]])[IDS[0]], index._store.database
        index.erase(IDS[:2])
        if kind == "pgvector":
            names = database.connections.fetch(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'keys_%%'", [engine.schema]
            )
            assert len(names) == 1
            rows = database.connections.fetch(f"SELECT row FROM {names[0][0]}")
            assert len(rows) == len(index) and (row,) not in rows
        else:
            milvus = database.calls.connection
            held = [name for name in milvus.collections() if name.rpartition("_")[2].isdigit()]
            assert len(held) == 1 and not milvus.get(held[0], [row], ["row"])
        assert index.recall(IDS[2], k=3, mode="association")
        index.fit(window=2, config=QUICK, progress=False)
        assert index.recall(IDS[2], k=3, mode="association")
