"""``fit`` in parts: from any iterator or from storage, at constant memory; a killed fit can be resumed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from conftest import TINY, WINDOW, new_index

from pam_retriever import FitConfig, InvalidInput, PredictiveAssociativeIndex, Trajectory, UnknownId
from pam_retriever.errors import IndexFormatError
from pam_retriever.model.keys import MODES
from pam_retriever.store.readwrite import ReadWriteLock
from pam_retriever.training import checkpoint, new_experience
from pam_retriever.training.shards import StoredShards
from pam_retriever.training.trainer import Trainer

SMALL = FitConfig(hidden=64, passes=30, batch_size=50, holdout=0.2)
QUICK_PASSES = FitConfig(hidden=16)  # the number of passes depends on the data
LONG = FitConfig(hidden=64, passes=100, batch_size=50)


def weights(index: PredictiveAssociativeIndex) -> np.ndarray:
    return np.concatenate([array.ravel() for array in index._store.predictor.arrays.values()])


def recalled(index: PredictiveAssociativeIndex, planted) -> float:
    """Returns the mean share of a memory's n neighbours among the first n hits of the predictor."""
    right = []
    for outing in planted.outings:
        for at, cue in enumerate(outing):
            near = set(outing[max(0, at - WINDOW) : at + WINDOW + 1]) - {cue}
            found = index.recall(cue, k=len(near), channels=MODES["association"])  # by the predictor, without links
            right.append(len(near & {hit.id for hit in found}) / len(near))
    return float(np.mean(right))


@pytest.mark.slow
def test_parts_from_any_iterator_learn_what_fit_learns_at_once(planted):
    whole, one, many = (new_index(planted) for _ in range(3))
    a = whole.fit(planted.outings, window=WINDOW, config=LONG, progress=False)
    b = one.fit(planted.outings, window=WINDOW, config=LONG, buffer=10_000, progress=False)
    c = many.fit((outing for outing in planted.outings), window=WINDOW, config=LONG, buffer=60, progress=False)
    for report in (b, c):
        assert (report.memories, report.trajectories, report.associations) == (200, 20, 20 * 2 * (9 + 8))
        assert report.losses[-1] == pytest.approx(a.losses[-1], rel=0.1)
    assert a.steps == b.steps
    quality = recalled(whole, planted)
    assert quality > 0.97
    assert recalled(one, planted) > quality - 0.02
    assert recalled(many, planted) > quality - 0.05  # a part provides fewer negatives


def test_a_shard_is_no_larger_than_the_buffer_and_a_pass_is_everything_once(planted):
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=TINY, progress=False)
    source = StoredShards(index._store.database, ReadWriteLock(), index.dim, 45)
    for seed in (0, 1):
        random, seen = np.random.default_rng(seed), []
        for blocks in source.of_pass(random):
            shard = source.read(blocks)
            assert len(shard.experience) <= 60  # at most the buffer and one trajectory
            seen += shard.rows[shard.experience.states].tolist()
        assert sorted(seen) == sorted(index._store.links._rows.tolist())


@pytest.mark.parametrize("at_once", [1, 1_000])
def test_two_trajectories_of_one_id_are_refused_however_the_stream_is_cut(planted, monkeypatch, at_once):
    """In different batches, the second replaced the first without a word."""
    monkeypatch.setattr(new_experience, "STORED_AT_ONCE", at_once)
    index, ids = new_index(planted), planted.ids
    twice = [ids[3:6], Trajectory(ids=ids[:3], id="walk"), ids[6:9], Trajectory(ids=ids[5:8], id="walk")]
    with pytest.raises(InvalidInput, match="two trajectories with the id 'walk'"):
        index.fit(iter(twice), config=QUICK_PASSES, progress=False)
    stored = [trajectory.ids for trajectory in index.trajectories()]
    assert stored == ([tuple(ids[3:6]), tuple(ids[:3]), tuple(ids[6:9])] if at_once == 1 else [])


class Killed(BaseException):
    pass


def kill_after(steps: int, monkeypatch) -> None:
    step, count = Trainer.step, [0]

    def counted(self, batch, done):
        count[0] += 1
        if count[0] > steps:
            raise Killed
        return step(self, batch, done)

    monkeypatch.setattr(Trainer, "step", counted)


