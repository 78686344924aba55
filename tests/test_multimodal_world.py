"""The multimodal world: events follow rules, and no observation occurs twice."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.worlds import multimodal as world_module
from benchmarks.worlds.multimodal import EAST, MISSING, NORTH, SOUTH, STAY, WEST, build, move


@pytest.fixture(scope="module")
def world():
    return build(seed=3, episodes=20, length=30, events=5)


def test_the_ring_of_rooms():
    spots = np.arange(world_module.SPOTS)
    ring = world_module.ROOMS * world_module.COLUMNS
    for there, back in ((EAST, WEST), (WEST, EAST)):
        np.testing.assert_array_equal(move(move(spots, np.full(48, there)), np.full(48, back)), spots)
        around = spots
        for _ in range(ring):
            around = move(around, np.full(48, there))
        np.testing.assert_array_equal(around, spots)
    north, south = (move(spots, np.full(48, action)) for action in (NORTH, SOUTH))
    assert (north == spots).sum() == (south == spots).sum() == 24  # every other spot has a wall
    np.testing.assert_array_equal(move(north, np.full(48, SOUTH)), south)
    np.testing.assert_array_equal(move(spots, np.full(48, STAY)), spots)
    assert move(np.array([2]), np.array([EAST]))[0] == 6  # through the door, into the next room


def test_what_happens_follows_from_the_actions(world):
    went_on = world.position[1:] > 0
    np.testing.assert_array_equal(move(world.spot[:-1], world.action[:-1])[went_on], world.spot[1:][went_on])
    for name in ("activity", "person", "weather"):
        assert all(len(np.unique(getattr(world, name)[world.episode == e])) == 1 for e in range(20))


def test_objects_persist_and_some_are_moved(world):
    calm = ~world.event
    for episode in range(20):
        inside = (world.episode == episode) & calm
        pairs = {(spot, thing) for spot, thing in zip(world.spot[inside], world.object[inside], strict=True)}
        assert len({spot for spot, _ in pairs}) == len(pairs) == len({thing for _, thing in pairs})
    home = np.array([np.bincount(world.object[calm & (world.spot == spot)]).argmax() for spot in np.unique(world.spot)])
    at_home = (world.object == home[np.searchsorted(np.unique(world.spot), world.spot)])[calm].mean()
    assert 0.6 < at_home < 0.9


def test_events_are_seen_once(world):
    assert world.event.sum() == 5
    assert sorted(world.object[world.event]) == list(range(48, 53))
    assert world.episode[world.event].tolist() == [0, 1, 2, 3, 4]


def test_the_seed_decides_and_no_view_comes_twice(world):
    rows = np.arange(40)
    first, present = world.observe(rows, seed=1)
    again, _ = world.observe(rows, seed=1)
    other, _ = world.observe(rows, seed=2)
    for name, values in first.items():
        assert len(values) == 40
        np.testing.assert_array_equal(values, again[name])
        assert (values != other[name]).reshape(40, -1).any(1).all()
    assert first["visual"].shape == (40, 3, 32, 32) and first["visual"].dtype == np.uint8
    assert all(np.isfinite(values.astype(float)).all() for values in first.values())
    assert np.any(list(present.values()), axis=0).all()


def test_senses_are_missing_at_the_stated_rates():
    world = build(seed=4)
    _, present = world.observe(np.arange(len(world)), seed=1)
    for name, rate in MISSING.items():
        assert 1 - present[name].mean() == pytest.approx(rate, abs=0.02)


def test_the_nearest_image_is_usually_of_another_object():
    """The nearest image is usually of another object, because the world mixes colours and light."""
    world = build(seed=5, episodes=30)
    values, _ = world.observe(np.arange(len(world)), seed=1)
    flat = values["visual"].reshape(len(world), -1).astype(np.float32)
    flat -= flat.mean(0)
    asked = np.arange(0, len(world), 6)
    distance = (flat**2).sum(1) - 2 * flat[asked] @ flat.T
    distance[np.arange(len(asked)), asked] = np.inf
    same = world.object[distance.argmin(1)] == world.object[asked]
    assert 0.05 < same.mean() < 0.5
