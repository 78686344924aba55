"""An endless stream in which the same routines recur, each time slightly different.

A routine is a sequence of situations that are not similar to each other. An episode plays one routine: its states are
noisy views of the situations, plus a small vector of the day that all states of the episode share. So a growing index
fills with similar episodes, which are increasingly hard to distinguish (pam.tex 3.9).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.types import Float32, Int64

DIM, LENGTH, WINDOW = 64, 10, 5


@dataclass(frozen=True)
class Routines:
    """The situations, from which any number of episodes can be drawn.

    Attributes:
        situations: (R, 10, 64) float32.
        noise: length of the part that differs between any two views of a situation; a situation has length 1.
        day: length of the part that the states of an episode share.
    """

    situations: Float32
    noise: float = 0.3
    day: float = 0.4

    def episodes(self, count: int, seed: int) -> tuple[Float32, Int64]:
        """Returns (count, 10, 64) states of episodes, and (count,) the routine of each."""
        random = np.random.default_rng(seed)
        played = random.integers(0, len(self.situations), count)
        noise = random.standard_normal((count, LENGTH, DIM), np.float32) * np.float32(self.noise / np.sqrt(DIM))
        day = random.standard_normal((count, 1, DIM), np.float32) * np.float32(self.day / np.sqrt(DIM))
        return self.situations[played] + noise + day, played


def build(seed: int, routines: int = 200) -> Routines:
    random = np.random.default_rng(seed)
    return Routines((random.standard_normal((routines, LENGTH, DIM)) / np.sqrt(DIM)).astype(np.float32))
