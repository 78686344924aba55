"""``python -m benchmarks.recall.direction``: can recall separate memories after a cue from memories before it?

Two worlds have one-way rules. In "routines" situations follow each other in a fixed order; an episode plays one
routine, and every state is a noisy view of its situation. In "rule" the rule is in the vectors: one rotation maps a
state to the next, and no two chains are similar. Cues are stored memories, noisy views of them, and states that were
never experienced: new views of the situations, or steps of chains without any experience.

The measure for each cue is the AUC of the states within the window after it against the memories within the window
before it, among all memories; for "after" and for "before". Ways to learn the direction: none (undirected recall), the
links of similar memories (the library), and two heads that predict the order of any pair, multiplied by undirected
recall: an antisymmetric bilinear form in closed form, and a predictor trained only on later memories. Settings were
chosen on seed 0, on smaller routines; seeds 2 and 3 are reported.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from benchmarks import metrics, report
from benchmarks.worlds import routines
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.model.forward import PredictorConfig
from pam_retriever.model.keys import unit
from pam_retriever.model.predictor import Predictor
from pam_retriever.types import Direction, Float32, Hits, Int64

DIM, WINDOW, CUES = routines.DIM, routines.WINDOW, 80
NOISE = (0.3, 0.6, 1.0)
CHAINS, NEW_CHAINS, STEPS, WOBBLE = 200, 20, 8, 0.1
SIGN: dict[Direction, int] = {"after": 1, "before": -1}
ROUTINES, PLAYS, NEW_PLAYS = 40, 160, 20
TEMPERATURE, BATCH, PASSES, HIDDEN = 0.1, 512, 20, 256
Head = Callable[[Float32, Float32], Float32]
"""(Q, d) and (N, d) -> (Q, N) the probability that the second came after the first."""


@dataclass(frozen=True)
class World:
    """States, (E, L, d); the first ``experienced`` episodes are experience.

    Attributes:
        states: the states of all episodes.
        kind: (E, L) the situation of each state; states of one kind are interchangeable.
        experienced: number of episodes.
        stored: whether the steps of the other episodes are memories, too; else they are only cues.
    """

    states: Float32
    kind: Int64
    experienced: int
    stored: bool


def build(name: str, seed: int) -> World:
    """Builds one of the two worlds."""
    if name == "routines":
        made = routines.build(seed, ROUTINES)
        states, played = made.episodes(PLAYS + NEW_PLAYS, seed)
        kind = played[:, None] * routines.LENGTH + np.arange(routines.LENGTH)
        return World(states.astype(np.float32), kind, PLAYS, stored=False)
    random = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(random.standard_normal((DIM, DIM)))
    chains = [unit(random.standard_normal((CHAINS + NEW_CHAINS, DIM)))]
    for _ in range(STEPS - 1):
        wobble = WOBBLE * random.standard_normal(chains[-1].shape) / np.sqrt(DIM)
        chains.append(unit(chains[-1] @ turn + wobble))
    states = np.stack(chains, axis=1).astype(np.float32)
    return World(states, np.arange(states[..., 0].size).reshape(states.shape[:2]), CHAINS, stored=True)


def ids(rows: Int64) -> list[str]:
    """Returns the ids of memories."""
    return [str(row) for row in rows.reshape(-1).tolist()]


def filled(world: World, seed: int) -> PredictiveAssociativeIndex:
    """Returns a fitted index with default settings."""
    count, steps = world.kind.shape
    index = PredictiveAssociativeIndex(DIM)
    stored = count if world.stored else world.experienced
    index.add(world.states[:stored].reshape(-1, DIM), ids(np.arange(stored * steps)))
    rows = np.arange(world.experienced * steps).reshape(-1, steps)
    index.fit([ids(episode) for episode in rows], window=WINDOW, seed=seed, progress=False)
    return index


@dataclass(frozen=True)
class Cues:
    """Queries, (Q,) each: vectors or ids, and the positions in the episodes that the queries are views of."""

    queries: list[str] | Float32
    vectors: Float32
    episode: Int64
    step: Int64


def cues(world: World, seed: int) -> dict[str, Cues]:
    """Returns every kind of cue."""
    random = np.random.default_rng(1000 + seed)
    steps = world.kind.shape[1]
    at = random.choice(world.experienced * steps, CUES, replace=False)
    episode, step = np.divmod(at, steps)
    vectors = world.states[episode, step]
    found = {"stored": Cues(ids(at), vectors, episode, step)}
    for noise in NOISE:
        length = np.linalg.norm(vectors, axis=1, keepdims=True) / np.sqrt(DIM)
        noisy = (vectors + noise * length * random.standard_normal(vectors.shape)).astype(np.float32)
        found[f"noise {noise}"] = Cues(noisy, noisy, episode, step)
    new = random.choice(np.arange(world.experienced * steps, world.kind.size), CUES, replace=False)
    episode, step = np.divmod(new, steps)
    vectors = world.states[episode, step]
    found["never experienced"] = Cues(ids(new) if world.stored else vectors, vectors, episode, step)
    return found


def truth(world: World, cue_set: Cues, name: str, at: int) -> tuple[Int64, Int64]:
    """Returns the memories within the window after a cue, and the memories within the window before it."""
    steps, count = (
        world.kind.shape[1],
        world.states[..., 0].size if world.stored else world.experienced * len(world.kind[0]),
    )
    episode, step = int(cue_set.episode[at]), int(cue_set.step[at])
    sides = []
    for sign in SIGN.values():
        positions = np.array([p for p in (step + sign * n for n in range(1, WINDOW + 1)) if 0 <= p < steps], np.int64)
        if name == "never experienced" and not world.stored:  # any view of these situations counts
            sides.append(np.flatnonzero(np.isin(world.kind.reshape(-1)[:count], world.kind[episode, positions])))
        else:
            sides.append(episode * steps + positions)
    return sides[0], sides[1]


# ---- heads that predict the direction of any pair


def pairs(world: World) -> tuple[Float32, Float32, Float32]:
    """Returns first memory, second memory, and weight of each pair, 1 / distance."""
    states = unit(world.states[: world.experienced])
    first = [states[:, : -n or None].reshape(-1, DIM) for n in range(1, WINDOW + 1)]
    then = [states[:, n:].reshape(-1, DIM) for n in range(1, WINDOW + 1)]
    weights = [np.full(len(one), 1 / n, np.float32) for n, one in enumerate(first, start=1)]
    return np.concatenate(first), np.concatenate(then), np.concatenate(weights)


def sharpness(logits: Float32) -> float:
    """Returns the factor of the logits of true pairs that maximises their mean log-likelihood as after-pairs."""
    grid = np.logspace(-2, 3, 60)
    return float(grid[np.argmin([np.mean(np.logaddexp(0, -factor * logits)) for factor in grid])])


def bilinear(world: World, _seed: int) -> Head:
    """Returns q A p with A = S^-1 (C - C^T) S^-1, C the covariance of a state and its successor: a ridge regression."""
    first, then, weights = pairs(world)
    fitted = np.arange(len(first)) % 10 > 0
    covariance = (first[fitted] * weights[fitted, None]).T @ then[fitted] / weights[fitted].sum()
    spread = np.cov(first.T) + 1e-3 * np.eye(DIM)
    form = np.linalg.solve(spread, np.linalg.solve(spread, covariance - covariance.T).T).T.astype(np.float32)
    factor = sharpness(np.einsum("nd,de,ne->n", first[~fitted], form, then[~fitted]))
    return lambda q, p: 1 / (1 + np.exp(-np.clip(factor * (unit(q) @ form @ unit(p).T), -50, 50)))


def after_head(world: World, seed: int) -> Head:
    """Trains f only on later memories; the score of a pair is its predicted association, less the reverse one."""
    first, then, weights = (torch.tensor(column) for column in pairs(world))
    generator = torch.Generator().manual_seed(seed)
    model = Predictor(PredictorConfig(DIM, hidden=HIDDEN), generator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    held = torch.arange(len(first)) % 10 == 0
    mine = torch.nonzero(~held)[:, 0]
    for _ in range(PASSES):
        for some in mine[torch.randperm(len(mine), generator=generator)].split(BATCH):
            predicted = functional.normalize(model(first[some]), dim=-1)
            loss = functional.cross_entropy(
                predicted @ then[some].T / TEMPERATURE, torch.arange(len(some)), reduction="none"
            )
            optimizer.zero_grad()
            ((loss * weights[some]).sum() / weights[some].sum()).backward()
            optimizer.step()

    def f(states: Float32) -> Float32:
        with torch.no_grad():
            return unit(model(torch.tensor(unit(states))).numpy())

    one, other = first[held].numpy(), then[held].numpy()
    factor = sharpness(np.einsum("nd,nd->n", f(one), other) - np.einsum("nd,nd->n", f(other), one))
    return lambda q, p: 1 / (1 + np.exp(-np.clip(factor * (f(q) @ unit(p).T - (f(p) @ unit(q).T).T), -50, 50)))


HEADS = {"bilinear": bilinear, "after-pairs": after_head}


# ---- measures


def scores(hits: list[Hits], count: int) -> Float32:
    """Returns scores (Q, N); 0 for memories that were not found."""
    found = np.zeros((len(hits), count), np.float32)
    for at, some in enumerate(hits):
        found[at, [int(id) for id in some.ids]] = some.scores
    return found


def measure(world: World, seed: int) -> dict[str, dict[str, float]]:
    """Returns the AUC of every way, for every kind of cue."""
    index = filled(world, seed)
    count = len(index)
    memories = world.states.reshape(-1, DIM)[:count]
    heads, found = {}, {}
    for name, train in HEADS.items():
        began = time.process_time()
        heads[name] = train(world, seed)
        found[f"CPU s of {name}"] = {"training": round(time.process_time() - began, 2)}
    for kind, cue_set in cues(world, seed).items():
        both = scores(index.recall_many(cue_set.queries, count), count)
        aucs: dict[str, list[float]] = {}
        for way, sign in SIGN.items():
            links = scores(index.recall_many(cue_set.queries, count, direction=way), count)
            ways = {"undirected": both, "links of look-alikes": links}
            for name, head in heads.items():
                after = head(cue_set.vectors, memories).astype(np.float32)
                probability = after if sign > 0 else 1 - after
                ways |= {name: both * probability, f"links and {name}": links * probability}
            for name, values in ways.items():
                for at in range(CUES):
                    sides = truth(world, cue_set, kind, at)
                    if len(sides[0]) and len(sides[1]):
                        this, other = (values[at, side] for side in sides[::sign])
                        aucs.setdefault(name, []).append(metrics.auc(this, other))
        for name, values in aucs.items():
            found.setdefault(name, {})[kind] = round(float(np.mean(values)), 4)
    index.close()
    return found


def main() -> None:
    """Runs all worlds and seeds, and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--worlds", nargs="+", default=["routines", "rule"], choices=["routines", "rule"])
    parser.add_argument("--name", default="direction")
    given = parser.parse_args()
    torch.set_num_threads(1)
    results = {name: {seed: measure(build(name, seed), seed) for seed in given.seeds} for name in given.worlds}
    for name, by_seed in results.items():
        rows = list(next(iter(by_seed.values())))
        kinds = ["stored", *(f"noise {noise}" for noise in NOISE), "never experienced"]
        columns = {
            row: {kind: float(np.mean([of[row][kind] for of in by_seed.values()])) for kind in kinds}
            for row in rows
            if "stored" in by_seed[given.seeds[0]][row]
        }
        print(f"{name}\n{report.table(kinds, columns)}")
    report.write(f"recall/{given.name}", {"seeds": given.seeds, "window": WINDOW, "results": results})


if __name__ == "__main__":
    main()
