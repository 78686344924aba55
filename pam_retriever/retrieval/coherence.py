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
FEW, PAIRS = 20, 200  # fewer pairs prove nothing; more are not compared


def pairs_within(rows: Int64, position: Int64, met: Int64) -> tuple[Int64, Int64]:
    """Returns the positions in sorted ``rows`` of memory and neighbour, for the neighbours ``met`` that are in it."""
    there = np.minimum(rows.searchsorted(met), len(rows) - 1)
    inside = rows[there] == met
    return position[inside], there[inside]


def neighbour_weights(links: CooccurrenceGraph, rows: Int64, keys: Float32, one: Int64, other: Int64) -> Float32 | None:
    """Returns how much the neighbours of each of sorted ``rows`` (n,) count; None if all count in full.

    The mean cosine of neighbours is compared with that of the same memories in all other pairs.

    Args:
        links: the experience.
        rows: (n,) memories, sorted.
        keys: (n, d or more) their vectors.
        one: (m,) the position in ``rows`` of a memory.
        other: (m,) the position of its neighbour.
    """
    both = np.flatnonzero(one < other)  # mostly each pair is there in both orders
    if len(both) > PAIRS:
        both = both[np.linspace(0, len(both) - 1, PAIRS).astype(np.int64)]
    both = both[links.in_long(rows[one[both]], LONG)]
    if len(both) < FEW:
        return None
    first, second = keys[one[both]], keys[other[both]]
    alike = float(np.einsum("ij,ij->", first, second)) / len(both)
    expected = float(first.mean(axis=0) @ second.mean(axis=0))  # the mean cosine of all first with all second memories
    others = np.einsum("ij,ij->i", first, np.roll(second, len(both) // 2, axis=0))
    difference = (alike - expected) / max(float(others.std()), 1e-6)
    weight = min(max(difference / ALIKE, LEAST), 1.0)
    return None if weight == 1 else np.where(links.in_long(rows, LONG), np.float32(weight), np.float32(1))
