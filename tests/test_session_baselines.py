"""Baselines that read whole sessions give the known answers of small worlds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.baselines.gru import GRU4Rec, parallel
from benchmarks.baselines.sessions import Neighbours, SecondOrder, grids

WALKS = [[0, 1, 2], [0, 1, 2], [3, 1, 4], [5, 6]]


def test_second_order_backs_off():
    model = SecondOrder(2.0)
    model.fit(WALKS, 7)
    popular = (np.array([0, 3, 2, 0, 1, 0, 1]) + 2 / 7) / 9
    after_one = (np.array([0, 0, 2, 0, 1, 0, 0]) + 2 * popular) / 5
    np.testing.assert_allclose(model.scores([3, 1]), (np.array([0, 0, 0, 0, 1, 0, 0]) + 2 * after_one) / 3)
    np.testing.assert_allclose(model.scores([6, 1]), after_one)
    np.testing.assert_allclose(model.scores([2]), popular)


def test_vsknn_adds_up_the_sessions_that_share_steps():
    model = Neighbours(rare=False)
    model.fit(WALKS, 7)
    # the steps of the query weigh 1/2 and 1: two sessions share both (1.5), one shares only the newest (1);
    # all three share the newest step of the query, so no session loses weight
    np.testing.assert_allclose(model.scores([0, 1]), [3, 4, 3, 1, 1, 0, 0])
    # the newest shared step is one step before the end (.9), and weighs 1/2
    np.testing.assert_allclose(model.scores([5, 2]), [2, 2, 2, 0, 0, 0.45, 0.45])


def test_stan_counts_what_is_near_in_sessions_like_it_of_late():
    model = Neighbours(earlier=1.0, nearer=1.0, recent=10.0, rare=False, normed=True)
    model.fit(WALKS, 7)
    both = (1 + np.exp(-1)) / np.sqrt(6) * (np.exp(-0.4) + np.exp(-0.3))
    one = 1 / np.sqrt(6) * np.exp(-0.2)
    expected = np.array([both, 0, both, one, one, 0, 0]) * np.exp(-1)
    np.testing.assert_allclose(model.scores([0, 1]), expected)


@pytest.mark.parametrize("name", ["second order", "VSKNN", "STAN"])
def test_all_find_what_always_follows(name):
    rings = [[10 * ring + (at + step) % 10 for step in range(5)] for ring in range(3) for at in range(10)]
    for model in grids()[name]:
        model.fit(rings, 30)
        scores = model.scores([3, 4])
        scores[[3, 4]] = 0
        assert int(np.argmax(scores)) in ((5,) if name == "second order" else (2, 5))
        assert model.scores([29]).shape == (30,)


def test_parallel_sessions_read_each_step_once_and_in_order():
    """Each slot reads whole sessions, one after the other; a session never changes its slot."""
    walks = [np.arange(10 * at, 10 * at + length) for at, length in enumerate([2, 5, 3, 2, 4])]
    pairs: list[tuple[int, int]] = []
    last: dict[int, int] = {}
    for slots, new, read, came in parallel(walks, 2):
        assert len(slots) <= 2
        for slot, first, one, other in zip(slots.tolist(), new.tolist(), read.tolist(), came.tolist(), strict=True):
            assert first == (one % 10 == 0)
            assert first or last[slot] == one  # the state of the slot belongs to this session
            last[slot] = other
            pairs.append((one, other))
    assert sorted(pairs) == [(int(one), int(one) + 1) for walk in walks for one in walk[:-1]]


def test_a_recurrent_network_learns_an_order_that_the_last_item_does_not_tell():
    """After 0, 2 comes 3 and after 1, 2 comes 4. A Markov chain is right half of the time."""
    walks = [[0, 2, 3], [1, 2, 4]] * 40
    model = GRU4Rec(units=16, batch=8, dropped_items=0, dropped_units=0, epochs=30)
    model.fit(walks, 5)
    assert int(model.scores([0, 2]).argmax()) == 3
    assert int(model.scores([1, 2]).argmax()) == 4


def test_training_from_a_checkpoint_ends_with_the_same_weights(tmp_path):
    walks = [[at % 5, (at + 1) % 5, (at + 2) % 5] for at in range(20)]
    whole, first, second = (GRU4Rec(units=8, batch=4, epochs=2) for _ in range(3))
    whole.fit(walks, 5)
    first.start(walks, 5)
    first.one_pass()
    first.save(tmp_path / "one.pt")
    second.start(walks, 5)
    second.load(tmp_path / "one.pt")
    second.one_pass()
    np.testing.assert_array_equal(second.scores([0, 1]), whole.scores([0, 1]))
