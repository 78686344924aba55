"""The two predictors and the encoder: each part equals a plain calculation, and they learn a planted world."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
import torch
from torch import nn

from pam_retriever import InvalidInput
from pam_retriever.experience.cooccurrence import Experience
from pam_retriever.jepa import CompositeEncoder, JointConfig, JointTrainer, Modality, OutwardPredictor, salience_of
from pam_retriever.jepa import encoder as encoder_module
from pam_retriever.jepa.batches import TrainingData
from pam_retriever.jepa.collapse import effective_rank, spread, variance_loss
from pam_retriever.jepa.ema import follow, make_target
from pam_retriever.jepa.observations import read_observations, unpack


def test_effective_rank_and_spread():
    random = torch.Generator().manual_seed(0)
    isotropic = torch.linalg.qr(torch.randn(200, 16, generator=random))[0]
    assert effective_rank(isotropic) == pytest.approx(16)
    assert effective_rank(isotropic @ torch.diag(torch.tensor([1.0] * 4 + [0.0] * 12))) == pytest.approx(4)
    assert effective_rank(torch.ones(200, 16)) == pytest.approx(1, abs=1e-4)
    assert spread(torch.ones(200, 16)) == pytest.approx(0, abs=1e-6)
    assert spread(torch.randn(5000, 16, generator=random)) == pytest.approx(1, abs=0.02)


def test_variance_loss_is_the_hinge_of_each_deviation():
    states = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([2.0, 0.5, 0.1, 0.0])
    deviation = np.sqrt(states.numpy().var(axis=0, ddof=1) + 1e-4)
    expected = np.maximum(0, 1 - deviation).mean()
    assert variance_loss(states).item() == pytest.approx(expected, rel=1e-5)


def test_the_target_follows_by_a_moving_average():
    encoder = nn.Linear(2, 2)
    target = make_target(encoder)
    before = encoder.weight.detach().clone()
    with torch.no_grad():
        encoder.weight += 1
    follow(target, encoder, 0.9)
    torch.testing.assert_close(target.weight, before + 0.1)
    assert not any(p.requires_grad for p in target.parameters())


def test_missing_modalities_do_not_leak():
    encoder = CompositeEncoder({"a": Modality.vector(3), "b": Modality.vector(2)}, dim=8)
    seen = {"a": np.ones((2, 3)), "b": [None, [1.0, 2.0]]}
    read = read_observations(seen, encoder.modalities, "test")
    first = encoder.encode(read)
    read.values["b"][0] = 99  # the value of a missing entry has no effect
    np.testing.assert_array_equal(encoder.encode(read), first)
    assert np.abs(first[0] - first[1]).max() > 0.01
    np.testing.assert_allclose(first.mean(1), 0, atol=1e-5)
    np.testing.assert_allclose(first.std(1), 1, atol=1e-3)


def test_concatenation_is_the_weighted_mean_of_cosines():
    kinds = {"a": Modality.vector(3, precomputed=True), "b": Modality.vector(2, precomputed=True)}
    encoder = CompositeEncoder(kinds, fusion="concatenate", weights={"b": 0.5})
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 3)), random.standard_normal((2, 2))
    x, y = encoder.encode({"a": a, "b": b})

    def cosine(u, v):
        return u @ v / np.linalg.norm(u) / np.linalg.norm(v)

    assert cosine(x, y) == pytest.approx((cosine(*a) + 0.5 * cosine(*b)) / 1.5, abs=1e-5)
    only = encoder.encode([{"a": a[0]}])[0]
    assert only @ y == pytest.approx(cosine(*a), abs=1e-5)


def test_the_seed_decides_the_weights_and_no_global_generator_moves():
    state = torch.get_rng_state()
    kinds = {"image": Modality.image((3, 16, 16)), "x": Modality.vector(4)}
    first, same, other = (CompositeEncoder(kinds, 8, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["straight.weight"], other["straight.weight"])
    assert torch.equal(torch.get_rng_state(), state)


def test_packed_observations_come_back():
    kinds = {"image": Modality.image((1, 8, 8)), "x": Modality.vector(2), "who": Modality.category(["a", "b"])}
    given = [{"image": np.full((1, 8, 8), 7), "who": "b"}, {"x": [1, 2]}, {"x": [3, 4], "who": "a"}]
    read = read_observations(given, kinds, "test")
    back = unpack(read.pack(), kinds)
    for name in kinds:
        np.testing.assert_array_equal(back.present[name], read.present[name])
        there = read.present[name]
        np.testing.assert_array_equal(back.values[name][there], read.values[name][there])
    assert back.values["image"].dtype == np.uint8


def test_steps_ahead_stop_at_the_end_and_at_gaps():
    """A step has no next steps beyond the end of its trajectory, nor beyond a gap."""
    experience = Experience(np.arange(7), np.array([0, 0, 0, 0, 1, 1, 1]), np.array([0, 1, 3, 4, 0, 1, 2]))
    kinds = {"x": Modality.vector(1)}
    read = read_observations({"x": np.ones((7, 1))}, kinds, "test")
    data = TrainingData.of(read, experience, np.arange(7), 2, None)
    expected = [[1, -1], [-1, -1], [3, -1], [-1, -1], [5, 6], [6, -1], [-1, -1]]
    assert data.ahead(np.arange(7), 2).tolist() == expected
    # for a batch without some steps, the result has positions in the batch
    assert data.ahead(np.array([4, 6]), 2).tolist() == [[-1, 1], [-1, -1]]
    assert data.future_actions(np.array([0, 6]), 2).tolist() == [[0, 1], [6, 6]]


def test_segments_hold_every_pair_within_the_window():
    experience = Experience(np.arange(33), np.repeat([0, 1], [25, 8]), np.concatenate([np.arange(25), np.arange(8)]))
    read = read_observations({"x": np.ones((33, 1))}, {"x": Modality.vector(1)}, "test")
    segments = TrainingData.of(read, experience, None, 3, None).segments(10, horizon=2, window=3)
    assert (segments[:, 1] - segments[:, 0]).max() <= 10
    together = {(i, j) for a, b in segments.tolist() for i in range(a, b) for j in range(i, b)}
    for step in range(33):
        for other in range(step, min(step + 4, 25 if step < 25 else 33)):
            assert (step, other) in together


class Walks:
    """Walks on a ring of six places, which two modalities observe; action 1 goes to the next place, 0 stays."""

    def __init__(self, seed: int = 0, walks: int = 30, length: int = 12) -> None:
        random = np.random.default_rng(seed)
        codes = np.random.default_rng(99).standard_normal((6, 6))
        self.action = random.integers(0, 2, walks * length)
        start, moved = random.integers(0, 6, walks), self.action.reshape(walks, length).cumsum(1)
        place = (start[:, None] + np.concatenate([np.zeros((walks, 1), int), moved[:, :-1]], 1)) % 6
        self.place = place.ravel()
        noisy = codes[self.place] + 0.1 * random.standard_normal((walks * length, 6))
        self.observed = {"left": noisy[:, :3], "right": noisy[:, 3:]}
        steps = np.arange(walks * length)
        self.experience = Experience(steps, steps // length, steps % length)


KINDS = {"left": Modality.vector(3), "right": Modality.vector(3)}
SHORT = JointConfig(passes=25, batch_size=120, learning_rate=3e-3, hidden=64, horizon=2)


@pytest.mark.slow
def test_the_outward_predictor_learns_where_an_action_leads():
    walks = Walks()
    outward = OutwardPredictor(16, actions=2, hidden=64)
    config = JointConfig(passes=60, batch_size=60, learning_rate=3e-3, momentum=0.9, hidden=64, horizon=2)
    trainer = JointTrainer(CompositeEncoder(KINDS, 16, 16, 32), outward, config=config)
    report = trainer.fit(walks.observed, walks.experience, walks.action, 2, progress=False)
    assert report.outward[-1] < 0.5 * report.outward[0]
    assert report.inward[-1] < report.inward[0]
    assert len(report.effective_rank) == 60 and not report.collapsed
    fresh = Walks(seed=1)
    states = trainer.target.encode(fresh.observed)
    went_on = np.flatnonzero(np.diff(fresh.experience.trajectory) == 0)
    with torch.no_grad():
        predicted = outward(torch.from_numpy(states[:-1]), torch.from_numpy(fresh.action[:-1])).numpy()
    centres = np.stack([states[fresh.place == place].mean(0) for place in range(6)])
    nearest = (predicted @ centres.T).argmax(1)
    assert (nearest == fresh.place[1:])[went_on].mean() > 0.9
    # a jump to a place that no action reaches is a surprise
    jumped = Walks(seed=1)
    at = went_on[5] + 1
    wrong = np.flatnonzero(jumped.place == (jumped.place[at] + 3) % 6)[0]
    for sense in jumped.observed.values():
        sense[at] = sense[wrong]
    surprise = trainer.surprise(jumped.observed, jumped.experience, jumped.action)
    assert surprise[jumped.experience.position == 0].max() == 0
    assert surprise[at] > 5 * np.median(surprise[went_on + 1])


def test_without_a_stop_gradient_it_collapses():
    walks = Walks()
    neither = JointConfig(**{**vars(SHORT), "momentum": None, "stop_gradient": False, "inward": 0.0})
    trainer = JointTrainer(
        CompositeEncoder(KINDS, 16, 16, 32), OutwardPredictor(16, actions=2, hidden=64), config=neither
    )
    assert trainer.fit(walks.observed, walks.experience, walks.action, 2, progress=False).effective_rank[-1] < 2.5


def test_gradient_reaches_the_encoder_through_targets_only_if_it_may():
    walks = Walks()
    for momentum in (None, 0.9):
        for stop in (False, True):
            config = JointConfig(momentum=momentum, stop_gradient=stop)
            trainer = JointTrainer(CompositeEncoder(KINDS, 16, 16, 32), config=config)
            read = read_observations(walks.observed, KINDS, "test")
            values, present = trainer.encoder.tensors(read, torch.device("cpu"))
            states = trainer.encoder(values, present)
            targets = trainer._targets(states, values, present)
            assert targets.requires_grad is not stop
            # before the first step the target encoder equals the encoder
            torch.testing.assert_close(targets.detach(), states.detach())


def test_the_example_of_the_encoder():
    assert doctest.testmod(encoder_module).failed == 0


def test_salience_rises_with_surprise_beyond_the_usual():
    surprise = np.concatenate([[0.0], np.linspace(0.1, 0.2, 101), [5.0]])
    salience = salience_of(surprise, strongest=7)
    assert salience[0] == 1 and (salience[1:-1] == 1).all() and salience[-1] == 7


def test_the_same_seed_gives_the_same_weights():
    walks = Walks(walks=6)
    config = JointConfig(passes=2, batch_size=30, hidden=32)
    ranks = []
    for _ in range(2):
        trainer = JointTrainer(CompositeEncoder(KINDS, 8, 8, 16), config=config)
        ranks.append(trainer.fit(walks.observed, walks.experience, window=2, seed=3, progress=False).inward)
    assert ranks[0] == ranks[1]


def test_whole_numbers_of_any_size_are_actions():
    walks = Walks(walks=4)
    config = JointConfig(passes=1, settle=1, batch_size=30, hidden=32)
    for actions in (walks.action.astype(np.int32), walks.action.tolist()):
        trainer = JointTrainer(CompositeEncoder(KINDS, 8, 8, 16), OutwardPredictor(8, actions=2), config=config)
        assert trainer.fit(walks.observed, walks.experience, actions, progress=False).steps
        assert trainer.surprise(walks.observed, walks.experience, actions).shape == (48,)


def test_a_batch_without_a_next_step_or_an_associate_changes_nothing():
    walks = Walks(walks=1)
    alone = Experience(walks.experience.states, np.arange(12), np.zeros(12, np.int64))
    config = JointConfig(passes=1, settle=1, batch_size=4, hidden=32)
    trainer = JointTrainer(CompositeEncoder(KINDS, 8, 8, 16), config=config)
    assert trainer.fit(walks.observed, alone, progress=False).outward == (0.0,)


@pytest.mark.parametrize(
    "wrong",
    [
        {"passes": 0},
        {"batch_size": 0},
        {"horizon": 0},
        {"settle": -1},
        {"temperature": 0.0},
        {"drop": 2.0},
        {"momentum": 5.0},
        {"learning_rate": float("nan")},
        {"stop_gradient": "no"},
        {"passes": "3"},
    ],
)
def test_a_joint_configuration_refuses_what_makes_no_sense(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        JointConfig(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Modality.category("Ada"), "values='Ada'"),
        (lambda: Modality.vector("4"), "dim='4'"),
        (lambda: Modality.time([0.0]), "periods"),
        (lambda: Modality.image((8, 8)), "channels"),
        (lambda: CompositeEncoder([Modality.vector(2)]), "a dict of name"),
        (lambda: CompositeEncoder(KINDS, weights={"left": 2.0}), "concatenate"),
        (lambda: CompositeEncoder(KINDS, fusion="concatenate", weights={"left": "2"}), "numbers above 0"),
        (lambda: OutwardPredictor(8, actions=2, action_dim=2), "one of them"),
        (lambda: OutwardPredictor(8, action_dim=-2), "action_dim=-2"),
        (lambda: OutwardPredictor(8, hidden=0), "hidden=0"),
    ],
)
def test_modules_refuse_what_makes_no_sense(wrong, message):
    with pytest.raises(InvalidInput, match=message):
        wrong()


def test_an_encoder_stays_in_training_after_an_error():
    def broken(names):
        raise OSError(names)

    kind = Modality.custom(torch.nn.Identity(), (2,), 2, loader=broken)
    encoder = CompositeEncoder({"file": kind}, 8)
    with pytest.raises(OSError, match="a"):
        encoder.encode([{"file": "a"}])
    assert encoder.training


def test_bad_training_input():
    walks = Walks(walks=4)
    encoder = CompositeEncoder(KINDS, 8, 8, 16)
    trainer = JointTrainer(encoder, OutwardPredictor(8, actions=2))
    with pytest.raises(InvalidInput, match="no actions"):
        trainer.fit(walks.observed, walks.experience)
    with pytest.raises(InvalidInput, match="whole numbers from 0 to 1"):
        trainer.fit(walks.observed, walks.experience, walks.action + 1)
    with pytest.raises(InvalidInput, match="salience"):
        trainer.fit(walks.observed, walks.experience, walks.action, salience=np.full(48, -1.0))
    for wrong in ({"window": 0}, {"window": "5"}, {"seed": -1}, {"progress": "no"}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            trainer.fit(walks.observed, walks.experience, walks.action, **wrong)
    nowhere = Experience(np.array([0, 99]), np.zeros(2, np.int64), np.arange(2))
    with pytest.raises(InvalidInput, match="states below"):
        trainer.surprise(walks.observed, nowhere, walks.action[:2])
    short = {name: sense[:5] for name, sense in walks.observed.items()}
    with pytest.raises(InvalidInput, match="states below"):
        trainer.fit(short, walks.experience, walks.action)
    with pytest.raises(InvalidInput, match="dim=4"):
        JointTrainer(encoder, OutwardPredictor(4))
    with pytest.raises(InvalidInput, match="at least one"):
        CompositeEncoder({})
    with pytest.raises(InvalidInput, match="without dots"):
        CompositeEncoder({"a.b": Modality.vector(2)})
    with pytest.raises(InvalidInput, match="at least 8 x 8"):
        CompositeEncoder({"a": Modality.image((3, 4, 4))})
