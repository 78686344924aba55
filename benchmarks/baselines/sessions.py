"""Baselines that read the whole session: second order, VSKNN, STAN.

VSKNN: Ludewig and Jannach, Evaluation of session-based recommendation algorithms, UMUAI 2018. STAN: Garg, Gupta,
Malhotra, Vig and Shroff, SIGIR 2019. The code follows these papers; a comment marks each choice that they leave open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pam_retriever.arrays import concatenated
from pam_retriever.types import Float64, Int64

Walks = Sequence[Sequence[int]]


@dataclass
class SecondOrder:
    """Counts of successors of the last two steps, backed off to those of the last step, and then to popularity.

    Args:
        backed_off: weight of the shorter context, as a number of observations.
    """

    backed_off: float = 2.0
    _after: dict[tuple[int, ...], dict[int, int]] = field(default_factory=dict)

    def fit(self, walks: Walks, items: int) -> None:
        """Counts the successors of each item and of each pair of steps."""
        after: dict[tuple[int, ...], dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for walk in walks:
            for at in range(1, len(walk)):
                for length in range(min(2, at) + 1):
                    after[tuple(walk[at - length : at])][walk[at]] += 1
        self._after, self._items = dict(after), items

    def scores(self, walk: Sequence[int]) -> Float64:
        """Returns (N,) scores of the items after a walk so far."""
        share = np.full(self._items, 1 / self._items)
        for length in range(min(2, len(walk)) + 1):
            found = self._after.get(tuple(walk[len(walk) - length :]))
            if found:
                times = np.zeros(self._items)
                times[list(found)] = list(found.values())
                share = (times + self.backed_off * share) / (times.sum() + self.backed_off)
        return share


@dataclass
class Neighbours:
    """VSKNN or STAN: items of the sessions most similar to this one.

    Args:
        neighbours: number of sessions that count.
        sample: number of sessions to compare: the latest that share a step.
        earlier: a step of this session weighs exp(-1 / earlier) per place before the newest; None: as in VSKNN, the
            place of the step divided by the length of the session.
        nearer: an item of a neighbour weighs exp(-1 / nearer) per place from the newest shared step; None: as in VSKNN,
            1 - .1 per place between that step and the end of this session. Both treat items before and after that step
            alike.
        recent: a session ``recent`` sessions ago weighs 1 / e of the newest; None: all sessions weigh the same.
        rare: whether items are weighted by inverse session frequency (logarithm), an option of VSKNN.
        normed: whether a longer session weighs less, as in STAN.
    """

    neighbours: int = 100
    sample: int = 1_000
    earlier: float | None = None
    nearer: float | None = None
    recent: float | None = None
    rare: bool = True
    normed: bool = False

    def fit(self, walks: Walks, items: int) -> None:
        """Reads the sessions, in order of time."""
        self._walks, self._items = [np.asarray(walk, np.int64) for walk in walks], items
        session = np.repeat(np.arange(len(walks)), [len(walk) for walk in walks])
        state = np.concatenate(self._walks)
        position = np.concatenate([np.arange(len(walk)) for walk in walks])
        order = np.lexsort((session, state))
        self._session, self._position = session[order], position[order]
        self._starts = np.searchsorted(state[order], np.arange(items + 1))
        self._flat, self._lengths = state, np.array([len(walk) for walk in walks])
        self._begins = np.cumsum(self._lengths) - self._lengths
        held = np.bincount(np.unique(session * items + state) % items, minlength=items)
        self._rarity = np.log(len(walks) / np.maximum(held, 1))

    def scores(self, walk: Sequence[int]) -> Float64:
        """Returns (N,) scores of the items after a walk so far."""
        session, likeness, back, position = self._shared(walk)
        mask = np.argsort(-likeness, kind="stable")[: self.neighbours]
        session, likeness, back, position = session[mask], likeness[mask], back[mask], position[mask]
        count = self._lengths[session]
        step = concatenated(self._begins[session], count)
        item, owner = self._flat[step], np.repeat(np.arange(len(session)), count)
        value = likeness[owner]
        if self.nearer is None:
            value = value * np.maximum(1 - 0.1 * back, 0)[owner]
        else:
            distance = np.abs(step - self._begins[session][owner] - position[owner])
            value = value * np.where(distance > 0, np.exp(-distance / self.nearer), 0)
        if self.rare:
            value = value * self._rarity[item]
        return np.bincount(item, value, self._items)

    def _shared(self, walk: Sequence[int]) -> tuple[Int64, Float64, Int64, Int64]:
        """Returns number and similarity of sessions that share a step, and the newest shared step's place in both."""
        newest = list(dict.fromkeys(reversed(walk)))
        far = {item: back for back, item in reversed(list(enumerate(reversed(walk))))}
        starts = self._starts[newest]
        counts = self._starts[np.array(newest) + 1] - starts
        entry = concatenated(starts, counts)
        back = np.repeat([far[item] for item in newest], counts)
        session, position = self._session[entry], self._position[entry]
        latest = np.unique(session)[-self.sample :]
        mask = np.isin(session, latest)
        back, session, position = back[mask], session[mask], position[mask]
        order = np.lexsort((-position, back, session))
        back, session, position = back[order], session[order], position[order]
        once = np.ones(len(session), bool)  # an item counts once per session
        once[1:] = (session[1:] != session[:-1]) | (back[1:] != back[:-1])
        back, session, position = back[once], session[once], position[once]
        weight = 1 - back / len(walk) if self.earlier is None else np.exp(-back / self.earlier)
        found, first, owner = np.unique(session, return_index=True, return_inverse=True)
        likeness = np.bincount(owner, weight, len(found))
        if self.normed:
            likeness = likeness / np.sqrt(self._lengths[found] * len(walk))
        if self.recent is not None:
            likeness = likeness * np.exp(-(len(self._walks) - found) / self.recent)
        return found, likeness, back[first], position[first]


Session = SecondOrder | Neighbours


def grids() -> dict[str, list[Session]]:
    """Returns the tuning grid of each method, by name."""
    return {
        "second order": [SecondOrder(worth) for worth in (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)],
        "VSKNN": [
            Neighbours(neighbours, sample, rare=rare)
            for neighbours, sample in (
                (25, 250),
                (50, 500),
                (100, 500),
                (100, 1_000),
                (100, 5_000),
                (500, 5_000),
                (1_500, 20_000),
            )
            for rare in (True, False)
        ],
        "STAN": [
            Neighbours(1_000, 20_000, earlier, nearer, recent, rare=False, normed=True)
            for earlier in (0.1, 0.2, 0.3, 1.0)
            for nearer in (0.1, 0.25, 0.5, 1.5)
            for recent in (3_000.0, 30_000.0, None)
        ],
    }
