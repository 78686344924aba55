"""A demonstration on synthetic trajectories through a house: hits of similarity, and hits of recall."""

from __future__ import annotations

import numpy as np

from pam_retriever.errors import counted
from pam_retriever.experience.cooccurrence import Experience, associate
from pam_retriever.index import PredictiveAssociativeIndex
from pam_retriever.types import Float32, Int64
from pam_retriever.validation import check_count

ROOMS = ["kitchen", "workshop", "garden", "stairs", "office", "garage", "attic", "beach", "station", "market"]
THINGS = ["knife", "drill", "roses", "wet step", "laptop", "car", "box", "sunscreen", "ticket", "bread"]
DIM, LENGTH, WINDOW = 64, 100, 5


def run(trajectories: int = 200) -> dict[str, float]:
    """Creates trajectories, learns from them, and prints hits of similarity and of recall; returns the figures."""
    vectors, rooms, names = live(check_count("trajectories", trajectories))
    count = len(vectors)
    print(f"A life of {count:,} moments in {trajectories} outings through {len(ROOMS)} rooms. Moments in one room")
    print("look alike; what was experienced together is often in another room.\n")
    ids = [str(moment) for moment in range(count)]
    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(vectors, ids, texts=names, metadatas=[{"room": ROOMS[room]} for room in rooms])
    outings = [ids[start : start + LENGTH] for start in range(0, count, LENGTH)]
    report = index.fit(outings, window=WINDOW)
    print(f"fit: {counted(report.associations, 'association')} in {report.seconds:.0f} s\n")

    moments = np.arange(count)
    graph = associate(Experience(moments, moments // LENGTH, moments % LENGTH), count, WINDOW)
    crossing = [a[rooms[a] != rooms[m]] for m, a in enumerate(np.split(graph.indices, graph.indptr[1:-1]))]
    chosen = [m for m in np.random.default_rng(1).permutation(count) if len(crossing[m]) >= 3][:200]
    cues = [ids[m] for m in chosen]
    figures = {}
    for way, answers in (("search", index.search(cues, k=20)), ("recall", index.recall(cues, k=20))):
        found = [
            np.isin(crossing[m], [int(hit.id) for hit in hits]).mean() for m, hits in zip(chosen, answers, strict=True)
        ]
        figures[way] = float(np.mean(found))
        print(f"{way}: {figures[way]:6.1%} of what happened with a moment in another room is among the first 20")

    cue = cues[0]
    print(f"\nThe moment {cue}: {names[int(cue)]}")
    for way, hits in (("looks like it", index.search(cue, k=5)), ("happened with it", index.recall(cue, k=5))):
        print(f"  {way}:")
        for hit in hits:
            apart = abs(int(hit.id) - int(cue))
            together = int(hit.id) // LENGTH == int(cue) // LENGTH and apart <= WINDOW
            when = f"{counted(apart, 'step')} away" if together else "another time"
            print(f"    {hit.score:.2f}  {hit.text:40}  {when}")
    return figures


def live(trajectories: int, seed: int = 0) -> tuple[Float32, Int64, list[str]]:
    """Returns moments as vectors (n, 64), the room of each, and a name for each."""
    random = np.random.default_rng(seed)
    room_directions = 2.0 * np.linalg.qr(random.standard_normal((DIM, len(ROOMS))))[0].T
    thing_directions = random.standard_normal((len(THINGS), DIM))
    thing_directions *= 1.5 / np.linalg.norm(thing_directions, axis=1, keepdims=True)
    moved = random.random((trajectories, LENGTH)) < 0.2
    visits = random.integers(0, len(ROOMS), (trajectories, LENGTH))
    # the room of a moment is the room of the last move before it
    last = np.maximum.accumulate(np.where(moved, np.arange(LENGTH), 0), axis=1)
    rooms = np.take_along_axis(visits, last, axis=1).reshape(-1)
    things = random.integers(0, len(THINGS), len(rooms))
    noise = 0.3 * random.standard_normal((len(rooms), DIM))
    vectors = (room_directions[rooms] + thing_directions[things] + noise).astype(np.float32)
    names = [
        f"outing {at // LENGTH}, {at % LENGTH:02d}: {THINGS[thing]} in the {ROOMS[room]}"
        for at, (room, thing) in enumerate(zip(rooms, things, strict=True))
    ]
    return vectors, rooms, names
