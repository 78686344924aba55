"""Familiarity and salience set the weights of associations; the weights equal sums that are written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import DIM, TINY, new_index
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever import FitConfig, InvalidInput, PredictiveAssociativeIndex, Trajectory
from pam_retriever.experience.cooccurrence import Associations, Experience, associate
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.experience.weighting import MET, expected_co_occurrences, step_counts, unfamiliarity, weigh
from pam_retriever.model.forward import PredictorConfig
from pam_retriever.model.predictor import Predictor
from pam_retriever.training.objectives import JointObjective
from pam_retriever.types import Familiarity


def weights_of(graph: Associations, counts: np.ndarray, window: int, scale: Familiarity) -> np.ndarray:
    one, other = counts[graph.anchors()], counts[graph.indices]
    return unfamiliarity(graph.co_occurrences, one, other, float(counts.sum()), window, scale)


streams = st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=8), min_size=1, max_size=6)


def experience_of(trajectories: list[list[int]], salience: list[float] | None = None) -> Experience:
    return Experience(
        np.concatenate([np.array(t) for t in trajectories]),
        np.repeat(np.arange(len(trajectories)), [len(t) for t in trajectories]),
        np.concatenate([np.arange(len(t)) for t in trajectories]),
        None if salience is None else np.array(salience, np.float32),
    )


@given(streams, st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_co_occurrences_and_salience_are_counted_right(trajectories, window):
    steps = sum(len(t) for t in trajectories)
    salience = np.random.default_rng(steps).random(steps).astype(np.float32)
    graph = associate(experience_of(trajectories, salience.tolist()), 6, window)
    met, strongest, start = {}, {}, 0
    for trajectory in trajectories:
        for i, a in enumerate(trajectory):
            for j, b in enumerate(trajectory):
                if 0 < abs(i - j) <= window and a != b:
                    met[a, b] = met.get((a, b), 0) + 1
                    both = np.sqrt(salience[start + i] * salience[start + j])
                    strongest[a, b] = max(strongest.get((a, b), 0), both)
        start += len(trajectory)
    pairs = list(zip(graph.anchors().tolist(), graph.indices.tolist(), strict=True))
    assert dict(zip(pairs, graph.co_occurrences.tolist(), strict=True)) == met
    np.testing.assert_allclose(graph.salience, [strongest[pair] for pair in pairs], rtol=1e-6)


def test_a_shuffled_stream_has_the_expected_co_occurrences():
    """In shuffled streams every pair occurs together, on average, as often as the baseline expects."""
    random = np.random.default_rng(0)
    states = np.repeat([0, 1, 2, 3], [400, 200, 100, 60])
    counted = np.zeros((4, 4))
    for _ in range(30):
        experience = Experience(random.permutation(states), np.zeros(760, np.int64), np.arange(760))
        graph = associate(experience, 4, 3)
        counted[graph.anchors(), graph.indices] += graph.co_occurrences / 30
    counts = step_counts(experience, 4)
    expected = expected_co_occurrences(counts[graph.anchors()], counts[graph.indices], counts.sum(), 3)
    np.testing.assert_allclose(expected, counted[graph.anchors(), graph.indices], rtol=0.1)


@pytest.mark.parametrize("scale", ["log", "difference"])
def test_where_everything_came_once_nothing_is_familiar(scale):
    experience = experience_of([[0, 1, 2], [3, 4, 5]] + [[n, n + 1] for n in range(6, 60, 2)])
    graph = associate(experience, 60, 2)
    assert (weights_of(graph, step_counts(experience, 60), 2, scale) == 1).all()


@pytest.mark.parametrize("scale", ["log", "difference"])
def test_what_is_everywhere_counts_least(scale):
    """A memory in every trajectory (0) has less weight than memories in three (1, 2); memories in one have most."""
    trajectories = [[3 + 3 * n, 0, 4 + 3 * n, 5 + 3 * n] for n in range(100)]
    for n in range(3):
        trajectories[n] += [1, 2]
    experience = experience_of(trajectories)
    graph = associate(experience, 303, 1)
    weights = weights_of(graph, step_counts(experience, 303), 1, scale)
    found = dict(zip(zip(graph.anchors().tolist(), graph.indices.tolist(), strict=True), weights, strict=True))
    assert found[3, 0] == found[0, 3] < found[1, 2] <= found[304 - 2, 304 - 3] == 1


def test_weights_multiply_and_a_run_too_short_to_judge_is_left_alone():
    """Salience, distance and familiarity are multiplied; in a stream that is too short, familiarity has no effect."""
    experience = experience_of([[0, 1, 2], [0, 3, 4]], salience=[1, 4, 0, 1, 1, 1])
    graph = associate(experience, 5, 2)
    weights = weigh(graph, experience, 2, "log").weights
    found = dict(zip(zip(graph.anchors().tolist(), graph.indices.tolist(), strict=True), weights, strict=True))
    counts = step_counts(experience, 5)
    unfamiliar = weights_of(graph, counts, 2, "log")
    distance = np.abs(graph.anchors() - graph.indices)  # in [0, 3, 4] the distances of 3 and 4 from 0 are 1 and 2
    distance[distance > 2] -= 2
    np.testing.assert_allclose(weights, graph.salience / distance * np.maximum(unfamiliar, MET), rtol=1e-6)
    assert (found[0, 2], found[1, 2]) == (0, 0)
    assert found[3, 4] == 1
    short = experience_of([[0, 1]] * 2)
    assert (weights_of(associate(short, 2, 5), step_counts(short, 2), 5, "log") == 1).all()


def test_the_loss_weighs_associations_by_their_salience():
    """The gradient of a batch is the weighted sum of the gradients of its associations."""
    vectors = torch.randn(6, DIM, generator=torch.Generator().manual_seed(0))
    losses = []
    for salience in ([1.0] * 6, [8.0] * 2 + [1.0] * 4, [1.0] * 2 + [0.0] * 4):
        experience = experience_of([[0, 1], [2, 3], [4, 5]], salience)
        graph = associate(experience, 6, 1)
        objective = JointObjective(
            experience, uniform(graph, experience), 1, FitConfig(batch_size=6), torch.Generator()
        )
        model = Predictor(PredictorConfig(DIM, 8), torch.Generator().manual_seed(1))
        losses.append(float(objective.loss(model, vectors, np.arange(6), 0.5).detach()))
    plain, salient, alone = losses
    assert salient == pytest.approx((3 * plain + 7 * alone) / 10, rel=1e-4)


def uniform(graph, experience):
    found = weigh(graph, experience, 1, "none")
    return replace(found, weights=found.salience)


def test_an_experience_of_salience_0_is_not_learnt_and_the_others_are(planted):
    index = new_index(planted)
    trips = [Trajectory(ids=outing, salience=[float(number % 2)] * 10) for number, outing in enumerate(planted.outings)]
    index.fit(trips, window=2, config=TINY, progress=False)
    hits = index.recall(planted.ids, k=4)
    found = [
        len(planted.associates(id) & {h.id for h in one}) / len(planted.associates(id))
        for id, one in zip(planted.ids, hits, strict=True)
    ]
    shares = np.array(found).reshape(20, 10).mean(1)
    assert shares[1::2].mean() > 0.98
    assert shares[::2].mean() < 0.2


def test_salience_is_kept_by_a_durable_index_and_used_by_the_next_fit(planted, tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", dim=DIM) as index:
        index.observe(Trajectory(vectors=planted.vectors[:3], salience=[1, 0, 2.5], id="a"))
    index = PredictiveAssociativeIndex.load(tmp_path / "index")
    assert index._store.database.trajectories.experienced()[3].tolist() == [1, 0, 2.5]


def test_salience_of_nothing_but_zeros_is_refused(index):
    before = repr(index)
    with pytest.raises(InvalidInput, match="salience"):
        index.fit([Trajectory(ids=["m000", "m001"], salience=[0, 0])], config=TINY, progress=False)
    assert repr(index) == before


def test_an_unknown_familiarity_is_refused(index):
    with pytest.raises(InvalidInput, match="familiarity"):
        index.fit([["m000", "m001"]], config=FitConfig(familiarity="much"), progress=False)


@given(streams, st.sampled_from(["none", "log", "difference"]), st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_links_count_by_the_same_baseline_as_training_however_they_came(trajectories, scale, window):
    """Links have the same weights as in training, whether they are appended one by one or stored together."""
    experience = experience_of(trajectories)
    graph = associate(experience, 6, window)
    links = CooccurrenceGraph(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
    for number in range(len(trajectories)):
        step = experience.trajectory == number
        links.append(experience.states[step], experience.trajectory[step], experience.position[step])
    owner, linked, plain = links.of(np.arange(6), window)
    _, _, weighed = links.of(np.arange(6), window, scale)
    above = dict(
        zip(
            zip(graph.anchors().tolist(), graph.indices.tolist(), strict=True),
            weights_of(graph, step_counts(experience, 6), window, scale),
            strict=True,
        )
    )
    expected = [max(above[pair], 1e-3) for pair in zip(owner.tolist(), linked.tolist(), strict=True)]
    np.testing.assert_allclose(weighed, plain * np.array(expected), rtol=1e-5)


def test_recall_prefers_what_was_met_to_what_is_met_everywhere():
    """Recall ranks a memory that occurs only in this trajectory above a memory of every trajectory."""
    vectors = np.random.default_rng(0).standard_normal((121, DIM)).astype(np.float32)
    visits = [["m0", f"m{n}", "m0", f"m{n + 1}"] for n in range(1, 120, 2)]
    first = {}
    for scale in ("none", "log"):
        index = PredictiveAssociativeIndex(DIM)
        index.add(vectors, [f"m{n}" for n in range(121)])
        index.fit(visits, window=2, config=replace(TINY, familiarity=scale), progress=False)
        first[scale] = [hits[0].id for hits in index.recall([f"m{n}" for n in range(1, 121)], k=2)]
        sure = {hit.id for hit in index.recall("m1", k=20) if hit.confidence > 0.99}
        # both were experienced with m1
        assert sure == {hit.id for hit in index.recall("m1", k=20, faithful=True)} == {"m0", "m2"}
    assert first["none"] == ["m0"] * 120
    assert first["log"] == [f"m{n + 1 if n % 2 else n - 1}" for n in range(1, 121)]