# at .97 the fit has released the held-out memories
@pytest.mark.slow
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.97])
def test_a_killed_fit_goes_on_to_the_very_same_weights(planted, tmp_path, monkeypatch, share):
    monkeypatch.setattr(checkpoint, "EVERY", 0)
    settings = {"window": WINDOW, "config": SMALL, "buffer": 60, "progress": False}
    whole = new_index(planted)
    report = whole.fit(planted.outings, **settings)
    path, file = tmp_path / "index", tmp_path / "fit.checkpoint"
    with PredictiveAssociativeIndex.open(path, dim=whole.dim) as index:
        index.add(planted.vectors, ids=planted.ids)
        with monkeypatch.context() as patched:
            kill_after(int(share * report.steps), patched)
            with pytest.raises(Killed):
                index.fit(planted.outings, checkpoint=file, **settings)
        assert file.exists()
        assert not index.is_fitted
    with PredictiveAssociativeIndex.open(path) as index:
        again = index.fit(checkpoint=file, **settings)
        np.testing.assert_array_equal(weights(index), weights(whole))
        assert (again.losses, again.steps, again.calibration) == (report.losses, report.steps, report.calibration)
        assert not file.exists()


FITTING = """
import sys
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.training import checkpoint
checkpoint.EVERY = checkpoint.SHARE = 0
with PredictiveAssociativeIndex.open(sys.argv[1]) as index:
    index.fit(window=int(sys.argv[3]), config=FitConfig(hidden=64, passes=30, batch_size=50, holdout=0.2), buffer=60,
              checkpoint=sys.argv[2], progress=False)
"""


@pytest.mark.slow
def test_kill_9_in_the_middle_of_a_fit_costs_nothing_of_it(planted, tmp_path):
    settings = {"window": WINDOW, "config": SMALL, "buffer": 60, "progress": False}
    whole = new_index(planted)
    whole.fit(planted.outings, **settings)
    path, file = tmp_path / "index", tmp_path / "fit.checkpoint"
    with PredictiveAssociativeIndex.open(path, dim=whole.dim) as index:
        index.add(planted.vectors, ids=planted.ids)
        for outing in planted.outings:
            index.observe(outing)
    arguments = [sys.executable, "-c", FITTING, str(path), str(file), str(WINDOW)]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        written: set[int] = set()
        while process.poll() is None and len(written) < 20:  # runs until there are 20 checkpoints
            if file.exists():
                written.add(file.stat().st_mtime_ns)
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, process.stderr.read() if process.stderr else ""
    with PredictiveAssociativeIndex.open(path) as index:
        assert not index.is_fitted
        index.fit(checkpoint=file, **settings)
        np.testing.assert_array_equal(weights(index), weights(whole))


def test_a_checkpoint_of_another_training_or_a_damaged_one_is_refused(planted, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 0)
    index, file = new_index(planted), tmp_path / "fit.checkpoint"
    with monkeypatch.context() as patched:
        kill_after(100, patched)
        with pytest.raises(Killed):
            index.fit(planted.outings, config=SMALL, checkpoint=file, progress=False)
    with pytest.raises(InvalidInput, match="differs in window"):
        index.fit(window=3, config=SMALL, checkpoint=file, progress=False)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(IndexFormatError, match="damaged"):
        index.fit(config=SMALL, checkpoint=file, progress=False)
    assert not index.is_fitted


def test_what_came_before_a_bad_trajectory_of_a_stream_stays_stored(planted):
    index = new_index(planted)

    def stream():
        yield from planted.outings[:3]
        yield ["nobody", "nothing"]

    with pytest.raises(UnknownId, match="nobody"):
        index.fit(stream(), config=SMALL, progress=False)
    assert not index.is_fitted
    with pytest.raises(InvalidInput, match="no trajectories"):
        PredictiveAssociativeIndex(3).fit(iter([]))
    with pytest.raises(InvalidInput, match="buffer"):
        index.fit(planted.outings, buffer=0)
    with pytest.raises(InvalidInput, match="info_nce"):
        index.fit(planted.outings, config="paper", buffer=100)


