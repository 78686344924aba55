"""How recall may weigh what it knows: fitted on cues that the predictor has seen, and on cues held out from it.

In each of the two, the channels of a memory p are turned into the probability that p is what the cue was experienced
with,

    share(p | q) = softmax over the bank of  w . (similarity, forward, reverse, mutual)

with weights w that make the associates of some sample cues as likely as can be: a conditional logit
(McFadden 1974), which also finds the temperature. The episode embeddings are left out: they say again what the exact
links say, where f says what may be. For a cue that was not seen, exact links help from one
step away: those of the memories that look like it, and those of the memories that the channels name. How
much each of these says is found by expectation maximisation, as in deleted interpolation (Jelinek and Mercer 1980).
What is fitted here is what recall computes: by the same links, the same walk, of the same seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pam_retriever.experience.cooccurrence import Associations
from pam_retriever.experience.graph import LEAST, walk
from pam_retriever.model.keys import features, unit
from pam_retriever.model.scoring import (
    BEST,
    LOOK_ALIKES,
    NAMED,
    NEIGHBOURS,
    UNTESTED,
    first,
    look_alike_mass,
    sharpened,
)
from pam_retriever.types import Bools, Float32, Int64, ScoringWeights

SAMPLE_CUES, SAMPLE_MEMORIES = 200, 10_000
LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 200.0  # of a channel


@dataclass(frozen=True)
class Memories:
    """The memories on which is calibrated.

    Attributes:
        vectors: (M, d).
        keys: of places among them (n,), their keys (n, 2d + code).
        links: among them, weighed as recall weighs them.
        experienced: (M,) which are in some trajectory.
        bank: how many there are in the bank, of which these are some or all.
    """

    vectors: Float32
    keys: Callable[[Int64], Float32]
    links: Associations
    experienced: Bools
    bank: int

    @property
    def each(self) -> float:
        """How many of the bank each stands for."""
        return max(self.bank / len(self.vectors), 1.0)


@dataclass(frozen=True)
class Sample:
    """What recall would find for some cues, among some memories.

    Attributes:
        x: (Q, N, 4) the channels but that of the embeddings.
        label: (Q, N) the share of each memory in the links of the cue.
        times: (Q, N) how many memories of the bank each stands for; 0 for the cue itself.
        alike: (Q, N) what the links of look-alikes say.
        looks: (Q, N) what looks say.
        cues: (Q,) places.
        rows: (N,) places, sorted.
    """

    x: Tensor
    label: Float32
    times: Float32
    alike: Float32
    looks: Float32
    cues: Int64
    rows: Int64


def fit_scoring_weights(known: Memories, cues: Int64, targets: Bools, random: np.random.Generator) -> ScoringWeights:
    """Fits how to weigh what is known, for one kind of cue.

    Args:
        known: the memories.
        cues: (Q,) of them, to fit on; at most 200 of those with links are used.
        targets: (M,) the memories that have association vectors worth asking.
        random: for the sample.

    Returns:
        The weights; those that are not fitted if no cue has a link.
    """
    cues = cues[_strength(known.links, cues) > 0]
    if not len(cues):
        return UNTESTED
    sample = draw(known, cues, targets, random)
    times, label, happened = torch.from_numpy(sample.times), torch.from_numpy(sample.label), sample.label > 0
    weights = conditional_logit(sample.x, label, times)
    logits = sample.x @ weights
    shares = torch.exp(log_shares(logits, times)).numpy()
    parts = np.stack([shares, sample.alike, links_of_named(known, sample, shares), sample.looks])  # (4, Q, N)
    mixture = _interpolate(parts[:, happened], sample.label[happened])
    mixed = np.tensordot(mixture, parts, axes=1)
    best, counts = _leading(mixed, sample.times, BEST)
    calibration = _logistic(np.take_along_axis(mixed, best, axis=1), np.take_along_axis(happened, best, axis=1), counts)
    appearance = conditional_logit(sample.x[:, :, :2], label, times)
    similarity, forward = appearance.tolist()
    return ScoringWeights(
        (*weights.tolist(), 0.0),
        (float(mixture[0]), float(mixture[1]), float(mixture[2]), float(mixture[3])),
        calibration,
        (similarity, forward),
        (_background(logits, times), _background(sample.x[:, :, :2] @ appearance, times)),
    )


def draw(known: Memories, cues: Int64, targets: Bools, random: np.random.Generator) -> Sample:
    """Some of the cues, all of their associates, and some of the other memories."""
    cues = random.permutation(cues)[:SAMPLE_CUES]
    owner, linked, strength = known.links.of(cues)
    rows = random.permutation(np.flatnonzero(targets))[:SAMPLE_MEMORIES]
    rows = np.unique(np.concatenate([rows, linked]))
    x = torch.from_numpy(features(known.keys(cues), known.keys(rows), known.vectors.shape[1]))  # (Q, N, 4)
    label = np.zeros((len(cues), len(rows)), np.float32)
    label[owner, np.searchsorted(rows, linked)] = strength / _strength(known.links, cues)[owner]
    happened = label > 0
    # all associates of a cue are in the sample, and some of the others: each of these stands for several
    others = np.maximum(len(rows) - happened.sum(axis=1, keepdims=True) - 1, 1)
    times = np.where(happened, 1, np.maximum((known.bank - len(rows)) / others + 1, 1)).astype(np.float32)
    place = np.searchsorted(rows, cues)
    inside = np.flatnonzero(np.take(rows, place, mode="clip") == cues)
    times[inside, place[inside]] = 0  # no cue is an answer to itself
    alike, looks = _by_looks(known, cues, rows, targets)
    return Sample(x, label, times, alike, looks, cues, rows)


def links_of_named(known: Memories, sample: Sample, shares: Float32) -> Float32:
    """(Q, N) one step along the links from what the channels name, by the ``shares`` (Q, N) that they give."""
    named, counts = _leading(shares, sample.times, NAMED)
    counts = counts * known.experienced[sample.rows[named]]
    mass: Float32 = counts * sharpened(np.take_along_axis(shares, named, axis=1))
    return _step(known.links, sample.rows[named], mass, sample.cues, sample.rows)


def _by_looks(known: Memories, cues: Int64, rows: Int64, targets: Bools) -> tuple[Float32, Float32]:
    """(Q, N) of ``rows`` (N,): one step along the links from what looks like the cue, and looks themselves."""
    cosine = unit(known.vectors[cues]) @ unit(known.vectors).T  # (Q, M)
    times = np.broadcast_to(np.where(targets, np.float32(known.each), np.float32(0)), cosine.shape).copy()
    times[np.arange(len(cues)), cues] = 0
    near, counts = _leading(np.where(times > 0, cosine, -np.inf), times, NEIGHBOURS)
    mass = look_alike_mass(np.take_along_axis(cosine, near, axis=1), counts)
    passing = first(counts * known.experienced[near], LOOK_ALIKES)
    each = (mass / np.maximum(counts, 1e-30)).astype(np.float32)
    seeds = (each * passing).astype(np.float32)
    each /= np.maximum(mass.sum(axis=1, keepdims=True), 1e-30)
    query, place = np.nonzero(each > LEAST)
    looks = _gathered(query, near[query, place], each[query, place], cues, rows)
    return _step(known.links, near, seeds, cues, rows), looks


def _step(links: Associations, seeds: Int64, mass: Float32, cues: Int64, rows: Int64) -> Float32:
    """(Q, N) what reaches each of ``rows`` (N,) one step along the links from the ``seeds`` (Q, n) of each cue."""
    query, place = np.nonzero(mass)
    reached = walk(links.of, (query, seeds[query, place], mass[query, place]))
    return _gathered(*reached, cues, rows)


def _gathered(query: Int64, row: Int64, value: Float32, cues: Int64, rows: Int64) -> Float32:
    """(Q, N) the sums of values by query and row, of those that are among ``rows`` and not the cue itself."""
    column = np.searchsorted(rows, row)
    there = (np.take(rows, column, mode="clip") == row) & (row != cues[query])
    pair = query[there] * len(rows) + column[there]
    summed = np.bincount(pair, value[there], len(cues) * len(rows)).reshape(len(cues), len(rows))
    return summed.astype(np.float32)


def _strength(links: Associations, rows: Int64) -> Float32:
    """(R,) how much the links of each of ``rows`` count together."""
    owner, _, strength = links.of(rows)
    total: Float32 = np.bincount(owner, strength, len(rows)).astype(np.float32)
    return total


def log_shares(logits: Tensor, times: Tensor) -> Tensor:
    """The logarithm of the share of each (Q, N), where each stands for so many ``times`` (Q, N); -inf for 0 times."""
    whole = (logits + times.log()).logsumexp(1, keepdim=True)
    return (logits - whole).masked_fill(times == 0, -torch.inf)


def conditional_logit(x: Tensor, label: Tensor, times: Tensor) -> Tensor:
    """Weights > 0 under which what happened is likeliest.

    Args:
        x: (Q, N, channels).
        label: (Q, N) adds up to 1 a cue.
        times: (Q, N) as in ``log_shares``.
    """
    raw = torch.full((x.shape[2],), 2.0, requires_grad=True)

    def weights() -> Tensor:  # bounded, or a step along what hardly differs from memory to memory overflows
        return raw.clamp_max(math.log(MOST_WEIGHT)).exp()

    optimizer = torch.optim.LBFGS([raw], max_iter=40, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        shares = log_shares(x @ weights(), times).masked_fill(label == 0, 0)
        # weights that the sample says nothing of stay small
        value = -(label * shares).sum(1).mean() + 1e-6 * weights().square().mean()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weights().detach().clamp_min(LEAST_WEIGHT)


def _background(logits: Tensor, times: Tensor) -> float:
    """The logarithm of the mean odds beyond the best of each cue, averaged over the cues; both are (Q, N)."""
    best, counts = _leading(logits.masked_fill(times == 0, -torch.inf).numpy(), times.numpy(), BEST)
    others = times.scatter_add(1, torch.from_numpy(best), -torch.from_numpy(counts)).clamp_min(0)
    level = (logits + others.log()).logsumexp(1) - others.sum(1).clamp_min(1).log()
    return float(level.clamp_min(-50).mean())  # -inf where a cue is all there is


def _leading(values: Float32, times: Float32, count: int) -> tuple[Int64, Float32]:
    """Those of a sample (Q, N) that stand for the first ``count`` of the bank.

    Returns:
        (Q, n) their places, falling, and for how many of the first each stands; 0 for those that come after.
    """
    few = min(count, values.shape[1])
    best = np.argpartition(-values, few - 1, axis=1)[:, :few]
    order = np.argsort(-np.take_along_axis(values, best, axis=1), axis=1)
    places = np.take_along_axis(best, order, axis=1)
    stands_for = np.take_along_axis(times, places, axis=1)
    before = np.cumsum(stands_for, axis=1) - stands_for
    return places, np.clip(count - before, 0, stands_for)


def _interpolate(parts: Float32, often: Float32, steps: int = 50) -> Float32:
    """Mixture weights (n,) under which what happened ``often`` (E,) is likeliest, by densities ``parts`` (n, E)."""
    weights = np.full(len(parts), 1 / len(parts))
    for _ in range(steps):
        mass = weights[:, None] * (parts + 1e-9)
        weights = np.average(mass / mass.sum(axis=0), axis=1, weights=often)
    return weights.astype(np.float32)


def _logistic(shares: Float32, label: Bools, times: Float32) -> tuple[float, float]:
    """Slope and intercept of a logistic regression of the label on log share, where each counts so many ``times``."""
    x, y = torch.from_numpy(np.log(shares + 1e-12)).double(), torch.from_numpy(label).double()
    line = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([line], max_iter=50, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.binary_cross_entropy_with_logits(
            line[0] * x + line[1], y, torch.from_numpy(times / times.sum() * times.size)
        )
        value = value + 1e-4 * line.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    slope, intercept = line.detach().tolist()
    return max(slope, 0.0), intercept
