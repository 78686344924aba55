"""A world in which entities occur in several episodes, for example the same drill on Tuesday and on Thursday.

An episode has ten steps. Most are moments that occur once. One is an entity, for example a tool or a person, that also
occurs in other episodes. In some episodes one step is a hub, for example the coffee machine, that occurs everywhere. A
moment A near an entity in one episode and a moment C near it in another never co-occur. The entity links them, which is
a bridge (pam.tex 3.7, 5.5). A link through a hub alone is no bridge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.types import Float32, Int64

DIM, LENGTH, WINDOW = 64, 10, 2
ROOMS = 20


@dataclass(frozen=True)
class World:
    """A stream of episodes.

    Attributes:
        states: (N, 64) float32: entities, then hubs, then moments in order of experience. Moments of one
            room look similar; no other property of the states shows which were experienced together.
        episodes: (E, 10) int64 rows of ``states``.
        entities: number of the first states that are entities.
        hubs: number of hubs after them.
    """

    states: Float32
    episodes: Int64
    entities: int
    hubs: int

    @property
    def moments(self) -> int:
        """Returns the row of the first moment."""
        return self.entities + self.hubs

    def experience(self) -> Experience:
        """Returns the episodes as input for the library's training."""
        count = len(self.episodes)
        return Experience(
            self.episodes.reshape(-1), np.repeat(np.arange(count), LENGTH), np.tile(np.arange(LENGTH), count)
        )

    def bridges(self) -> dict[int, Int64]:
        """Maps moment A to the moments that an entity links with it in other episodes."""
        graph = associate(self.experience(), len(self.states), WINDOW)
        met = np.split(graph.indices, graph.indptr[1:-1])
        episode_of = np.full(len(self.states), -1)
        episode_of[self.episodes] = np.arange(len(self.episodes))[:, None]
        found = {}
        for moment in range(self.moments, len(self.states)):
            near = [met[entity] for entity in met[moment] if entity < self.entities]
            if near:
                far = np.unique(np.concatenate(near))
                far = far[(far >= self.moments) & (episode_of[far] != episode_of[moment])]
                if len(far):
                    found[moment] = far
        return found


def build(
    seed: int,
    episodes: int = 1_000,
    entities: int = 300,
    hubs: int = 10,
    hub_share: float = 0.5,
    room_scale: float = 1.0,
) -> World:
    """Builds a world.

    Args:
        seed: seed of the random generator.
        episodes: number of episodes; each has one entity, so that an entity occurs ``episodes / entities`` times.
        entities: number of entities.
        hubs: number of hubs.
        hub_share: share of the episodes with a hub.
        room_scale: length of the part that the moments of a room share; the individual part has length 1.
    """
    random = np.random.default_rng(seed)
    positions = np.argsort(random.random((episodes, LENGTH)), axis=1)  # positions of entity and hub
    rows = np.full((episodes, LENGTH), -1)
    every = np.arange(episodes)
    rows[every, positions[:, 0]] = random.permutation(every % entities)
    with_hub = random.random(episodes) < hub_share
    rows[every[with_hub], positions[with_hub, 1]] = entities + random.integers(0, hubs, with_hub.sum())
    free = rows < 0
    moments = int(free.sum())
    rows[free] = entities + hubs + np.arange(moments)
    rooms = random.standard_normal((ROOMS, DIM)) / np.sqrt(DIM) * room_scale
    own = random.standard_normal((entities + hubs + moments, DIM)) / np.sqrt(DIM)
    own[entities + hubs :] += rooms[random.integers(0, ROOMS, moments)]
    return World(own.astype(np.float32), rows, entities, hubs)
