"""Distinguishes a noisy copy of a memory from another thing that lies near it, by the direction in which it differs.

Noise points in every direction alike. Other memories differ from their neighbours in few directions: those in which the
data vary. With r of d directions, the part of isotropic noise that lies in them has a beta distribution with parameters
r / 2 and (d - r) / 2, whatever the length of the noise. More than that is no noise.
"""

from __future__ import annotations

import base64
import math
from functools import lru_cache

import numpy as np

from pam_retriever.errors import counted
from pam_retriever.model.keys import unit
from pam_retriever.types import Float32

MEMORIES, AMONG = 1_000, 10_000  # memories whose differences are measured; memories among which their neighbours are
FEWEST = 8  # differences to measure, at least
HALF = 0.5  # part of the differences that the directions hold
MOST, NUMBERS = 32, 12_288  # directions and their numbers, at most: Milvus stores 65,535 bytes in a value
SAME = 0.9999  # from this cosine on, a vector equals a memory
DEVIATIONS, WIDTH = 3.0, 0.3  # above the mean of noise, from which on a difference is no noise


def directions_of_differences(vectors: Float32, random: np.random.Generator) -> str | None:
    """Returns the directions (d, r) in which memories differ most from their nearest neighbours, packed.

    They are orthonormal, rounded to float16. None if there are too few memories, or more than 12,288 dimensions.

    Args:
        vectors: (M, d) memories.
        random: the generator for a sample.
    """
    most = min(MOST, vectors.shape[1] // 2, NUMBERS // max(vectors.shape[1], 1))
    if len(vectors) < FEWEST or not most:
        return None
    order = random.permutation(len(vectors))[:AMONG]
    among = unit(vectors[order])
    asked = among[:MEMORIES]
    cosine = asked @ among.T
    np.fill_diagonal(cosine, -np.inf)
    nearest = cosine.argmax(axis=1)
    apart = cosine[np.arange(len(asked)), nearest] < SAME
    differences = _differences(asked[apart], among[nearest[apart]])
    if len(differences) < FEWEST:
        return None
    lengths, directions = np.linalg.svd(differences, full_matrices=False)[1:]
    held = np.cumsum(lengths**2) / np.sum(lengths**2)
    r = min(int(np.searchsorted(held, HALF)) + 1, most)
    return pack(directions[:r].T)


def is_noise(vectors: Float32, nearest: Float32, directions: Float32) -> Float32:
    """Returns the probability (Q,) that the difference of each vector from its nearest memory is noise.

    Args:
        vectors: (Q, d), of unit length.
        nearest: (Q, d) the memory nearest to each, of unit length.
        directions: (d, r) from ``unpack``.
    """
    d, r = directions.shape
    inside = np.square(_differences(vectors, nearest) @ directions).sum(axis=1)
    deviation = math.sqrt(2 * r * (d - r) / (d + 2)) / d
    above = (inside - r / d) / deviation
    return is_above(-above, -DEVIATIONS, WIDTH).astype(np.float32)


def is_above(value: Float32, threshold: float, width: float) -> Float32:
    """Returns the probability (n,) that each value is above a threshold, which is uncertain by ``width``."""
    above: Float32 = 0.5 + 0.5 * np.tanh((value - threshold) / (2 * width))
    return above


def pack(directions: Float32) -> str:
    """Returns directions (d, r) as text."""
    return base64.b64encode(np.ascontiguousarray(directions, "<f2").tobytes()).decode("ascii")


@lru_cache(maxsize=64)  # every query needs those of its index
def unpack(packed: str, dim: int) -> Float32:
    """Returns the directions (d, r) of ``pack``. They must not be changed.

    Raises:
        ValueError: these are no directions of dimension ``dim``.
    """
    numbers = np.frombuffer(base64.b64decode(packed, validate=True), "<f2").astype(np.float32)
    if not len(numbers) or len(numbers) % dim or len(numbers) > NUMBERS or not (np.abs(numbers) <= 1).all():
        raise ValueError(f"directions of {counted(len(numbers), 'number')} in dimension {dim}")
    numbers.flags.writeable = False
    return numbers.reshape(dim, -1)


def _differences(vectors: Float32, nearest: Float32) -> Float32:
    """Returns the direction (n, d) in which each vector leaves the memory nearest to it. All have unit length."""
    along = np.einsum("nd,nd->n", vectors, nearest)
    return unit(vectors - along[:, None] * nearest)
