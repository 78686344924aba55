"""Do neighbours in trajectories belong together?

A conversation keeps to its topic, so neighbours in it are more alike than two memories that are not neighbours (Hearst
1997 finds the topics of a text in this way). A long trajectory in which they are not is a list: notes that were
stored one after the other. The neighbours of a note then say nothing about it.
"""

from __future__ import annotations

import numpy as np

from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.types import Float32, Int64

LONG = 20  # steps; a shorter trajectory is taken as its user stored it
ALIKE = 0.2  # difference of the cosines, in standard deviations, from which on neighbours count in full
LEAST = 0.2  # what neighbours count at least: alike or not, they were stored together
FEW, PAIRS = 20, 300  # fewer pairs prove nothing; more are not compared


def neighbour_weights(
    links: CooccurrenceGraph, rows: Int64, keys: Float32, position: Int64, met: Int64
) -> Float32 | None:
    """Returns how much the neighbours of each of sorted ``rows`` (n,) count; None if all count in full.

    The mean cosine of neighbours is compared with that of the same memories in all other pairs.

    Args:
        links: the experience.
        rows: (n,) memories, sorted.
        keys: (n, d or more) their vectors.
        position: (m,) the position in ``rows`` of the memory of each neighbour.
        met: (m,) the neighbours.
    """
    if not len(met):
        return None
    long = links.in_long(rows, LONG)
    there = np.minimum(np.searchsorted(rows, met), len(rows) - 1)
    compared = long[position] & (rows[there] == met)
    one, other = position[compared], there[compared]
    pairs = np.unique(np.minimum(one, other) * len(rows) + np.maximum(one, other))  # mostly each is there twice
    if len(pairs) < FEW:
        return None
    if len(pairs) > PAIRS:
        pairs = pairs[np.linspace(0, len(pairs) - 1, PAIRS).astype(np.int64)]
    first, second = keys[pairs // len(rows)], keys[pairs % len(rows)]
    alike = float(np.einsum("ij,ij->", first, second)) / len(pairs)
    expected = float(first.mean(axis=0) @ second.mean(axis=0))  # the mean cosine of all first with all second memories
    others = np.einsum("ij,ij->i", first, np.roll(second, len(pairs) // 2, axis=0))
    difference = (alike - expected) / max(float(others.std()), 1e-6)
    weight = min(max(difference / ALIKE, LEAST), 1.0)
    return None if weight == 1 else np.where(long, np.float32(weight), np.float32(1))
