"""The experiments of the paper on small worlds: their held-out data, targets and controls are correct."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import metrics
from benchmarks.baselines.similarity import Similarity
from benchmarks.paper import (
    bridging,
    ceilings,
    chains,
    decay,
    edges,
    figures,
    fits,
    held_out,
    main_table,
    matched,
    noise,
    page,
    selection,
    shuffle,
)
from benchmarks.paper.partial import Partial, PartialJoint, subset
from benchmarks.paper.protocol import choose_queries, evaluate, evaluate_ranks, experience_of, ranks_of
from benchmarks.paper.setting import WINDOW, NotRun, Setting
from pam_retriever.model.forward import PredictorConfig
from pam_retriever.model.predictor import Predictor
from pam_retriever.training.config import FitConfig
from pam_retriever.training.embedding_table import EmbeddingTable


@pytest.fixture
def setting(tmp_path) -> Setting:
    return Setting("strict", seeds=(1, 2), passes=1, trajectories=4, results=tmp_path / "r", cache=tmp_path / "c")


def test_parts_are_computed_once_and_again_on_demand(setting):
    """Parts of an experiment are computed once, stored, and computed again only with ``again``."""
    parts = setting.parts("some")
    assert parts.get("a", lambda: {"value": np.float32(0.5)}) == {"value": 0.5}
    assert setting.parts("some").get("a", lambda: pytest.fail("computed twice")) == {"value": 0.5}
    assert replace(setting, again=True).parts("some").get("a", lambda: {"value": 1}) == {"value": 1}
    with pytest.raises(NotRun, match="b"):
        replace(setting, read_only=True).parts("some").get("b", dict)
    written = json.loads((setting.results / f"{parts.name}.json").read_text())
    assert written["protocol"] == "strict"
    assert written["command"]


@pytest.mark.slow
def test_a_fit_is_kept_for_its_training_code_config_and_name(setting, monkeypatch):
    calls = []
    train = fits.train
    monkeypatch.setattr(fits, "train", lambda *a, **k: calls.append(1) or train(*a, **k))
    first = fits.trained(setting, 1, "one")
    again = fits.trained(setting, 1, "one")
    np.testing.assert_array_equal(first.predicted, again.predicted)
    assert len(calls) == 1
    fits.trained(setting, 2, "one")
    fits.trained(setting, 1, "two")
    fits.trained(replace(setting, passes=2), 1, "one")
    assert len(calls) == 4
    monkeypatch.setattr(fits, "TRAINING", (*fits.TRAINING, "retrieval"))  # simulates changed code
    fits.trained(setting, 1, "one")
    assert len(calls) == 5


def test_ranks_and_scores_are_evaluated_alike(setting):
    cosine = Similarity()
    cosine.fit(setting.experience, setting.world.states, WINDOW)
    scores = fits.without_cue(cosine.scores)
    by_scores = evaluate(scores, setting.queries, setting.world)
    by_ranks = evaluate_ranks(ranks_of(scores, len(setting.world.states)), setting.queries, setting.world)
    assert set(by_scores) - set(by_ranks) == {"AUC", "AUC_cross_room"}
    for row, value in by_ranks.items():
        assert value == pytest.approx(by_scores[row]), row


def test_the_strict_protocol_leaves_the_query_out(setting):
    cosine = Similarity()
    cosine.fit(setting.experience, setting.world.states, WINDOW)
    rows = np.array([5, 9])
    assert metrics.top(fits.under("published", cosine.scores)(rows), 1)[:, 0].tolist() == [5, 9]
    assert not np.isin(metrics.top(fits.under("strict", cosine.scores)(rows), 1)[:, 0], rows).any()


def test_a_subset_keeps_exactly_the_drawn_associations(setting):
    graph = setting.associations
    kept = selection.random_subset(setting, 0.41, seed=3)
    part = subset(graph, kept)
    assert kept.mean() == pytest.approx(0.41, abs=1e-3)
    expected = set(zip(graph.anchors()[kept].tolist(), graph.indices[kept].tolist(), strict=True))
    assert set(zip(part.anchors().tolist(), part.indices.tolist(), strict=True)) == expected


class Table(Predictor):
    """A predictor whose f is a free table, with one row for each state."""

    def __init__(self, states: torch.Tensor) -> None:
        super().__init__(PredictorConfig(128))
        generator = torch.Generator().manual_seed(0)
        self.states = states
        self.f = torch.nn.Parameter(torch.randn(len(states), 128, generator=generator))

    def associate(self, states, disturb=None):
        rows = (states[:, None, :4] == self.states[None, :, :4]).all(-1).int().argmax(1)
        return torch.nn.functional.normalize(self.f[rows], dim=-1)


def partial_loss(setting, partial, code=16, rate=1e-3):
    """Returns the objective, its loss, and for each state the gradient of f and how far a step moves its code."""
    states = torch.from_numpy(setting.world.states)
    generator = torch.Generator().manual_seed(0)
    config = FitConfig(code=code).resolve(len(states), len(states))
    codes = EmbeddingTable(np.zeros((len(states), code), np.float32))
    codes.begin(np.arange(len(states)), setting.world.states, setting.associations, seed=0)
    before = codes.values.copy()
    book = codes if code else None
    objective = PartialJoint(partial, setting.experience, setting.associations, WINDOW, config, generator, book)
    model = Table(states)
    loss = objective.loss(model, states, np.arange(len(states)), 0.1)
    loss.backward()
    codes.learn(rate)
    return objective, loss.item(), model.f.grad.norm(dim=1).numpy(), np.abs(codes.values - before).sum(axis=1)


def test_held_out_anchors_get_no_gradient_and_the_others_do(setting):
    anchors = held_out.split(setting)
    assert anchors.mean() == 0.8
    _, _, f, code = partial_loss(setting, Partial(anchors[setting.associations.anchors()], anchors))
    for moved in (f, code):
        assert (moved[~anchors] == 0).all()
        assert (moved[anchors] > 0).mean() > 0.99


def test_training_on_all_associations_is_the_recipe_itself(setting):
    """If all associations are drawn, the loss equals the loss of the plain recipe."""
    objective, loss, _, _ = partial_loss(setting, Partial(np.ones(len(setting.associations), bool)), rate=0.0)
    states = torch.from_numpy(setting.world.states)
    plain = super(type(objective), objective).loss(Table(states), states, np.arange(len(states)), 0.1)
    assert loss == pytest.approx(plain.item(), rel=1e-5)
    assert objective.coverage == 1.0


def test_what_is_not_drawn_is_no_negative_either(setting):
    """An association that is not drawn is no negative: if one is drawn, only its anchor has a gradient."""
    kept = np.zeros(len(setting.associations), bool)
    kept[100] = True
    anchor = setting.associations.anchors()[100]
    _, _, f, _ = partial_loss(setting, Partial(kept), code=0)
    assert np.flatnonzero(f).tolist() == [anchor]


def test_edges_are_split_70_to_30_in_both_directions_at_once(setting):
    kept, pairs = edges.split(setting)
    graph = setting.associations
    assert kept.mean() == pytest.approx(0.7, abs=1e-3)
    trained = set(zip(graph.anchors()[kept].tolist(), graph.indices[kept].tolist(), strict=True))
    assert all((right, left) in trained for left, right in trained)
    first = pairs[: int(0.7 * len(pairs))]
    assert {tuple(pair) for pair in first.tolist()} <= trained


def test_shuffling_keeps_the_states_of_a_trajectory_and_a_tenth_of_its_associates(setting):
    mixed = shuffle.shuffled(setting.world)
    paths = mixed.states.reshape(setting.world.trajectories.shape)
    assert (np.sort(paths, axis=1) == setting.world.trajectories).all()
    found = shuffle._exact(setting)
    assert 0.05 < found["R@20"] < 0.16


def test_matched_negatives_leave_similarity_nothing():
    """Similarity cannot tell strict negatives from associates, because both are equally similar to the query."""
    world = Setting("strict", trajectories=60)
    cosine = Similarity()
    cosine.fit(world.experience, world.world.states, WINDOW)
    assert matched.matched_auc(cosine.scores, world)["AUC"] == pytest.approx(0.5, abs=0.04)
    assert matched.matched_auc(cosine.scores, replace(world, protocol="published"))["AUC"] > 0.65


def test_chain_targets_are_where_they_should_be(setting):
    cues, ends = chains._two_steps_away(setting)
    assert (np.abs(cues - ends) == 2).all()
    assert (setting.world.rooms[cues] != setting.world.rooms[ends]).all()
    for cue in chains._cues(setting):
        for window, targets in enumerate(chains._targets(setting, cue)):
            distance = np.abs(targets - cue)
            assert ((distance > window * WINDOW) & (distance <= (window + 1) * WINDOW)).all()
            assert (targets // 100 == cue // 100).all(), "in the same trajectory"


def test_a_walk_of_two_steps_reaches_the_second_window_and_one_step_does_not(setting):
    found = chains._others(setting)
    assert found["exact graph, 1 step of a walk"]["trained"] == 1.0
    assert found["exact graph, 1 step of a walk"]["two windows"] < 0.2
    assert found["exact graph, 2 steps of a walk"]["two windows"] > 0.9


def test_without_decay_warmth_changes_nothing(setting, monkeypatch):
    """With a decay factor of 1 the experiment has the same results with and without decay."""
    fitted = fits.trained(setting, 1, "decay")
    monkeypatch.setattr(decay, "DECAY", 1.0)
    found = decay._stream(setting, fitted, "forward", "recent queries", 1)
    assert found["with decay"] == found["without"]


def test_the_oracle_bridges_only_what_a_shared_state_connects(setting):
    """Even the oracle reaches another trajectory only if both share a state."""
    world = setting.world
    ends = np.array([[5, 105], [7, 107], [10, 210]])
    apart = bridging.reach(setting.experience, world, ends)
    assert apart["reach"] == 0.0
    assert apart["components"] == 4
    assert apart["associations across trajectories"] == 0
    joined = world.trajectories.copy()
    joined[1, 50] = 3  # an entity of the first trajectory occurs again in the second
    found = bridging.reach(experience_of(world, joined), world, ends)
    assert found["reach"] == pytest.approx(2 / 3)


def test_one_best_point_cannot_serve_opposite_associates_and_two_can():
    """One point cannot be near to associates in opposite directions, but two points can."""
    random = np.random.default_rng(0)
    keys = random.standard_normal((400, 8)).astype(np.float32)
    keys[:3], keys[3:6] = keys[0] + 0.01 * keys[:3], -(keys[0] + 0.01 * keys[3:6])
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    associates, own = [np.arange(6)], np.array([399])
    shares = []
    for count in (1, 2):
        points = ceilings.best_points(torch.from_numpy(keys), associates, own, count)
        assert points.shape == (1, count, 8)
        scores = (points[0] @ keys.T).max(axis=0)
        shares.append(metrics.recall(metrics.top(scores[None], 6)[0], associates[0]))
    assert shares[0] <= 0.5
    assert shares[1] == 1.0


def test_a_perfect_ranking_scores_what_it_must(setting):
    found = ceilings._perfect(setting)
    assert found["AP@1"] == found["R@20"] == found["CBR@20"] == found["AUC"] == 1.0


def test_noise_is_the_same_draw_at_every_level(setting):
    rows = noise.chosen(setting).precision[:5]
    states = setting.world.states[rows]
    little, much = (noise.noisy(setting, level)(rows) - states for level in (0.1, 1.0))
    np.testing.assert_allclose(10 * little, much, atol=1e-4)
    assert much.std() == pytest.approx(1.0, abs=0.1)


def test_queries_can_be_chosen_among_some_states_only(setting):
    only = np.arange(0, 400, 3)
    assert np.isin(choose_queries(setting.world, only=only).precision, only).all()


@pytest.mark.slow
def test_an_experiment_runs_resumes_and_is_drawn_and_put_on_a_page(setting, tmp_path, monkeypatch):
    setting = replace(setting, trajectories=2)
    table = main_table.run(setting)[0]
    assert table.columns["default recall"]["AP@5"] > table.columns["cosine"]["CBR@20"]
    monkeypatch.setattr(fits, "index_of", lambda *_: pytest.fail("fitted again"))
    resumed = main_table.run(replace(setting, read_only=True))[0]
    assert resumed.text() == table.text()
    missing = figures.draw(setting, tmp_path / "images")
    drawn = {path.stem for path in (tmp_path / "images").glob("*.png")}
    assert drawn == {"paper-1-precision", "paper-2-discrimination"}
    assert {reason.split(":")[0] for reason in missing} == set(figures.PICTURES) - drawn
    (tmp_path / "page.md").write_text("# A\n<!-- results: main -->\nold\n<!-- end -->\nrest\n")
    page.fill(setting, tmp_path / "page.md")
    filled = (tmp_path / "page.md").read_text()
    assert "old" not in filled
    assert "| default recall |" in filled
    assert "Protocol published: not run yet" in filled
    assert filled.endswith("<!-- end -->\nrest\n")
