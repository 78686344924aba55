"""A small world with raw observations: images, sounds, body position and context.

Eight rooms form a ring. Each has 2 x 3 spots, and there are 48 persistent objects. An episode is a walk through the
rooms: one action per step, doors between the rooms, one object at each spot (most at home, some moved that day). An
observation is never an embedding, and never occurs twice: an image of 32 x 32 pixels under changing light, rotation,
distance and shift; a sound spectrum of 32 bands; the position of the body in the room; and the context (activity,
company, time of day, weather), noisy. Some senses are missing in some states. No observation names its episode, room
or object.

All data are arrays drawn from seeds. ``build`` draws the events, and ``World.observe`` draws their images and sounds,
so the same moment can be observed several times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

ROOMS, ROWS, COLUMNS = 8, 2, 3
SPOTS = ROOMS * ROWS * COLUMNS
OBJECTS = SPOTS
ACTIVITIES, PEOPLE = 8, 12
STAY, NORTH, SOUTH, EAST, WEST = range(5)
ACTIONS = 5
GO_ON, LOOK_AGAIN = 0.6, 0.25  # probability of repeating the last move, and of staying
MOVED = 0.3  # share of the objects that are not at home in an episode
SIZE, BANDS, BODY, CONTEXT = 32, 32, 6, 24
MISSING = {"visual": 0.05, "auditory": 0.1, "proprioceptive": 0.05, "contextual": 0.05}

Array = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Look:
    """The appearance and sound of objects and rooms, one row each; events are objects that occur once."""

    lobes: Array  # (O,) of the outline, 0 is an ellipse
    depth: Array  # (O,) of the lobes
    aspect: Array  # (O,)
    colours: Array  # (O, 2, 3)
    stripes: Array  # (O,) frequency
    sounds: Array  # (O, BANDS)
    walls: Array  # (R, 2, 3) colours of wall and floor
    pattern: Array  # (R, 2) frequencies of the wall paper
    ambience: Array  # (R, BANDS)
    activities: Array  # (ACTIVITIES, 8)
    people: Array  # (PEOPLE, 8)


@dataclass(frozen=True)
class World:
    """The events, one entry per state, in order of experience.

    Attributes:
        look: the appearance of everything in the world.
        episode: (N,) the episode.
        position: (N,) the position in the episode.
        spot: (N,) the spot, 0 to 47; ``room`` follows from it.
        object: (N,) the object; numbers from 48 on are one-off events.
        action: (N,) the next action; it leads to the following state.
        activity, person: (N,) constant within an episode.
        hour, weather: (N,) in [0, 1).
    """

    look: Look
    episode: Int64
    position: Int64
    spot: Int64
    object: Int64
    action: Int64
    activity: Int64
    person: Int64
    hour: Array
    weather: Array

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def room(self) -> Int64:
        """Returns (N,) rooms, 0 to 7."""
        return self.spot // (ROWS * COLUMNS)

    @property
    def event(self) -> Bool:
        """Returns (N,) whether the state is a one-off event."""
        return self.object >= OBJECTS

    def observe(self, rows: Int64, seed: int, missing: bool = True) -> tuple[dict[str, npt.NDArray], dict[str, Bool]]:
        """Observes the moments ``rows`` (n,), with light, viewpoint and noise drawn from ``seed``.

        Args:
            rows: the moments.
            seed: another seed gives another view of the same moments.
            missing: whether to leave senses out at the rates of ``MISSING``, but never all of one state.

        Returns:
            The values, "visual" (n, 3, 32, 32) uint8, "auditory" (n, 32), "proprioceptive" (n, 6) and
            "contextual" (n, 24) float32; and for each whether it is present, (n,).
        """
        random = np.random.default_rng(seed)
        values = {
            "visual": np.concatenate([self._see(part, random) for part in np.array_split(rows, -(-len(rows) // 500))]),
            "auditory": self._hear(rows, random),
            "proprioceptive": self._feel(rows, random),
            "contextual": self._know(rows, random),
        }
        absent = np.stack([random.random(len(rows)) < MISSING[name] * missing for name in values])
        absent[:, absent.all(0)] = False
        return values, {name: ~gone for name, gone in zip(values, absent, strict=True)}

    def _see(self, rows: Int64, random: np.random.Generator) -> npt.NDArray[np.uint8]:
        look, n = self.look, len(rows)

        def draw(low: float, high: float, *shape: int) -> Array:
            return random.uniform(low, high, (n, *(shape or (1, 1)))).astype(np.float32)

        axis = np.linspace(-1, 1, SIZE, dtype=np.float32)
        y, x = axis[None, :, None], axis[None, None, :]
        thing, room = self.object[rows], self.room[rows]
        turn, size = draw(-np.pi / 2, np.pi / 2), draw(0.4, 0.75)
        dx, dy = x - draw(-0.3, 0.3), y - draw(-0.3, 0.3)
        u = (np.cos(turn) * dx + np.sin(turn) * dy) * look.aspect[thing][:, None, None]
        v = -np.sin(turn) * dx + np.cos(turn) * dy
        outline = 1 + look.depth[thing][:, None, None] * np.cos(look.lobes[thing][:, None, None] * np.arctan2(v, u))
        inside = 1 / (1 + np.exp(np.clip(14 * (np.hypot(u, v) / size - outline), -30, 30)))  # (n, 32, 32)
        stripe = 0.5 + 0.5 * np.sin(look.stripes[thing][:, None, None] * u / size)
        first, second = look.colours[thing].transpose(1, 0, 2)[..., None, None]  # (n, 3, 1, 1) each
        painted = first + (second - first) * stripe[:, None]
        paper = look.pattern[room]
        wave = 0.5 + 0.25 * (np.sin(paper[:, :1, None] * (x + draw(-1, 1))) + np.sin(paper[:, 1:, None] * y))
        wall, floor = look.walls[room].transpose(1, 0, 2)[..., None, None]
        below = 1 / (1 + np.exp(-12 * (y - draw(0.1, 0.6))))
        behind = (wall * (0.7 + 0.6 * wave[:, None])) * (1 - below[:, None]) + floor * below[:, None]
        image = behind + (painted - behind) * inside[:, None]
        side = draw(0, 2 * np.pi)
        shade = 1 + draw(0, 0.4) * (np.cos(side) * x + np.sin(side) * y)
        image = image * shade[:, None] * draw(0.45, 1.3)[:, None] * draw(0.8, 1.2, 3, 1, 1)
        image = image + 0.03 * random.standard_normal(image.shape, np.float32)
        return np.clip(255 * image, 0, 255).astype(np.uint8)

    def _hear(self, rows: Int64, random: np.random.Generator) -> Array:
        """Returns log energies: the sound of the object, at a varying distance, and the hum of the room."""
        near = random.uniform(0.2, 1.2, (len(rows), 1)).astype(np.float32)
        near[self.event[rows]] = 4.0
        loud = near * self.look.sounds[self.object[rows]] + self.look.ambience[self.room[rows]]
        loud = loud * np.exp(0.3 * random.standard_normal(loud.shape, np.float32))
        return np.log(0.05 + loud) + 0.2 * random.standard_normal((len(rows), 1), np.float32)

    def _feel(self, rows: Int64, random: np.random.Generator) -> Array:
        """Returns column and row in the room, heading, and the last move, all noisy."""
        column, row = self.spot[rows] % COLUMNS, self.spot[rows] // COLUMNS % ROWS
        heading = random.uniform(0, 2 * np.pi, len(rows))
        last = np.where(self.position[rows] > 0, self.action[rows - 1], STAY)
        east = (last == EAST).astype(float) - (last == WEST)
        south = (last == SOUTH).astype(float) - (last == NORTH)
        body = np.stack([column - 1, 2 * row - 1, np.cos(heading), np.sin(heading), east, south], axis=1)
        return (body + 0.2 * random.standard_normal(body.shape)).astype(np.float32)

    def _know(self, rows: Int64, random: np.random.Generator) -> Array:
        hour, weather = 2 * np.pi * self.hour[rows], 2 * np.pi * self.weather[rows]
        cycles = np.stack([np.cos(hour), np.sin(hour), np.cos(weather), np.sin(weather)], axis=1)
        parts = [self.look.activities[self.activity[rows]], self.look.people[self.person[rows]], cycles, cycles]
        context = np.concatenate(parts, axis=1)
        return (context + 0.3 * random.standard_normal(context.shape)).astype(np.float32)


@lru_cache(maxsize=4)
def build(seed: int, episodes: int = 120, length: int = 40, events: int = 0) -> World:
    """Draws the events.

    Args:
        seed: seed of the episodes. Objects and rooms look the same for every seed.
        episodes: number of episodes.
        length: states per episode.
        events: number of episodes, from the first on, with a one-off event in their middle third.
    """
    random = np.random.default_rng([seed, 1])
    home = np.random.default_rng(0).permutation(OBJECTS)  # spot -> object
    action = np.zeros((episodes, length), np.int64)
    spot = np.zeros((episodes, length), np.int64)
    spot[:, 0] = random.integers(0, SPOTS, episodes)
    going = random.integers(NORTH, ACTIONS, episodes)
    for t in range(length):  # one step of all episodes
        fresh = random.choice([NORTH, SOUTH, EAST, EAST, WEST, WEST], episodes)
        going = np.where(random.random(episodes) < GO_ON, going, fresh)
        action[:, t] = np.where(random.random(episodes) < LOOK_AGAIN, STAY, going)
        if t + 1 < length:
            spot[:, t + 1] = move(spot[:, t], action[:, t])
    there = np.repeat(home[None], episodes, axis=0)
    for placed in there:
        away = random.choice(SPOTS, int(MOVED * SPOTS), replace=False)
        placed[away] = placed[random.permutation(away)]
    seen = np.take_along_axis(there, spot, axis=1)
    seen[np.arange(events), random.integers(length // 3, 2 * length // 3, events)] = OBJECTS + np.arange(events)
    episode = np.repeat(np.arange(episodes), length)
    start = random.random((episodes, 1))
    hour = (start + 0.1 * np.arange(length) / length) % 1

    def same(low: int, high: int) -> Int64:
        return np.repeat(random.integers(low, high, episodes), length)

    return World(
        look=_draw_look(events, seed),
        episode=episode,
        position=np.tile(np.arange(length), episodes),
        spot=spot.ravel(),
        object=seen.ravel(),
        action=action.ravel(),
        activity=same(0, ACTIVITIES),
        person=same(0, PEOPLE),
        hour=hour.ravel().astype(np.float32),
        weather=np.repeat(random.random(episodes), length).astype(np.float32),
    )


def move(spot: Int64, action: Int64) -> Int64:
    """Returns the spot after an action: north and south stop at the walls, east and west go through the doors."""
    width = ROOMS * COLUMNS
    room, row, column = spot // (ROWS * COLUMNS), spot // COLUMNS % ROWS, spot % COLUMNS
    along = (room * COLUMNS + column + (action == EAST) - (action == WEST)) % width
    row = np.clip(row + (action == SOUTH) - (action == NORTH), 0, ROWS - 1)
    return along // COLUMNS * ROWS * COLUMNS + row * COLUMNS + along % COLUMNS


def _draw_look(events: int, seed: int) -> Look:
    parts = [_draw_things(OBJECTS, np.random.default_rng(1)), _draw_things(events, np.random.default_rng([seed, 2]))]
    things = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    random = np.random.default_rng(2)
    bands = np.arange(BANDS)
    hum = np.exp(0.6 * np.cumsum(random.standard_normal((ROOMS, BANDS)), axis=1) / np.sqrt(bands + 1))
    rest = {
        "walls": random.uniform(0.15, 0.85, (ROOMS, 2, 3)),
        "pattern": random.uniform(2, 14, (ROOMS, 2)),
        "ambience": 0.5 * hum / hum.mean(axis=1, keepdims=True),
        "activities": random.standard_normal((ACTIVITIES, 8)),
        "people": random.standard_normal((PEOPLE, 8)),
    }
    return Look(**{name: value.astype(np.float32) for name, value in {**things, **rest}.items()})


def _draw_things(count: int, random: np.random.Generator) -> dict[str, npt.NDArray]:
    bands = np.arange(BANDS)
    peaks = random.uniform(0, BANDS, (count, 4, 1))
    return {
        "lobes": random.integers(0, 7, count),
        "depth": random.uniform(0.15, 0.45, count),
        "aspect": random.uniform(0.6, 1.7, count),
        "colours": random.uniform(0, 1, (count, 2, 3)),
        "stripes": random.uniform(0, 10, count),
        "sounds": np.exp(-((bands - peaks) ** 2) / 2).sum(axis=1) * 2,
    }
