"""A world of any size, generated in chunks, so that it need not fit into memory.

A state is a point of a 24-dimensional latent space, mapped to ``dim`` dimensions by a fixed random network, as
embeddings lie near a surface of few dimensions. Each trajectory of 20 states walks along a Markov chain of
topics with five successors each, so that a model can predict pairs that were never seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LATENT, TOPICS, SUCCESSORS, LENGTH = 24, 2_000, 5, 20
STAY, SPREAD, NOISE = 0.7, 0.6, 0.02

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True)
class World:
    """``memories`` states of ``dim`` dimensions; state i is step i % 20 of trajectory i // 20."""

    memories: int
    dim: int
    seed: int = 0

    def chunks(self, size: int = 100_000) -> Iterator[Float32]:
        """Yields the states in order; a chunk consists of whole trajectories."""
        for number, start in enumerate(range(0, self.memories, size)):
            yield self._chunk(number, min(size, self.memories - start))

    def states(self) -> Float32:
        """Returns (memories, dim) all states at once."""
        return np.concatenate(list(self.chunks()))

    def _chunk(self, number: int, count: int) -> Float32:
        fixed = np.random.default_rng(self.seed)
        topics = fixed.standard_normal((TOPICS, LATENT)).astype(np.float32)
        successors = fixed.integers(0, TOPICS, (TOPICS, SUCCESSORS))
        inward = (fixed.standard_normal((LATENT, 2 * LATENT)) / np.sqrt(LATENT)).astype(np.float32)
        outward = fixed.standard_normal((2 * LATENT, self.dim)).astype(np.float32)
        random = np.random.default_rng([self.seed, number])
        walks = -(-count // LENGTH)
        topic = np.empty((walks, LENGTH), np.int64)
        topic[:, 0] = random.integers(0, TOPICS, walks)
        for at in range(1, LENGTH):
            moved = successors[topic[:, at - 1], random.integers(0, SUCCESSORS, walks)]
            topic[:, at] = np.where(random.random(walks) < STAY, topic[:, at - 1], moved)
        position = topics[topic.ravel()[:count]]
        position += np.float32(SPREAD) * random.standard_normal((count, LATENT), np.float32)
        states = np.tanh(position @ inward) @ outward
        states /= np.linalg.norm(states, axis=1, keepdims=True)
        noise = random.standard_normal((count, self.dim), np.float32)
        states += np.float32(NOISE / np.sqrt(self.dim / 128)) * noise
        return states
