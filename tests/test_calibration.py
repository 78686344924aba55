"""``fit`` calibrates the features that recall computes: both agree for the same cues."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import DIM
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever import FitConfig, PredictiveAssociativeIndex, Trajectory
from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.experience.walk import FAN_OUT, LEAST, walk
from pam_retriever.experience.weighting import weigh
from pam_retriever.model.scoring import read_calibration, to_stored
from pam_retriever.retrieval.association import _exact_links, _hints, _query
from pam_retriever.retrieval.cues import plain_cues, stored_cues
from pam_retriever.retrieval.odds import share_out
from pam_retriever.training import holdout
from pam_retriever.training.calibration import Memories, draw, fit_scoring_weights, links_of_named, log_shares

COUNT, WINDOW = 180, 2  # COUNT: the last 20 memories are never experienced


@pytest.fixture(params=[pytest.param("none", marks=pytest.mark.slow), "log"])
def calibrated(request, monkeypatch) -> tuple[PredictiveAssociativeIndex, Memories]:
    """Returns a fitted index, and the memories that its calibration used."""
    random = np.random.default_rng(0)
    # all vectors have a common part, so more than 64 memories are similar to a cue
    vectors = (random.standard_normal((COUNT, DIM)) + 3).astype(np.float32)
    ids = [f"m{number:03}" for number in range(COUNT)]
    index = PredictiveAssociativeIndex(DIM, "exact")
    index.add(vectors, ids)
    walks = []
    for _ in range(60):  # memories 0 and 1 are in all walks, others in several; some steps have a salience of 0
        states = random.choice(160, 8).tolist()
        states[2], states[6] = 0, 1
        walks.append(Trajectory(ids=[ids[n] for n in states], salience=np.clip(random.normal(1, 1, 8), 0, 5).tolist()))
    seen: list[Memories] = []

    def record(known: Memories, *arguments):
        seen.append(known)
        return fit_scoring_weights(known, *arguments)

    monkeypatch.setattr(holdout, "fit_scoring_weights", record)
    config = FitConfig(hidden=32, passes=20, familiarity=request.param, holdout=0.1)
    index.fit(walks, window=WINDOW, config=config, progress=False)
    assert len(seen) == 2  # one calibration of held-out cues, and one of the others
    return index, seen[-1]


def dense(part, queries: int) -> np.ndarray:
    found = np.zeros((queries, COUNT))
    np.add.at(found, (part[0], part[1] - 1), part[2])  # rows begin at 1
    return found


def test_calibration_and_recall_see_the_same(calibrated):
    index, known = calibrated
    bank = index._store
    view, calibration = bank.view(), bank.calibration
    owner, _, strength = known.links.of(np.arange(COUNT))
    cues = np.flatnonzero(np.bincount(owner, strength, COUNT) > 0)[::5]
    sample = draw(known, cues, np.ones(COUNT, bool), np.random.default_rng(0), COUNT)
    assert sample.rows.tolist() == list(range(COUNT))
    rows, count = sample.cues + 1, len(sample.cues)
    keys = view.associative.keys(rows)

    # recall by unknown vectors
    nearness, near = view.similar.search(keys[:, :DIM], 65)  # the memory itself, and 64 others
    plain = plain_cues(known.vectors[sample.cues], view.predict(known.vectors[sample.cues]))
    plain = replace(plain, own=rows, near=near, nearness=nearness)
    queries = _query(plain, calibration.unseen, plain.given, plain.unaided)
    _, named = share_out(view.associative.search(queries, COUNT), rows, np.zeros(count, np.float32), COUNT)
    by_alike, by_named, by_similarity = _hints(plain, named, np.zeros(count, np.float32), view, calibration)
    links = dense(_exact_links(stored_cues(keys, rows, DIM), view, calibration), count)

    other = sample.times > 0
    logits = sample.x @ torch.tensor(calibration.unseen.weights[:4])
    expected = queries @ view.associative.keys(np.arange(1, COUNT + 1)).T
    np.testing.assert_allclose(logits.numpy()[other], expected[other], atol=1e-3)
    shares = torch.exp(log_shares(logits, torch.from_numpy(sample.times))).numpy()
    for calibrated_on, served in (
        (sample.label, links / links.sum(axis=1, keepdims=True)),
        (sample.alike, dense(by_alike, count)),
        (links_of_named(known, sample, shares), dense(by_named, count)),
        (sample.similar, dense(by_similarity, count)),
    ):
        assert (calibrated_on > 0).sum() > count  # enough values are compared
        np.testing.assert_allclose(calibrated_on[other], served[other], rtol=1e-3, atol=1e-6)


steps = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=8), min_size=1, max_size=6)


@given(steps, st.integers(1, 3), st.sampled_from(["none", "log", "difference"]), st.integers(0, 99))
def test_links_in_memory_and_associations_are_one_graph(trajectories, window, familiarity, seed):
    """Links in memory equal associations, with salience."""
    random = np.random.default_rng(seed)
    lengths = [len(trajectory) for trajectory in trajectories]
    experience = Experience(
        np.concatenate([np.array(trajectory) for trajectory in trajectories]),
        np.repeat(np.arange(len(lengths)), lengths),
        np.concatenate([np.arange(length) for length in lengths]),
        random.random(sum(lengths)).astype(np.float32) + 0.1,
    )
    associations = associate(experience, 7, window)
    if not len(associations):
        return
    found = weigh(associations, experience, window, familiarity).of(np.arange(7))
    graph = CooccurrenceGraph(experience.states, experience.trajectory, experience.position, experience.salience).of(
        np.arange(7), window, familiarity
    )
    np.testing.assert_array_equal(found[0], graph[0])
    np.testing.assert_array_equal(found[1], graph[1])
    np.testing.assert_allclose(found[2], graph[2], rtol=1e-6)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.floats(1e-6, 1)), min_size=1, max_size=8),
    st.integers(1, 150),
    st.integers(0, 99),
)
def test_a_walk_is_the_step_of_a_random_walk(seeds, fan_out, seed):
    """A walk equals a loop over seeds and links; each of 4 memories has ``fan_out`` links."""
    strength = np.random.default_rng(seed).random((4, fan_out)).astype(np.float32) + 0.01

    def links_of(rows):
        owner = np.repeat(np.arange(len(rows)), fan_out)
        return owner, np.tile(np.arange(fan_out), len(rows)) + 10, strength[rows].ravel()

    seeds = sorted(seeds)
    query, row, mass = (np.array(column) for column in zip(*seeds, strict=True))
    expected: dict[tuple[int, int], float] = {}
    for q, r, m in seeds:
        share = m / sum(other for asked, _, other in seeds if asked == q)
        if share <= LEAST * 1.001:
            if share > LEAST * 0.999:
                return  # rounding decides whether so small a share counts
            continue
        order = np.argsort(-strength[r], kind="stable")[:FAN_OUT]
        for to in order.tolist():
            part = share * strength[r][to] / strength[r].sum()
            expected[q, to + 10] = expected.get((q, to + 10), 0) + part
    found: dict[tuple[int, int], float] = {}
    for q, to, part in zip(*walk(links_of, (query, row, mass)), strict=True):
        found[int(q), int(to)] = found.get((int(q), int(to)), 0) + float(part)
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_report_calls_its_calibration_by_the_old_name_too_and_format_1_stores_the_old_keys(calibrated):
    index, _ = calibrated
    report = index.fit(window=WINDOW, config=FitConfig(hidden=8, passes=2), progress=False)
    with pytest.warns(DeprecationWarning, match="calibration"):
        assert report.trust == report.calibration
    stored = json.loads(json.dumps(to_stored(report.calibration)))
    assert set(stored) == {"learnt", "unlearnt", "familiarity", "novelty", "directions", "second_step"}
    assert read_calibration(stored, DIM) == report.calibration