@pytest.mark.slow
@pytest.mark.parametrize("without", [["m003", "m003"], Trajectory(["m003", "m004"], salience=[0, 0])])
def test_a_part_without_anything_to_learn_is_left_out(planted, without):
    trajectories = [["m000", "m001"], without, ["m005", "m006"]]
    index = new_index(planted)
    for given in (trajectories, trajectories[1:], trajectories[1::-1]):  # wherever it is
        report = index.fit(given, config=TINY, buffer=2, progress=False, from_scratch=True)
        assert report.steps and report.stopped_by == "passes"
    with pytest.raises(InvalidInput):
        new_index(planted).fit([without], config=TINY, buffer=2, progress=False)


def test_a_checkpoint_that_cannot_be_written_is_refused_before_anything_is_stored(planted, tmp_path):
    index = new_index(planted)
    for wrong in (tmp_path, tmp_path / "nothing" / "file"):
        with pytest.raises(InvalidInput, match="checkpoint"):
            index.fit([["m000", "m001"]], config=TINY, checkpoint=wrong, progress=False)
    assert not index.trajectories()


def test_parts_take_the_collections_that_fit_takes(planted):
    index = new_index(planted)
    report = index.fit(planted.vectors[:12].reshape(3, 4, -1), config=TINY, buffer=100, progress=False)
    assert report.trajectories == 3
    series = pd.Series([["m000", "m001"], ["m002", "m003"]])
    assert index.fit(series, config=TINY, buffer=100, progress=False).trajectories == 5
    for wrong in (5, Trajectory(["m000", "m001"]), {"s": ["m000", "m001"]}, pd.DataFrame({"id": ["m000", "m001"]})):
        with pytest.raises(InvalidInput, match="a list of trajectories"):
            index.fit(wrong, config=TINY, buffer=100, progress=False)
    assert len(index.trajectories()) == 5


def test_new_experience_is_learnt_with_as_much_of_the_old(planted):
    """A fit of new experience takes fewer steps than the first, and recall of the old experience does not get worse."""
    index, settings = new_index(planted), {"window": WINDOW, "config": LONG, "buffer": 60, "progress": False}
    first = index.fit(planted.outings[:15], **settings)
    before = recalled(index, planted)
    old = index._store.associative.keys(np.arange(1, 201))
    second = index.fit(iter(planted.outings[15:]), **settings)
    new = index._store.associative.keys(np.arange(1, 201))
    # the weights have changed, so ``check_keys`` below would notice old keys
    assert np.linalg.norm(new - old, axis=1).min() > 1e-3
    assert second.steps < first.steps
    assert recalled(index, planted) > max(before, 0.9)
    check_keys(index, planted.vectors)


@pytest.mark.slow
def test_a_little_more_experience_costs_no_more_as_a_stream(planted):
    steps = {}
    for name, more in (("list", list), ("iterator", iter)):
        index = new_index(planted)
        index.fit(planted.outings[:15], window=WINDOW, config=QUICK_PASSES, progress=False)
        steps[name] = index.fit(more(planted.outings[15:16]), window=WINDOW, config=QUICK_PASSES, progress=False).steps
    assert steps["iterator"] <= 2 * steps["list"]


def check_keys(index: PredictiveAssociativeIndex, vectors: np.ndarray) -> None:
    """Asserts that searched keys equal stored keys, bit for bit, and are f of each memory by the current weights.

    f in one batch and f in another differ by the rounding of float32: each sum of n products, added in another order,
    may differ by n * eps of its terms in either direction. f consists of ``products`` such sums in a row.
    """
    bank, rows = index._store, np.arange(1, len(vectors) + 1)
    config = bank.predictor.config
    keys = bank.associative.keys(rows)[:, index.dim :]
    np.testing.assert_array_equal(keys, bank.database.memories.stored(rows, index.dim, config.width)[1])
    products = 2 + config.residual_layers + 2 * config.whiten
    bound = products * 2 * max(config.dim, config.hidden) * float(np.finfo(np.float32).eps)
    for batch in (len(vectors), 5, 1):
        parts = np.split(vectors, range(batch, len(vectors), batch))
        f = np.concatenate([bank.predictor(part) for part in parts])[:, : index.dim]
        assert np.linalg.norm(f - keys[:, : index.dim], axis=1).max() <= bound
