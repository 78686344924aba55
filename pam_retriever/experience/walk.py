"""One step of a random walk along links, used by training and by retrieval."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pam_retriever.arrays import concatenated
from pam_retriever.experience.cooccurrence import Links
from pam_retriever.types import Int64

FAN_OUT = 64
LEAST = 1e-4  # smaller shares of the mass are not followed


def walk(links_of: Callable[[Int64], Links], seeds: Links, fan_out: int | None = FAN_OUT) -> Links:
    """Makes one step of a random walk: spreads the mass of each query's seeds (sum 1) along their strongest links.

    Args:
        links_of: returns the links of rows (R,).
        seeds: query, row and mass of each, (E,).
        fan_out: number of the strongest links of a memory that are followed; None for all.

    Returns:
        Query, row and mass of each reached memory, once per seed that leads to it.
    """
    query, row, mass = seeds
    mass = (mass / np.maximum(np.bincount(query, mass), 1e-30)[query]).astype(np.float32)
    enough = mass > LEAST
    query, mass = query[enough], mass[enough]
    distinct, seed = np.unique(row[enough], return_inverse=True)
    owner, linked, strength = links_of(distinct)
    total = np.maximum(np.bincount(owner, strength, len(distinct)), 1e-30)  # 0 if all co-occurrences have salience 0
    strength = (strength / total[owner]).astype(np.float32)
    order = np.lexsort((-strength, owner))
    start = np.searchsorted(owner[order], np.arange(len(distinct) + 1))
    count = np.diff(start)[seed]
    if fan_out is not None:
        count = np.minimum(count, fan_out)
    entry = concatenated(start[seed], count)
    spread = np.repeat(mass, count) * strength[order][entry]
    return np.repeat(query, count), linked[order][entry], spread.astype(np.float32)
