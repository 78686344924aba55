"""Associations equal the results of a plain loop over pairs of steps."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever.experience.cooccurrence import Experience, associate, within

MEMORIES = 7
trajectories = st.lists(
    st.lists(st.tuples(st.integers(0, MEMORIES - 1), st.integers(1, 3)), min_size=1, max_size=8), min_size=1, max_size=5
)


def as_experience(episodes: list[list[tuple[int, int]]]) -> Experience:
    states, numbers, positions = [], [], []
    for number, episode in enumerate(episodes):
        position = 0
        for state, gap in episode:
            position += gap  # a gap above 1 is the place of a deleted memory
            states.append(state)
            numbers.append(number)
            positions.append(position)
    return Experience(np.array(states), np.array(numbers), np.array(positions))


@given(trajectories, st.integers(1, 6))
def test_every_pair_within_the_window_and_no_other(episodes, window):
    experience = as_experience(episodes)
    expected = np.zeros((MEMORIES, MEMORIES))
    for a in range(len(experience)):
        for b in range(len(experience)):
            distance = abs(experience.position[a] - experience.position[b])
            same = experience.trajectory[a] == experience.trajectory[b]
            if same and 0 < distance <= window and experience.states[a] != experience.states[b]:
                expected[experience.states[a], experience.states[b]] += 1 / distance
    found = associate(experience, MEMORIES, window)
    dense = np.zeros((MEMORIES, MEMORIES))
    dense[found.anchors(), found.indices] = found.weights
    np.testing.assert_allclose(dense, expected, rtol=1e-6)
    assert len(found) == (expected > 0).sum()


@settings(max_examples=40)
@given(trajectories, st.sets(st.integers(0, MEMORIES - 1), min_size=1))
def test_the_part_among_some_members_is_that_block_of_the_matrix(episodes, members):
    """``within`` returns the block of the matrix of associations for some members."""
    found = associate(as_experience(episodes), MEMORIES, 3)
    dense = np.zeros((MEMORIES, MEMORIES), np.float32)
    dense[found.anchors(), found.indices] = found.weights
    chosen, lookup = np.array(sorted(members)), np.full(MEMORIES, -1)
    rows, columns, entry = within(found, chosen, lookup)
    block = np.zeros((len(chosen), len(chosen)), np.float32)
    block[rows, columns] = found.weights[entry]
    np.testing.assert_array_equal(block, dense[np.ix_(chosen, chosen)])
    assert (lookup == -1).all()
