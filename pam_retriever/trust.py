"""How far each channel is to be trusted: fitted on cues that the predictor knows, and on cues kept from it.

A cue that was learnt and one that never was are two regimes. In each, the channels of a memory p are turned
into the share of the cue's experience that p takes,

    share(p | q) = softmax over the bank of  w . (similarity, forward, reverse, mutual)

with weights w that make the associates of some sample cues as likely as can be: a conditional logit
(McFadden 1974), which also finds the temperature. The episode codes are left out: they say again what the exact
links say, where f says what may be. For a cue that was never learnt, exact links help from one
step away: those of the memories that look like it, and those of the memories that the channels name. How
much each of these says is found by expectation maximisation, as in deleted interpolation (Jelinek and Mercer 1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from pam_retriever.channels import CHANNELS, Channels, features, unit
from pam_retriever.cooccurrence import Associations
from pam_retriever.ranges import concatenated
from pam_retriever.types import Bools, Familiarity, Float32, Int64, Regime, Trust

SAMPLE_CUES, SAMPLE_MEMORIES = 200, 10_000
LOOK_ALIKES, LOOK_ALIKE_TEMPERATURE = 16, 0.05
NAMED, SHARPENED = 16, 4  # so many of the memories that the channels name pass their links on, by share ** 4
LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 200.0  # of a channel
CANDIDATES = 64  # the best of each cue, on which confidence is calibrated; the others are background


def channels_of(regime: Regime) -> Channels:
    """Its weights by name."""
    return Channels(**dict(zip(CHANNELS, regime.weights, strict=True)))


def confidence(regime: Regime, share: Float32) -> Float32:
    """The probability that cue and memory were experienced together, given the share that the memory takes."""
    slope, intercept = regime.calibration
    odds = np.clip(slope * np.log(share + 1e-12) + intercept, -50, 50)
    certain: Float32 = (1 / (1 + np.exp(-odds))).astype(np.float32)
    return certain


def read_trust(stored: dict[str, Any] | None) -> Trust | None:
    """Trust as it was stored with the index."""
    if stored is None:
        return None
    learnt, unlearnt = (Regime(*(tuple(stored[kind][part]) for part in PARTS)) for kind in ("learnt", "unlearnt"))
    if stored["familiarity"] not in get_args(Familiarity):
        raise ValueError(f"familiarity {stored['familiarity']!r}")
    return Trust(learnt, unlearnt, stored["familiarity"])


PARTS = ("weights", "mixture", "calibration", "appearance", "background")

# where nothing could be kept from the training to find out: small data, and the published recipe
UNTESTED = Regime((8.0, 12.0, 4.0, 0.0, 0.0), (0.4, 0.3, 0.2, 0.1), (1.0, 2.0), (8.0, 12.0), (0.0, 0.0))


def fit_regime(
    vectors: Float32,
    keys: Callable[[Int64], Float32],
    associations: Associations,
    cues: Int64,
    targets: Bools,
    memories: int,
    random: np.random.Generator,
) -> Regime:
    """Fits one regime.

    Args:
        vectors: (M, d) of all memories.
        keys: of places among them (n,), their keys (n, 2d + code).
        associations: who was experienced with whom.
        cues: (Q,) memories with associates, to fit on; at most 200 are used.
        targets: (M,) the memories that have association vectors worth asking.
        memories: how many there are in the bank, of which these are some or all.
        random: for the sample.

    Returns:
        The regime.
    """
    cues = random.permutation(cues)[:SAMPLE_CUES]
    start, stop = associations.indptr[cues], associations.indptr[cues + 1]
    spans = [slice(a, b) for a, b in zip(start.tolist(), stop.tolist(), strict=True)]
    met = [associations.indices[span] for span in spans]
    sample = random.permutation(np.flatnonzero(targets))[:SAMPLE_MEMORIES]
    sample = np.unique(np.concatenate([sample, *met]))
    x = torch.from_numpy(features(keys(cues), keys(sample), vectors.shape[1]))  # (Q, N, 4)
    place = np.searchsorted(sample, cues)
    inside = np.flatnonzero(np.take(sample, place, mode="clip") == cues)
    label = torch.zeros(x.shape[:2])
    for at, span in enumerate(spans):
        strength = associations.weights[span]
        label[at, torch.from_numpy(np.searchsorted(sample, met[at]))] = torch.from_numpy(strength / strength.sum())
    happened = label.numpy() > 0
    # all associates of a cue are in the sample, and some of the others: each of these stands for several
    others = np.maximum(len(sample) - happened.sum(axis=1, keepdims=True) - 1, 1)
    stands_for = np.maximum((memories - len(sample)) / others + 1, 1)
    times = torch.from_numpy(np.where(happened, 1, stands_for).astype(np.float32))  # (Q, N)
    times[torch.from_numpy(inside), torch.from_numpy(place[inside])] = 0  # no cue is an answer to itself
    weights = conditional_logit(x, label, times)
    logits = x @ weights
    shares = torch.exp(log_shares(logits, times)).numpy()
    looks = torch.exp(log_shares(x[:, :, 0] / LOOK_ALIKE_TEMPERATURE, times)).numpy()
    alike, named = _walks(vectors, associations, cues, sample, targets, shares, times.numpy())
    parts = np.stack([shares, alike, named, looks])  # (4, Q, N)
    mixture = _interpolate(parts[:, happened], label.numpy()[happened])
    mixed = np.tensordot(mixture, parts, axes=1)
    best, counts = _leading(mixed, times.numpy(), CANDIDATES)
    calibration = _logistic(np.take_along_axis(mixed, best, axis=1), np.take_along_axis(happened, best, axis=1), counts)
    appearance = conditional_logit(x[:, :, :2], label, times)
    similarity, forward = appearance.tolist()
    return Regime(
        (*weights.tolist(), 0.0),
        (float(mixture[0]), float(mixture[1]), float(mixture[2]), float(mixture[3])),
        calibration,
        (similarity, forward),
        (_background(logits, times), _background(x[:, :, :2] @ appearance, times)),
    )


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
    best, counts = _leading(logits.masked_fill(times == 0, -torch.inf).numpy(), times.numpy(), CANDIDATES)
    others = times.scatter_add(1, torch.from_numpy(best), -torch.from_numpy(counts)).clamp_min(0)
    level = (logits + others.log()).logsumexp(1) - others.sum(1).clamp_min(1).log()
    return float(level.clamp_min(-50).mean())  # -inf where a cue is all there is


def _walks(
    vectors: Float32,
    associations: Associations,
    cues: Int64,
    sample: Int64,
    targets: Bools,
    shares: Float32,
    times: Float32,
) -> tuple[Float32, Float32]:
    """One step along the links, (Q, N): from what looks like the cue, and from what the channels name."""
    known = np.flatnonzero(targets & (np.diff(associations.indptr) > 0))
    cosine = unit(vectors[cues]) @ unit(vectors[known]).T
    cosine[known == cues[:, None]] = -np.inf
    few = min(LOOK_ALIKES, cosine.shape[1])
    alike = np.argpartition(-cosine, few - 1, axis=1)[:, :few]
    kernel = np.take_along_axis(cosine, alike, axis=1)
    kernel = np.exp((kernel - kernel.max(axis=1, keepdims=True)) / LOOK_ALIKE_TEMPERATURE)
    named, counts = _leading(shares, times, NAMED)
    mass = counts * np.take_along_axis(shares, named, axis=1) ** SHARPENED
    return (
        _step(associations, known[alike], kernel, cues, sample),
        _step(associations, sample[named], mass, cues, sample),
    )


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


def _step(associations: Associations, seeds: Int64, weights: Float32, cues: Int64, sample: Int64) -> Float32:
    """The share of each of ``sample`` (N,) after one step along the links from ``seeds`` (Q, n)."""
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-30)
    at, place = np.nonzero(weights)
    start = associations.indptr[seeds[at, place]]
    count = associations.indptr[seeds[at, place] + 1] - start
    entry = concatenated(start, count)
    linked, strength = associations.indices[entry], associations.weights[entry]
    walk = np.repeat(np.arange(len(at)), count)  # each link's pair of a cue and a seed
    total = np.maximum(np.bincount(walk, strength, len(at)), 1e-30)  # 0 if nothing salient was met
    mass = (weights[at, place] / total)[walk] * strength
    column = np.searchsorted(sample, linked)
    there = (np.take(sample, column, mode="clip") == linked) & (linked != cues[at][walk])
    pair = at[walk[there]] * len(sample) + column[there]
    reached = np.bincount(pair, mass[there], len(cues) * len(sample)).reshape(len(cues), len(sample))
    return reached.astype(np.float32)


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
