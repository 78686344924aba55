"""The part of an association in one direction: after, or before.

The predictor is trained on pairs in both orders. The part in one direction follows from links: p(memory, after | cue) =
p(memory | cue) p(after | cue, memory). The second factor is the smoothed share of co-occurrences in this
direction. It counts co-occurrences of the cue, or of memories that look like it. Without any the share does not change.
Models that predict the direction of any pair were worse: benchmarks/notes/direction.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.arrays import firsts
from pam_retriever.experience.cooccurrence import Links
from pam_retriever.experience.walk import LEAST
from pam_retriever.model.scoring import LOOK_ALIKES
from pam_retriever.retrieval.cues import Cues, look_alikes
from pam_retriever.store.view import View
from pam_retriever.types import Float32, Int64

UNDECIDED = 0.001  # pseudo-count of co-occurrences, half in each direction; a co-occurrence at distance 1 counts 1


@dataclass(frozen=True)
class DirectedShares:
    """For pairs of a query and a memory, the part of their links that lies in a direction.

    Attributes:
        keys: (E,) the pairs with co-occurrences, as rising numbers; None without a direction.
        width: the factor of the query in these numbers.
        factor: (E,) from 0 (all co-occurrences in the other direction) to 1 (at least half in this one).
        met: (E,) the strength of the co-occurrences in this direction.
    """

    keys: Int64 | None
    width: int
    factor: Float32
    met: Float32

    @classmethod
    def of(cls, view: View, cues: Cues, sure: Float32) -> DirectedShares:
        """Reads the links in the direction of a view.

        Args:
            view: a view of the index.
            cues: Q queries.
            sure: (Q,) the probability that each is an experienced memory; otherwise the links of its look-alikes count.
        """
        if view.links.direction is None:
            nothing = np.empty(0, np.float32)
            return cls(None, 0, nothing, nothing)
        query, row, mass = _seeds(view, cues, sure)
        seed, linked, there, weight = view.links.sides(row, view.window)
        width = int(linked.max(initial=0)) + 1
        pairs, strength = query.take(seed) * width + linked, mass.take(seed) * weight
        order = pairs.argsort(kind="stable")  # np.unique takes longer
        pairs, strength = pairs.take(order), strength.take(order)
        first = firsts(pairs)
        keys, position = pairs[first], first.cumsum() - 1
        whole = np.bincount(position, strength).astype(np.float32)
        this = np.bincount(position, strength * there.take(order)).astype(np.float32)
        part = (this + UNDECIDED / 2) / (whole + UNDECIDED)
        return cls(keys, width, np.minimum(2 * part, 1).astype(np.float32), this)

    def of_pairs(self, query: Int64 | int, row: Int64, value: Float32) -> Float32:
        """Returns the directed part (n,) of a value of each pair; all of it without a direction or if negative.

        ``query`` may be one query for all ``row`` (n,).
        """
        if self.keys is None or not len(self.keys):
            return value
        key = query * self.width + row
        position = np.minimum(self.keys.searchsorted(key), len(self.keys) - 1)
        known = (self.keys[position] == key) & (row < self.width) & (value > 0)
        left: Float32 = np.where(known, value * self.factor[position], value)
        return left

    def linked(self, query: int) -> Int64:
        """Returns the memories that are linked to one query in the direction, sorted."""
        assert self.keys is not None
        first = query * self.width
        mine = slice(*self.keys.searchsorted(np.array([first, first + self.width])))
        return self.keys[mine][self.met[mine] > 0] - first


def _seeds(view: View, cues: Cues, sure: Float32) -> Links:
    """Returns query, row and mass of the memories whose links count for each query: the cue and its look-alikes."""
    query, row, mass = cues.meant
    mass = mass * sure[query]
    asking = (sure < 1 - LEAST).nonzero()[0]
    if len(asking):
        alike, others = look_alikes(cues, asking, view, cues.among)
        usable = (others > 0) & view.links.experienced(alike)
        usable &= usable.cumsum(axis=1) <= LOOK_ALIKES
        others = np.where(usable, others, 0)
        others *= (1 - sure[asking][:, None]) / np.maximum(others.sum(axis=1, keepdims=True), 1e-30)
        at, position = (others > LEAST).nonzero()
        query, row = np.concatenate([query, asking[at]]), np.concatenate([row, alike[at, position]])
        mass = np.concatenate([mass, others[at, position]])
    there = mass > LEAST
    return query[there], row[there], mass[there].astype(np.float32)
