"""A world with constant background: every second step of an episode is one of a few states that occur everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.types import Float32, Int64

DIM, LENGTH, WINDOW = 64, 12, 3


@dataclass(frozen=True)
class World:
    """Episodes of moments that occur once and background that occurs everywhere.

    Attributes:
        states: (N, 64) float32: the background, then the moments.
        episodes: (E, 12) int64 rows of ``states``; half of each is background if there is any.
        background: number of the first states that are background.
    """

    states: Float32
    episodes: Int64
    background: int

    def relevant(self) -> list[Int64]:
        """Returns for each moment the other moments within the window, which recall should find."""
        found: list[list[int]] = [[] for _ in self.states]
        for offset in range(1, WINDOW + 1):
            left, right = self.episodes[:, :-offset].ravel(), self.episodes[:, offset:].ravel()
            both = (left >= self.background) & (right >= self.background)
            for a, b in zip(left[both].tolist(), right[both].tolist(), strict=True):
                found[a].append(b)
                found[b].append(a)
        return [np.array(sorted(rows), np.int64) for rows in found]


def build(seed: int, episodes: int = 500, background: int = 20) -> World:
    """Builds a world; ``background=0`` builds a clean world of moments only."""
    random = np.random.default_rng(seed)
    rows = np.full((episodes, LENGTH), -1)
    if background:
        positions = np.argsort(random.random((episodes, LENGTH)), axis=1)[:, : LENGTH // 2]
        np.put_along_axis(rows, positions, random.integers(0, background, positions.shape), axis=1)
    free = rows < 0
    rows[free] = background + np.arange(free.sum())
    states = random.standard_normal((background + free.sum(), DIM)) / np.sqrt(DIM)
    return World(states.astype(np.float32), rows, background)
