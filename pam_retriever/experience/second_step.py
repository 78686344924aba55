"""The second step of a random walk from a cue: what the memories that are linked to it are linked to.

A cue that was experienced often has many links, most of them of a single co-occurrence. Such a link is weak evidence.
That the companions of the cue were experienced with a memory, too, is stronger evidence. So the score of a memory is

    (1 - weight) p1(memory | cue) + weight p2(memory | cue)

with the shares of one step and of two steps: deleted interpolation (Jelinek and Mercer 1980). ``fit`` finds the weight
on trajectories that it leaves out. A cue that was experienced once or twice is an episode, which its links tell
completely; its weight is 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pam_retriever.arrays import added_up, strongest
from pam_retriever.experience.cooccurrence import Links
from pam_retriever.experience.walk import walk
from pam_retriever.types import Bools, Int64

EPISODIC = 4  # a cue with at most this many linked memories per window was experienced once or twice
FOLLOWED = 16  # the strongest links of a cue, which the second step follows
LATEST = 64  # the steps of each of these whose links count: all of them cost more time and bring .001 of R@20
REACHED = 128  # the memories with the largest shares, which are kept
UNFITTED = 0.3  # the weight before a fit (benchmarks/notes/default-recall.md)


def second_step(links_of: Callable[[Int64], Links], links: Links, window: int, own: Int64) -> Links:
    """Goes on from the links of cues that were experienced often.

    Args:
        links_of: returns the links of rows (R,); see ``LATEST``.
        links: query, linked row and strength of each link of the cues, (E,), sorted by query.
        window: tau.
        own: (Q,) the row of each cue, where no walk ends; -1 for none.

    Returns:
        Query, row and share of the memories that are reached, once per pair, sorted. Other cues have none.
    """
    query, row, strength = links
    follows = strongest(query, strength, FOLLOWED)
    follows = follows[is_frequent(query, window)[follows]]
    query, row, mass = added_up(*walk(links_of, (query[follows], row[follows], strength[follows])))
    ends = row != own[query]
    query, row, mass = query[ends], row[ends], mass[ends]
    share = (mass / np.maximum(np.bincount(query, mass), 1e-30)[query]).astype(np.float32)
    kept = np.sort(strongest(query, share, REACHED))
    return query[kept], row[kept], share[kept]


def is_frequent(query: Int64, window: int) -> Bools:
    """Returns for each link (E,) whether its cue was experienced more than once or twice."""
    frequent: Bools = (np.bincount(query) > EPISODIC * window)[query]
    return frequent


def interpolated(linked: Links, reached: Links, weight: float) -> Links:
    """Mixes the shares of one step and of two; a query without a second step keeps its shares."""
    goes_on = np.isin(linked[0], reached[0])
    shares = linked[2] * (1 - weight * goes_on), weight * reached[2]
    query, row = (np.concatenate([linked[column], reached[column]]) for column in (0, 1))
    return query, row, np.concatenate(shares).astype(np.float32)
