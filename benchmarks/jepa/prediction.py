"""Outward prediction k steps ahead, on episodes outside of training, and imagination with both predictors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from benchmarks.jepa.setup import JOINT, OUTWARD, Setup, index_of
from benchmarks.worlds import multimodal
from pam_retriever import Channels, PredictiveAssociativeIndex
from pam_retriever.jepa import Observations
from pam_retriever.model.keys import unit
from pam_retriever.types import Float32, Int64

AHEAD = (1, 5)
RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0)
STEPS, STARTS = 12, 200
Step = Callable[[Tensor, Int64], Tensor]


def prediction(setup: Setup) -> dict[str, Any]:
    """Returns error and rank of the true state k steps ahead; all methods but "copy" get the same actions."""
    unseen = multimodal.build(setup.seed + 1000, episodes=40)
    observed = Observations(*unseen.observe(np.arange(len(unseen)), seed=5))
    tables = {}
    for name, config in (("joint", JOINT), ("outward", OUTWARD)):
        trained = setup.train(name, config)
        before, after = trained.encoder.encode(setup.stored), trained.encoder.encode(observed)
        for k in AHEAD:
            starts, ends, actions = pairs(unseen, k)
            with torch.no_grad():
                rolled = trained.trainer.outward.rollout(torch.from_numpy(after[starts]), torch.from_numpy(actions), k)
            learned, learned_ends, learned_actions = pairs(setup.world, k)
            linear = ridge(
                features(before[learned], learned_actions), before[learned_ends], features(after[starts], actions)
            )
            guesses = {"outward predictor": rolled[-1].numpy(), "linear": linear, "copy": after[starts]}
            tables[f"{name} space, k = {k}"] = {
                guess: score(predicted, after, ends, starts) for guess, predicted in guesses.items()
            }
    return {"columns": tables, "rows": ["error", "median rank", "in first 10", "candidates"]}


def pairs(world: multimodal.World, k: int) -> tuple[Int64, Int64, Int64]:
    """Returns start states, the states k steps later, and the k actions in between."""
    starts = np.flatnonzero(world.position < world.position.max() + 1 - k)
    return starts, starts + k, world.action[starts[:, None] + np.arange(k)]


def features(states: Float32, actions: Int64) -> npt.NDArray[np.float64]:
    taken = np.eye(multimodal.ACTIONS)[actions].reshape(len(actions), -1)
    return np.concatenate([states, taken, np.ones((len(states), 1))], axis=1)


def ridge(x: npt.NDArray[np.float64], y: Float32, queries: npt.NDArray[np.float64]) -> Float32:
    """Ridge regression; its strength is chosen on the last fifth of the training data."""
    cut = len(x) * 4 // 5

    def solve(strength: float, count: int) -> npt.NDArray[np.float64]:
        part = x[:count]
        return np.linalg.solve(part.T @ part + strength * np.eye(x.shape[1]), part.T @ y[:count])

    errors = [float(((x[cut:] @ solve(strength, cut) - y[cut:]) ** 2).mean()) for strength in RIDGES]
    predicted: Float32 = (queries @ solve(RIDGES[int(np.argmin(errors))], len(x))).astype(np.float32)
    return predicted


def score(predicted: Float32, states: Float32, ends: Int64, starts: Int64) -> dict[str, float]:
    """Returns 1 - cosine to the true state, and its rank among all states except the start."""
    memories, guess = unit(states), unit(predicted)
    cosine = guess @ memories.T
    true = cosine[np.arange(len(ends)), ends]
    cosine[np.arange(len(starts)), starts] = -np.inf
    rank = (cosine >= true[:, None]).sum(axis=1)
    return {
        "error": float(1 - true.mean()),
        "median rank": float(np.median(rank)),
        "in first 10": float((rank <= 10).mean()),
        "candidates": float(len(states) - 1),
    }


def imagination(setup: Setup) -> dict[str, Any]:
    """Alternates outward and inward steps from fresh views, and compares them with walks of the same step lengths."""
    trained = setup.train("joint", JOINT)
    states = trained.encoder.encode(setup.stored)
    memories, index = unit(states), index_of(states, trained.trainer.inward)

    def outward(here: Tensor, taken: Int64) -> Tensor:
        return trained.trainer.outward(here, torch.from_numpy(taken))

    def inward(here: Tensor, _: Int64) -> Tensor:
        return layer_norm(torch.from_numpy(recalled(index, memories, unit(here.numpy()))), here.shape[1:])

    def forward(here: Tensor, _: Int64) -> Tensor:
        near = recalled(index, memories, unit(here.numpy()), Channels(forward=1.0))
        return layer_norm(torch.from_numpy(near), here.shape[1:])

    def prediction(here: Tensor, _: Int64) -> Tensor:
        return layer_norm(trained.trainer.inward(here), here.shape[1:])

    random = np.random.default_rng(setup.seed)
    starts = trained.encoder.encode(setup.fresh[np.arange(STARTS)])
    actions = random.integers(0, multimodal.ACTIONS, (STEPS, STARTS))
    paths = {
        "outward and inward": walk(starts, actions, (outward, inward)),
        "outward and inward, forward channel": walk(starts, actions, (outward, forward)),
        "outward and inward, never through memory": walk(starts, actions, (outward, prediction)),
        "outward alone": walk(starts, actions, (outward,)),
        "inward alone": walk(starts, actions, (inward,)),
    }
    both = paths["outward and inward"]
    lengths = [(both[t] * both[t + 1]).sum(1) for t in range(STEPS)]  # cosines between neighbouring states
    paths["random walk"] = random_walks(both[0], lengths, random, np.eye(memories.shape[1]))
    values, axes = np.linalg.eigh(np.cov(memories.T))
    paths["random walk, shaped like the states"] = random_walks(
        both[0], lengths, random, axes * np.sqrt(values.clip(0))
    )
    own = setup.world.episode[setup.cues[:STARTS]]
    among = (memories[random.permutation(len(memories))[:1000]] @ memories.T).astype(np.float64)
    among[among > 0.9999] = -1
    columns = {name: describe(np.stack(path[1:]), memories, setup.world, own) for name, path in paths.items()}
    columns["stored states, to their nearest"] = {"nearest": float(among.max(1).mean())}
    return {
        "columns": columns,
        "rows": ["nearest", "nearest after the last step", "episodes", "left the first", "rooms"],
    }


def recalled(
    index: PredictiveAssociativeIndex, memories: Float32, here: Float32, channels: Channels | None = None
) -> Float32:
    """Makes an inward step: the mean of the four most associated memories, without the memory nearest to the state."""
    nearest = (here @ memories.T).argmax(1)
    reached = np.empty_like(here)
    for at, hits in enumerate(index.recall_many(here, k=5, channels=channels)):
        others = [(int(hit.id), hit.score) for hit in hits if int(hit.id) != nearest[at]][:4]
        rows, scores = (np.array(column) for column in zip(*others, strict=True))
        weights = np.exp((scores - scores.max()) / 0.05)
        reached[at] = weights @ memories[rows] / weights.sum()
    return reached


def walk(starts: Float32, actions: Int64, kinds: tuple[Step, ...]) -> list[Float32]:
    """Returns the states of a walk, at unit length: the start, and one per step, with the kinds of steps in turn."""
    here = torch.from_numpy(starts)
    path = [unit(starts)]
    with torch.no_grad():
        for step, taken in enumerate(actions):
            here = kinds[step % len(kinds)](here, taken)
            path.append(unit(here.numpy()))
    return path


def random_walks(
    starts: Float32, lengths: list[Float32], random: np.random.Generator, shape: npt.NDArray[np.float64]
) -> list[Float32]:
    """Makes steps of the same angles in random directions."""
    path = [starts]
    for cosine in lengths:
        here = path[-1]
        aside = random.standard_normal(here.shape) @ shape.T
        aside -= (aside * here).sum(1, keepdims=True) * here
        aside /= np.linalg.norm(aside, axis=1, keepdims=True)
        turned = cosine[:, None] * here + np.sqrt(np.clip(1 - cosine**2, 0, None))[:, None] * aside
        path.append(unit(turned.astype(np.float32)))
    return path


def describe(path: Float32, memories: Float32, world: multimodal.World, own: Int64) -> dict[str, float]:
    """Returns the cosine to the nearest memory, episodes and rooms of the states of walks, (steps, walks, d)."""
    cosine = path @ memories.T  # (steps, walks, memories)
    nearest = cosine.argmax(-1)
    episodes = world.episode[nearest]
    return {
        "nearest": float(cosine.max(-1).mean()),
        "nearest after the last step": float(cosine.max(-1)[-1].mean()),
        "episodes": float(np.mean([len(set(one)) for one in episodes.T.tolist()])),
        "left the first": float((episodes != own).any(0).mean()),
        "rooms": float(np.mean([len(set(one)) for one in world.room[nearest].T.tolist()])),
    }
