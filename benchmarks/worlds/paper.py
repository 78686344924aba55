"""The paper's synthetic world, bit for bit (pam.tex section 4.2).

Rooms, objects and actions are vectors. A state is their sum plus noise. 500 trajectories of 100 states walk through the
rooms. One legacy ``RandomState`` draws everything in the order of the published world, because only that order
reproduces it. Do not reorder the draws.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

DIM = 128
ROOMS, ROOM_SCALE = 20, 2.0
OBJECTS, OBJECT_SCALE = 50, 1.5
ACTIONS, ACTION_SCALE = 10, 0.3
NOISE = 0.3
ROOM_PERSISTENCE, OBJECT_PERSISTENCE = 0.85, 0.7
REFILL_PROBABILITY, MAX_OBJECTS = 0.3, 4

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class World:
    """A stream of states and their trajectories.

    Attributes:
        states: (N, 128) float32, in order of experience.
        rooms: (N,) int64, the room of each state.
        trajectories: (number of trajectories, length) int64 rows of ``states``.
    """

    states: Float32
    rooms: Int64
    trajectories: Int64

    def associations(self, window: int = 5) -> Int64:
        """Returns undirected pairs at most ``window`` steps apart, (pairs, 2), in order of experience."""
        positions = np.arange(self.trajectories.shape[1])
        left, offset = np.meshgrid(positions, np.arange(1, window + 1), indexing="ij")
        inside = left + offset < len(positions)
        left, right = left[inside], (left + offset)[inside]
        pairs = np.stack([self.trajectories[:, left], self.trajectories[:, right]], axis=-1)
        return pairs.reshape(-1, 2)

    def fingerprint(self) -> dict[str, object]:
        """Returns the record of the published world in ``reference_results.json``."""
        return {
            "float32_sum_in_float64": round(float(self.states.sum(dtype=np.float64)), 4),
            "first_state_first_4": [round(float(x), 8) for x in self.states[0, :4]],
            "first_12_rooms": self.rooms[:12].tolist(),
            "sha256_of_room_ids_as_little_endian_int64": hashlib.sha256(self.rooms.astype("<i8").tobytes()).hexdigest(),
        }


@lru_cache(maxsize=2)
def build(seed: int = 42, trajectories: int = 500, length: int = 100) -> World:
    """Builds the world of one seed; about three seconds for the published size."""
    rng = np.random.RandomState(seed)
    room_vectors = np.linalg.qr(rng.randn(DIM, ROOMS))[0].T * ROOM_SCALE
    object_vectors = _unit(rng.randn(OBJECTS, DIM)) * OBJECT_SCALE
    action_vectors = _unit(rng.randn(ACTIONS, DIM)) * ACTION_SCALE
    home = rng.randint(0, ROOMS, size=OBJECTS)
    affinity = np.full((OBJECTS, ROOMS), 1.0 / ROOMS)
    affinity[np.arange(OBJECTS), home] += 0.5
    affinity /= affinity.sum(axis=1, keepdims=True)
    in_room = affinity / affinity.sum(axis=0, keepdims=True)

    def draw_objects(room: int) -> list[int]:
        count = rng.randint(1, MAX_OBJECTS + 1)
        return sorted(rng.choice(OBJECTS, size=count, replace=False, p=in_room[:, room]).tolist())

    states = np.empty((trajectories * length, DIM), dtype=np.float32)
    rooms = np.empty(trajectories * length, dtype=np.int64)
    for start in range(0, trajectories * length, length):
        room = rng.randint(0, ROOMS)
        objects = draw_objects(room)
        for t in range(start, start + length):
            if rng.random_sample() > ROOM_PERSISTENCE:
                room = rng.randint(0, ROOMS)
                objects = draw_objects(room)
            else:
                objects = [o for o in objects if rng.random_sample() < OBJECT_PERSISTENCE]
                if not objects or (len(objects) < MAX_OBJECTS and rng.random_sample() < REFILL_PROBABILITY):
                    for new in draw_objects(room):
                        if new not in objects and len(objects) < MAX_OBJECTS:
                            objects.append(new)
                    objects.sort()
                if not objects:
                    objects = draw_objects(room)
            action = rng.randint(0, ACTIONS)
            noise = rng.randn(DIM) * NOISE
            states[t] = room_vectors[room] + object_vectors[objects].sum(0) + action_vectors[action] + noise
            rooms[t] = room
    return World(states, rooms, np.arange(len(states)).reshape(trajectories, length))


def _unit(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
