"""Default recall ranks exact links before predictions, and gives each hit a confidence."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from conftest import DIM, THOROUGH, TINY, WINDOW, new_index

from benchmarks.training.held_out import HeldOutTrainer
from pam_retriever import Channels, PredictiveAssociativeIndex
from pam_retriever.experience.cooccurrence import Associations, Experience, associate
from pam_retriever.model.keys import make_keys, unit
from pam_retriever.model.scoring import UNTESTED, confidence
from pam_retriever.retrieval.mixture.calibration import expected_calibration_error
from pam_retriever.retrieval.pair_shares import UNEXPERIENCED, Pairs
from pam_retriever.training import calibration
from pam_retriever.training.calibration import Memories, conditional_logit, fit_confidence, fit_scoring_weights
from pam_retriever.training.config import TrainingRequest
from pam_retriever.training.shards import InMemoryShards
from pam_retriever.types import Calibration


def test_experienced_memories_rank_first_after_one_pass(planted):
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=replace(TINY, passes=1), progress=False)
    for id, hits in zip(planted.ids, index.recall(planted.ids, k=4), strict=True):
        known = hits[: len(planted.associates(id))]
        assert {hit.id for hit in known} == planted.associates(id)
        assert all(hit.confidence == pytest.approx(1) for hit in known)


def test_predictions_of_a_known_cue_have_confidence_zero(fitted, planted):
    for id, hits in zip(planted.ids, fitted.recall(planted.ids, k=20), strict=True):
        inferred = [hit for hit in hits if hit.id not in planted.associates(id)]
        assert inferred  # the rest of the hits are predictions
        assert all(hit.confidence == pytest.approx(0, abs=1e-6) for hit in inferred)


def test_scores_and_confidences_are_probabilities(fitted, planted):
    for hits in fitted.recall(planted.ids[:20], k=200):
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        # the probabilities sum to about 1: ``fit`` only estimates the sum of those after the best 64
        assert 0 <= min(scores) <= sum(scores) <= 1.01
        assert all(0 <= hit.confidence <= 1 for hit in hits)


def test_a_filter_and_min_score_apply_to_links(fitted, planted):
    every = fitted.recall("m044", k=10)
    assert [hit.id for hit in fitted.recall("m044", k=10, min_score=every[1].score)] == [hit.id for hit in every[:2]]
    allowed = fitted.recall("m044", k=10, where={"number": {"$in": [43, 45, 7]}}, cue_where={})
    assert [hit.id for hit in allowed][2] == "m007"
    assert fitted.recall("m044", k=10, where={"number": -1}, cue_where={}) == []


def test_a_new_cue_is_answered_by_links_of_similar_memories(planted):
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=TINY, progress=False)
    index.add(planted.vectors[50:51] + 0.02, ["a twin"])
    found = {hit.id for hit in index.recall("a twin", k=6)}
    assert planted.associates("m050") <= found
    assert "a twin" not in found


def test_a_held_out_memory_is_found_by_predictions_of_others(planted):
    """A held-out memory is found although it is never a cue in training: other memories predict it."""
    experience = Experience(np.arange(200), np.arange(200) // 10, np.arange(200) % 10)
    held_out = np.arange(5, 200, 10)
    shards, request = InMemoryShards(planted.vectors, experience), TrainingRequest(progress=False)
    trained = HeldOutTrainer(held_out, shards, WINDOW, THOROUGH, request).run()
    f = trained.predictor.weights()(planted.vectors)[:, :DIM]
    units = planted.vectors / np.linalg.norm(planted.vectors, axis=1, keepdims=True)
    reverse = units[held_out] @ f.T
    reverse[:, held_out] = -np.inf
    best = reverse.argmax(axis=1)
    assert (np.abs(best - held_out) <= WINDOW).mean() > 0.7  # the chance level is .02
    # held-out memories have no code
    assert (trained.embeddings.any(axis=1) == ~np.isin(np.arange(200), held_out)).all()
    assert trained.report.calibration is not None


@pytest.mark.slow
def test_confidence_fitted_on_a_sample_equals_that_of_all_memories(monkeypatch):
    """A sample has all associates but few other memories: their weights must prevent a confidence that is too high."""
    count, sizes, shares = 4_000, (4_000, 400), np.array([0.01, 0.03, 0.1, 0.2], np.float32)
    lead = np.full(4, 3.2, np.float32)  # the median in these worlds
    every, cues, graph = np.ones(count, bool), np.arange(0, count, 20), lines(count, 10)
    sure = np.zeros((2, 4))
    for seed in range(3):
        random = np.random.default_rng(seed)
        vectors = random.standard_normal((count, DIM)).astype(np.float32)
        around = np.stack([vectors[graph.indices[a:b]].mean(axis=0) for a, b in pairwise(graph.indptr)])
        keys = make_keys(vectors, unit(around + 0.8 * random.standard_normal(around.shape).astype(np.float32)))
        for at, size in enumerate(sizes):
            monkeypatch.setattr(calibration, "SAMPLE_MEMORIES", size)
            monkeypatch.setattr(calibration, "MOST_MEMORIES", size)
            known = Memories.of(vectors, keys.__getitem__, graph, every, count)
            scoring = fit_scoring_weights(known, cues, every, np.random.default_rng(1))
            sure[at] += confidence(scoring, shares, lead) / 3
    np.testing.assert_allclose(sure[1], sure[0], atol=0.04)


def test_confidence_is_right_of_cues_that_the_channels_know_and_of_others():
    """At equal shares, hits of cues with sharp channels are right more often; each kind of cue has its own slope."""
    random = np.random.default_rng(0)
    shares = np.exp(random.uniform(-7, -1.5, (2_000, 20))).astype(np.float32)
    sharp = np.arange(2_000) % 2 == 0
    lead = np.where(sharp, 6, 2).astype(np.float32)
    slope, middle = np.where(sharp, 2.5, 0.7)[:, None], np.where(sharp, -3.5, -2.0)[:, None]
    chance = 1 / (1 + np.exp(-slope * (np.log(shares) - middle)))
    happened = random.random(chance.shape) < chance
    found = fit_confidence(shares, lead, happened, np.ones_like(shares))
    sure = confidence(replace(UNTESTED, calibration=found), shares, lead[:, None])
    assert np.abs(sure - chance).max() < 0.05
    for kind in (sharp, ~sharp):
        assert expected_calibration_error(sure[kind].ravel(), happened[kind].ravel()) < 0.02


def lines(count: int, length: int) -> Associations:
    steps = np.arange(count)
    return associate(Experience(steps, steps // length, steps % length), count, WINDOW)


def test_calibration_weighs_the_informative_channel_most(planted):
    """In one world only f is informative, in the other only similarity. The weights must reflect this."""
    random = np.random.default_rng(0)
    experience = Experience(np.arange(200), np.arange(200) // 10, np.arange(200) % 10)
    graph = associate(experience, 200, WINDOW)
    units = planted.vectors / np.linalg.norm(planted.vectors, axis=1, keepdims=True)
    noise = random.standard_normal((200, DIM)).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    angle = np.arange(200) // 10 * 2 * np.pi / 20
    code = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    outing = np.pad(code, ((0, 0), (0, DIM - 2)))
    cues, every = np.arange(200), np.ones(200, bool)
    keys = np.concatenate([outing, noise, code], axis=1)
    scoring = fit_scoring_weights(Memories.of(outing, keys.__getitem__, graph, every, 200), cues, every, random)
    assert np.argmax(scoring.weights) == 0
    beside = units[np.minimum(np.arange(200) + 1, 199)]  # f predicts the next memory
    keys = np.concatenate([units, beside, code], axis=1)
    scoring = fit_scoring_weights(Memories.of(units, keys.__getitem__, graph, every, 200), cues, every, random)
    assert {int(np.argmax(scoring.weights))} <= {1, 2, 3}
    assert scoring.weights[4] == 0  # codes are not used by default
    assert sum(scoring.mixture) == pytest.approx(1)


def test_explicit_channels_use_only_the_predictor(fitted, planted):
    only = fitted.recall("m044", k=4, channels=Channels(episode=1))
    assert only[0].confidence is None
    assert {hit.id for hit in only} == planted.associates("m044")


def test_fit_continues_an_earlier_fit(planted):
    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(planted.vectors[:150], planted.ids[:150])
    first = index.fit(planted.outings[:15], window=WINDOW, config=TINY, progress=False)
    index.add(planted.vectors[150:], planted.ids[150:])
    again = index.fit(planted.outings[15:], window=WINDOW, config=TINY, progress=False)
    assert again.config["learning_rate"] == first.config["learning_rate"] / 2
    hits = index.recall(planted.ids, k=4, channels=Channels(episode=1))
    right = [len(planted.associates(id) & {h.id for h in one}) for id, one in zip(planted.ids, hits, strict=True)]
    assert sum(right) > 0.95 * sum(len(planted.associates(id)) for id in planted.ids)
    afresh = index.fit(window=WINDOW, config=TINY, progress=False)  # there is no new data
    assert afresh.config["learning_rate"] == first.config["learning_rate"]


def test_after_a_deletion_fit_starts_from_scratch(planted):
    index = new_index(planted)
    first = index.fit(planted.outings[:10], window=WINDOW, config=TINY, progress=False)
    index.delete("m005")
    again = index.fit(planted.outings[10:], window=WINDOW, config=TINY, progress=False)
    assert again.config["learning_rate"] == first.config["learning_rate"]


def test_probabilities_of_allowed_memories_sum_to_one(planted):
    index = new_index(planted)
    index.add(planted.vectors[:3], planted.ids[:3], metadatas=[{"kept": True}] * 3)
    index.fit(planted.outings, window=WINDOW, config=TINY, progress=False)
    units = np.random.default_rng(3).standard_normal((5, DIM)).astype(np.float32)
    for hits in index.recall(units, k=3, where={"kept": True}):
        # the sum leaves out memories that the filter excludes
        assert sum(hit.association for hit in hits) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("seed", [68, 70, 90])  # an unbounded search overflowed on these seeds
def test_weights_stay_finite_if_vectors_are_almost_equal(seed):
    """Weights stay finite for the almost equal vectors of a collapsed encoder, which only huge weights separate."""
    random = np.random.default_rng(seed)
    apart = 10.0 ** -random.integers(1, 7)
    x = torch.from_numpy((1 + apart * random.standard_normal((20, 60, 3))).astype(np.float32))
    x[:, :, 2] = torch.from_numpy(random.standard_normal((20, 60)).astype(np.float32))
    label = torch.zeros(20, 60).scatter_(1, x[:, :, 0].topk(4, dim=1).indices, 0.25)
    weights = conditional_logit(x, label, times=torch.ones(20, 60)).numpy()
    assert (weights >= 0.999e-3).all()
    assert (weights <= 200.1).all()
    assert np.argmax(weights) == 0


def test_scores_do_not_depend_on_k(planted):
    """A hit has the same score for any ``k``: for known and unknown cues, with and without a filter."""
    index = new_index(planted)
    index.fit(planted.outings, window=WINDOW, config=TINY, progress=False)
    index.add(planted.vectors[50:56] + 0.3, [f"new {n}" for n in range(6)], metadatas=[{"parity": "odd"}] * 6)
    other = planted.vectors[70] + planted.vectors[90]
    for cue in ("m044", "new 1", planted.vectors[7] + 0.2, other):
        for where in (None, {"parity": "odd"}):
            every = index.recall(cue, k=206, where=where, cue_where={})
            hits = index.recall(cue, k=7, where=where, cue_where={})
            assert [hit.id for hit in hits] == [hit.id for hit in every[:7]]
            for name in ("score", "association", "confidence"):
                expected = [getattr(hit, name) for hit in every[:7]]
                assert [getattr(hit, name) for hit in hits] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("sure", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("links", [3, 30])
@pytest.mark.parametrize("novelty", [0.0, 0.25])
def test_the_share_of_a_new_memory(sure, links, novelty):
    """A known cue doubles it, or lets linked memories rank before it; with an unknown cue it depends on the novelty."""
    weights = replace(UNTESTED, weights=(9.0, *UNTESTED.weights[1:]), mixture=(0.4, 0.2, 0.1, 0.3))
    values = np.zeros((links + 1, 7), np.float32)
    values[:links, 1] = 2.0  # each linked memory
    values[links, 4:6] = 0.02, 0.05  # the new one: similarity, and similarity with forward
    experienced = np.arange(links + 1) < links
    pairs = Pairs(
        np.zeros(links + 1, np.int64),
        values,
        experienced,
        np.array([sure], np.float32),
        Calibration(weights, weights, novelty=novelty),
        window=5,
    )
    similar = sure * 0.3 + (1 - sure) * ((1 - novelty) * 0.3 + novelty)  # only the new one looks like the cue
    estimated = (1 - similar) * 0.05 + similar * 0.02
    known = 0.2 / (2 * links + 0.2) if links == 3 else UNEXPERIENCED  # 1 / 5 is the prior
    unknown = 1 + UNEXPERIENCED * novelty
    assert pairs.shares()[links] == pytest.approx(estimated * (sure * known + (1 - sure) * unknown))
    assert (pairs.factors() * values).sum(axis=1) == pytest.approx(pairs.shares())
