"""Cross-validation of recall for unseen cues: its links, its gain, and the fits that use it."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.model.scoring import UNTESTED, fitted
from pam_retriever.training.calibration import Sample
from pam_retriever.training.cross_validation import DEPTH, LEAST, WEIGHTS, _ndcg, _with_links
from pam_retriever.training.holdout import FEWEST, Holdout, share_of_new_associates

DIM = 16


def walks(*sizes: int, memories: int, seed: int = 0) -> Experience:
    random = np.random.default_rng(seed)
    states = np.concatenate([random.permutation(memories)[:size] for size in sizes])
    return Experience(states, np.repeat(np.arange(len(sizes)), sizes), np.concatenate([np.arange(n) for n in sizes]))


@given(st.integers(0, 1000))
def test_associations_that_others_have_keep_their_weights(seed):
    every = walks(4, 5, 3, memories=8, seed=seed)
    some = Experience(every.states[:9], every.trajectory[:9], every.position[:9])
    all_of, part = associate(every, 8, 2), associate(some, 8, 2)
    left = all_of.only(part)
    expected = dict(zip(zip(all_of.anchors(), all_of.indices, strict=True), all_of.weights, strict=True))
    assert list(zip(left.anchors(), left.indices, strict=True)) == list(zip(part.anchors(), part.indices, strict=True))
    for pair, weight in zip(zip(left.anchors(), left.indices, strict=True), left.weights, strict=True):
        assert weight == expected[pair]


@given(st.integers(0, 1000))
def test_ndcg_is_that_of_the_repeated_memories(seed):
    """A memory that represents three is ranked as three irrelevant ones."""
    random = np.random.default_rng(seed)
    scores = random.permutation(30).astype(np.float32)[None] / 30
    label = (random.random((1, 30)) < 0.2).astype(np.float32)
    label[0, 3] = 1
    times = np.where(label > 0, 1, random.integers(1, 4, (1, 30))).astype(np.float32)
    sample = Sample(torch.zeros(1, 30, 4), label, times, scores, scores, np.zeros(1, int), np.arange(30))
    order = np.argsort(-scores[0])
    ranked = np.concatenate([np.repeat(label[0, at], int(times[0, at])) for at in order])[:DEPTH]
    discount = 1 / np.log2(np.arange(DEPTH) + 2)
    expected = (ranked * discount).sum() / discount[: min(DEPTH, int(label.sum()))].sum()
    assert _ndcg(sample, 0.5) == pytest.approx([expected], abs=1e-6)


@pytest.mark.parametrize("weight", [LEAST, *WEIGHTS])
def test_similarity_has_the_weight_that_links_and_channels_leave(weight):
    mixture = _with_links(weight).mixture
    assert min(mixture) >= 0
    assert sum(mixture) == pytest.approx(1)
    assert mixture[3] == 1 - weight


@given(st.integers(0, 1000))
def test_new_associates_are_those_of_memories_in_one_trajectory(seed):
    experience = walks(4, 5, 3, 4, memories=12, seed=seed)
    sessions: dict[int, set[int]] = {}
    for state, session in zip(experience.states.tolist(), experience.trajectory.tolist(), strict=True):
        sessions.setdefault(state, set()).add(session)
    links = associate(experience, 12, 2)
    total, new = np.zeros(12), np.zeros(12)
    for one, other, weight in zip(links.anchors(), links.indices, links.weights, strict=True):
        total[one] += weight
        new[one] += weight * (len(sessions[int(other)]) == 1)
    shares = [new[one] / total[one] for one, those in sessions.items() if len(those) == 1]
    expected = sum(shares) / (len(shares) + FEWEST)
    assert share_of_new_associates(links, experience) == pytest.approx(expected)


def fit(memories: int, trajectories: list[list[int]], **options) -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(DIM)
    index.add(np.random.default_rng(0).standard_normal((memories, DIM)), [str(at) for at in range(memories)])
    for steps in trajectories:
        index.observe([str(step) for step in steps])
    index.fit(progress=False, **options)
    return index


@pytest.mark.parametrize("trajectories", [[[0, 1]], [[0, 1], [0, 1]], [[0, 1, 2], [2, 1, 0]]])
def test_without_cues_to_test_similarity_answers(trajectories):
    unseen = fit(6, trajectories)._store.calibration.unseen
    assert unseen.mixture[3] == 1 - LEAST
    assert np.isfinite(unseen.calibration).all()


@pytest.mark.slow
def test_the_published_recipe_is_not_calibrated():
    assert fit(6, [[0, 1], [2, 3]], config="paper")._store.calibration.unseen == UNTESTED


@pytest.mark.slow
def test_a_later_fit_holds_out_when_there_is_enough():
    """Memories of an earlier fit are known to the predictor, so only new ones are held out."""
    random = np.random.default_rng(1)
    index = fit(600, [random.permutation(50)[:5].tolist() for _ in range(20)])
    assert not fitted(index._store.calibration.unseen)
    for _ in range(200):
        index.observe([str(one) for one in 50 + random.permutation(550)[:5]])
    index.fit(progress=False)
    assert fitted(index._store.calibration.unseen)


def test_held_out_memories_are_in_no_batch_or_no_cues(monkeypatch):
    """A calibration for unseen cues is true only of cues that the training did not see as such."""
    left_out, real = [], Holdout.leave_out

    def leave_out(self, objective, rows):
        real(self, objective, rows)
        left_out.append((rows[objective.hidden], rows[objective.targets_only]))

    monkeypatch.setattr(Holdout, "leave_out", leave_out)
    fit(40, [list(range(20)), list(range(20, 40))], config=FitConfig(hidden=8, passes=1, holdout=0.5))
    hidden, no_cues = left_out[0]
    assert (len(hidden), len(no_cues)) == (10, 10)
    assert not set(hidden.tolist()) & set(no_cues.tolist())


def test_the_same_seed_gives_the_same_weights():
    index = fit(40, [[at, at + 1, at + 2] for at in range(0, 36, 3)])
    known = index._store.calibration
    assert fit(40, [[at, at + 1, at + 2] for at in range(0, 36, 3)])._store.calibration == known


@pytest.mark.parametrize("learnt", [20, 35])
def test_cues_of_new_sessions_are_answered_as_well_as_by_similarity(learnt):
    """Sessions with their own memories: what a new one is experienced with is new, too, and only looks like it."""
    sessions, size, random = 40, 24, np.random.default_rng(5)
    topics = np.repeat(random.standard_normal((sessions, DIM)), size, axis=0)
    vectors = topics + random.standard_normal((sessions * size, DIM))
    index = PredictiveAssociativeIndex(DIM)
    index.add(vectors, [str(at) for at in range(len(vectors))])
    cues = [str(at) for at in range(learnt * size, sessions * size)]
    before = index.search(cues, k=10)
    for session in range(learnt):
        index.observe([str(session * size + step) for step in random.permutation(size)])
    index.fit(window=size, progress=False)
    calibration = index._store.calibration
    assert fitted(calibration.unseen)
    assert calibration.novelty > 0.9
    after = index.recall(cues, k=10)
    view = index._store.view()
    without = replace(view, calibration=replace(calibration, novelty=0.0))
    with patch.object(index._store, "view", return_value=without):
        unweighted = index.recall(cues, k=10)

    def found(answers):
        return np.mean(
            [int(hit.id) // size == int(cue) // size for cue, hits in zip(cues, answers, strict=True) for hit in hits]
        )

    def sure_of_experienced(answers):
        return np.mean([hit.confidence for hits in answers for hit in hits if int(hit.id) < learnt * size])

    assert found(after) >= found(before) - 0.01 > found(unweighted)
    assert sure_of_experienced(after) < sure_of_experienced(unweighted)
