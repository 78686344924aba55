"""Decay, strength, pruning and capacity equal sums that are written out."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from conftest import DIM, QUICK, WINDOW, Planted, new_index

from pam_retriever import InvalidInput, PredictiveAssociativeIndex, Trajectory, UnknownId
from pam_retriever.model.keys import MODES


def dated(planted: Planted) -> list[Trajectory]:
    """Returns the outings with times: outing n on day n, ten minutes per step. The last outing has no times."""
    times = [[number + step / 144 for step in range(10)] for number in range(20)]
    return [
        Trajectory(ids=outing, timestamps=time if number < 19 else None, id=f"day {number}")
        for number, (outing, time) in enumerate(zip(planted.outings, times, strict=True))
    ]


@pytest.fixture(scope="module")
def aged(planted) -> PredictiveAssociativeIndex:
    """Shared: tests must not change it."""
    index = new_index(planted)
    index.fit(dated(planted), window=WINDOW, config=QUICK, progress=False)
    return index


def time_of(id: str) -> float:
    outing, step = divmod(int(id[1:]), 10)
    return outing + step / 144 if outing < 19 else np.nan


@pytest.mark.parametrize("mode", ["association", "similarity", "hybrid", "specific"])
@pytest.mark.parametrize("half_life", [0.3, 5, 1e6])
def test_scores_halve_with_each_half_life_and_the_order_is_exact(aged, mode, half_life):
    now = time_of("m189")
    options = {"mode": mode, "channels": MODES[mode]}
    plain = aged.recall("m055", k=199, **options)
    age = np.array([now - time_of(hit.id) for hit in plain])
    factors = np.where(np.isnan(age), 1, 0.5 ** (np.nan_to_num(age) / half_life))
    scores = np.array([hit.score for hit in plain])
    right = np.where(scores > 0, scores * factors, scores)
    order = np.argsort(-right, kind="stable")
    for k in (1, 10, 150):
        hits = aged.recall("m055", k=k, decay=half_life, **options)
        np.testing.assert_allclose([hit.score for hit in hits], right[order[:k]], atol=1e-5)
        by_id = {plain[at].id: right[at] for at in range(199)}
        assert all(hit.score == pytest.approx(by_id[hit.id], abs=1e-5) for hit in hits)


def test_thresholds_filters_hops_and_batches_hold_with_decay(aged):
    everything = aged.recall("m055", k=199, decay=3.0)
    floor = everything[20].score
    assert [hit.id for hit in aged.recall("m055", k=None, min_score=floor, decay=3.0)] == [
        h.id for h in everything[:21]
    ]
    # a filter raises the scores of predictions; with a short half-life they might overtake old memories
    slowly = aged.recall("m055", k=199, decay=30.0)
    odd = aged.recall("m055", k=9, decay=30.0, where={"parity": "odd"})
    assert [hit.id for hit in odd] == [hit.id for hit in slowly if hit.metadata["parity"] == "odd"][:9]
    batch = aged.recall(["m055", "m120"], k=7, decay=3.0)
    assert [hit.id for hit in batch[0]] == [hit.id for hit in everything[:7]]
    assert all(later.score <= earlier.score for earlier, later in zip(batch[1], batch[1][1:], strict=False))
    assert aged.recall("m055", k=5, hops=2, decay=3.0)[0].score < aged.recall("m055", k=5, hops=2)[0].score


def test_now_can_be_given(aged):
    then = aged.recall("m055", k=3, decay=1.0, now=time_of("m055"))
    # ``now`` is the time of m055: memories just before it have hardly decayed, later ones not at all
    plain = {hit.id: hit.score for hit in aged.recall("m055", k=199)}
    assert all(hit.score >= 0.95 * plain[hit.id] for hit in then if hit.id in {"m053", "m054", "m056", "m057"})
    assert aged.recall("m055", k=1, decay=1.0, now=1e9)[0].id >= "m190"  # all memories with a time have decayed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decay": 0}, "decay=0"),
        ({"decay": -2.0}, "decay=-2"),
        ({"decay": float("inf")}, "decay=inf"),
        ({"decay": float("nan")}, "decay=nan"),
        ({"decay": "day"}, "decay='day'"),
        ({"decay": 1.0, "now": float("nan")}, "timestamp nan"),
        ({"now": 3.0}, "without decay"),
    ],
)
def test_bad_half_lives_are_refused(aged, options, message):
    with pytest.raises(InvalidInput, match=message):
        aged.recall("m000", **options)


def test_decay_without_any_timestamp_is_refused(fitted):
    with pytest.raises(InvalidInput, match=r"Got decay=1\.0 .*timestamps"):
        fitted.recall("m000", decay=1)
    with pytest.raises(InvalidInput, match=r"Got half_life=2\.0 .*timestamps"):
        fitted.prune(keep=10, half_life=2)
    assert len(fitted) == 200


def test_prune_keeps_the_strongest(planted):
    index = new_index(planted)
    trips = dated(planted)
    trips.append(Trajectory(ids=["m000", "m011"], timestamps=[18.9, 18.95]))  # m000 and m011 recur later
    trips.append(Trajectory(ids=["m020", "m021"], timestamps=[2.5, 2.6], salience=[1e6, 1e6]))
    for trip in trips:
        index.observe(trip)
    index.delete("m198")
    index.add(np.ones((1, DIM)), ["never experienced"])
    assert index.prune(keep=44, half_life=1.0) == 156
    kept = {record.id for record in index.find()}
    undated = set(planted.outings[19]) - {"m198"}
    recent = set(planted.outings[18]) | set(planted.outings[17]) | set(planted.outings[16])
    assert kept == undated | recent | {"never experienced", "m000", "m011", "m020", "m021"}
    assert index.prune(keep=1000) == 0


def test_without_fading_what_came_often_stays(planted):
    """Without a half-life, ``prune`` keeps the memories that were experienced most often."""
    index = new_index(planted)
    for number in range(3):
        index.observe(Trajectory(ids=planted.ids[10 * number : 10 * number + 10]))
    index.observe(planted.ids[5:15])
    index.prune(keep=10, half_life=None)
    assert {record.id for record in index.find()} == set(planted.ids[5:15])


@pytest.mark.parametrize("backend", ["faiss:flat", "faiss:hnsw", "exact"])
def test_what_is_pruned_is_gone_everywhere_and_the_rest_as_it_was(planted, backend, tmp_path):
    index = PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM, backend=backend)
    texts = ["x" * 2000] * 200
    index.add(planted.vectors, planted.ids, texts=texts)
    index.fit(dated(planted)[:19], window=WINDOW, config=QUICK, progress=False)
    before = sum(path.stat().st_size for path in Path(tmp_path / "index").iterdir())
    hits = index.recall("m185", k=200, channels=MODES["association"])
    assert index.prune(keep=40, half_life=1.0) == 160
    kept = {record.id for record in index.find()}
    assert kept == set(planted.ids[160:])
    assert [(h.id, h.score) for h in index.recall("m185", k=200, channels=MODES["association"])] == [
        (h.id, pytest.approx(h.score, abs=1e-5)) for h in hits if h.id in kept
    ]
    with pytest.raises(UnknownId):
        index.recall("m000")
    assert len(index._store.similar) == len(index._store.associative) == 40
    assert len(index._store.database.trajectories) == 3
    after = sum(path.stat().st_size for path in Path(tmp_path / "index").iterdir())
    assert before - after > 160 * 2000  # at least the size of the pruned texts
    index.close()
    with PredictiveAssociativeIndex.open(tmp_path / "index") as again:
        assert {hit.id for hit in again.recall("m185", k=200)} == kept - {"m185"}


def test_a_capacity_bounds_the_index_and_is_kept_with_it(planted, tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM) as index:
        index.set_capacity(50, half_life=1.0)
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        sizes = []
        for number in range(20):
            vectors, times = planted.vectors[10 * number : 10 * number + 10], np.full(10, float(number))
            index.observe(Trajectory(vectors=vectors, timestamps=times, id=f"day {number}"))
            sizes.append(len(index))
        assert max(sizes) <= 55
        assert min(sizes[5:]) >= 50
        newest = {f"day {number}/{step}" for number in range(15, 20) for step in range(10)}
        assert newest <= {record.id for record in index.find()}
        index.set_capacity(None)
        index.add(planted.vectors)
        assert len(index) >= 250


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.prune(keep=0), "keep=0"),
        (lambda index: index.prune(keep=10, half_life=0), "half_life=0"),
        (lambda index: index.prune(keep=10, half_life="soon"), "half_life='soon'"),
        (lambda index: index.set_capacity(0), "memories=0"),
        (lambda index: index.set_capacity(None, half_life="x"), "half_life='x'"),
        (lambda index: index.set_capacity(10, half_life=-1.0), "half_life=-1"),
    ],
)
def test_bad_bounds_are_refused_and_nothing_is_forgotten(index, call, message):
    with pytest.raises(InvalidInput, match=message):
        call(index)
    assert len(index) == 200


def test_the_adapted_half_life_falls_as_associations_get_denser(planted):
    """The half-life halves if memories have twice as many associates, or if the rate of new memories doubles."""
    from pam_retriever.experience.cooccurrence import Experience
    from pam_retriever.experience.strength import Steps, adapted_half_life

    def stream(trajectories: list[list[int]], last: float) -> Steps:
        states = np.concatenate([np.array(t) for t in trajectories])
        lengths = [len(t) for t in trajectories]
        experience = Experience(
            states, np.repeat(np.arange(len(lengths)), lengths), np.concatenate([np.arange(n) for n in lengths])
        )
        return Steps(experience, np.linspace(0, last, len(states)), np.ones(len(states), np.float32))

    sparse = [[2 * n, 2 * n + 1] for n in range(50)]  # each memory has one associate
    dense = sparse + [[2 * n + 1, (2 * n + 2) % 100] for n in range(50)]  # two associates
    base = adapted_half_life(stream(sparse, 100.0), 100, 20, 1)
    assert base == pytest.approx(100 * 20 / 100 / 0.5)
    assert adapted_half_life(stream(dense, 100.0), 100, 20, 1) == pytest.approx(base / 2)
    assert adapted_half_life(stream(sparse, 50.0), 100, 20, 1) == pytest.approx(base / 2)
    assert adapted_half_life(stream(sparse, 0.0), 100, 20, 1) is None


def test_pruning_that_fails_halfway_forgets_nothing(planted, monkeypatch):
    index = new_index(planted)
    index.observe(planted.outings[0])

    def fail(rows):
        raise sqlite3.OperationalError("disk full")

    monkeypatch.setattr(index._store.database, "forget", fail)
    with pytest.raises(sqlite3.OperationalError):
        index.prune(keep=10)
    assert len(index) == len(index._store.similar) == 200


def test_what_was_pruned_is_no_link_and_the_next_fit_begins_afresh(planted, tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM) as index:
        index.add(planted.vectors, planted.ids)
        index.fit(dated(planted)[:19], window=WINDOW, config=QUICK, progress=False)
        index.prune(keep=38, half_life=1.0)  # cuts a trajectory to eight steps
        now = [(hit.id, hit.score) for hit in index.recall("m185", k=37)]
        memories = index._store.links.memories
        index.observe(["m190", "m199"])
        assert index._store.predictor_to_continue(QUICK.to_stored(), WINDOW) is None
    with PredictiveAssociativeIndex.open(tmp_path / "index") as again:
        assert [hit.id for hit in again.recall("m185", k=37)][:5] == [id for id, _ in now][:5]
        assert again._store.links.memories == memories + 2
        again.fit(window=WINDOW, config=QUICK, progress=False)
        assert again._store.predictor_to_continue(QUICK.to_stored(), WINDOW) is not None  # it learnt only what is there


@pytest.mark.parametrize("hops", [1, 2])
def test_decay_keeps_what_else_is_known_of_a_hit(aged, hops):
    plain = {hit.id: hit for hit in aged.recall("m055", k=199, hops=hops)}
    for hit in aged.recall("m055", k=10, hops=hops, decay=3.0):
        assert hit.association == pytest.approx(plain[hit.id].association, abs=1e-5)
        assert hit.similarity == pytest.approx(plain[hit.id].similarity, abs=1e-6)
        assert (hit.confidence is None) == (hops == 2)
        if hops == 1:
            assert hit.confidence == pytest.approx(plain[hit.id].confidence, abs=1e-5)
